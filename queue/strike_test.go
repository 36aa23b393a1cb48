package queue_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/faults"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

// through returns a queue whose connections go through a proxy.
func (e *env) through(t *testing.T, opts queue.Options) (*queue.Queue[string], *faultnet.Proxy) {
	t.Helper()
	p := faultnet.New(t, e.Addr)
	q, err := queue.New[string](e.ClientOn(clienttest.Wrap(t, clienttest.Dial(t, p.Addr()))), opts)
	must(t, err)
	return q, p
}

// counting returns a handler that counts and wants the first attempt.
func counting(t *testing.T, n *atomic.Int64) queue.Handler[string] {
	return func(_ context.Context, d *queue.Delivery[string]) error {
		if n.Add(1); d.Attempt != 1 {
			t.Errorf("attempt %d of %s: %s", d.Attempt, d.ID, d.LastReason)
		}
		return nil
	}
}

// blocked are the connections of a queue's consumers that wait.
func (e *env) blocked(t *testing.T) (ids []string) {
	t.Helper()
	text, err := e.Redis.Do(t.Context(), "CLIENT", "LIST").Text()
	must(t, err)
	for line := range strings.Lines(text) {
		if strings.Contains(line, "cmd=bzpopmin") && strings.Contains(line, " flags=b ") {
			id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
			ids = append(ids, id)
		}
	}
	return ids
}

// A consumer whose blocked connection was killed waits on another one, and hears of
// what is put long before its slice is over.
//
// Promise: A dropped connection that blocks on the queue loses no message.
func TestBlockedConnectionIsKilled(t *testing.T) {
	s := redistest.Start(t)
	e := &env{testenv.New(t, redistest.Backend{Name: "redis", URL: s.URL(), Addr: s.Addr(), Prefix: "k", Server: s})}
	q := e.queue(t, queue.Options{Lease: time.Minute})
	var handled atomic.Int64
	stop := run(t, q, counting(t, &handled), queue.RunOptions{})
	pulse := await.NewPulse(t)
	for i := range int64(5) {
		var id string
		eventually(t, "the consumer waits", func() bool {
			ids := e.blocked(t)
			if len(ids) == 1 {
				id = ids[0]
			}
			return len(ids) == 1
		})
		must(t, e.Redis.Do(t.Context(), "CLIENT", "KILL", "ID", id).Err())
		eventually(t, "it waits on another connection", func() bool { ids := e.blocked(t); return len(ids) == 1 && ids[0] != id })
		_, err := q.Put(t.Context(), "q", "")
		must(t, err)
		put := pulse.Now()
		eventually(t, "the message is handled", func() bool { return handled.Load() == i+1 })
		if took := pulse.Now() - put; took > 8*time.Second {
			t.Errorf("the message was handled after %v", took)
		}
	}
	must(t, stop())
}

// A network that holds all bytes ends neither a consumer nor what others put
// meanwhile.
func TestFrozenNetwork(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		var log events
		q, p := e.through(t, queue.Options{Lease: 500 * time.Millisecond, Attempts: queue.Unlimited, OnEvent: log.add})
		var handled atomic.Int64
		stop := run(t, q, func(context.Context, *queue.Delivery[string]) error {
			handled.Add(1)
			return nil
		}, queue.RunOptions{})
		_, err := e.queue(t, queue.Options{}).Put(t.Context(), "q", "")
		must(t, err)
		eventually(t, "the first is handled", func() bool { return handled.Load() == 1 })
		p.Blackhole(faultnet.Both)
		_, err = e.queue(t, queue.Options{}).Put(t.Context(), "q", "")
		must(t, err)
		eventually(t, "the consumer tells of an error of the server", func() bool { return len(log.serverError()) > 0 })
		if n := handled.Load(); n > 1 {
			t.Fatalf("%d were handled: the network is not frozen", n)
		}
		p.Heal()
		eventually(t, "the second is handled", func() bool { return handled.Load() >= 2 })
		e.gone(t)
		must(t, stop())
	})
}

