package lock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/faults"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	"github.com/redoubt-go/redoubt/lock"
)

// thorough says how many times something is repeated: LOCK_FAULTS=full runs the
// tests in this file as often as the documents say.
func thorough(full, short int) int {
	if os.Getenv("LOCK_FAULTS") == "full" {
		return full
	}
	return short
}

// The holder is cut off in either direction, or both, at any moment between its
// renewals. Its lease must be over before anybody else can get the lock, with a
// cause that says why, and what was held back and arrives then touches nobody's.
//
// rueidislock counts the deadline of a renewal from now, not from the last one
// that was confirmed: two hold the lock for 1.4 s.
//
// Promise: The client treats a lease as expired before the server does, and
// Done, Err and the Context say so at the local deadline.
//
// Promise: The promises about deadlines, lost replies, wake-ups and late
// acquires hold for every kind of lock; semaphores and readers remember the
// last 128 ended acquisitions.
func TestLeaseEndsWhenServerIsUnreachable(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		var trials, doubles atomic.Int64
		var wg sync.WaitGroup
		names := slices.Sorted(maps.Keys(kinds))
		const lanes = 40 // trials at a time
		for lane := range lanes {
			proxy := faultnet.New(t, e.Addr)
			rng := rand.New(rand.NewPCG(uint64(lane), 0))
			holder, _ := kinds[names[lane%len(names)]](e, e.ClientAt(proxy.Addr()), lock.Options{TTL: 300 * time.Millisecond})
			_, rival := kinds[names[lane%len(names)]](e, e.newClient(), lock.Options{})
			wg.Go(func() {
				for i := range thorough(1000, lanes) / lanes {
					double, err := blackhole(t.Context(), rng, proxy, holder, rival, fmt.Sprint(t.Name(), lane, "-", i))
					if err != nil {
						t.Errorf("%s: %v", names[lane%len(names)], err)
						return
					}
					trials.Add(1)
					if double {
						doubles.Add(1)
					}
				}
			})
		}
		wg.Wait()
		t.Logf("%d trials, %d double holds", trials.Load(), doubles.Load())
		if doubles.Load() != 0 {
			t.Errorf("%d double holds in %d trials", doubles.Load(), trials.Load())
		}
	})
}

// blackhole is one trial: it cuts holder off while it holds name, and tells
// whether its lease was valid when rival got the lock.
func blackhole(ctx context.Context, rng *rand.Rand, proxy *faultnet.Proxy, holder, rival taker, name string) (double bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	lease, err := holder.Acquire(ctx, name)
	if err != nil {
		return false, err
	}
	held := lease.Context(ctx)
	pause(upTo(rng, 300*time.Millisecond), lease.Done())
	proxy.Blackhole([]faultnet.Direction{faultnet.ToServer, faultnet.ToClient, faultnet.Both}[rng.IntN(3)])
	defer proxy.Heal()
	next, err := rival.Acquire(ctx, name)
	if err != nil {
		return false, err
	}
	double = lease.Err() == nil || held.Err() == nil
	<-held.Done()
	if !errors.Is(lease.Err(), lock.ErrNotHeld) || !errors.Is(context.Cause(held), lock.ErrNotHeld) {
		err = fmt.Errorf("the lease ended by %w, and its context by %w", lease.Err(), context.Cause(held))
	}
	if next.Token() < lease.Token() {
		err = errors.Join(err, fmt.Errorf("token %d after %d", next.Token(), lease.Token()))
	}
	proxy.Heal()
	return double, errors.Join(err, next.Extend(ctx, time.Minute), next.Release(ctx))
}

// Crowds of callers on every kind of deployment.
//
// Promise: The promises about deadlines, lost replies, wake-ups and late
// acquires hold for every kind of lock; semaphores and readers remember the
// last 128 ended acquisitions.
func TestCrowds(t *testing.T) {
	slow.Test(t, "a thousand waiters of each kind on each back end")
	for _, kind := range []faults.Kind{faults.Engine, faults.Redis, faults.Cluster} {
		t.Run(string(kind), func(t *testing.T) {
			d := faults.Start(t, kind)
			t.Run("cancelled", func(t *testing.T) { cancelledWaitsLeaveNothing(t, d) })
			t.Run("waiters", func(t *testing.T) { thousandWaiters(t, d, lock.Options{TTL: time.Minute, NoRenew: true}) })
			t.Run("fair waiters", func(t *testing.T) {
				thousandWaiters(t, d, lock.Options{TTL: time.Minute, NoRenew: true, Fair: true})
			})
			t.Run("locks", func(t *testing.T) { locksLeaveNoChannel(t, d) })
		})
	}
}

