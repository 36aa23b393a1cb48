//go:build !quick

package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// openBrowser starts a Chromium without a window. It skips the test where there is none.
func openBrowser(t *testing.T) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-headless-shell", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if p, err := osexec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Skip("no browser: apt-get install chromium") // Reason: this machine can't run it.
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("accept-lang", "en-US"), chromedp.WSURLReadTimeout(patience))
	alloc, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(cancel)
	browser, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	if err := chromedp.Do(browser); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return browser
}

// A tab is a page of the browser. It records what went wrong in the page, and its requests.
type tab struct {
	t    *testing.T
	ctx  context.Context //nolint:containedctx // it is chromedp's handle of the tab
	host string

	mu    sync.Mutex
	wrong []string
	polls int // snapshots that were asked for
}

// counting makes a page count the snapshots that it awaits at once.
const counting = `window.awaited = { now: 0, most: 0 };
const real = window.fetch;
window.fetch = (address, options) => {
	const answer = real(address, options);
	if (!String(address).includes("api/snapshot")) return answer;
	awaited.most = Math.max(awaited.most, ++awaited.now);
	const ended = () => { awaited.now--; };
	answer.then(ended, ended);
	return answer;
}`

// openTab opens a tab with settings of its own. Options: "phone" for 360 pixels, "dark".
func openTab(t *testing.T, browser context.Context, options ...string) *tab {
	t.Helper()
	p := &tab{t: t}
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext(), chromedp.WithListener(p.saw))
	t.Cleanup(cancel)
	p.ctx = ctx
	width, height := int64(1280), int64(860)
	scheme := "light"
	for _, o := range options {
		switch o {
		case "phone":
			width, height = 360, 740
		case "dark":
			scheme = "dark"
		}
	}
	p.do(chromedp.EmulateViewport(width, height),
		call(network.Enable, network.EnableParams{}), call(log.Enable, cdp.Empty{}),
		call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: counting}))
	p.scheme(scheme)
	t.Cleanup(p.check)
	return p
}

// call makes a step of a command of the protocol.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, command, params)
		return chromedp.Void{}, err
	}
}

// saw records an event of the page.
func (p *tab) saw(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		p.wrong = append(p.wrong, "exception: "+fmt.Sprint(e.ExceptionDetails.Text, " ", e.ExceptionDetails.URL, ":", e.ExceptionDetails.LineNumber))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			args, _ := json.Marshal(e.Args)
			p.wrong = append(p.wrong, "console: "+string(args))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			p.wrong = append(p.wrong, "log: "+e.Entry.Text+" "+e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(e.Request.URL)
		if err != nil || u.Host != p.host && u.Scheme != "about" {
			p.wrong = append(p.wrong, "request to another host: "+e.Request.URL)
		}
		if err == nil && strings.HasSuffix(u.Path, "/api/snapshot") {
			p.polls++
		}
	}
}

// check fails the test for what went wrong in the page.
func (p *tab) check() {
	if most := eval[int](p, `window.awaited?.most ?? 0`); most > 1 {
		p.t.Errorf("the page awaited %d snapshots at once", most)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.wrong {
		p.t.Errorf("the page of %s: %s", p.host, w)
	}
}

func (p *tab) polled() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.polls
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// open loads the dashboard at a place like locks?q=a.
func (p *tab) open(base, place string) {
	p.t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.host = u.Host
	p.mu.Unlock()
	p.do(chromedp.Navigate(base + "#/" + place))
}

// eval evaluates an expression in the page.
func eval[T any](p *tab, expression string, args ...any) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](script(expression, args...)))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// script puts arguments into an expression, as JSON in place of each %s.
func script(expression string, args ...any) string {
	for _, a := range args {
		b, _ := json.Marshal(a)
		expression = strings.Replace(expression, "%s", string(b), 1)
	}
	return expression
}

// until waits until an expression is true in the page.
func (p *tab) until(expression string, args ...any) {
	p.t.Helper()
	condition := script(expression, args...)
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](
		`new Promise((done) => { const look = () => { let ok = false; try { ok = (`+condition+`); } catch {} if (ok) done(true); else setTimeout(look, 30); }; look(); })`,
		chromedp.EvalAwaitPromise))
	if err != nil {
		p.shoot("failed")
		p.t.Fatalf("never true: %s: %v\nthe page: %s", condition, err, eval[string](p, `location.hash + "\n" + document.body.innerText`))
	}
}

// shows waits until the page has all texts.
func (p *tab) shows(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		p.until(`(document.querySelector("dialog") || document.body).innerText.includes(%s)`, text)
	}
}

// click clicks the first element of a selector that has a text, once there is one that is not disabled.
func (p *tab) click(selector, text string) {
	p.t.Helper()
	const find = `[...document.querySelectorAll(%s)].find((e) => !e.disabled && e.innerText.includes(%s))`
	p.until(`(() => { const e = `+find+`; if (!e) return false; e.focus(); e.click(); return true; })()`, selector, text)
}

// press types keys one after the other, as a keyboard does.
func (p *tab) press(keys ...string) {
	p.t.Helper()
	for _, k := range keys {
		p.do(chromedp.KeyEvent(k))
	}
}

// speaks sets the language of the browser, as navigator.languages has it.
func (p *tab) speaks(tags string) {
	p.t.Helper()
	agent := eval[string](p, `navigator.userAgent`)
	p.do(call(emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{UserAgent: agent, AcceptLanguage: tags}))
}

// fits fails the test when the page is wider than the window.
func (p *tab) fits(what string) {
	p.t.Helper()
	if wide := eval[int](p, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); wide > 0 {
		p.t.Errorf("%s is %d pixels too wide; the widest elements: %s", what, wide, eval[string](p,
			`[...document.querySelectorAll("main *, header *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 8).map((e) => e.tagName + "." + e.className).join(" ")`))
	}
}

// scheme changes the theme of the system: light or dark.
func (p *tab) scheme(scheme string) {
	p.t.Helper()
	p.do(call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
	p.until(`matchMedia("(prefers-color-scheme: ` + scheme + `)").matches`)
}

// shoot writes a picture of the page to the folder that SCREENSHOTS names.
func (p *tab) shoot(name string) {
	p.t.Helper()
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, strings.ReplaceAll(p.t.Name(), "/", "-")+"-"+name+".png"), png, 0o644)
	}
	if err != nil {
		p.t.Errorf("no picture of %s: %v", name, err)
	}
}
