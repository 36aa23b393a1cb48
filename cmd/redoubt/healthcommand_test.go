package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestHealthCommand: containers have no other program for their health check.
func TestHealthCommand(t *testing.T) {
	type reply struct {
		code int
		says string
	}
	var replies atomic.Pointer[reply]
	says := "ok\npool p: 10.0.0.1:1 is down"
	replies.Store(&reply{http.StatusOK, says})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := replies.Load()
		switch r.URL.Path {
		case "/readyz":
		case "/livez":
			now = &reply{http.StatusOK, "alive"}
		default:
			t.Errorf("it asked for %s", r.URL)
		}
		w.WriteHeader(now.code)
		_, _ = w.Write([]byte(now.says + "\n"))
	}))
	address := strings.TrimPrefix(web.URL, "http://")
	everywhere := ":" + address[strings.LastIndexByte(address, ':')+1:]
	for _, where := range [][2]string{{"--http", address}, {"--http", "0.0.0.0" + everywhere}} {
		if exit, out, stderr := runToEnd(t, nil, "health", where[0], where[1]); exit != 0 || out != says+"\n" {
			t.Errorf("health %v: exit %d, %q, %q", where, exit, out, stderr)
		}
	}
	// The container's variable serves both the server and its check. A proxy isn't asked.
	if exit, out, stderr := runToEnd(t, []string{"REDOUBT_HTTP=" + everywhere, "http_proxy=http://127.0.0.1:1"}, "health", "--json"); exit != 0 || !strings.Contains(out, `"healthy": true`) {
		t.Errorf("by the environment: exit %d, %q, %q", exit, out, stderr)
	}
	says = "back end h:1 does not answer"
	replies.Store(&reply{http.StatusServiceUnavailable, says})
	if exit, out, stderr := runToEnd(t, nil, "health", "--http", address); exit != exitFault || out != "" || !strings.Contains(stderr, "not healthy: "+says) {
		t.Errorf("not healthy: exit %d, %q, %q", exit, out, stderr)
	}
	if exit, out, stderr := runToEnd(t, nil, "health", "--live", "--http", address); exit != 0 || out != "alive\n" {
		t.Errorf("alive, not ready: exit %d, %q, %q", exit, out, stderr)
	}
	replies.Store(&reply{http.StatusNotFound, says})
	if exit, _, stderr := runToEnd(t, nil, "health", "--http", address); exit != exitUnavailable || !strings.Contains(stderr, "404") {
		t.Errorf("another program: exit %d, %q", exit, stderr)
	}
	web.Close()
	if exit, _, stderr := runToEnd(t, nil, "health", "--http", address); exit != exitUnavailable || !strings.Contains(stderr, "no server answers") {
		t.Errorf("nobody: exit %d, %q", exit, stderr)
	}
}