// dialled returns a client of d, with its own connections.
func dialled(t *testing.T, d *faults.Deployment) *redoubt.Client {
	t.Helper()
	rdb, err := faults.Join(d.Invitation())
	must(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	if cluster, ok := rdb.(*redis.ClusterClient); ok { // it knows all nodes from now on
		must(t, cluster.ForEachShard(t.Context(), func(ctx context.Context, node *redis.Client) error { return node.Ping(ctx).Err() }))
	}
	conn := clienttest.Wrap(t, rdb)
	return clienttest.New(t, conn, "")
}

// channels are all channels with a listener.
func channels(t *testing.T, d *faults.Deployment) []string {
	t.Helper()
	list := d.Texts(t, "PUBSUB", "CHANNELS")
	if d.Kind == faults.Cluster {
		list = append(list, d.Texts(t, "PUBSUB", "SHARDCHANNELS")...)
	}
	return slices.DeleteFunc(list, func(c string) bool { return strings.HasPrefix(c, "__redis__") })
}

// inboxes is how many channels a client keeps open: one, but on a cluster one for
// each name for as long as somebody waits.
func inboxes(d *faults.Deployment, clients int) int {
	if d.Kind == faults.Cluster {
		return 0
	}
	return clients
}

// Thousands give up waiting, each after a moment. No key, no channel, no place in
// a queue and no goroutine is left of them.
//
// redsync cleans up with the caller's ctx, which has ended: the key stays.
func cancelledWaitsLeaveNothing(t *testing.T, d *faults.Deployment) {
	t.Helper()
	holder, waiter := dialled(t, d), dialled(t, d)
	for kind, contest := range contests {
		t.Run(kind, func(t *testing.T) {
			name := "cancelled " + kind
			take, err := contest.ways(holder, lock.Options{})
			must(t, err)
			wait, err := contest.ways(waiter, lock.Options{})
			must(t, err)
			var leases []*lock.Lease
			for {
				lease, busy, err := take[0].TryAcquire(t.Context(), name)
				must(t, err)
				if busy != nil {
					break
				}
				leases = append(leases, lease)
			}
			cancelled(t, 100, func(ctx context.Context, i int) error { _, err := wait[i%2].Acquire(ctx, name); return err })
			keys := d.Texts(t, "KEYS", "rd:*")
			before := runtime.NumGoroutine()

			cancelled(t, thorough(10_000, 1000), func(ctx context.Context, i int) error { _, err := wait[i%2].Acquire(ctx, name); return err })
			eventually(t, "nobody is queued", func() bool {
				for _, key := range d.Texts(t, "KEYS", "rd:*") {
					if strings.HasSuffix(key, ":lock") || strings.HasSuffix(key, ":sem") {
						if slices.ContainsFunc(fieldsOf(t, waiter, key), func(f string) bool { return strings.Contains(f, "PUBLISH") || f == "claim" }) {
							return false
						}
					}
				}
				return true
			})
			eventually(t, "no channel is left", func() bool { return len(channels(t, d)) <= inboxes(d, 2) })
			for _, l := range leases {
				must(t, l.Release(t.Context()))
			}
			lease, err := wait[0].Acquire(t.Context(), name)
			must(t, err)
			must(t, lease.Release(t.Context()))
			var left []string
			eventually(t, "no key is left but of what was there before", func() bool { // an acquire may arrive, and be undone, after its caller has gone
				left = d.Texts(t, "KEYS", "rd:*")
				return !slices.ContainsFunc(left, func(key string) bool {
					return !slices.Contains(keys, key) && !strings.HasSuffix(key, ":permits") && !strings.HasSuffix(key, ":readers")
				})
			})
			for _, key := range left {
				lives, err := waiter.Do(t.Context(), redoubt.Cmd{Name: "PTTL", Keys: []string{key}, Flags: redoubt.ReadOnly}).Int()
				must(t, err)
				if lives == -1 || lives > (lock.DefaultTTL+61*time.Second).Milliseconds() {
					t.Errorf("%s lives for another %d ms", key, lives)
				}
			}
			eventually(t, "no goroutine is left", func() bool {
				stacks := make([]byte, 1<<22)
				return !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("redoubt/lock.(")) &&
					runtime.NumGoroutine() < before+30 // connections that were not open yet have some
			})
		})
	}
}

func fieldsOf(t *testing.T, c *redoubt.Client, key string) (fields []string) {
	t.Helper()
	a, err := c.Do(t.Context(), redoubt.Cmd{Name: "HKEYS", Keys: []string{key}, Flags: redoubt.ReadOnly}).Array()
	must(t, err)
	for _, f := range a {
		fields = append(fields, fmt.Sprint(f))
	}
	return fields
}

