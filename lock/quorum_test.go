package lock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/embedded"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
	"github.com/redoubt-go/redoubt/lock"
)

// masters are independent servers, each behind a proxy.
type masters struct {
	t       *testing.T
	servers []*redistest.Server // nil for engines
	proxies []*faultnet.Proxy
	rdbs    []*redis.Client // not by the proxies
}

func startMasters(t *testing.T, kind string, n int) *masters {
	t.Helper()
	m := &masters{t: t}
	for range n {
		var addr string
		if kind == "redis" {
			s := redistest.Start(t)
			m.servers = append(m.servers, s)
			addr = s.Addr()
		} else {
			s, err := embedded.Start()
			must(t, err)
			t.Cleanup(func() { _ = s.Close() })
			addr = s.Addr()
		}
		m.proxies = append(m.proxies, faultnet.New(t, addr))
		rdb := clienttest.Dial(t, addr)
		m.rdbs = append(m.rdbs, rdb)
	}
	return m
}

func eachMasters(t *testing.T, n int, run func(t *testing.T, m *masters)) {
	for _, kind := range []string{"redis", "engine"} {
		t.Run(fmt.Sprint(kind, n), func(t *testing.T) { run(t, startMasters(t, kind, n)) })
	}
}

func newQuorum(t *testing.T, conns []redoubt.Conn, opts lock.Options) *lock.Quorum {
	t.Helper()
	var clients []*redoubt.Client
	for _, conn := range conns {
		client := clienttest.New(t, conn, "")
		clients = append(clients, client)
	}
	q, err := lock.NewQuorum(clients, optionsOf[lock.QuorumOptions](opts))
	must(t, err)
	return q
}

// quorum returns one with clients of its own: by the proxies, or directly.
func (m *masters) quorum(proxied bool, opts lock.Options) *lock.Quorum {
	m.t.Helper()
	var conns []redoubt.Conn
	for i, p := range m.proxies {
		addr := m.rdbs[i].Options().Addr
		if proxied {
			addr = p.Addr()
		}
		rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialTimeout: time.Second, ReadTimeout: time.Second})
		clienttest.Watch(m.t, rdb)
		m.t.Cleanup(func() { _ = rdb.Close() })
		conn, err := goredis.Wrap(rdb)
		must(m.t, err)
		conns = append(conns, conn)
	}
	return newQuorum(m.t, conns, opts)
}

// holding is how many masters have the lease.
func (m *masters) holding(lease *lock.Lease) (n int) {
	for _, rdb := range m.rdbs {
		v, err := rdb.HMGet(context.Background(), "rd:{"+lease.Name()+"}:lock", "id", "until", "fence").Result()
		if err == nil && v[0] == lease.ID() && v[1] != "0" && v[2].(string) >= fmt.Sprint(lease.Token()) {
			n++
		}
	}
	return n
}

// For every subset of the masters: with it out of reach the lock is acquired if a
// majority is left, and otherwise nothing of the attempt stays. A lost master
// is taken when it is back.
//
// Promise: A lease of a Quorum lasts while a majority of the masters is
// reachable, whatever happens to the others and their clocks, and no two are
// valid at a time; masters that return hold it again.
func TestQuorumWithEverySubset(t *testing.T) {
	slow.Test(t, "for every subset of the masters it waits for connections that are cut off")
	for _, n := range []int{1, 3, 5} {
		eachMasters(t, n, func(t *testing.T, m *masters) {
			for subset := range 1 << n {
				if n == 5 && subset%3 > 0 && os.Getenv("LOCK_FAULTS") != "full" {
					continue // for time: every third
				}
				t.Run(fmt.Sprintf("%0*b", n, subset), func(t *testing.T) {
					t.Parallel()
					m.behindProxies(t).acquireWithout(subset)
				})
			}
		})
	}
}

