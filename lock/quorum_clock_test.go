package lock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/internal/test/slow"
	"github.com/redoubt-go/redoubt/lock"
)

// A clock is one that a test steps.
type clock struct{ ahead atomic.Int64 }

func (c *clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *clock) AfterFunc(d time.Duration, f func()) engine.Timer { return time.AfterFunc(d, f) }

// A fickle Conn can be away, but for releases.
type fickle struct {
	redoubt.Conn

	away atomic.Bool
}

func (c *fickle) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	if c.away.Load() && cmd.Script != nil && cmd.Script.Name() != "lock.release" {
		return redoubt.Reply{Err: errors.New("away")}
	}
	return c.Conn.Do(ctx, cmd)
}

// clocks returns engines with clocks of their own.
func clocks(t *testing.T, n int) (clocks []*clock, conns []redoubt.Conn, fickles []*fickle) {
	t.Helper()
	for range n {
		c := new(clock)
		e, err := engine.Open(t.Context(), engine.Options{Clock: c})
		must(t, err)
		t.Cleanup(func() { _ = e.Close() })
		f := &fickle{Conn: e}
		clocks, conns, fickles = append(clocks, c), append(conns, f), append(fickles, f)
	}
	return clocks, conns, fickles
}

// The clocks of the masters are hours apart, and each lease has another majority.
// Tokens rise all the same: the one of the master whose clock is ahead is known to
// the clocks of the next majority.
//
// Promise: The tokens of a Quorum rise strictly, whatever the clocks of the
// masters show.
func TestQuorumTokensRiseWhateverTheClocks(t *testing.T) {
	for _, n := range []int{3, 5} {
		clocks, conns, fickles := clocks(t, n)
		for i, c := range clocks {
			c.ahead.Store(int64(i) * int64(time.Hour))
		}
		q := newQuorum(t, conns, lock.Options{})
		var last int64
		for round := range 4 * n {
			for i, f := range fickles { // a minority, another each time
				f.away.Store((i+round)%n < n/2)
			}
			// The script that acquired the lock before may come late to a master, which holds it until it is given back.
			lease, err := q.Acquire(t.Context(), "lock")
			must(t, err)
			if lease.Token() <= last {
				t.Fatalf("%d masters, round %d: token %d after %d", n, round, lease.Token(), last)
			}
			last = lease.Token()
			must(t, lease.Release(t.Context()))
			for _, c := range conns { // it returns when a majority is free
				eventually(t, "all are free", func() bool {
					r := c.Do(t.Context(), redoubt.Cmd{Name: "HGET", Keys: []string{"rd:{lock}:lock"}, Args: []string{"until"}})
					until, err := r.Text()
					return r.IsNil() || err == nil && until == "0"
				})
			}
		}
	}
}

// The clock of one master jumps past the end of the lease: nobody gets a majority.
//
// Promise: A lease of a Quorum lasts while a majority of the masters is
// reachable, whatever happens to the others and their clocks, and no two are
// valid at a time; masters that return hold it again.
func TestQuorumOutlivesAClockStep(t *testing.T) {
	slow.Test(t, "four steps of a clock, each for a lease of 6 s")
	t.Parallel()
	clocks, conns, _ := clocks(t, 3)
	const ttl = 6 * time.Second
	q, other := newQuorum(t, conns, lock.Options{TTL: ttl}), newQuorum(t, conns, lock.Options{TTL: ttl})
	lease := try(t, q, "lock")
	for _, c := range conns { // it returns when a majority has the lease
		eventually(t, "all masters have it", func() bool {
			return !c.Do(t.Context(), redoubt.Cmd{Name: "HGET", Keys: []string{"rd:{lock}:lock"}, Args: []string{"id"}}).IsNil()
		})
	}
	for _, step := range []time.Duration{time.Hour, -2 * time.Hour, 5 * time.Second, -5 * time.Second} {
		clocks[1].ahead.Add(int64(step))
		for began := time.Now(); time.Since(began) < ttl; {
			if next, _, _ := other.TryAcquire(t.Context(), "lock"); next != nil {
				t.Fatalf("a step of %v: another acquired it", step)
			}
			pause(ttl/50, t.Context().Done())
		}
		must(t, lease.Err())
	}
	must(t, lease.Release(t.Context()))
}
