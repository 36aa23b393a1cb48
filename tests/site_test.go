//go:build !quick

package tests

import (
	"context"
	"io/fs"
	osexec "os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// TestSite: the site that `make docs` makes, opened from its directory in a real Chromium. No page writes an error
// to the console or loads anything from another host, and each fits on a phone.
func TestSite(t *testing.T) {
	slow.Test(t, "it starts a browser and opens every page of the site: seconds of processor time")
	browser := openBrowser(t)
	out := t.TempDir()
	cmd := osexec.CommandContext(t.Context(), "go", "run", ".", "../..", out)
	cmd.Dir = "../internal/site"
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, text)
	}
	site := "file://" + filepath.ToSlash(out) + "/"

	t.Run("pages", func(t *testing.T) { testPages(t, browser, out) })
	t.Run("search", func(t *testing.T) { testSearch(t, browser, site) })
	t.Run("search in Chinese", func(t *testing.T) { testSearchInChinese(t, browser, site) })
	t.Run("languages", func(t *testing.T) { testTwins(t, browser, site) })
	t.Run("themes", func(t *testing.T) { testThemes(t, browser, site) })
}

func testPages(t *testing.T, browser context.Context, out string) {
	p := openTab(t, browser, "phone")
	err := filepath.WalkDir(out, func(file string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(file) == ".html" {
			p.do(chromedp.Navigate("file://" + filepath.ToSlash(file)))
			p.fits(file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	p.do(chromedp.Navigate("file://" + filepath.ToSlash(out) + "/index.html"))
	p.shoot("phone")
	p.click("#menu-button", "")
	p.until(`(() => {
		const { top, bottom } = document.querySelector("#menu").getBoundingClientRect();
		const current = document.querySelector("#menu a[aria-current]").getBoundingClientRect();
		return top > 0 && bottom === innerHeight && current.width > 0 && current.top > top;
	})()`)
	p.shoot("phone-menu")
	p.click("#menu a", "Locks")
	p.arrives("file://" + filepath.ToSlash(out) + "/docs/locks.html")
}

// arrives waits until the tab shows a page. The page that the tab leaves can't wait for that.
func (p *tab) arrives(address string) {
	p.t.Helper()
	await.Until(p.t, patience, "the page "+address, func() bool {
		there, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](script(`decodeURI(location.href) === %s && document.readyState === "complete"`, address)))
		return err == nil && there
	})
}

// results are the addresses that the search shows.
const results = `[...document.querySelectorAll("#results a")].map((a) => decodeURI(a.href))`

// finds types into the search and waits until one of its first three results has an address with this end.
func (p *tab) finds(query, address string) {
	p.t.Helper()
	eval[bool](p, `(() => { const e = document.querySelector("#search input"); e.focus(); e.value = %s; e.dispatchEvent(new Event("input")); return true; })()`, query)
	p.until(`(`+results+`).slice(0, 3).some((a) => a.endsWith(%s))`, address)
}

func testSearch(t *testing.T, browser context.Context, site string) {
	p := openTab(t, browser, "dark")
	p.do(chromedp.Navigate(site + "docs/coming-from/asynq.html"))
	// A key of the protocol would type the slash as well when the machine is slow.
	eval[bool](p, `document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "/", bubbles: true, cancelable: true })) === false`)
	p.until(`document.activeElement === document.querySelector("#search input")`)
	p.press("f", "e", "n", "c", "i", "n", "g")
	p.until(`(` + results + `).some((a) => a.endsWith("docs/locks.html#fencing")) && document.querySelector("#results a mark").innerText.toLowerCase() === "fencing"`)
	p.shoot("search")
	second := eval[string](p, `(`+results+`)[1]`)
	p.press(kb.ArrowDown)
	p.until(`document.querySelector("#results [aria-selected=true]").href === (` + results + `)[1]`)
	p.press(kb.ArrowDown, kb.ArrowUp, kb.Enter)
	p.arrives(second)

	p.finds("LOCK.ACQUIRE", "docs/commands/lock.html#lockacquire")
	p.finds("bloom filtrs", "docs/bloom-filters.html") // a slip of the finger
	eval[bool](p, `(() => { const e = document.querySelector("#search input"); e.value = "xyzzy"; e.dispatchEvent(new Event("input")); return true; })()`)
	p.until(`document.querySelector("#results").innerText === "No page has all of these words."`)
	p.press(kb.Escape)
	p.until(`document.querySelector("#results").hidden && document.activeElement === document.body`)
}

func testSearchInChinese(t *testing.T, browser context.Context, site string) {
	p := openTab(t, browser)
	p.do(chromedp.Navigate(site + "docs/zh-CN/index.html"))
	p.finds("布隆过滤器", "docs/zh-CN/bloom-filters.html")
	p.until(`document.querySelector("#results mark").innerText === "布隆过滤器"`)
	p.shoot("search-zh")
	p.finds("隔离令牌", "docs/zh-CN/locks.html#隔离令牌")
	p.finds("锁", "docs/zh-CN/locks.html")
	p.finds("copy example module", "examples/index.html#copy-one") // a page that is only in English
	p.press(kb.Enter)
	p.arrives(site + "examples/index.html#copy-one")
}

// testTwins: each page leads to the same page in the other language, and anchors in Chinese work.
func testTwins(t *testing.T, browser context.Context, site string) {
	p := openTab(t, browser)
	p.do(chromedp.Navigate(site + "docs/locks.html"))
	p.click(".switch", "中文")
	p.arrives(site + "docs/zh-CN/locks.html")
	p.click(".outline a", "隔离令牌")
	p.until(`(() => { const { top } = document.getElementById("隔离令牌").getBoundingClientRect(); return top > 50 && top < 120; })()`)
	p.shoot("zh")
	p.click(".switch", "English")
	p.arrives(site + "docs/locks.html")
	p.do(chromedp.Navigate(site + "examples/index.html"))
	p.click(".switch", "中文") // the page is only in English
	p.arrives(site + "docs/zh-CN/index.html")
}

func testThemes(t *testing.T, browser context.Context, site string) {
	colors := map[string]bool{}
	for _, theme := range []string{"light", "dark"} {
		p := openTab(t, browser, theme)
		p.do(chromedp.Navigate(site + "index.html"))
		colors[eval[string](p, `getComputedStyle(document.body).backgroundColor`)] = true
		p.shoot(theme)
	}
	if len(colors) != 2 {
		t.Errorf("the colors of light and dark are %v", colors)
	}
}