// behindProxies returns the same masters behind proxies of their own.
func (m *masters) behindProxies(t *testing.T) *masters {
	own := &masters{t: t, servers: m.servers, rdbs: m.rdbs}
	for _, rdb := range m.rdbs {
		own.proxies = append(own.proxies, faultnet.New(t, rdb.Options().Addr))
	}
	return own
}

func (m *masters) acquireWithout(subset int) {
	t, name, n, away := m.t, m.t.Name(), len(m.proxies), 0
	q, other := m.quorum(true, lock.Options{TTL: 10 * time.Second}), m.quorum(false, lock.Options{})
	must(t, try(t, q, name+"before").Release(t.Context())) // all are connected
	for i, p := range m.proxies {
		if subset>>i&1 == 1 {
			p.Blackhole(faultnet.Both)
			away++
		}
	}
	lease, busy, err := q.TryAcquire(t.Context(), name)
	for i, p := range m.proxies {
		if subset>>i&1 == 1 {
			p.Cut() // what it held is lost
			p.Heal()
		}
	}
	if n-away <= n/2 {
		if !errors.Is(err, lock.ErrNoMajority) {
			t.Fatalf("%d of %d are away: %v, %v, %v", away, n, lease, busy, err)
		}
		must(t, try(t, other, name).Release(t.Context()))
		return
	}
	must(t, err)
	if lease == nil {
		t.Fatalf("%d of %d are away: busy %+v", away, n, busy)
	}
	if lease.Name() != name || lease.Tokens()[name] != lease.Token() {
		t.Errorf("the lease on %q has tokens %v", lease.Name(), lease.Tokens())
	}
	busyFor(t, other, name)
	eventually(t, "all masters have the lease", func() bool { return m.holding(lease) == n })
	must(t, lease.Release(t.Context()))
	must(t, lease.Release(t.Context()))
	eventually(t, "no master has it", func() bool { return m.holding(lease) == 0 })
	next := try(t, other, name)
	if next.Token() <= lease.Token() {
		t.Errorf("token %d after %d", next.Token(), lease.Token())
	}
	must(t, next.Release(t.Context()))
}

// While the lock is held one master after the other dies, comes back empty, is
// stopped, or is cut off in either direction. The lease goes on, nobody else gets
// one, and in the end all masters have it.
//
// Promise: A lease of a Quorum lasts while a majority of the masters is
// reachable, whatever happens to the others and their clocks, and no two are
// valid at a time; masters that return hold it again.
func TestQuorumOutlivesAMaster(t *testing.T) {
	const ttl = 6 * time.Second
	eachMasters(t, 3, func(t *testing.T, m *masters) {
		t.Parallel()
		q, other := m.quorum(true, lock.Options{TTL: ttl}), m.quorum(false, lock.Options{TTL: ttl})
		type fault struct{ begin, end func() }
		p := m.proxies[1]
		faults := map[string]fault{}
		if m.servers != nil {
			faults["stopped"] = fault{m.servers[1].Pause, m.servers[1].Resume}
			faults["killed"] = fault{m.servers[1].Kill, m.servers[1].Restart} // and empty
		} else {
			faults["emptied"] = fault{func() { must(t, m.rdbs[1].FlushAll(t.Context()).Err()) }, func() {}}
			for name, d := range map[string]faultnet.Direction{"to the server": faultnet.ToServer, "to the client": faultnet.ToClient, "both": faultnet.Both} {
				faults[name] = fault{func() { p.Blackhole(d) }, p.Heal}
			}
		}
		for name, f := range faults {
			lease := try(t, q, name)
			eventually(t, "all masters have it", func() bool { return m.holding(lease) == 3 })
			f.begin()
			for began := time.Now(); time.Since(began) < ttl*5/4; {
				if next, _, _ := other.TryAcquire(t.Context(), name); next != nil {
					t.Fatalf("%s: another acquired it", name)
				}
				if err := lease.Err(); err != nil {
					t.Fatalf("%s: the lease is lost: %v", name, err)
				}
				pause(ttl/20, t.Context().Done())
			}
			must(t, lease.Extend(t.Context(), 2*ttl))
			f.end()
			eventually(t, name+": all masters have it again", func() bool { return m.holding(lease) == 3 })
			must(t, lease.Err())
			must(t, lease.Release(t.Context()))
			next := try(t, q, name)
			if next.Token() <= lease.Token() {
				t.Errorf("%s: token %d after %d", name, next.Token(), lease.Token())
			}
			must(t, next.Release(t.Context()))
		}
	})
}

