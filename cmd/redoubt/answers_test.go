//go:build unix

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/cache"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/ratelimit"
)

// TestAnswers runs the small commands against a server with a password: their results as text and as JSON,
// and what they say about a password or a name that is wrong.
func TestAnswers(t *testing.T) {
	r := redistest.Start(t, "--requirepass", "s3cret")
	env := []string{"REDOUBT_BACKEND=" + r.URL(), "REDOUBT_PASSWORD=s3cret"}
	run := func(code int, args ...string) (stdout, stderr string) {
		t.Helper()
		got, stdout, stderr := runToEnd(t, env, args...)
		if got != code || strings.Contains(stdout+stderr, "\x1b") {
			t.Errorf("redoubt %q: exit %d, %q, %q; want %d", args, got, stdout, stderr, code)
		}
		return stdout, stderr
	}
	said := func(want string, args ...string) {
		t.Helper()
		if got, stderr := run(0, args...); got != want || stderr != "" {
			t.Errorf("redoubt %q says %q, %q; want %q", args, got, stderr, want)
		}
	}
	object := func(want map[string]any, args ...string) {
		t.Helper()
		var got map[string]any
		out, _ := run(0, append(args, "--json")...)
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("redoubt %q: %v in %q", args, err, out)
		}
		for k, v := range want {
			if got[k] != v {
				t.Errorf("redoubt %q: %s is %v; want %v", args, k, got[k], v)
			}
		}
	}

	// The password.
	for password, want := range map[string]string{"": "give the password by REDOUBT_PASSWORD or --password-file", "wrong": "check the password in REDOUBT_PASSWORD"} {
		code, _, stderr := runToEnd(t, []string{"REDOUBT_BACKEND=" + r.URL(), "REDOUBT_PASSWORD=" + password}, "lock", "ls")
		if code != exitUnavailable || !strings.Contains(stderr, want) {
			t.Errorf("password %q: exit %d, %q; want %q", password, code, stderr, want)
		}
	}

	// A queue that has nothing is perhaps misspelled.
	if _, stderr := run(0, "queue", "pause", "nail"); !strings.Contains(stderr, `queue "nail" is paused, and has no messages: if that surprises you, see`) {
		t.Errorf("pause says %q", stderr)
	}
	object(map[string]any{"id": "a", "status": "added"}, "queue", "put", "mail", "hello", "--id", "a")
	object(map[string]any{"id": "a", "status": "exists"}, "queue", "put", "mail", "hello", "--id", "a")
	object(map[string]any{"paused": true, "messages": 1.0}, "queue", "pause", "mail")
	said("", "queue", "resume", "mail")
	object(map[string]any{"id": "a", "was": "pending"}, "queue", "cancel", "mail", "a")
	object(map[string]any{"removed": 0.0}, "queue", "drain", "mail", "--force")
	object(map[string]any{"requeued": 0.0}, "queue", "requeue", "mail", "--all")
	object(map[string]any{"name": "l", "released": false}, "lock", "release", "l", "--force")

	// Stock.
	run(0, "stock", "set", "sku", "5")
	if _, stderr := run(exitFault, "stock", "rm", "other", "--force"); !strings.Contains(stderr, `there is no item "other"`) {
		t.Errorf("stock rm says %q", stderr)
	}
	object(map[string]any{"name": "sku", "removed": true}, "stock", "rm", "sku", "--force")
	said("[]\n", "stock", "ls", "--json")

	// Limits.
	run(0, "limit", "try", "mail:1", "--rate", "10/h", "--n", "10")
	client := clienttest.Open(t, withPassword(r.URL(), "s3cret"))
	stored, err := ratelimit.New(client, ratelimit.Options{Stored: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := stored.Set(t.Context(), "api", ratelimit.Limit{Rate: 100, Period: time.Minute, Burst: 20}); err != nil {
		t.Fatal(err)
	}
	var limits []limitListed
	out, _ := run(0, "limit", "ls", "--json")
	if err := json.Unmarshal([]byte(out), &limits); err != nil || len(limits) != 2 || limits[0] != (limitListed{Name: "api", Kind: "limiter", Stored: "100/1m burst 20"}) ||
		limits[1].Name != "mail:1" || limits[1].ResetAfter < 3_500_000 || limits[1].ResetAfter > 3_600_000 {
		t.Errorf("limit ls: %v, %s", err, out)
	}
	said("NAME  KIND     STORED LIMIT     FULL AGAIN IN\napi   limiter  100/1m burst 20  -\n", "limit", "ls", "--match", "a*")
	object(map[string]any{"reset": true}, "limit", "reset", "api")

	// Caches.
	users, err := cache.New(client, cache.Options[string, string]{Name: "users", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = users.Close() }()
	if err := users.Set(t.Context(), "42", "Ann"); err != nil {
		t.Fatal(err)
	}
	var caches []cacheState
	out, _ = run(0, "cache", "ls", "--match", "u*", "--json")
	if err := json.Unmarshal([]byte(out), &caches); err != nil || len(caches) != 1 || caches[0].Cache != "users" || caches[0].Values != 1 {
		t.Errorf("cache ls: %v, %s", err, out)
	}
	said("[]\n", "cache", "ls", "--match", "v*", "--json")

	// Keys.
	r.CLI("-a", "s3cret", "SET", "k\xff", "v")
	r.CLI("-a", "s3cret", "SET", "k1", "v")
	out, _ = run(0, "scan", "--match", "k*", "--json", "--quiet")
	mustContain(t, "scan --json", out, `{"key":"k1"}`+"\n", `{"key_base64":"a/8="}`+"\n")
	object(map[string]any{"found": 2.0, "deleted": 2.0, "dry_run": false}, "del", "--match", "k*", "--force", "--quiet=false")
}
