package goredis_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// redoubt.Open opens what this package has registered, and closes it.
func TestOpenByScheme(t *testing.T) {
	s := redistest.Start(t)
	for _, url := range []string{s.URL(), "unix://" + s.Socket(), redistest.StartCluster(t, 1, 0).URL()} {
		client, err := redoubt.Open(t.Context(), url, redoubt.Options{})
		if err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		if err := client.Do(t.Context(), set).Err; err != nil {
			t.Errorf("%s: %v", url, err)
		}
		if err := client.Close(); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	if c, err := redoubt.Open(t.Context(), "redis://127.0.0.1:1", redoubt.Options{}); err == nil || c != nil {
		t.Errorf("where nobody listens: %v, %v", c, err)
	}
}

// TestOpenNotConnected: ErrNotConnected tells servers that refuse or are silent from wrong URLs and callers
// that have left.
func TestOpenNotConnected(t *testing.T) {
	clustered := redistest.Start(t, "--cluster-enabled", "yes")
	locked := redistest.Start(t, "--requirepass", "secret")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name  string
		ctx   context.Context //nolint:containedctx // of one case
		url   string
		match bool
		cause error
		text  string
	}{
		{"refused", t.Context(), locked.URL(), true, nil, "goredis: not connected to " + locked.Addr() + ": NOAUTH"},
		{"wrong URL", t.Context(), clustered.URL() + "/3", false, nil, "it is a cluster, which has no database 3"},
		{"no such database", t.Context(), redistest.Start(t).URL() + "/99", false, nil, "it has no database 99"},
		{"canceled", canceled, locked.URL(), false, context.Canceled, "goredis: connecting to " + locked.Addr() + " was canceled: context canceled"},
	} {
		_, err := goredis.Open(c.ctx, c.url)
		if err == nil || errors.Is(err, goredis.ErrNotConnected) != c.match || c.cause != nil && !errors.Is(err, c.cause) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v; want %q, which matches ErrNotConnected: %t", c.name, err, c.text, c.match)
		}
	}
}
