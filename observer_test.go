//go:build !quick

package redoubt_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/cache"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/queue"
	"github.com/redoubt-go/redoubt/ratelimit"
)

var must = expect.Must

// A seen is a call that a recorder saw from its start to its end.
type seen struct {
	redoubt.Call
	err error
}

// A recorder is an Observer that keeps what it sees.
type recorder struct {
	mu     sync.Mutex
	begun  int
	calls  []seen // that have ended
	events []redoubt.Event
}

func (r *recorder) observer() redoubt.Observer {
	return redoubt.Observer{
		OnCall: func(ctx context.Context, c redoubt.Call) (context.Context, func(error)) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.begun++
			return ctx, func(err error) {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.calls = append(r.calls, seen{c, err})
			}
		},
		OnEvent: func(_ context.Context, e redoubt.Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events = append(r.events, e)
		},
	}
}

// ended returns the calls with an operation that have ended.
func (r *recorder) ended(operation string) (calls []seen) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.calls {
		if c.Operation == operation {
			calls = append(calls, c)
		}
	}
	return calls
}

// of returns the events of a kind.
func (r *recorder) of(kind redoubt.EventKind) (events []redoubt.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == kind {
			events = append(events, e)
		}
	}
	return events
}

// one waits for an event of a kind, and fails the test unless it is the only one, of the given primitive
// and name.
func (r *recorder) one(t *testing.T, kind redoubt.EventKind, primitive, name string) redoubt.Event {
	t.Helper()
	await.Soon(t, "event "+string(kind), func() bool { return len(r.of(kind)) > 0 })
	got := r.of(kind)
	if len(got) != 1 || got[0].Primitive != primitive || got[0].Name != name {
		t.Fatalf("events %q: %+v; want one of %s %q", kind, got, primitive, name)
	}
	return got[0]
}

// A failing is a Conn that refuses one script while on is set.
type failing struct {
	redoubt.Conn
	redoubt.Subscriber

	script string
}

var errRefused = errors.New("no route to the server")

func (f *failing) Do(ctx context.Context, c redoubt.Cmd) redoubt.Reply {
	if c.Script != nil && c.Script.Name() == f.script {
		return redoubt.Reply{Err: errRefused}
	}
	return f.Conn.Do(ctx, c)
}

func (f *failing) Pipeline(ctx context.Context, cs []redoubt.Cmd) []redoubt.Reply {
	replies := make([]redoubt.Reply, len(cs))
	for i, c := range cs {
		replies[i] = f.Do(ctx, c)
	}
	return replies
}

// An observed is a back end and a way to it for each client of a test.
type observed struct {
	dial   func(t *testing.T) redoubt.Conn
	prefix string
}

// eachObserved runs a test on Redis, on the engine by its wire, and on the engine in this process.
func eachObserved(t *testing.T, run func(t *testing.T, o observed)) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		run(t, observed{func(t *testing.T) redoubt.Conn { return clienttest.Wrap(t, clienttest.Dial(t, b.Addr)) }, b.Prefix})
	})
	t.Run("in process", func(t *testing.T) {
		e, err := engine.Open(t.Context(), engine.Options{})
		must(t, err)
		t.Cleanup(func() { _ = e.Close() })
		run(t, observed{func(*testing.T) redoubt.Conn { return e }, "t"})
	})
}

// client returns a client, without the script called refused, and what its Observer sees.
func (o observed) client(t *testing.T, refused string) (*redoubt.Client, *recorder) {
	t.Helper()
	r := &recorder{}
	conn := o.dial(t)
	if refused != "" {
		conn = &failing{conn, conn.(redoubt.Subscriber), refused}
	}
	c, err := redoubt.New(conn, redoubt.Options{Prefix: o.prefix, DownAfter: 10 * time.Second, Observer: r.observer()})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c, r
}

