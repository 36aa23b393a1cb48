//go:build !quick

package redoubt

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// opened is an OpenConn that notes its end.
type opened struct {
	*gate
	closed int
}

func (o *opened) Close() error {
	o.closed++
	return errors.New("closed")
}

// without has a test run with no Opener but open for "redis".
func without(t *testing.T, open Opener) {
	t.Helper()
	openers.mu.Lock()
	defer openers.mu.Unlock()
	before := openers.by
	t.Cleanup(func() {
		openers.mu.Lock()
		defer openers.mu.Unlock()
		openers.by = before
	})
	openers.by = map[string]Opener{"redis": open}
}

func TestOpen(t *testing.T) {
	conn := &opened{gate: newGate()}
	close(conn.let)
	asked := ""
	without(t, func(_ context.Context, url string) (OpenConn, error) {
		asked = url
		return conn, nil
	})
	const url = "REDIS://h:1/2"
	c, err := Open(t.Context(), url, Options{Prefix: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	if key, _ := c.Key("a", "lock"); asked != url || key != "shop:{a}:lock" {
		t.Errorf("the opener was given %q; key %q", asked, key)
	}
	if err := c.Close(); err == nil || err.Error() != "closed" || conn.closed != 1 {
		t.Errorf("Close: %v; the Conn was closed %d times", err, conn.closed)
	}
	if err := c.Close(); err != nil || conn.closed != 1 {
		t.Errorf("Close again: %v; the Conn was closed %d times", err, conn.closed)
	}
}

func TestOpenRejects(t *testing.T) {
	fault := errors.New("no answer")
	without(t, func(context.Context, string) (OpenConn, error) { return nil, fault })
	if c, err := Open(t.Context(), "redis://h", Options{}); c != nil || !errors.Is(err, fault) {
		t.Errorf("got %v, %v", c, err)
	}
	if _, err := Open(t.Context(), "redis://h", Options{Prefix: "{"}); err == nil || errors.Is(err, fault) || !strings.Contains(err.Error(), "brace") {
		t.Errorf("with a bad prefix: %v", err)
	}
	const all = "redis, rediss, unix, redis-sentinel, rediss-sentinel, redis-cluster, rediss-cluster and embedded"
	const remote = "needs an import: _ \"github.com/redoubt-go/redoubt/goredis\""
	for url, want := range map[string]string{
		"http://u:s3cret@h":    `redoubt: URL scheme "http" is not known; want ` + all,
		"s3cret@h":             "redoubt: malformed URL: want redis://user:password@host:port/db, with special characters in the password percent-encoded",
		"rediss://:s3cret@h":   "redoubt: URL scheme rediss " + remote,
		"unix:///s":            "redoubt: URL scheme unix " + remote,
		"redis-sentinel://h/m": "redoubt: URL scheme redis-sentinel " + remote,
		"redis-cluster://h":    "redoubt: URL scheme redis-cluster " + remote,
		"embedded:":            "redoubt: URL scheme embedded needs an import: _ \"github.com/redoubt-go/redoubt/engine\"",
	} {
		if _, err := Open(t.Context(), url, Options{}); err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", url, err, want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a scheme was registered twice")
		}
	}()
	Register(func(context.Context, string) (OpenConn, error) { return nil, nil }, "redis")
}