// A majority is cut off: the lease is over here before another can have the lock,
// and it stays over when they are back.
//
// Promise: A lease of a Quorum lasts while a majority of the masters is
// reachable, whatever happens to the others and their clocks, and no two are
// valid at a time; masters that return hold it again.
func TestQuorumWithoutMajority(t *testing.T) {
	t.Parallel()
	eachMasters(t, 3, func(t *testing.T, m *masters) {
		t.Parallel()
		q, other := m.quorum(true, lock.Options{TTL: 3 * time.Second}), m.quorum(false, lock.Options{})
		for name, d := range map[string]faultnet.Direction{"to the server": faultnet.ToServer, "to the client": faultnet.ToClient, "both": faultnet.Both} {
			var lease *lock.Lease
			eventually(t, "a majority answers in time", func() bool { // a second, by the TTL
				lease, _, _ = q.TryAcquire(t.Context(), name)
				return lease != nil
			})
			ctx := lease.Context(t.Context())
			m.proxies[0].Blackhole(d)
			m.proxies[2].Blackhole(d)
			next, err := other.Acquire(t.Context(), name)
			must(t, err)
			if lease.Err() == nil || !errors.Is(context.Cause(ctx), lock.ErrRanOut) {
				t.Errorf("%s: two leases at once: %v, %v", name, lease.Err(), context.Cause(ctx))
			}
			m.proxies[0].Heal()
			m.proxies[2].Heal()
			if err := lease.Extend(t.Context(), time.Hour); !errors.Is(err, lock.ErrNotHeld) {
				t.Errorf("%s: Extend of the old lease returned %v", name, err)
			}
			if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrNotHeld) {
				t.Errorf("%s: Release of the old lease returned %v", name, err)
			}
			must(t, next.Extend(t.Context(), time.Minute))
			must(t, next.Release(t.Context()))
			if next.Token() <= lease.Token() {
				t.Errorf("%s: token %d after %d", name, next.Token(), lease.Token())
			}
		}
	})
}

// Two of three masters forget the lease: it is over when the renewals find out, and
// others may have had the lock until then. Its holder takes back what is free.
//
// Promise: A lease of a Quorum ends when a majority of the masters has lost
// it, and lasts when a minority has.
func TestQuorumTakenAway(t *testing.T) {
	eachMasters(t, 3, func(t *testing.T, m *masters) {
		q, other := m.quorum(true, lock.Options{NoRenew: true}), m.quorum(false, lock.Options{})
		lease := try(t, q, "lock")
		eventually(t, "all masters have it", func() bool { return m.holding(lease) == 3 })
		var next *lock.Lease
		eventually(t, "another has it", func() bool {
			for _, rdb := range m.rdbs[:2] { // again if the holder was still confirming
				must(t, rdb.FlushAll(t.Context()).Err())
			}
			var err error
			next, _, err = other.TryAcquire(t.Context(), "lock")
			must(t, err)
			return next != nil
		})
		if err := lease.Extend(t.Context(), time.Minute); !errors.Is(err, lock.ErrTaken) {
			t.Errorf("Extend returned %v", err)
		}
		if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("Release returned %v", err)
		}
		must(t, next.Extend(t.Context(), time.Minute))
		must(t, next.Release(t.Context()))
	})
}