// An Observer sees each command and pipeline with its name, size and error, from the start to the end.
func TestObserverSeesCalls(t *testing.T) {
	eachObserved(t, func(t *testing.T, o observed) {
		c, r := o.client(t, "")
		ctx := t.Context()
		key, err := c.Key("n", "x")
		must(t, err)
		set := redoubt.Cmd{Name: "HSET", Keys: []string{key}, Args: []string{"f", "v"}}
		must(t, c.Do(ctx, set).Err)
		get := redoubt.Cmd{Name: "GET", Keys: []string{key}, Flags: redoubt.ReadOnly}
		if err := c.Do(ctx, get).Err; !errors.Is(err, redoubt.ErrWrongType) {
			t.Fatalf("GET of a hash: %v", err)
		}
		c.Pipeline(ctx, []redoubt.Cmd{set, set, set})
		c.Pipeline(ctx, []redoubt.Cmd{set, get})
		must(t, c.Do(ctx, redoubt.Cmd{Name: "BLPOP", Keys: []string{key + "y"}, Args: []string{"0.01"}, Flags: redoubt.Blocking}).Err)
		locks, err := lock.New(c, lock.Options{})
		must(t, err)
		must(t, locks.Do(ctx, "l", func(context.Context) error { return nil }))
		for _, err := range c.Names(ctx, "x", "hash", "*") {
			must(t, err)
		}

		type row struct {
			operation      string
			size           int
			blocking, bad  bool
			script         bool
			errIsWrongType bool
		}
		var got []row
		for _, s := range r.calls {
			if s.Operation != "SCAN" || len(got) == 0 || got[len(got)-1].operation != "SCAN" { // any number of pages
				got = append(got, row{s.Operation, s.Size, s.Blocking, s.err != nil, s.Script != nil, errors.Is(s.err, redoubt.ErrWrongType)})
			}
		}
		want := []row{
			{operation: "HSET", size: 1},
			{operation: "GET", size: 1, bad: true, errIsWrongType: true},
			{operation: "HSET", size: 3},
			{operation: "pipeline", size: 2, bad: true, errIsWrongType: true},
			{operation: "BLPOP", size: 1, blocking: true},
			{operation: "lock.acquire", size: 1, script: true},
			{operation: "lock.release", size: 1, script: true},
			{operation: "SCAN", size: 1},
		}
		if !slices.Equal(got, want) {
			t.Errorf("the Observer saw\n%+v\nwant\n%+v", got, want)
		}
		if r.begun != len(r.calls) {
			t.Errorf("%d calls began and %d ended", r.begun, len(r.calls))
		}
	})
}

// A call runs in the context that OnCall returns, and the ends of joined Observers come in the opposite order.
func TestJoinedObservers(t *testing.T) {
	var order []string
	named := func(name string) redoubt.Observer {
		return redoubt.Observer{
			OnCall: func(ctx context.Context, c redoubt.Call) (context.Context, func(error)) {
				order = append(order, "begin "+name)
				ctx, cancel := context.WithCancel(ctx)
				if c.Operation == "CANCELED" {
					cancel()
				}
				return ctx, func(error) {
					cancel()
					order = append(order, "end "+name)
				}
			},
			OnEvent: func(context.Context, redoubt.Event) { order = append(order, "event "+name) },
		}
	}
	joined := redoubt.JoinObservers(redoubt.Observer{}, named("a"), redoubt.Observer{OnEvent: named("b").OnEvent}, named("c"))
	c, err := redoubt.New(plain{}, redoubt.Options{Observer: joined})
	must(t, err)
	must(t, c.Do(t.Context(), redoubt.Cmd{Name: "PING"}).Err)
	c.Report(t.Context(), redoubt.Event{})
	want := []string{"begin a", "begin c", "end c", "end a", "event a", "event b", "event c"}
	if !slices.Equal(order, want) {
		t.Errorf("the order is %q; want %q", order, want)
	}
	expect.Is(t, c.Do(t.Context(), redoubt.Cmd{Name: "CANCELED"}).Err, context.Canceled)
	expect.Is(t, c.Pipeline(t.Context(), []redoubt.Cmd{{Name: "CANCELED"}})[0].Err, context.Canceled)
}

// Promise: an Observer learns of each lease that is lost after a caller got it, once, and why; of no other.
func TestObserverSeesLostLeases(t *testing.T) {
	eachObserved(t, func(t *testing.T, o observed) {
		ctx := t.Context()
		c, r := o.client(t, "")
		locks, err := lock.New(c, lock.Options{TTL: time.Minute})
		must(t, err)
		short, err := lock.New(c, lock.Options{TTL: 20 * time.Millisecond, NoRenew: true})
		must(t, err)

		lease, err := locks.Acquire(ctx, "released")
		must(t, err)
		must(t, lease.Release(ctx))

		lease, err = locks.Acquire(ctx, "taken")
		must(t, err)
		key, err := c.Key("taken", "lock")
		must(t, err)
		must(t, c.Do(ctx, redoubt.Cmd{Name: "DEL", Keys: []string{key}}).Err)
		expect.Is(t, lease.Extend(ctx, time.Minute), lock.ErrTaken)
		expect.Is(t, lease.Release(ctx), lock.ErrNotHeld)
		expect.Is(t, r.one(t, redoubt.EventLost, "lock", "taken").Err, lock.ErrTaken)

		lease, err = short.Acquire(ctx, "ran out")
		must(t, err)
		<-lease.Done()
		await.Soon(t, "the second event", func() bool { return len(r.of(redoubt.EventLost)) == 2 })
		if e := r.of(redoubt.EventLost)[1]; e.Name != "ran out" || !errors.Is(e.Err, lock.ErrRanOut) {
			t.Errorf("the event is %+v", e)
		}
	})
}