// cancelled calls wait n times, a hundred at once, with contexts that end after 0
// to 20 ms.
func cancelled(t *testing.T, n int, wait func(ctx context.Context, i int) error) {
	t.Helper()
	var wg sync.WaitGroup
	for g := range 100 {
		wg.Go(func() {
			for i := g; i < n; i += 100 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%20)*time.Millisecond)
				if err := wait(ctx, i/100); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("a wait that is cancelled returned %v", err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
}

// A thousand wait for one lock, in many processes: each gets it, for at most three
// commands on the server.
//
// rueidislock sends an acquire for each that waits, at each release.
func thousandWaiters(t *testing.T, d *faults.Deployment, opts lock.Options) {
	t.Helper()
	name := fmt.Sprint("wanted by many, fair: ", opts.Fair)
	const clients, each = 50, 20
	m := func(c *redoubt.Client) *lock.Mutex {
		m, err := lock.New(c, opts)
		must(t, err)
		return m
	}
	holder := m(dialled(t, d))
	lease := try(t, holder, name)
	var wg sync.WaitGroup
	var inside, served atomic.Int64
	for range clients {
		m := m(dialled(t, d))
		for range each {
			wg.Go(func() {
				err := m.Do(t.Context(), name, func(context.Context) error {
					if inside.Add(1) != 1 {
						t.Error("two hold the lock")
					}
					served.Add(1)
					inside.Add(-1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	eventually(t, "all wait", func() bool {
		info, err := holder.Info(t.Context(), name)
		return err == nil && (info.Waiters == clients || info.Waiters == clients*each) // fair ones each for itself
	})
	before, began := scriptsRun(t, d), time.Now()
	must(t, lease.Release(t.Context()))
	wg.Wait()
	took, n := time.Since(began), scriptsRun(t, d)-before
	t.Logf("%d waiters in %d processes: %v, %d commands", served.Load(), clients, took, n)
	if served.Load() != clients*each {
		t.Errorf("%d of %d had the lock", served.Load(), clients*each)
	}
	if n > 3*clients*each && d.Kind != faults.Engine { // which doesn't count
		t.Errorf("%d commands for %d hand-overs", n, clients*each)
	}
	if took > 30*time.Second {
		t.Errorf("it took %v: somebody was not woken", took)
	}
}

// scriptsRun is how many scripts the servers have run: all that a lock sends.
func scriptsRun(t *testing.T, d *faults.Deployment) (n int64) {
	t.Helper()
	for _, line := range d.Texts(t, "INFO", "commandstats") {
		for stat := range strings.FieldsSeq(line) {
			if rest, ok := strings.CutPrefix(stat, "cmdstat_eval"); ok {
				_, rest, _ = strings.Cut(rest, "calls=")
				calls, _, _ := strings.Cut(rest, ",")
				some, err := strconv.ParseInt(calls, 10, 64)
				must(t, err)
				n += some
			}
		}
	}
	if n == 0 && d.Kind != faults.Engine {
		t.Fatal("the server counts no scripts")
	}
	return n
}

// One process waits for thousands of locks at once, over one subscription, or one
// for each node of a cluster; no channel is left behind.
//
// Redisson had a subscription for each, ran out of them, and left channels.
func locksLeaveNoChannel(t *testing.T, d *faults.Deployment) {
	t.Helper()
	n := thorough(5000, 300)
	a, err := lock.New(dialled(t, d), lock.Options{TTL: time.Minute, NoRenew: true})
	must(t, err)
	b, err := lock.New(dialled(t, d), lock.Options{TTL: time.Minute, NoRenew: true})
	must(t, err)
	var wg sync.WaitGroup
	leases := make([]*lock.Lease, n)
	for i := range leases {
		leases[i] = try(t, a, fmt.Sprint("many", i))
		wg.Go(func() {
			if err := b.Do(t.Context(), fmt.Sprint("many", i), func(context.Context) error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "it waits for the last", func() bool {
		for i := range leases {
			if info, err := a.Info(t.Context(), fmt.Sprint("many", i)); err != nil || info.Waiters != 1 {
				return false
			}
		}
		return true
	})
	if got := len(channels(t, d)); d.Kind != faults.Cluster && got != 1 {
		t.Errorf("%d channels for one client that waits, want 1", got)
	}
	released := time.Now()
	for _, l := range leases {
		must(t, l.Release(t.Context()))
	}
	wg.Wait()
	took := time.Since(released)
	t.Logf("%d locks: %v", n, took)
	if took > 20*time.Second { // a waiter that isn't woken asks again after 30 s
		t.Errorf("all had their lock after %v: somebody was not woken", took)
	}
	eventually(t, "no channel is left", func() bool { return len(channels(t, d)) == inboxes(d, 1) })
}

// A hundred callers try at once. Each permit goes to one caller, and each lease has its own ID.
//
// go-redislock and goRedisson name owners by the second or the goroutine,
// which may be the same in another process; go-zero uses a seeded generator.
func TestAHundredTriesAtOnce(t *testing.T) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		e := &env{testenv.New(t, b)}
		for kind, room := range map[string]int64{"mutex": 1, "fair": 1, "rw": 1, "semaphore": historyLimit, "multi": 1} {
			var got atomic.Int64
			var ids sync.Map
			var wg sync.WaitGroup
			for range 10 {
				ways, err := contests[kind].ways(e.newClient(), lock.Options{})
				must(t, err)
				for range 10 {
					wg.Go(func() {
						lease, _, err := ways[0].TryAcquire(t.Context(), kind)
						if err != nil {
							t.Error(err)
						} else if lease != nil {
							got.Add(1)
							if _, again := ids.LoadOrStore(lease.ID(), true); again {
								t.Errorf("the id %s twice", lease.ID())
							}
						}
					})
				}
			}
			wg.Wait()
			// Tries for several names may all be in each other's way.
			if n := got.Load(); n != room && (kind != "multi" || n != 0) {
				t.Errorf("%s: %d got a lease, want %d", kind, got.Load(), room)
			}
		}
	})
}