// Taken away by force on one master after the other: it isn't taken back there, and
// is over when a majority is gone.
//
// Promise: A lease of a Quorum ends when a majority of the masters has lost
// it, and lasts when a minority has.
func TestQuorumTakenAwayByForce(t *testing.T) {
	eachMasters(t, 3, func(t *testing.T, m *masters) {
		lease := try(t, m.quorum(false, lock.Options{TTL: time.Hour, NoRenew: true}), "lock")
		eventually(t, "all masters have it", func() bool { return m.holding(lease) == 3 && lock.Confirmed(lease) == 3 })
		for i, rdb := range m.rdbs[:2] {
			conn := clienttest.Wrap(t, rdb)
			client := clienttest.New(t, conn, "")
			mutex, err := lock.New(client, lock.Options{})
			must(t, err)
			info, err := mutex.Info(t.Context(), "lock")
			must(t, err)
			if released, err := mutex.ForceRelease(t.Context(), "lock", info.Token); !released || err != nil {
				t.Fatalf("master %d: %t, %v", i, released, err)
			}
			switch err := lease.Extend(t.Context(), time.Hour); {
			case i == 0:
				must(t, err)
			case !errors.Is(err, lock.ErrNotHeld):
				t.Errorf("without %d masters Extend returned %v", i+1, err)
			}
			eventually(t, "it is not taken back", func() bool { return i == 0 && m.holding(lease) == 2 || i == 1 && m.holding(lease) <= 1 })
		}
		must(t, try(t, m.quorum(false, lock.Options{}), "lock").Release(t.Context()))
	})
}

// An attempt whose outcome nobody learnt, on a majority or less, is undone.
//
// Promise: A cancelled attempt of a Quorum leaves nothing on the masters,
// callers that try at the same time all get their turn, and a waiter sends
// nothing while it waits for a holder.
func TestQuorumUndoesUnknownOutcomes(t *testing.T) {
	eachMasters(t, 3, func(t *testing.T, m *masters) {
		q, other := m.quorum(true, lock.Options{TTL: time.Hour}), m.quorum(false, lock.Options{})
		must(t, try(t, q, "lock").Release(t.Context())) // the scripts are loaded
		for _, p := range m.proxies[:2] {
			p.Blackhole(faultnet.ToClient)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := q.Acquire(ctx, "lock"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acquire returned %v", err)
		}
		for _, p := range m.proxies[:2] {
			p.Heal()
		}
		eventually(t, "it is free", func() bool {
			lease, _, err := other.TryAcquire(t.Context(), "lock")
			return err == nil && lease != nil && lease.Release(t.Context()) == nil
		})
		for _, p := range m.proxies {
			p.SwallowNextReply()
		}
		lease := try(t, q, "lock")
		for _, p := range m.proxies {
			p.SwallowNextReply()
		}
		must(t, lease.Extend(t.Context(), 2*time.Hour))
		for _, p := range m.proxies {
			p.SwallowNextReply()
		}
		must(t, lease.Release(t.Context()))
		must(t, try(t, other, "lock").Release(t.Context()))
	})
}

func TestQuorumOptions(t *testing.T) {
	_, conns, _ := clocks(t, 1)
	client := clienttest.New(t, conns[0], "")
	for what, clients := range map[string][]*redoubt.Client{
		"0 clients": nil, "16 clients": make([]*redoubt.Client, 16), "is nil": {client, nil}, "given twice": {client, client},
	} {
		if _, err := lock.NewQuorum(clients, lock.QuorumOptions{}); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("want an error with %q, got %v", what, err)
		}
	}
	for _, ttl := range []time.Duration{-1, time.Microsecond, 366 * 24 * time.Hour} {
		if _, err := lock.NewQuorum([]*redoubt.Client{client}, lock.QuorumOptions{TTL: ttl}); err == nil {
			t.Errorf("a TTL of %v is accepted", ttl)
		}
	}
}