// Promise: an Observer learns of each renewal that failed, and of a lease whose renewals all failed.
func TestObserverSeesFailedRenewals(t *testing.T) {
	eachObserved(t, func(t *testing.T, o observed) {
		ctx := t.Context()
		t.Run("lock", func(t *testing.T) {
			c, r := o.client(t, "lock.extend")
			locks, err := lock.New(c, lock.Options{TTL: 200 * time.Millisecond})
			must(t, err)
			lease, err := locks.Acquire(ctx, "a")
			must(t, err)
			<-lease.Done()
			if failed := r.of(redoubt.EventRenewalFailed); len(failed) == 0 || failed[0].Name != "a" || failed[0].Primitive != "lock" || !errors.Is(failed[0].Err, errRefused) {
				t.Errorf("failed renewals: %+v", failed)
			}
			expect.Is(t, r.one(t, redoubt.EventLost, "lock", "a").Err, lock.ErrRanOut)
		})
		t.Run("ratelimit", func(t *testing.T) {
			c, r := o.client(t, "ratelimit.stay")
			calls, err := ratelimit.NewConcurrency(c, ratelimit.ConcurrencyOptions{Limit: 1, TTL: 300 * time.Millisecond})
			must(t, err)
			_, err = calls.Do(ctx, "b", func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			})
			expect.Is(t, err, ratelimit.ErrCallLost)
			if failed := r.of(redoubt.EventRenewalFailed); len(failed) == 0 || failed[0].Name != "b" || failed[0].Primitive != "ratelimit" || !errors.Is(failed[0].Err, errRefused) {
				t.Errorf("failed renewals: %+v", failed)
			}
			r.one(t, redoubt.EventLost, "ratelimit", "b")
		})
		t.Run("queue", func(t *testing.T) {
			c, r := o.client(t, "queue.extend")
			q, err := queue.New[string](c, queue.Options{Lease: 3 * time.Second})
			must(t, err)
			_, err = q.Put(ctx, "c", "v")
			must(t, err)
			_, err = q.Work(ctx, "c", func(context.Context, *queue.Delivery[string]) error {
				await.Soon(t, "a failed renewal", func() bool { return len(r.of(redoubt.EventRenewalFailed)) > 0 })
				return nil
			}, queue.RunOptions{})
			must(t, err)
			if failed := r.of(redoubt.EventRenewalFailed); len(failed) == 0 || failed[0].Name != "c" || failed[0].Primitive != "queue" || !errors.Is(failed[0].Err, errRefused) {
				t.Errorf("failed renewals: %+v", failed)
			}
		})
	})
}

