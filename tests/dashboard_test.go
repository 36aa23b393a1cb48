//go:build !quick

package tests

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/bloom"
	"github.com/redoubt-go/redoubt/cache"
	_ "github.com/redoubt-go/redoubt/goredis" // redis URLs
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/programs"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// do sends commands, each as words.
func (s *served) do(t *testing.T, commands ...string) {
	t.Helper()
	for _, c := range commands {
		var args []any
		for word := range strings.FieldsSeq(c) {
			args = append(args, word)
		}
		if err := s.rdb.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%s: %s: %v", s.name, c, err)
		}
	}
}

// fill makes data of every primitive.
func (s *served) fill(t *testing.T) {
	t.Helper()
	s.do(t,
		"LOCK.ACQUIRE orders:42 600000 LABEL worker-3", "LOCK.ACQUIRE 报表:每日 600000", "LOCK.ACQUIRE catalog/"+strings.Repeat("long-name-", 12)+" 600000",
		"SEM.ACQUIRE geocoder 3 600000 LABEL node-1", "SEM.ACQUIRE geocoder 3 600000 LABEL node-2",
		"LIMIT.DEFINE user:7 30 60000 16", "LIMIT.USE user:7 4", "LIMIT.TAKE user:8 1 10 60000 10",
		"QUEUE.PUT later tomorrow ID later:1 DELAY 3600000",
		"CL.THROTTLE login:ann 0 1 3600", "CL.THROTTLE login:ann 0 1 3600", "BF.ADD seen:mails ann@example.com",
		"STOCK.SET sku:42 100", "STOCK.RESERVE sku:42 14 600000", "STOCK.SET sku:43 5")
	for i := range 12 {
		s.do(t, fmt.Sprintf(`QUEUE.PUT mail {"to":"ann%d@example.com","n":1.10} ID mail:%d`, i, i))
	}
	s.kill(t, "mail", 3)
	client, err := redoubt.Open(t.Context(), "redis://"+s.rdb.Options().Addr, redoubt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	filters, err := bloom.New(client, bloom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	seen, err := filters.Open(t.Context(), "mails", bloom.Spec{Capacity: 1000, ErrorRate: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = seen.Add(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	users, err := cache.New(client, cache.Options[string, string]{Name: "users", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = users.Close() }()
	if _, _, err = users.Get(t.Context(), "ann", func(context.Context, string) (string, bool, error) { return "Ann", true, nil }); err != nil {
		t.Fatal(err)
	}
}

// kill makes n messages of a queue dead.
func (s *served) kill(t *testing.T, queue string, n int) {
	t.Helper()
	taken, err := s.rdb.Do(t.Context(), "QUEUE.TAKE", queue, n, 600000).Slice()
	if err != nil || len(taken) != n {
		t.Fatalf("%s: took %v: %v", s.name, taken, err)
	}
	for _, m := range taken {
		if err := s.rdb.Do(t.Context(), "QUEUE.NACK", queue, m.([]any)[0], "DEAD", "REASON", "connection refused").Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// views are the views of the page with a text that live data shows there.
var views = []struct{ view, title, text string }{
	{"overview", "Overview", "queues"}, {"locks", "Locks", "worker-3"}, {"limits", "Limits", "user:7"}, {"queues", "Queues", "mail"},
	{"stock", "Stock", "sku:42"}, {"caches", "Caches", "users"}, {"bloom", "Bloom filters", "mails"},
}

// TestDashboard: the dashboard of `redoubt serve` in a real Chromium, with the engine, a Redis and a pool
// behind it. No page writes an error to the console, asks another host, or asks twice at once.
func TestDashboard(t *testing.T) {
	slow.Test(t, "it starts a browser and three servers: tens of seconds of processor time")
	browser := openBrowser(t)
	binary := programs.Redoubt(t)
	back := redistest.Start(t)
	pools := filepath.Join(t.TempDir(), "pools.yml")
	text := fmt.Sprintf("alpha:\n  listen: LISTEN\n  redis: true\n  hash_tag: \"{}\"\n  servers:\n    - %s:1 one\n    - %s:1 two\n", redistest.Start(t).Addr(), redistest.Start(t).Addr())
	if err := os.WriteFile(pools, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all := []*served{serveDashboard(t, binary, "engine", "--dir", t.TempDir()), serveDashboard(t, binary, "redis", "--backend", back.URL()), serveDashboard(t, binary, "pool", "--pools", pools)}

	t.Run("empty", func(t *testing.T) { testEmpty(t, browser, all[0]) })
	for _, s := range all {
		s.fill(t)
	}
	for _, s := range all {
		t.Run("views/"+s.name, func(t *testing.T) { testViews(t, browser, s) })
	}
	t.Run("actions", func(t *testing.T) { testActions(t, browser, all[0]) })
	t.Run("keyboard", func(t *testing.T) { testKeyboard(t, browser, all[0]) })
	t.Run("language", func(t *testing.T) { testLanguage(t, browser, all[0]) })
	t.Run("theme", func(t *testing.T) { testTheme(t, browser, all[0]) })
	t.Run("no storage", func(t *testing.T) { testNoStorage(t, browser, all[0]) })
	t.Run("hidden", func(t *testing.T) { testHidden(t, browser, all[0]) })
	t.Run("down", func(t *testing.T) { testDown(t, browser, all[1], back) })
}

// testEmpty: a view without names says what to type.
func testEmpty(t *testing.T, browser context.Context, s *served) {
	p := openTab(t, browser)
	for place, command := range map[string]string{
		"locks": "LOCK.ACQUIRE", "limits": "LIMIT.TAKE", "queues": "QUEUE.PUT", "stock": "STOCK.SET", "caches": "cache.New", "bloom": "bloom.New",
	} {
		p.open(s.page, place)
		p.shows(command)
	}
	// A command names the server's own port, and the overview has commands too.
	_, port, _ := strings.Cut(s.rdb.Options().Addr, ":")
	for _, place := range []string{"overview", "stock"} {
		p.open(s.page, place)
		p.shows("redis-cli -p "+port+" ", "REDOUBT_BACKEND=redis://127.0.0.1:"+port+" redoubt ")
	}
}

// testViews: every view shows live data, and fits on a phone.
func testViews(t *testing.T, browser context.Context, s *served) {
	wide, phone := openTab(t, browser), openTab(t, browser, "phone", "dark")
	list := views
	if s.name == "pool" {
		list = append(slices.Clip(list), struct{ view, title, text string }{"pools", "Pools", "one"})
	} else {
		text := map[string]string{"engine": "Last sync", "redis": "Keys by type"}[s.name]
		list = append(slices.Clip(list), struct{ view, title, text string }{"engine", "", text})
	}
	for _, p := range []*tab{wide, phone} {
		p.open(s.page, "overview")
		for _, v := range list {
			if v.title == "" {
				v.title = map[string]string{"engine": "Engine", "redis": "Server"}[s.name]
			}
			p.click("nav.views a", v.title)
			p.until(`document.querySelector("main h1")?.innerText === %s`, v.title)
			p.shows(v.text)
			p.until(`document.getElementById("status").innerText === "live"`)
			p.until(`![...document.querySelectorAll("main .error, .trouble")].length`)
			p.fits(v.view)
			if p == phone {
				p.shoot("phone-" + v.view)
				continue
			}
			p.shoot("light-" + v.view)
			p.scheme("dark")
			p.shoot("dark-" + v.view)
			p.scheme("light")
		}
	}
	testSeen(t, wide, s)
	// A lock that appears is on the page with one of the next polls.
	wide.open(s.page, "locks")
	wide.shows("geocoder")
	s.do(t, "LOCK.ACQUIRE appears:"+s.name+" 600000")
	wide.shows("appears:" + s.name)
	// A search asks the server.
	eval[bool](wide, `(() => { const e = document.getElementById("search"); e.value = "orders"; e.dispatchEvent(new Event("input")); return true; })()`)
	wide.until(`document.querySelectorAll("main tbody tr").length === 1 && document.body.innerText.includes("orders:42")`)
}

// testSeen: what the server knows from the commands of its clients is on the page.
func testSeen(t *testing.T, p *tab, s *served) {
	p.open(s.page, "bloom")
	p.shows("seen:mails")
	p.open(s.page, "limits")
	s.do(t, "CL.THROTTLE login:ann 0 1 3600", "LIMIT.TAKE user:9 1 1 60000 1", "LIMIT.TAKE user:9 1 1 60000 1")
	p.until(`[...document.querySelectorAll("figure.chart")].some((e) => e.innerText.includes("Denials per second") && e.innerText.includes("login:ann") && e.innerText.includes("user:9"))`)
	p.until(`[...document.querySelectorAll("tbody tr")].some((e) => e.innerText.includes("login:ann") && e.innerText.includes("CL.THROTTLE"))`)
	p.shoot("denials")

	ctx, cancel := context.WithCancel(t.Context())
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		_ = s.rdb.Do(ctx, "QUEUE.TAKE", "later", 1, 60000, "BLOCK", 0).Err() // ends with ctx
	}()
	const takers = `[...document.querySelectorAll(".tile")].some((e) => e.innerText.includes("Waiting consumers") && e.querySelector("b").innerText === %s)`
	p.open(s.page, "queues/bGF0ZXI")
	p.until(takers, "1")
	p.until(`document.querySelector("header.title h2").innerText === "later"`)
	p.shoot("takers")
	cancel()
	<-taken
	p.until(takers, "0")
}

// testActions: every action shows its object, does nothing when cancelled, and does what it says.
func testActions(t *testing.T, browser context.Context, s *served) {
	p := openTab(t, browser)
	p.open(s.page, "locks")
	row := `tbody tr:has(td:first-child span[title="orders:42"]) button`
	p.click(row, "Release")
	p.shows("Release this lease?", "orders:42", "worker-3")
	p.shoot("confirm")
	if got := eval[string](p, `document.activeElement.innerText`); got != "Cancel" {
		t.Errorf("the focus is on %q, want Cancel", got)
	}
	p.click("dialog button", "Cancel")
	p.until(`!document.querySelector("dialog")`)
	if holder := s.rdb.Do(t.Context(), "LOCK.INFO", "orders:42").String(); !strings.Contains(holder, "worker-3") {
		t.Errorf("the lock after Cancel: %s", holder)
	}
	p.click(row, "Release")
	p.click("dialog button", "Release")
	p.shows("Done: 1")
	p.press(kb.Escape)
	p.until(`!document.querySelector("dialog") && ![...document.querySelectorAll("tbody td")].some((e) => e.innerText === "orders:42")`)

	p.click(`tbody tr:has(td:first-child span[title="geocoder"]) button`, "Release") // a semaphore
	p.click("dialog button", "Release")
	p.shows("Done: 1")
	p.press(kb.Escape)

	p.open(s.page, "queues")
	p.click("tbody a", "mail")
	p.click(".tabs a", "Dead")
	p.shows("connection refused")
	p.shoot("queue")
	p.click("tbody button.link", "mail:")
	p.shows("Show the payload")
	if eval[bool](p, `document.body.innerText.includes("example.com")`) {
		t.Error("the payload is shown before anybody asked")
	}
	p.click("dialog button", "Show the payload")
	p.shows("example.com", "1.10")
	p.shoot("message")
	p.click("dialog button", "Close")
	p.until(`!document.querySelector("dialog")`)

	do := func(button, verb, want string) {
		t.Helper()
		p.click(button, verb)
		p.shows("mail")
		p.click("dialog .buttons button", verb)
		p.until(`document.querySelector("dialog .done")`)
		p.shows(want)
		p.press(kb.Escape)
		p.until(`!document.querySelector("dialog")`)
	}
	dead := func(n int) {
		t.Helper()
		p.until(`document.querySelector(".tabs a[aria-current] b").innerText === %s`, fmt.Sprint(n))
	}
	dead(3)
	do("tbody td.actions button", "Delete", "Done: 1")
	dead(2)
	do("tbody td.actions button", "Requeue", "Done: 1")
	dead(1)
	do("header.title button", "Requeue the dead", "Done: 1")
	dead(0)
	s.kill(t, "mail", 2)
	dead(2)
	do("header.title button", "Delete the dead", "Done: 2")
	dead(0)
	do("header.title button", "Pause", "")
	p.shows("paused")
	do("header.title button", "Resume", "")
	p.until(`!document.querySelector("header.title").innerText.includes("paused")`)
	p.click(".tabs a", "Ready")
	p.until(`document.querySelectorAll("tbody tr").length === 9`)
	do("tbody td.actions button", "Cancel message", "Done: 1")
	do("header.title button", "Drain", "Done: 8")
	p.shows("No messages here")
}

// testKeyboard: everything works without a mouse.
func testKeyboard(t *testing.T, browser context.Context, s *served) {
	s.do(t, "QUEUE.PUT another x ID x") // a queue that the search does not find
	p := openTab(t, browser)
	p.open(s.page, "overview")
	p.shows("Names in use")
	p.press(kb.Tab)
	if got := eval[string](p, `document.activeElement.className`); got != "skip" {
		t.Errorf("the first focus is on %q, want the link to the content", got)
	}
	p.press(kb.Enter)
	p.until(`document.activeElement.id === "main"`)
	p.press("4")
	p.shows("later")
	search := func() {
		t.Helper()
		// A key of the protocol would type the slash as well when the machine is slow.
		eval[bool](p, `document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "/", bubbles: true, cancelable: true })) === false`)
		p.until(`document.activeElement.id === "search"`)
		p.press("l", "a", "t")
		p.until(`document.querySelectorAll("tbody tr").length === 1 && location.hash.includes("q=lat")`)
	}
	p.until(`document.querySelectorAll("tbody tr").length >= 2`)
	search()
	p.press(kb.Escape)
	p.until(`document.activeElement.id !== "search" && document.getElementById("search").value === "" && document.querySelectorAll("tbody tr").length >= 2`)
	search()
	p.press(kb.Tab)
	eval[bool](p, `(document.activeElement.blur(), true)`)
	p.press("j")
	p.until(`document.activeElement.innerText === "later"`)
	p.press(kb.Enter)
	p.until(`document.querySelector("header.title h2")?.innerText === "later"`)
	p.press(kb.Escape)
	p.until(`document.querySelector("main h1")?.innerText === "Queues"`)
	p.press("?")
	p.shows("Keyboard")
	p.press(kb.Escape)
	p.until(`!document.querySelector("dialog")`)
	p.press("1")
	p.shows("Names in use")
	p.press("r")
	p.until(`document.querySelector(".ranges [aria-pressed=true]").innerText === "Hour"`)
	if got := eval[int](p, `[...document.querySelectorAll("button, input, select, a")].filter((e) => !(e.innerText || e.getAttribute("aria-label") || "").trim()).length`); got > 0 {
		t.Errorf("%d controls have no name", got)
	}
}

// testLanguage: the browser's language counts, region and all, until the user chooses another one.
func testLanguage(t *testing.T, browser context.Context, s *served) {
	p := openTab(t, browser)
	p.speaks("fr-CA,zh-Hans-SG,en")
	p.open(s.page, "locks")
	p.until(`document.querySelector("main h1")?.innerText === "锁" && document.documentElement.lang === "zh-CN"`)
	p.shows("报表:每日")
	p.shoot("zh")
	choose := func(tag string) {
		t.Helper()
		eval[bool](p, `(() => { const e = document.getElementById("language"); e.value = %s; e.dispatchEvent(new Event("change")); return true; })()`, tag)
	}
	choose("en")
	p.until(`document.querySelector("main h1").innerText === "Locks"`)
	p.do(chromedp.Reload())
	p.until(`document.querySelector("main h1")?.innerText === "Locks"`)
	choose("zh-CN")
	p.until(`document.querySelector("main h1").innerText === "锁"`)
}

// testTheme: the system's theme counts until the user chooses; the choice is remembered.
func testTheme(t *testing.T, browser context.Context, s *served) {
	p := openTab(t, browser, "dark")
	p.open(s.page, "overview")
	p.shows("Names in use")
	color := func() string { return eval[string](p, `getComputedStyle(document.body).backgroundColor`) }
	dark := color()
	p.press("t")
	p.until(`document.documentElement.dataset.theme === "light"`)
	if light := color(); light == dark {
		t.Errorf("the color is %s in both themes", light)
	}
	p.do(chromedp.Reload())
	p.until(`document.documentElement.dataset.theme === "light"`)
	p.shows("Names in use")
	p.press("t")
	p.until(`document.documentElement.dataset.theme === "dark"`)
	if got := color(); got != dark {
		t.Errorf("dark is %s by choice and %s by the system", got, dark)
	}
}

// testNoStorage: a browser that forbids storage shows the page all the same.
func testNoStorage(t *testing.T, browser context.Context, s *served) {
	p := openTab(t, browser)
	p.do(call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `Object.defineProperty(window, "localStorage", { get() { throw new DOMException("denied", "SecurityError"); } })`,
	}))
	p.open(s.page, "stock")
	p.shows("sku:42")
	p.press("t", "l")
	p.until(`document.documentElement.dataset.theme === "light" && document.querySelector("main h1").innerText === "库存"`)
}

// testHidden: a hidden tab asks for nothing, and asks at once when it is shown again.
func testHidden(t *testing.T, browser context.Context, s *served) {
	p, other := openTab(t, browser), openTab(t, browser)
	const show = `(() => { Object.defineProperty(document, "hidden", { configurable: true, get: () => %s }); document.dispatchEvent(new Event("visibilitychange")); return true; })()`
	p.open(s.page, "stock")
	p.shows("sku:42")
	eval[bool](p, show, true)
	before := p.polled()
	other.open(s.page, "stock")
	await.Until(t, patience, "the visible tab asks four times", func() bool { return other.polled() >= 4 })
	if n := p.polled() - before; n > 0 {
		t.Errorf("the hidden tab asked %d times", n)
	}
	eval[bool](p, show, false)
	await.Until(t, patience, "the tab asks again", func() bool { return p.polled() > before })
}

// testDown: while the back end is down, the page keeps its data and says how old they are and why.
func testDown(t *testing.T, browser context.Context, s *served, back *redistest.Server) {
	p := openTab(t, browser)
	p.open(s.page, "stock")
	p.shows("sku:42")
	back.Kill()
	p.until(`document.querySelector(".trouble")?.innerText.includes("does not answer") && document.body.innerText.includes("sku:42")`)
	p.until(`/data from \d+ s ago/.test(document.getElementById("status").innerText)`)
	p.shoot("down")
	back.Restart()
	p.until(`!document.querySelector(".trouble") && document.getElementById("status").innerText === "live"`)
}
