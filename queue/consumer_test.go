package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/await"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

// bubble runs a test in a bubble of testing/synctest, whose time passes when nobody
// works, with an engine behind a network that can be cut.
func bubble(t *testing.T, f func(t *testing.T, client *redoubt.Client, net *network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e, err := engine.Open(t.Context(), engine.Options{})
		must(t, err)
		defer func() { _ = e.Close() }()
		net := &network{Conn: e}
		client, err := redoubt.New(net, redoubt.Options{})
		must(t, err)
		defer client.Close()
		f(t, client, net)
	})
}

// A network loses what it is told to.
type network struct {
	redoubt.Conn
	cut   atomic.Bool                                 // nothing comes through
	loses func(cmd redoubt.Cmd, r redoubt.Reply) bool // the reply to cmd; nil: none
}

func (n *network) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	if !n.cut.Load() {
		if r := n.Conn.Do(ctx, cmd); n.loses == nil || !n.loses(cmd, r) {
			return r
		}
	}
	<-ctx.Done()
	return redoubt.Reply{Err: redoubt.UnknownOutcome(ctx.Err())}
}

func (n *network) Pipeline(ctx context.Context, cs []redoubt.Cmd) []redoubt.Reply {
	replies := make([]redoubt.Reply, len(cs))
	for i, cmd := range cs {
		replies[i] = n.Do(ctx, cmd)
	}
	return replies
}

// takes says whether it is the reply to a pump that took something.
func takes(cmd redoubt.Cmd, r redoubt.Reply) bool {
	reply, _ := r.Val.([]any)
	if cmd.Script == nil || cmd.Script.Name() != "queue.pump" || len(reply) != 6 {
		return false
	}
	taken, _ := reply[5].([]any)
	return len(taken) > 0
}

func queueOn(t *testing.T, client *redoubt.Client, opts queue.Options) *queue.Queue[string] {
	t.Helper()
	q, err := queue.New[string](client, opts)
	must(t, err)
	return q
}

// However few messages come at a time, no more batches are at work than places.
//
// Promise: A handler keeps its place until it returns, and its context ends when it loses its
// message.
func TestBatchesAtOnce(t *testing.T) {
	for _, places := range []int{1, 3} {
		bubble(t, func(t *testing.T, client *redoubt.Client, _ *network) {
			q := queueOn(t, client, queue.Options{})
			ctx, cancel := context.WithCancel(t.Context())
			var calls, most, handled atomic.Int64
			ended := make(chan error, 1)
			go func() {
				ended <- q.RunBatch(ctx, "q", func(_ context.Context, batch []*queue.Delivery[string]) []error {
					if n := calls.Add(1); n > most.Load() {
						most.Store(n)
					}
					await.Advance(time.Second)
					calls.Add(-1)
					handled.Add(int64(len(batch)))
					return nil
				}, queue.BatchOptions{Size: 40, Concurrency: places})
			}()
			for i := range 30 {
				_, err := q.Put(ctx, "q", fmt.Sprint(i))
				must(t, err)
				await.Advance(10 * time.Millisecond)
			}
			await.Advance(5 * time.Second)
			cancel()
			must(t, <-ended)
			if most.Load() != int64(places) || handled.Load() != 30 {
				t.Errorf("%d batches at once, want %d; %d messages were handled", most.Load(), places, handled.Load())
			}
		})
	}
}

type pointerError struct{ text string }

func (e *pointerError) Error() string { return e.text }

// A method of an error that panics, and a Backoff that does, are failures of the
// message and not the end of the process.
//
// Promise: A message that kills its consumers dies after its attempts; with unlimited attempts it
// waits longer after each failure.
func TestOutcomePanics(t *testing.T) {
	var none *pointerError
	for _, c := range []struct {
		err     error
		backoff queue.Backoff
		reason  string
	}{
		{none, queue.Constant(time.Second), "nil pointer"},
		{queue.Dead(none), nil, "dead: "},
		{errors.New("it fails"), func(int) time.Duration { panic("no backoff") }, "panic: no backoff"},
	} {
		bubble(t, func(t *testing.T, client *redoubt.Client, _ *network) {
			var log events
			q := queueOn(t, client, queue.Options{Attempts: 2, OnEvent: log.add, Backoff: c.backoff})
			_, err := q.PutRequest(t.Context(), "q", queue.Request[string]{ID: "a"})
			must(t, err)
			var calls []time.Time
			stop := run(t, q, func(context.Context, *queue.Delivery[string]) error {
				calls = append(calls, time.Now())
				return c.err
			}, queue.RunOptions{})
			await.Advance(time.Minute)
			must(t, stop())
			l, err := q.MessageInfo(t.Context(), "q", "a")
			must(t, err)
			if l.State != queue.StateDead || l.Failures != len(calls) || !strings.Contains(l.LastReason, c.reason) {
				t.Errorf("%s after %d calls: %+v", c.reason, len(calls), l)
			}
			if kinds := log.of("a"); len(kinds) != len(calls) || kinds[len(kinds)-1] != queue.Died {
				t.Errorf("%s: %v", c.reason, kinds)
			}
			if len(calls) > 1 && calls[1].Sub(calls[0]) < 800*time.Millisecond {
				t.Errorf("%s: attempts at %v", c.reason, calls)
			}
		})
	}
}

