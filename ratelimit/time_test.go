package ratelimit_test

import (
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
)

// engineTime is the clock of an engine, which stands still until it is
// advanced. Its timers never fire: what has expired is found when it is read.
type engineTime struct {
	mu  sync.Mutex
	now time.Time
}

func (c *engineTime) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *engineTime) AfterFunc(time.Duration, func()) engine.Timer { return neverFires{} }

func (c *engineTime) advance(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	c.mu.Unlock()
}

type neverFires struct{}

func (neverFires) Stop() bool { return true }

// withTime returns a client of an engine whose keys expire by the clock that is
// returned with it.
func withTime(t *testing.T) (*redoubt.Client, *engineTime) {
	t.Helper()
	c := &engineTime{now: time.Unix(1_760_000_000, 0)}
	e, err := engine.Open(t.Context(), engine.Options{Clock: c})
	must(t, err)
	t.Cleanup(func() { _ = e.Close() })
	return clienttest.New(t, e, "rd"), c
}

// pttl is -1 for a key that does not expire and -2 for none.
func pttl(t *testing.T, client *redoubt.Client, key string) int64 {
	t.Helper()
	n, err := client.Do(t.Context(), redoubt.Cmd{Name: "PTTL", Keys: []string{key}, Flags: redoubt.ReadOnly}).Int()
	must(t, err)
	return n
}
