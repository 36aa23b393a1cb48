package poolhost

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/dashboard"
	"github.com/redoubt-go/redoubt/internal/test/memcachedtest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// A shot is what these tests read of a snapshot.
type shot struct {
	Error, PanelError, Source string
	Sources                   []struct{ Name, Kind string }
	Rows                      []map[string]any
	Overview                  map[string]any
}

// browse asks the dashboard of a Host as a user; an empty name is nobody.
func browse(t *testing.T, server *httptest.Server, method, path, body, name, password string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if name != "" {
		r.SetBasicAuth(name, password)
	}
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// dashboardOf serves the dashboard of a Host.
func dashboardOf(t *testing.T, h *Host, password string) *httptest.Server {
	t.Helper()
	d, err := dashboard.New(dashboard.Options{Sources: func() []dashboard.Source { return h.Sources(password) }})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(d)
	t.Cleanup(func() {
		server.Close()
		_ = d.Close()
	})
	return server
}

// Promise: People see in the dashboard what their user may read, and change what their user may change.
func TestDashboardKeepsRights(t *testing.T) {
	srv, addr := redistest.Start(t), freeAddr(t)
	s := serve(t, fmt.Sprintf("alpha:\n  listen: %s\n  redis: true\n  hash_tag: \"{}\"\n  users:\n   - admin secret\n   - user reader on >pw ~orders* +queue.stats +queue.messages\n  servers:\n   - %s:1 redis-1\n", addr, srv.Addr()))
	c := redis.NewClient(&redis.Options{Addr: addr, Username: "admin", Password: "secret"})
	defer func() { _ = c.Close() }()
	for _, q := range []string{"orders", "payments"} {
		if err := c.Do(t.Context(), "QUEUE.PUT", q, "x").Err(); err != nil {
			t.Fatal(err)
		}
	}
	server := dashboardOf(t, s.host, "")
	names := func(user, password string) (names []string, s shot) {
		code, text := browse(t, server, http.MethodGet, "/api/snapshot?view=queues", "", user, password)
		if err := json.Unmarshal([]byte(text), &s); code != http.StatusOK || err != nil {
			t.Fatalf("%s: %d %s", user, code, text)
		}
		for _, r := range s.Rows {
			names = append(names, r["name"].(string))
		}
		return names, s
	}
	eventually(t, "the admin sees both queues", func() bool {
		list, _ := names("admin", "secret")
		return len(list) == 2
	})
	eventually(t, "the reader sees one queue", func() bool {
		list, s := names("reader", "pw")
		if s.Overview != nil {
			t.Errorf("the reader has no INFO, but sees %v", s.Overview)
		}
		return len(list) == 1 && list[0] == "orders"
	})
	for _, c := range []struct {
		method, path, body, user, password string
		want                               int
	}{
		{"GET", "/api/snapshot", "", "", "", 401},
		{"GET", "/", "", "admin", "wrong", 401},
		{"GET", "/api/queue?name=orders&state=ready", "", "reader", "pw", 200},
		{"GET", "/api/queue?name=payments&state=ready", "", "reader", "pw", 403},
		{"GET", "/api/message?name=orders&id=x", "", "reader", "pw", 403},
		{"GET", "/api/message?name=orders&id=x", "", "admin", "secret", 404},
		{"POST", "/api/action", `{"action":"queue.pause","name":"orders"}`, "reader", "pw", 403},
		{"POST", "/api/action", `{"action":"queue.drain","name":"orders"}`, "reader", "pw", 403},
		{"POST", "/api/action", `{"action":"lock.release","name":"orders","token":"1"}`, "reader", "pw", 403},
		{"POST", "/api/action", `{"action":"queue.pause","name":"orders"}`, "admin", "secret", 200},
	} {
		if code, text := browse(t, server, c.method, c.path, c.body, c.user, c.password); code != c.want {
			t.Errorf("%s %s %s of %q: %d %s; want %d", c.method, c.path, c.body, c.user, code, text, c.want)
		}
	}
	// The pool's servers are for those with INFO and SLOWLOG.
	_, text := browse(t, server, http.MethodGet, "/api/snapshot?view=pools", "", "reader", "pw")
	mustContain(t, "the view of pools", text, "may not see this view")
}

func TestDashboardOfPools(t *testing.T) {
	one, two, cached := redistest.Start(t), redistest.Start(t), memcachedtest.Start(t)
	s := serve(t, fmt.Sprintf(`
alpha:
  listen: %s
  redis: true
  hash_tag: "{}"
  servers:
   - %s:1 redis-1
   - %s:1 redis-2
beta:
  listen: %s
  servers:
   - %s:1 cache-1
`, freeAddr(t), one.Addr(), two.Addr(), freeAddr(t), cached.Addr()))
	server := dashboardOf(t, s.host, "")
	view := func(source, name string) (got shot) {
		t.Helper()
		code, text := browse(t, server, http.MethodGet, "/api/snapshot?"+url.Values{"source": {source}, "view": {name}}.Encode(), "", "", "")
		if err := json.Unmarshal([]byte(text), &got); code != http.StatusOK || err != nil {
			t.Fatalf("%s of %s: %d %s", name, source, code, text)
		}
		return got
	}
	if got := view("", "overview"); len(got.Sources) != 2 || got.Sources[0].Kind != "pool" || got.Sources[1].Kind != "memcached" || got.Source != "alpha" {
		t.Errorf("the sources are %+v", got.Sources)
	}
	c := redis.NewClient(&redis.Options{Addr: s.host.current()[0].listeners[0].Addr().String()})
	defer func() { _ = c.Close() }()
	for i := range 20 {
		if err := c.Do(t.Context(), "QUEUE.PUT", fmt.Sprintf("q%d", i), "x").Err(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the queues of both servers", func() bool { return len(view("alpha", "queues").Rows) == 20 })
	eventually(t, "both servers are up", func() bool {
		got := view("alpha", "pools")
		if len(got.Rows) != 1 {
			t.Fatalf("the rows are %v", got.Rows)
		}
		up, share := 0, 0.0
		for _, v := range got.Rows[0]["servers"].([]any) {
			n := v.(map[string]any)
			share += n["share"].(float64)
			if n["state"] == "up" {
				up++
			}
			if n["share"].(float64) < 0.2 || n["addr"] == "" {
				t.Errorf("a server is %v", n)
			}
		}
		if math.Abs(share-1) > 1e-6 {
			t.Errorf("the shares add up to %v", share)
		}
		return up == 2
	})
	for range 2 {
		if err := c.Do(t.Context(), "LIMIT.TAKE", "api", 1, 1, 3600_000, 1).Err(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "what the limit has decided", func() bool {
		got := view("alpha", "limits")
		return len(got.Rows) == 1 && got.Rows[0]["name"] == "api" && got.Rows[0]["allowed"] == 1.0 && got.Rows[0]["denied"] == 1.0
	})
	if got := view("beta", "queues"); !strings.Contains(got.PanelError, "no commands of Redoubt") || got.Error != "" {
		t.Errorf("queues of memcached: %+v", got)
	}
	if got := view("beta", "pools"); len(got.Rows) != 1 {
		t.Errorf("the pool of memcached: %+v", got)
	}

	// The other server's queues stay when one is gone.
	one.Kill()
	eventually(t, "one server is down", func() bool {
		up := 0
		for _, v := range view("alpha", "pools").Rows[0]["servers"].([]any) {
			if v.(map[string]any)["state"] == "up" {
				up++
			}
		}
		return up == 1
	})
	eventually(t, "the queues of the other server", func() bool {
		alive := 0
		got := view("alpha", "queues")
		for _, r := range got.Rows {
			if r["ready"] == 1.0 {
				alive++
			}
		}
		return alive > 0 && alive < 20 && len(got.Rows) == 20 && got.Error == ""
	})
}