// The handlers' last events are told before Run returns.
func TestRunOutlivesItsEvents(t *testing.T) {
	bubble(t, func(t *testing.T, client *redoubt.Client, _ *network) {
		told := false
		q := queueOn(t, client, queue.Options{OnEvent: func(_ context.Context, e queue.Event) {
			if e.Kind == queue.Completed {
				await.Advance(time.Minute)
				told = true
			}
		}})
		ctx, cancel := context.WithCancel(t.Context())
		_, err := q.Put(ctx, "q", "")
		must(t, err)
		must(t, q.Run(ctx, "q", func(context.Context, *queue.Delivery[string]) error { cancel(); return nil }, queue.RunOptions{}))
		if !told {
			t.Error("Run returned before its events were told")
		}
	})
}

// When one of a batch is cancelled the others are handed back, as the attempt that
// they were.
func TestBatchLosesOne(t *testing.T) {
	bubble(t, func(t *testing.T, client *redoubt.Client, _ *network) {
		var log events
		q := queueOn(t, client, queue.Options{OnEvent: log.add})
		ctx, cancel := context.WithCancel(t.Context())
		_, err := q.PutMany(ctx, "q", []queue.Request[string]{{ID: "a"}, {ID: "b"}, {ID: "c"}})
		must(t, err)
		ended := make(chan error, 1)
		calls := 0
		go func() {
			ended <- q.RunBatch(ctx, "q", func(ctx context.Context, batch []*queue.Delivery[string]) []error {
				for _, d := range batch {
					if d.Attempt != 1 {
						t.Errorf("attempt %d of %s: %s", d.Attempt, d.ID, d.LastReason)
					}
				}
				if calls++; calls > 1 {
					return nil
				}
				<-ctx.Done()
				errs := make([]error, len(batch))
				for i := range errs {
					errs[i] = ctx.Err()
				}
				return errs
			}, queue.BatchOptions{})
		}()
		await.Advance(time.Second)
		_, err = q.Cancel(ctx, "q", "a")
		must(t, err)
		await.Advance(time.Minute)
		for id, want := range map[string]string{"a": "[lost]", "b": "[handed back completed]", "c": "[handed back completed]"} {
			if got := fmt.Sprint(log.of(id)); got != want {
				t.Errorf("%s: %s, want %s", id, got, want)
			}
		}
		cancel()
		must(t, <-ended)
	})
}

// A foreign entry becomes a dead message, and the other messages of the batch
// are handled.
//
// Promise: A stored entry that is not a message becomes dead and stops no consumer.
func TestUnreadableMessage(t *testing.T) {
	for _, how := range []string{"Run", "Work"} {
		bubble(t, func(t *testing.T, client *redoubt.Client, _ *network) {
			var log events
			q := queueOn(t, client, queue.Options{OnEvent: log.add})
			keys, err := wire.KeysOf(client, "q")
			must(t, err)
			for _, id := range []string{"good 1", "bad", "good 2"} {
				_, err := q.PutRequest(t.Context(), "q", queue.Request[string]{ID: id})
				must(t, err)
			}
			must(t, client.Do(t.Context(), redoubt.Cmd{Name: "HSET", Keys: keys[:1], Args: []string{"bad", "\x12\x00\x00x"}}).Err)
			var handled atomic.Int64
			h := counting(t, &handled)
			if how == "Work" {
				n, err := q.Work(t.Context(), "q", h, queue.RunOptions{})
				if n != 2 || err != nil {
					t.Errorf("worked on %d, %v", n, err)
				}
			} else {
				stop := run(t, q, h, queue.RunOptions{})
				await.Advance(time.Second)
				must(t, stop())
			}
			s, err := q.Info(t.Context(), "q")
			must(t, err)
			if handled.Load() != 2 || s.Dead != 1 || s.Ready+s.Running+s.Due != 0 {
				t.Errorf("%s handled %d of 2; %+v", how, handled.Load(), s)
			}
			reason, err := client.Do(t.Context(), redoubt.Cmd{Name: "HGET", Keys: keys[5:6], Args: []string{"bad"}}).Text()
			if err != nil || !strings.Contains(reason, "is not a message") {
				t.Errorf("the reason is %q, %v", reason, err)
			}
			if got := fmt.Sprint(log.of("bad")); got != "[died]" {
				t.Errorf("its events are %s", got)
			}
		})
	}
}