// An Observer learns how long callers waited, and whether they got what they waited for.
func TestObserverSeesWaits(t *testing.T) {
	eachObserved(t, func(t *testing.T, o observed) {
		holder, _ := o.client(t, "")
		// calls is how many calls put a waiter into the queue: a plain one tries first.
		for name, calls := range map[string]int{"plain": 2, "fair": 1} {
			script := map[string]string{"plain": "lock.acquire", "fair": "lock.fair"}[name]
			t.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				c, r := o.client(t, "")
				locks, err := lock.New(c, lock.Options{Fair: name == "fair"})
				must(t, err)
				held, err := lock.New(holder, lock.Options{Fair: name == "fair", TTL: time.Minute})
				must(t, err)
				must(t, locks.Do(ctx, name, func(context.Context) error { return nil })) // free: no wait
				lease, err := held.Acquire(ctx, name)
				must(t, err)
				tries := len(r.ended(script))
				got := make(chan error)
				go func() {
					l, err := locks.Acquire(ctx, name)
					if err == nil {
						err = l.Release(ctx)
					}
					got <- err
				}()
				await.Soon(t, "it waits", func() bool { return len(r.ended(script)) >= tries+calls })
				must(t, lease.Release(ctx))
				must(t, <-got)
				waited, handOver := r.one(t, redoubt.EventWaited, "lock", name), r.one(t, redoubt.EventHandOver, "lock", name)
				if waited.Err != nil || handOver.Err != nil || handOver.Took <= 0 || waited.Took <= handOver.Took {
					t.Errorf("the events are %+v and %+v", waited, handOver)
				}

				_, err = held.Acquire(ctx, name)
				must(t, err)
				tries = len(r.ended(script))
				go func() {
					_, err := locks.Acquire(ctx, name)
					got <- err
				}()
				await.Soon(t, "it waits again", func() bool { return len(r.ended(script)) >= tries+calls })
				cancel()
				expect.Is(t, <-got, context.Canceled)
				if all := r.of(redoubt.EventWaited); len(all) != 2 || !errors.Is(all[1].Err, context.Canceled) || len(r.of(redoubt.EventHandOver)) != 1 {
					t.Errorf("after a wait without success the waits are %+v, and %d leases were handed over", all, len(r.of(redoubt.EventHandOver)))
				}
			})
		}
		t.Run("latch", func(t *testing.T) {
			c, r := o.client(t, "")
			latches, err := lock.NewLatch(c, lock.LatchOptions{})
			must(t, err)
			_, err = latches.Set(t.Context(), "latch", 1)
			must(t, err)
			got := make(chan error)
			go func() { got <- latches.Wait(t.Context(), "latch") }()
			await.Soon(t, "it waits", func() bool { return len(r.ended("lock.latch_wait")) > 0 })
			_, err = latches.CountDown(t.Context(), "latch", "m")
			must(t, err)
			must(t, <-got)
			if e := r.one(t, redoubt.EventWaited, "lock", "latch"); e.Err != nil || e.Took <= 0 {
				t.Errorf("the event is %+v", e)
			}
		})
		t.Run("ratelimit", func(t *testing.T) {
			c, r := o.client(t, "")
			limits, err := ratelimit.New(c, ratelimit.Options{Limit: ratelimit.Limit{Rate: 1, Period: 20 * time.Millisecond, Burst: 1}})
			must(t, err)
			for len(r.of(redoubt.EventWaited)) == 0 { // the second call waits, unless the machine is slow
				must(t, limits.Wait(t.Context(), "api"))
			}
			if e := r.one(t, redoubt.EventWaited, "ratelimit", "api"); e.Err != nil || e.Took <= 0 {
				t.Errorf("the event is %+v", e)
			}
		})
	})
}

// An Observer gets the events of queues and caches, with the ID of the message or the key.
func TestObserverSeesEventsOfPrimitives(t *testing.T) {
	eachObserved(t, func(t *testing.T, o observed) {
		ctx := t.Context()
		c, r := o.client(t, "")
		own := 0
		q, err := queue.New[string](c, queue.Options{Attempts: 1, OnEvent: func(context.Context, queue.Event) { own++ }})
		must(t, err)
		_, err = q.PutRequest(ctx, "mails", queue.Request[string]{ID: "m-1", Value: "x"})
		must(t, err)
		n, err := q.Work(ctx, "mails", func(context.Context, *queue.Delivery[string]) error { return errRefused }, queue.RunOptions{})
		if err != nil || n != 1 {
			t.Fatalf("Work: %d, %v", n, err)
		}
		if e := r.one(t, "started", "queue", "mails"); e.ID != "m-1" {
			t.Errorf("the event is %+v", e)
		}
		if e := r.one(t, redoubt.EventDied, "queue", "mails"); e.ID != "m-1" || !errors.Is(e.Err, errRefused) {
			t.Errorf("the event is %+v", e)
		}
		if own != 2 {
			t.Errorf("OnEvent of the queue got %d events; want 2", own)
		}

		users, err := cache.New(c, cache.Options[int, string]{Name: "users", TTL: time.Hour, NoEarlyRefresh: true})
		must(t, err)
		t.Cleanup(func() { _ = users.Close() })
		for range 2 {
			_, _, err := users.Get(ctx, 7, func(context.Context, int) (string, bool, error) { return "Ann", true, nil })
			must(t, err)
		}
		for _, kind := range []redoubt.EventKind{"loaded", "hit"} {
			if e := r.one(t, kind, "cache", "users"); e.ID != "7" {
				t.Errorf("the event is %+v", e)
			}
		}
	})
}

