package dashboard_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/dashboard"
)

// Promise: The dashboard refuses a foreign Host, a foreign Origin and requests that another site made the browser send.
func TestForeignRequestsAreRefused(t *testing.T) {
	p := open(t, func(o *dashboard.Options, _ *dashboard.Source) { o.Hosts = []string{"dash.example.com"} })
	host := func(name string) func(r *http.Request) { return func(r *http.Request) { r.Host = name } }
	header := func(name, value string) func(r *http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	own := strings.TrimPrefix(p.server.URL, "http://")
	for name, c := range map[string]struct {
		method, path string
		change       func(r *http.Request)
		want         int
	}{
		"its own":                  {"GET", "/", nil, 200},
		"localhost":                {"GET", "/api/snapshot", host("localhost:80"), 200},
		"a name below localhost":   {"GET", "/", host("redoubt.localhost"), 200},
		"IPv6 loopback":            {"GET", "/", host("[::1]:80"), 200},
		"an allowed host":          {"GET", "/", host("DASH.example.com:8080"), 200},
		"a foreign host":           {"GET", "/", host("evil.example.com"), 403},
		"a foreign host, snapshot": {"GET", "/api/snapshot", host("evil.example.com:" + own), 403},
		"an allowed host's child":  {"GET", "/", host("x.dash.example.com"), 403},
		"a foreign address":        {"GET", "/", host("10.1.2.3"), 403},
		"no host":                  {"GET", "/", host(" "), 403},
		"its own origin":           {"GET", "/api/snapshot", header("Origin", p.server.URL), 200},
		"a foreign origin":         {"GET", "/api/snapshot", header("Origin", "http://evil.example.com"), 403},
		"origin null":              {"POST", "/api/action", header("Origin", "null"), 403},
		"a foreign origin, action": {"POST", "/api/action", header("Origin", "http://evil.example.com"), 403},
		"another port's origin":    {"POST", "/api/action", header("Origin", "http://127.0.0.1:1"), 403},
		"cross-site":               {"GET", "/api/snapshot", header("Sec-Fetch-Site", "cross-site"), 403},
		"same-site":                {"GET", "/api/snapshot", header("Sec-Fetch-Site", "same-site"), 403},
		"cross-site, action":       {"POST", "/api/action", header("Sec-Fetch-Site", "cross-site"), 403},
		"a link to the page":       {"GET", "/", header("Sec-Fetch-Site", "cross-site"), 200},
	} {
		if resp, text := p.do(c.method, c.path, "{}", c.change); resp.StatusCode != c.want {
			t.Errorf("%s: %d %s; want %d", name, resp.StatusCode, text, c.want)
		}
	}
}

// Promise: Every answer of the dashboard has a Content-Security-Policy that lets the page load its own files only.
func TestHeaders(t *testing.T) {
	p := open(t, nil)
	for path, change := range map[string]func(r *http.Request){
		"/": nil, "/index.html": nil, "/api/snapshot": nil, "/missing": nil, "/api/missing": nil,
		"/?refused": func(r *http.Request) { r.Host = "evil.example.com" },
	} {
		resp, _ := p.do(http.MethodGet, path, "", change)
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
			"X-Content-Type-Options":  "nosniff",
			"Referrer-Policy":         "no-referrer",
		} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q; want %q", path, name, got, want)
			}
		}
		if cache := resp.Header.Get("Cache-Control"); strings.HasPrefix(path, "/api/") && cache != "no-store" {
			t.Errorf("%s: Cache-Control is %q", path, cache)
		}
	}
	resp, _ := p.do(http.MethodGet, "/", "", nil)
	if tag := resp.Header.Get("ETag"); tag == "" || resp.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("the page: %v", resp.Header)
	} else if again, _ := p.do(http.MethodGet, "/", "", func(r *http.Request) { r.Header.Set("If-None-Match", tag) }); again.StatusCode != http.StatusNotModified {
		t.Errorf("the page again: %s", again.Status)
	}
}