// The grace is kept when the server is away, and a call that hangs when ctx ends.
//
// Promise: A consumer that stops hands back its unfinished messages, counts no failure, and keeps
// to its grace period.
func TestGraceWithoutServer(t *testing.T) {
	bubble(t, func(t *testing.T, client *redoubt.Client, net *network) {
		q := queueOn(t, client, queue.Options{Lease: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		_, err := q.PutMany(ctx, "q", []queue.Request[string]{{Value: "long"}, {Value: "short"}})
		must(t, err)
		var stopped time.Time
		var after time.Duration
		err = q.Run(ctx, "q", func(ctx context.Context, d *queue.Delivery[string]) error {
			await.Advance(time.Second)
			net.cut.Store(true) // the call that settles the short one hangs
			if d.Value == "short" {
				return nil
			}
			await.Advance(time.Second)
			stopped = time.Now()
			cancel()
			<-ctx.Done()
			after = time.Since(stopped)
			return ctx.Err()
		}, queue.RunOptions{Grace: 2 * time.Second})
		if after != 2*time.Second {
			t.Errorf("the handler's context ended after %v, want the grace of 2 s", after)
		}
		if took := time.Since(stopped); err == nil || took < 10*time.Second || took > 16*time.Second {
			t.Errorf("Run returned %v after %v, want an error about 10 s after the grace", err, took)
		}
	})
}

// Messages of a call that was under way when ctx ended reach no handler.
//
// Promise: A consumer that stops hands back its unfinished messages, counts no failure, and keeps
// to its grace period.
func TestTakenWhenStopped(t *testing.T) {
	bubble(t, func(t *testing.T, client *redoubt.Client, net *network) {
		q := queueOn(t, client, queue.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		net.loses = func(cmd redoubt.Cmd, r redoubt.Reply) bool {
			if takes(cmd, r) {
				cancel()
			}
			return false
		}
		_, err := q.PutRequest(ctx, "q", queue.Request[string]{ID: "a"})
		must(t, err)
		must(t, q.Run(ctx, "q", func(context.Context, *queue.Delivery[string]) error {
			t.Error("a handler was called")
			return nil
		}, queue.RunOptions{}))
		l, err := q.MessageInfo(t.Context(), "q", "a")
		must(t, err)
		if l.State != queue.StateReady || l.Failures != 0 {
			t.Errorf("%+v", l)
		}
	})
}

// A take whose reply was lost is repeated before its lease is over, however short
// that is; and the lease counts from the first time.
//
// Promise: A handler keeps its place until it returns, and its context ends when it loses its
// message.
func TestLostTakeWithinItsLease(t *testing.T) {
	for _, lease := range []time.Duration{queue.MinLease, 3 * time.Second, 10 * time.Second} {
		bubble(t, func(t *testing.T, client *redoubt.Client, net *network) {
			q := queueOn(t, client, queue.Options{Lease: lease})
			ctx, cancel := context.WithCancel(t.Context())
			var first time.Time
			net.loses = func(cmd redoubt.Cmd, r redoubt.Reply) bool {
				if !takes(cmd, r) || !first.IsZero() {
					return false
				}
				first = time.Now()
				return true
			}
			_, err := q.Put(ctx, "q", "")
			must(t, err)
			_ = q.Run(ctx, "q", func(ctx context.Context, d *queue.Delivery[string]) error {
				if d.Attempt != 1 {
					t.Errorf("lease %v: attempt %d: %s", lease, d.Attempt, d.LastReason)
				}
				net.cut.Store(true)
				<-ctx.Done()
				if held := time.Since(first); held > lease || !errors.Is(context.Cause(ctx), queue.ErrLeaseLost) {
					t.Errorf("lease %v: ended %v after the first take by %v", lease, held, context.Cause(ctx))
				}
				net.cut.Store(false)
				cancel()
				return nil
			}, queue.RunOptions{})
			if first.IsZero() {
				t.Error("no reply was lost")
			}
		})
	}
}

// Whether the server may evict messages is asked until there is an answer.
func TestEvictionIsAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, client *redoubt.Client, net *network) {
		q := queueOn(t, client, queue.Options{})
		var asked atomic.Int64
		net.loses = func(cmd redoubt.Cmd, _ redoubt.Reply) bool { return cmd.Name == "INFO" && asked.Add(1) < 3 }
		stop := run(t, q, counting(t, new(atomic.Int64)), queue.RunOptions{})
		await.Advance(5 * time.Minute)
		if n := asked.Load(); n != 3 {
			t.Errorf("asked %d times, want 3: two answers were lost", n)
		}
		must(t, stop())
	})
}
