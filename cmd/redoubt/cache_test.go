//go:build unix

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/cache"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

func TestCache(t *testing.T) {
	server := redistest.Start(t)
	url := server.URL()
	client := clienttest.Open(t, url)
	users, err := cache.New(client, cache.Options[string, string]{Name: "users", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = users.Close() }()
	if err := users.Set(t.Context(), "42", "ann"); err != nil {
		t.Fatal(err)
	}
	none := func(context.Context, string) (string, bool, error) { return "", false, nil }
	if _, _, err := users.Get(t.Context(), "43", none); err != nil {
		t.Fatal(err)
	}
	var s cacheState
	asJSON(t, &s, "cache", "stats", "--backend", url, "--json", "users")
	if s != (cacheState{Cache: "users", Values: 1, Negatives: 1, Bytes: 5}) {
		t.Errorf("stats: %+v", s)
	}
	var e cacheEntry
	asJSON(t, &e, "cache", "get", "--backend", url, "--json", "users", "42")
	if e.Kind != "value" || e.Value != `"ann"` || e.TTL < 3_000_000 || e.Fresh < 3_000_000 {
		t.Errorf("get: %+v", e)
	}
	for _, c := range [][2]string{
		{"stats users", "users  1       0      1          0        5 B"},
		{"get users 42", `value      "ann"`},
		{"invalidate users 42", "invalidated"},
	} {
		args := strings.Fields(c[0])
		code, out, _ := runToEnd(t, nil, append([]string{"cache", args[0], "--backend", url}, args[1:]...)...)
		if code != 0 || !strings.Contains(out, c[1]) {
			t.Errorf("%s: exit %d\n%s", c[0], code, out)
		}
	}
	for args, want := range map[string]int{"get users 42": exitFault, "get users": exitUsage, "get } x": exitUsage, "get us:ers 42": exitUsage, "stats us:ers": exitUsage} {
		if code, _, stderr := runToEnd(t, nil, append([]string{"cache", strings.Fields(args)[0], "--backend", url}, strings.Fields(args)[1:]...)...); code != want {
			t.Errorf("%s: exit %d, %q", args, code, stderr)
		}
	}
}