// Promise: Once a put has returned, its message is handed to a handler until one returns nil, the
// message is dead, or it is cancelled.
func TestLostReplies(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		digests := map[string]string{}
		for _, s := range wire.Scripts() {
			digests[s.Name()] = "EVALSHA " + s.Digest()
		}
		q, p := e.through(t, queue.Options{Lease: time.Minute})
		lose := func(script string, f func()) {
			t.Helper()
			before := p.Stats().Swallowed
			p.SwallowNextReply(digests[script])
			f()
			eventually(t, "a reply was lost", func() bool { return p.Stats().Swallowed > before })
		}
		many := make([]queue.Request[string], 100)
		_, err := q.PutMany(t.Context(), "other", many) // the script is loaded
		must(t, err)
		lose("queue.put", func() {
			placed, err := q.PutMany(t.Context(), "q", many)
			if err != nil || len(placed) != len(many) {
				t.Errorf("%v, %v", placed, err)
			}
		})
		lose("queue.put", func() {
			_, err := q.Put(t.Context(), "q", "")
			must(t, err)
		})
		if s, err := q.Info(t.Context(), "q"); err != nil || s.Ready != len(many)+1 {
			t.Errorf("%+v, %v", s, err)
		}
		// The replies with messages, and the replies to acks.
		var handled atomic.Int64
		release := make(chan struct{})
		lose("queue.pump", func() {
			h := counting(t, &handled)
			run(t, q, func(ctx context.Context, d *queue.Delivery[string]) error {
				<-release
				return h(ctx, d)
			}, queue.RunOptions{Concurrency: 200})
			// Else the order would be for the reply to its first call, which finds no
			// script and is made again.
			await.Until(t, time.Minute, "they were taken", func() bool {
				s, err := q.Info(t.Context(), "q")
				return err == nil && s.Ready == 0
			})
		})
		lose("queue.pump", func() { close(release) })
		e.gone(t)
		if n := handled.Load(); n != int64(len(many))+1 {
			t.Errorf("%d of %d were handled", n, len(many)+1)
		}
	})
}

// A consumer that sleeps with nothing in the queue has heard of a lease before that
// is over: it has the message of a consumer that died within a second of its end.
func TestRedelivery(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		const lease = 1500 * time.Millisecond
		q := e.queue(t, queue.Options{Lease: lease})
		got := make(chan time.Time, 1)
		other := e.line(t, "q")
		other.put(wire.Message{ID: "a", Payload: []byte(`"a"`)})
		// Taken, and then nothing is heard of it any more.
		cmd := wire.PumpCmd(other.keys, wire.Pump{Consumer: "dead", Take: wire.NewTake(), N: 1, Lease: lease})
		taken := time.Now()
		must(t, other.do(cmd).Err)
		run(t, q, func(_ context.Context, d *queue.Delivery[string]) error {
			if d.Attempt != 2 || d.LastReason != "its lease ran out" {
				t.Errorf("%+v", d.Job)
			}
			got <- time.Now()
			return nil
		}, queue.RunOptions{})
		after := (<-got).Sub(taken)
		if after < lease-time.Millisecond {
			t.Errorf("given to another after %v", after)
		}
		if after > lease+10*time.Second { // a second, on a machine that is not busy
			t.Errorf("given to another only after %v", after)
		}
	})
}

// loading is a Conn whose server is loading its data for the first calls.
type loading struct {
	redoubt.Conn
	calls atomic.Int64
}

func (c *loading) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	if cmd.Script != nil && c.calls.Add(-1) >= 0 {
		return redoubt.Reply{Err: fmt.Errorf("%w; last: %w", context.DeadlineExceeded, redoubt.ServerError("LOADING Redis is loading the dataset in memory"))}
	}
	return c.Conn.Do(ctx, cmd)
}

func (c *loading) Pipeline(ctx context.Context, cs []redoubt.Cmd) []redoubt.Reply {
	replies := make([]redoubt.Reply, len(cs))
	for i, cmd := range cs {
		replies[i] = c.Do(ctx, cmd)
	}
	return replies
}