// Promise: Every method but GET is refused, except for actions.
func TestMethods(t *testing.T) {
	p := open(t, nil)
	for _, c := range []struct{ method, path string }{
		{"POST", "/"}, {"POST", "/api/snapshot"}, {"PUT", "/api/action"}, {"DELETE", "/api/queue"}, {"GET", "/api/action"}, {"PATCH", "/index.html"},
		{"OPTIONS", "/api/action"},
	} {
		if resp, text := p.do(c.method, c.path, "{}", nil); resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") == "" {
			t.Errorf("%s %s: %d %s", c.method, c.path, resp.StatusCode, text)
		}
	}
	for body, want := range map[string]int{
		`{"action":"lock.release","name":"a","token":"1","x":1}`: 400, `{`: 400, `{"action":"nothing","name":"a"}`: 400,
		`{"action":"lock.release","name":"a"}`: 400, `{"action":"queue.cancel","name":"a"}`: 400, `{"action":"queue.pause"}`: 400,
		`{"action":"queue.pause","name":"` + strings.Repeat("x", 9000) + `"}`: 413, `{"action":"queue.pause","name":"}"}`: 400,
	} {
		if resp, text := p.do("POST", "/api/action", body, nil); resp.StatusCode != want {
			t.Errorf("%.60s: %d %s; want %d", body, resp.StatusCode, text, want)
		}
	}
	resp, text := p.do("POST", "/api/action", `{"action":"queue.pause","name":"a"}`, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") })
	if resp.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("an action as text/plain: %d %s", resp.StatusCode, text)
	}
}

// Promise: Without a password the dashboard serves connections of this machine only.
func TestPasswordBeyondLoopback(t *testing.T) {
	login := func(name, password string) func(r *http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(name, password) }
	}
	for name, c := range map[string]struct {
		password string
		exposed  bool
		change   func(r *http.Request)
		want     int
	}{
		"loopback, no password":         {"", false, nil, 200},
		"loopback, needless password":   {"", false, login("default", "x"), 200},
		"reachable, no password":        {"", true, nil, 403},
		"reachable, needless password":  {"", true, login("default", "x"), 401},
		"reachable, password missing":   {"secret", true, nil, 401},
		"reachable, wrong password":     {"secret", true, login("default", "wrong"), 401},
		"reachable, wrong user":         {"secret", true, login("other", "secret"), 401},
		"reachable, right":              {"secret", true, login("default", "secret"), 200},
		"reachable, right without user": {"secret", true, login("", "secret"), 200},
		"loopback, password missing":    {"secret", false, nil, 401},
		"loopback, right":               {"secret", false, login("default", "secret"), 200},
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, func(o *dashboard.Options, s *dashboard.Source) {
				o.Exposed = c.exposed
				s.Users = dashboard.OneUser("default", c.password, true)
			})
			for _, path := range []string{"/", "/index.html", "/api/snapshot", "/api/nothing"} {
				want := c.want
				if want == 200 && path == "/api/nothing" {
					want = 404
				}
				resp, text := p.do(http.MethodGet, path, "", c.change)
				if resp.StatusCode != want {
					t.Errorf("%s: %d %s; want %d", path, resp.StatusCode, text, want)
				}
				if asks := resp.Header.Get("WWW-Authenticate") != ""; asks != (want == 401) {
					t.Errorf("%s: asks for a password: %t", path, asks)
				}
			}
			if strings.Contains(p.log.String(), "secret") || strings.Contains(p.log.String(), "wrong ") {
				t.Errorf("the log has a password: %s", p.log.String())
			}
		})
	}
	t.Run("a connection of unknown origin", func(t *testing.T) {
		p, w := open(t, nil), httptest.NewRecorder()
		p.h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", nil))
		if w.Code != http.StatusForbidden {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// Promise: The dashboard works below any prefix, with and without a slash at its end.
func TestBelowAPrefix(t *testing.T) {
	p := open(t, nil)
	mux := http.NewServeMux()
	mux.Handle("/ops/redoubt/", http.StripPrefix("/ops/redoubt", p.h))
	mux.Handle("/ops/redoubt", http.StripPrefix("/ops/redoubt", p.h))
	p.server = httptest.NewServer(mux)
	defer p.server.Close()
	resp, _ := p.do(http.MethodGet, "/ops/redoubt?lang=zh", "", nil)
	if resp.StatusCode != http.StatusMovedPermanently || resp.Header.Get("Location") != "redoubt/?lang=zh" {
		t.Errorf("without a slash: %s to %q", resp.Status, resp.Header.Get("Location"))
	}
	if at, err := resp.Request.URL.Parse(resp.Header.Get("Location")); err != nil || at.Path != "/ops/redoubt/" {
		t.Errorf("which a browser takes for %v, %v", at, err)
	}
	for _, path := range []string{"/ops/redoubt/", "/ops/redoubt/index.html", "/ops/redoubt/api/snapshot"} {
		if resp, text := p.do(http.MethodGet, path, "", nil); resp.StatusCode != 200 {
			t.Errorf("%s: %s %s", path, resp.Status, text)
		}
	}
}
