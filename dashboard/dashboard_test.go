package dashboard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/dashboard"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/expect"
)

// clientOf returns a client on an engine.
func clientOf(t *testing.T) *redoubt.Client {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{})
	expect.Must(t, err)
	t.Cleanup(func() { _ = e.Close() })
	return clienttest.New(t, e, "")
}

func TestOptions(t *testing.T) {
	_, err := dashboard.New(nil, dashboard.Options{Username: "ann", Hosts: []string{"http://x"}})
	expect.Says(t, err, "client is nil", "Username is set and Password is empty", `host is "http://x"`)
	d, err := dashboard.New(clientOf(t), dashboard.Options{})
	expect.Must(t, err)
	expect.Must(t, d.Close())
	expect.Must(t, d.Close())
	server := httptest.NewServer(d)
	defer server.Close()
	if code, _ := ask(t, server, http.MethodGet, "/", "", ""); code != http.StatusServiceUnavailable {
		t.Errorf("after Close: %d", code)
	}
}

// ask sends a request as a user; an empty name is nobody.
func ask(t *testing.T, server *httptest.Server, method, path, name, password string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(`{"action":"queue.pause","name":"mail"}`))
	expect.Must(t, err)
	r.Header.Set("Content-Type", "application/json")
	if name != "" {
		r.SetBasicAuth(name, password)
	}
	resp, err := server.Client().Do(r)
	expect.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	expect.Must(t, err)
	return resp.StatusCode, string(text)
}

// People of a Go program's dashboard look only, unless AllowWrites is set, and need the password.
func TestPasswordAndAllowWrites(t *testing.T) {
	for _, c := range []struct {
		opts                 dashboard.Options
		name, password       string
		wantLook, wantChange int
	}{
		{dashboard.Options{}, "", "", 200, 403},
		{dashboard.Options{AllowWrites: true}, "", "", 200, 200},
		{dashboard.Options{Password: "secret"}, "", "", 401, 401},
		{dashboard.Options{Password: "secret"}, "default", "secret", 200, 403},
		{dashboard.Options{Password: "secret", Username: "ann", AllowWrites: true}, "default", "secret", 401, 401},
		{dashboard.Options{Password: "secret", Username: "ann", AllowWrites: true}, "ann", "secret", 200, 200},
	} {
		d, err := dashboard.New(clientOf(t), c.opts)
		expect.Must(t, err)
		server := httptest.NewServer(d)
		for method, want := range map[string]int{http.MethodGet: c.wantLook, http.MethodPost: c.wantChange} {
			path := map[string]string{http.MethodGet: "/api/snapshot", http.MethodPost: "/api/action"}[method]
			if code, text := ask(t, server, method, path, c.name, c.password); code != want {
				t.Errorf("%+v as %q: %s is %d %s; want %d", c.opts, c.name, path, code, text, want)
			}
		}
		server.Close()
		expect.Must(t, d.Close())
	}
}

// The counts of the program's caches are in the view of caches.
func TestCaches(t *testing.T) {
	client := clientOf(t)
	expect.Must(t, client.Do(t.Context(), redoubt.Cmd{Name: "SET", Keys: []string{"rd:{users:1}:cache"}, Args: []string{"x"}}).Err)
	d, err := dashboard.New(client, dashboard.Options{Caches: func() map[string]dashboard.CacheCounts {
		return map[string]dashboard.CacheCounts{"users": {Hits: 5}}
	}})
	expect.Must(t, err)
	defer func() { _ = d.Close() }()
	server := httptest.NewServer(d)
	defer server.Close()
	await.Until(t, time.Minute, "a row of the cache", func() bool {
		_, text := ask(t, server, http.MethodGet, "/api/snapshot?view=caches", "", "")
		var s struct{ Rows []map[string]any }
		expect.Must(t, json.Unmarshal([]byte(text), &s))
		if len(s.Rows) == 0 {
			return false
		}
		if s.Rows[0]["hits"] != 5.0 || s.Rows[0]["entries"] != 1.0 {
			t.Errorf("the row is %v", s.Rows[0])
		}
		return true
	})
}

func Example() {
	ctx := context.Background()
	client, err := redoubt.Open(ctx, "embedded:", redoubt.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close() }()
	dash, err := dashboard.New(client, dashboard.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = dash.Close() }()
	mux := http.NewServeMux()
	mux.Handle("/ops/", http.StripPrefix("/ops", dash))
	server := httptest.NewServer(mux) // a program calls http.ListenAndServe("127.0.0.1:8080", mux)
	defer server.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/ops/", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	fmt.Println(resp.Status, resp.Header.Get("Content-Type"))
	// Output: 200 OK text/html; charset=utf-8
}