// A consumer that starts while the server loads its data waits for it, and returns
// at once only when it is refused for good.
func TestRunWhileTheServerLoads(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		_, err := e.queue(t, queue.Options{}).Put(t.Context(), "q", "")
		must(t, err)
		conn := &loading{Conn: clienttest.Wrap(t, e.Redis)}
		conn.calls.Store(3)
		e.Client = e.ClientOn(conn)
		var handled atomic.Int64
		stop := run(t, e.queue(t, queue.Options{}), counting(t, &handled), queue.RunOptions{})
		eventually(t, "the message is handled", func() bool { return handled.Load() == 1 })
		must(t, stop())
	})
}

// A process that stood still past its lease finds that another has its message: what
// it says of it changes nothing.
func TestStoppedPastItsLease(t *testing.T) {
	t.Parallel()
	d := faults.Start(t, faults.Redis)
	e := &env{testenv.New(t, redistest.Backend{Name: "redis", Addr: d.Addrs()[0], Prefix: "stopped"})}
	const lease = 500 * time.Millisecond
	notes := make(chan note, 100)
	p, dismiss := faults.Hire(t, workOrders{Invitation: d.Invitation(), Prefix: e.Prefix, Names: []string{"q"}, Lease: lease, TTL: lease, Concurrency: 1}, func(text string) error {
		n, err := readNote(strings.TrimPrefix(text, "q "))
		notes <- n
		return err
	})
	q := e.queue(t, queue.Options{Lease: time.Minute, Attempts: queue.Unlimited})
	id := linger + ":1"
	_, err := q.PutRequest(t.Context(), "q", queue.Request[string]{ID: id})
	must(t, err)
	if n := <-notes; n.what != began {
		t.Fatalf("the process said %v", n)
	}
	must(t, redistest.Suspend(p))
	started, finish := make(chan int, 1), make(chan error)
	stop := run(t, q, func(ctx context.Context, d *queue.Delivery[string]) error {
		started <- d.Attempt
		select {
		case err := <-finish:
			return err
		case <-ctx.Done():
			t.Errorf("its context ended: %v", context.Cause(ctx))
			return ctx.Err()
		}
	}, queue.RunOptions{})
	if attempt := <-started; attempt != 2 {
		t.Errorf("attempt %d", attempt)
	}
	must(t, redistest.Resume(p))
	for (<-notes).what == began { // the handler of the process returns
	}
	dismiss() // it has settled all that it could
	l, err := q.MessageInfo(t.Context(), "q", id)
	must(t, err)
	if l.State != queue.StateRunning || l.Failures != 1 {
		t.Errorf("after the stale settle: %+v", l)
	}
	finish <- nil
	e.gone(t)
	must(t, stop())
}

// The clock of the process is more than a year from the server's: delays and leases
// are by the server's alone.
//
// Promise: A message is never taken before it is due, by the server's clock.
func TestSkewedClock(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		q := e.queue(t, queue.Options{Lease: time.Minute})
		var handled atomic.Int64
		stop := run(t, q, counting(t, &handled), queue.RunOptions{})
		_, err := q.PutRequest(t.Context(), "q", queue.Request[string]{Delay: 30 * time.Millisecond})
		must(t, err)
		_, err = q.PutRequest(t.Context(), "q", queue.Request[string]{At: e.Clock.Now().Add(60 * time.Millisecond)})
		must(t, err)
		await.Always(t, 100*time.Millisecond, "nothing is due", func() bool { return handled.Load() == 0 })
		e.Clock.Advance(30 * time.Millisecond)
		eventually(t, "the delay is over", func() bool { return handled.Load() == 1 })
		await.Always(t, 50*time.Millisecond, "the second is not due", func() bool { return handled.Load() == 1 })
		e.Clock.Advance(30 * time.Millisecond)
		eventually(t, "its time has come", func() bool { return handled.Load() == 2 })
		must(t, stop())
	})
}

