//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestDashboard: serve has the dashboard at the http address, with the state of what clients do.
func TestDashboard(t *testing.T) {
	r := redistest.Start(t)
	for kind, args := range map[string][]string{
		"engine": nil, "redis": {"--backend", r.URL()},
		"pool": {"--pools", writePools(t, fmt.Sprintf("alpha:\n  listen: %s\n  redis: true\n  hash_tag: \"{}\"\n  servers:\n   - %s:1\n", freeAddr(t), r.Addr()))},
	} {
		t.Run(kind, func(t *testing.T) {
			s := startServing(t, append(listenUnlessPools(args), args...)...)
			if code, text := s.get(t, "/"); code != http.StatusOK || !strings.Contains(text, "<html") {
				t.Errorf("the page: %d %.200s", code, text)
			}
			code, _, stderr := runToEnd(t, nil, "queue", "put", "mail-"+kind, "hello", "--backend", "redis://"+s.addr)
			if code != 0 {
				t.Fatalf("queue put: %d %s", code, stderr)
			}
			var got struct {
				Sources []struct{ Kind, URL string }
				User    struct{ CanWrite bool }
				Rows    []map[string]any
			}
			eventually(t, "the queue has a row", func() bool {
				code, text := s.get(t, "/api/snapshot?view=queues")
				if err := json.Unmarshal([]byte(text), &got); code != http.StatusOK || err != nil {
					t.Fatalf("%d %s", code, text)
				}
				for _, row := range got.Rows {
					if row["name"] == "mail-"+kind && row["ready"] == 1.0 {
						return true
					}
				}
				return false
			})
			if got.Sources[0].Kind != kind || got.Sources[0].URL != "redis://"+s.addr || !got.User.CanWrite {
				t.Errorf("the snapshot is %+v", got)
			}
		})
	}
}

// listenUnlessPools returns the flag for the address of clients, which pools have in their file.
func listenUnlessPools(args []string) []string {
	if len(args) > 0 && args[0] == "--pools" {
		return nil
	}
	return []string{"--listen=127.0.0.1:0"}
}

// Promise: Where other machines can reach the http address, there is no dashboard without a password; metrics and health stay.
func TestDashboardNeedsAPassword(t *testing.T) {
	for _, c := range []struct {
		args          []string
		host          string
		user, given   string
		page, metrics int
	}{
		{[]string{"--http=0.0.0.0:0"}, "", "", "", 403, 200},
		{[]string{"--http=0.0.0.0:0", "--password=secret"}, "", "", "", 401, 200},
		{[]string{"--http=0.0.0.0:0", "--password=secret"}, "", "default", "wrong", 401, 200},
		{[]string{"--http=0.0.0.0:0", "--password=secret"}, "", "default", "secret", 200, 200},
		{[]string{"--http=0.0.0.0:0", "--password=secret"}, "dash.example.com", "default", "secret", 403, 200},
		{[]string{"--http=0.0.0.0:0", "--password=secret", "--http-host=dash.example.com"}, "dash.example.com", "default", "secret", 200, 200},
	} {
		s := startServe(t, append(c.args, "--pprof")...)
		_, port, err := net.SplitHostPort(s.http)
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]int{
			"/": c.page, "/api/snapshot": c.page, "/debug/pprof/heap": c.page, "/metrics": c.metrics, "/livez": c.metrics, "/readyz": c.metrics, "/healthz": c.metrics,
		} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.host != "" {
				req.Host = c.host
			}
			if c.user != "" {
				req.SetBasicAuth(c.user, c.given)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%v as %q %q under %q: %s is %d %.200s; want %d", c.args, c.user, c.given, c.host, path, resp.StatusCode, text, want)
			}
		}
	}
	code, _, stderr := runToEnd(t, nil, "serve", "--http-host=http://x", "--listen=127.0.0.1:0", "--http=")
	if code != exitUsage {
		t.Errorf("a wrong host: %d %s", code, stderr)
	}
	mustContain(t, "the error", stderr, "host is", "want a name like")
}

// TestProfiles: --pprof serves profiles, and nothing that could show a password.
func TestProfiles(t *testing.T) {
	s := startServing(t, "--listen=127.0.0.1:0", "--pprof", "--backend=embedded:")
	for path, want := range map[string]string{
		"/debug/pprof/": "goroutine", "/debug/pprof/goroutine?debug=1": "main.main", "/debug/pprof/heap?debug=1": "heap profile", "/debug/pprof/profile?seconds=1": "",
	} {
		if code, body := s.get(t, path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s is %d, %.200q", path, code, body)
		}
	}
	if code, body := s.get(t, "/debug/pprof/cmdline"); code != http.StatusNotFound {
		t.Errorf("cmdline is %d, %q", code, body)
	}
	off := startServe(t)
	if code, body := off.get(t, "/debug/pprof/heap"); code != http.StatusNotFound {
		t.Errorf("without --pprof: %d, %.200q", code, body)
	}
	locked := startServe(t, "--pprof", "--password=secret")
	if code, body := locked.get(t, "/debug/pprof/heap"); code != http.StatusUnauthorized {
		t.Errorf("without the password: %d, %.200q", code, body)
	}
	if code, _, stderr := runToEnd(t, nil, "serve", "--pprof", "--http=", "--listen=127.0.0.1:0"); code != exitUsage || !strings.Contains(stderr, "pprof needs an address") {
		t.Errorf("without an address: %d, %s", code, stderr)
	}
}