// An error is one of a few words, whatever its text.
func TestErrorLabel(t *testing.T) {
	for want, err := range map[string]error{
		"":                nil,
		"WRONGTYPE":       fmt.Errorf("queue: %w", redoubt.ServerError("WRONGTYPE Operation against a key")),
		"ERR":             redoubt.ServerError("user 7 is unknown"),
		"unavailable":     redoubt.UnknownOutcome(&redoubt.UnavailableError{Last: context.DeadlineExceeded}),
		"canceled":        redoubt.UnknownOutcome(context.Canceled),
		"deadline":        context.DeadlineExceeded,
		"closed":          redoubt.ErrClosed,
		"unknown outcome": redoubt.UnknownOutcome(errRefused),
		"other":           errRefused,
	} {
		if got := redoubt.ErrorLabel(err); got != want {
			t.Errorf("ErrorLabel(%v) is %q; want %q", err, got, want)
		}
	}
}

// A plain is a Conn that answers at once, in this process.
type plain struct{}

func (plain) InProcess()      {}
func (plain) Pipelines() bool { return true }
func (plain) Do(ctx context.Context, _ redoubt.Cmd) redoubt.Reply {
	return redoubt.Reply{Err: ctx.Err()}
}

func (plain) Pipeline(ctx context.Context, cs []redoubt.Cmd) []redoubt.Reply {
	replies := make([]redoubt.Reply, len(cs))
	for i := range replies {
		replies[i].Err = ctx.Err()
	}
	return replies
}

// A merged is a plain whose calls the Client merges.
type merged struct{ plain }

func (merged) Pipelines() bool { return false }

// Promise: without an Observer, and with one that sees only events, a call allocates nothing for it.
func TestUnsetObserverCostsNothing(t *testing.T) {
	for name, conn := range map[string]redoubt.Conn{"direct": plain{}, "merged": merged{}} {
		for _, observer := range []redoubt.Observer{{}, {OnEvent: func(context.Context, redoubt.Event) {}}} {
			c, err := redoubt.New(conn, redoubt.Options{Observer: observer})
			must(t, err)
			ctx, keys := t.Context(), []string{"k"}
			if n := testing.AllocsPerRun(1000, func() {
				c.Do(ctx, redoubt.Cmd{Name: "GET", Keys: keys})
				c.Report(ctx, redoubt.Event{Kind: redoubt.EventWaited, Primitive: "lock", Name: "n"})
			}); n != 0 {
				t.Errorf("%s: a call allocates %v times", name, n)
			}
		}
	}
}

func BenchmarkObserver(b *testing.B) {
	calls := func(ctx context.Context, _ redoubt.Call) (context.Context, func(error)) {
		began := time.Now()
		return ctx, func(error) { _ = time.Since(began) }
	}
	for name, observer := range map[string]redoubt.Observer{"unset": {}, "calls": {OnCall: calls}} {
		b.Run(name, func(b *testing.B) {
			c, err := redoubt.New(plain{}, redoubt.Options{Observer: observer})
			must(b, err)
			ctx, keys := b.Context(), []string{"k"}
			b.ReportAllocs()
			for b.Loop() {
				c.Do(ctx, redoubt.Cmd{Name: "GET", Keys: keys})
			}
		})
	}
}

// The log of a service has its lost leases and dead messages.
func ExampleLog() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "took" {
				return slog.Attr{} // different each time
			}
			return a
		},
	}))
	ctx := context.Background()
	client, err := redoubt.Open(ctx, serverURL, redoubt.Options{Prefix: "log", Observer: redoubt.Observer{OnEvent: redoubt.Log(logger)}})
	if err != nil {
		panic(err)
	}
	defer client.Close()

	locks, err := lock.New(client, lock.Options{})
	if err != nil {
		panic(err)
	}
	lease, err := locks.Acquire(ctx, "orders:42")
	if err != nil {
		panic(err)
	}
	client.Do(ctx, redoubt.Cmd{Name: "DEL", Keys: []string{"log:{orders:42}:lock"}}) // an accident
	fmt.Println(errors.Is(lease.Extend(ctx, time.Minute), lock.ErrNotHeld))

	mails, err := queue.New[string](client, queue.Options{Attempts: 1})
	if err != nil {
		panic(err)
	}
	if _, err := mails.PutRequest(ctx, "mails", queue.Request[string]{ID: "m-1", Value: "hello"}); err != nil {
		panic(err)
	}
	_, err = mails.Work(ctx, "mails", func(context.Context, *queue.Delivery[string]) error {
		return errors.New("no such mailbox")
	}, queue.RunOptions{})
	if err != nil {
		panic(err)
	}
	// Output:
	// level=WARN msg=redoubt primitive=lock event=lost name=orders:42 error="lock: not held: the server ended the lease before its deadline: it was released by force, or the server lost its data"
	// true
	// level=ERROR msg=redoubt primitive=queue event=died name=mails id=m-1 error="no such mailbox"
}