// Ten thousand ids at once are more than a Lua call takes arguments.
func TestLargeBatches(t *testing.T) {
	slow.Test(t, "its batches are as large as they may be")
	each(t, func(t *testing.T, e *env) {
		q := e.queue(t, queue.Options{Lease: time.Minute})
		at := time.Now().Add(time.Second)
		ids := make([]string, queue.MaxBatch)
		rs := make([]queue.Request[string], len(ids))
		put := func(at time.Time, from int) {
			t.Helper()
			for i := range rs {
				ids[i] = fmt.Sprint("id", from+i)
				rs[i] = queue.Request[string]{ID: ids[i], At: at}
			}
			placed, err := q.PutMany(t.Context(), "q", rs)
			must(t, err)
			for i, p := range placed {
				if p.ID != ids[i] || p.Status != queue.Added {
					t.Fatalf("%d: %+v", i, p)
				}
			}
		}
		put(time.Time{}, 0)
		put(at, len(ids)) // all due in the same ms
		var handled atomic.Int64
		stop := run(t, q, counting(t, &handled), queue.RunOptions{Concurrency: wire.MaxSettle})
		e.gone(t)
		must(t, stop())
		if n := handled.Load(); n != int64(2*len(ids)) {
			t.Errorf("%d were handled", n)
		}
		put(time.Time{}, 0)
		was, err := q.CancelMany(t.Context(), "q", ids)
		must(t, err)
		for i, was := range was {
			if was != queue.StatePending {
				t.Fatalf("%s was %v", ids[i], was)
			}
		}
		e.gone(t)
	})
}

// A consumer all of whose handlers panic goes on, and its messages die one by one.
//
// Promise: A message that kills its consumers dies after its attempts; with unlimited attempts it
// waits longer after each failure.
func TestEveryHandlerPanics(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		q := e.queue(t, queue.Options{Lease: time.Minute, Attempts: 2, Backoff: queue.Constant(time.Millisecond)})
		const n = 200
		var calls atomic.Int64
		stop := run(t, q, func(_ context.Context, d *queue.Delivery[string]) error {
			if calls.Add(1)%2 == 0 {
				panic(errors.New("as told"))
			}
			_ = []int{}[len(d.ID)]
			return nil
		}, queue.RunOptions{Concurrency: 20})
		_, err := q.PutMany(t.Context(), "q", make([]queue.Request[string], n))
		must(t, err)
		eventually(t, "all are dead", func() bool {
			s, err := q.Info(t.Context(), "q")
			return err == nil && s.Dead == n && s.Ready+s.Due+s.Running == 0
		})
		if calls.Load() != 2*n {
			t.Errorf("%d calls", calls.Load())
		}
		for l, err := range q.Messages(t.Context(), "q", queue.StateDead) {
			must(t, err)
			if l.Failures != 2 || !strings.HasPrefix(l.LastReason, "panic: ") {
				t.Errorf("%+v", l)
			}
		}
		if deleted, err := q.RemoveAllDead(t.Context(), "q"); deleted != n || err != nil {
			t.Errorf("deleted %d, %v", deleted, err)
		}
		e.gone(t)
		must(t, stop())
	})
}

// A handler that ends its goroutine, as t.FailNow does, has failed.
func TestHandlerEndsItsGoroutine(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		q := e.queue(t, queue.Options{Lease: time.Minute, Attempts: 2, Backoff: queue.Constant(time.Millisecond)})
		stop := run(t, q, func(context.Context, *queue.Delivery[string]) error {
			runtime.Goexit()
			return nil
		}, queue.RunOptions{Concurrency: 1})
		_, err := q.Put(t.Context(), "q", "")
		must(t, err)
		eventually(t, "it is dead", func() bool {
			s, err := q.Info(t.Context(), "q")
			return err == nil && s.Dead == 1
		})
		for l, err := range q.Messages(t.Context(), "q", queue.StateDead) {
			must(t, err)
			if !strings.Contains(l.LastReason, "Goexit") {
				t.Errorf("%+v", l)
			}
		}
		must(t, stop())
	})
}
