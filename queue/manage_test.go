package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

func TestDrain(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		q := l.queue(t, queue.Options{})
		l.ids("running", "dead")
		l.put(wire.Message{ID: "head", Group: "running"})
		r := l.takes(3, "running", "dead", "head")
		l.fails(wire.Kill, 0, r["dead"])
		var messages []wire.Message
		for i := range 3000 {
			messages = append(messages,
				wire.Message{ID: fmt.Sprint("ready", i)},
				wire.Message{ID: fmt.Sprint("due", i), Delay: time.Hour},
				wire.Message{ID: fmt.Sprint("group", i), Group: fmt.Sprint(i % 1500)})
		}
		for i := range 10 {
			messages = append(messages, wire.Message{ID: fmt.Sprint("behind", i), Group: "running"})
		}
		l.put(messages...)
		l.wants(counts{ready: 4500, due: 3000, waiting: 1510, running: 2, dead: 1})
		n, err := q.RemovePending(t.Context(), "q")
		must(t, err)
		if n != 9010 {
			t.Errorf("%d were removed", n)
		}
		l.wants(counts{running: 2, dead: 1})
		l.ack(r["running"], r["head"])
		if n, err := q.RemoveAllDead(t.Context(), "q"); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		l.empty()
	})
}

func TestMessagesAndList(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		q := l.queue(t, queue.Options{})
		var requests []queue.Request[string]
		for i := range 250 {
			requests = append(requests, queue.Request[string]{ID: fmt.Sprintf("%03d", i), Value: fmt.Sprint(i)})
		}
		_, err := q.PutMany(t.Context(), "q", requests)
		must(t, err)
		_, err = q.Put(t.Context(), "other", "x")
		must(t, err)
		i := 0
		for m, err := range q.Messages(t.Context(), "q", queue.StateReady) {
			must(t, err)
			v, err := q.Value(m)
			must(t, err)
			if m.ID != requests[i].ID || v != requests[i].Value {
				t.Fatalf("%d: %+v", i, m)
			}
			i++
		}
		if i != 250 {
			t.Errorf("listed %d", i)
		}
		for _, err := range q.Messages(t.Context(), "q", queue.StateWaiting) {
			if err == nil || err.Error() != `queue: state is "waiting"; want ready, due, running, dead or blocked` {
				t.Errorf("%v", err)
			}
		}
		var names []string
		for found, err := range q.List(t.Context(), "") {
			must(t, err)
			names = append(names, found.Name)
			if info, err := q.Info(t.Context(), found.Name); err != nil || info.Ready != found.Ready || found.Ready == 0 {
				t.Errorf("%s: listed with %d ready messages, and has %d, %v", found.Name, found.Ready, info.Ready, err)
			}
		}
		if slices.Sort(names); !slices.Equal(names, []string{"other", "q"}) {
			t.Errorf("%q", names)
		}
	})
}

// A foreign entry in a queue is visible and can be removed, in each state.
//
// Nor must an ID that no call accepts, which another program stored, stop the calls for
// all dead messages.
func TestLookAtUnreadable(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		const foreign = "\x12\x00\x00x"
		q := l.queue(t, queue.Options{})
		spoil := func() { must(t, l.Redis.HSet(t.Context(), l.key("q", ""), "bad", foreign).Err()) }
		looks := func(state queue.State) {
			t.Helper()
			var got []string
			for m, err := range q.Messages(t.Context(), "q", state) {
				must(t, err)
				if got = append(got, m.ID); m.ID != "bad" {
					continue
				}
				found, err := q.MessageInfo(t.Context(), "q", "bad")
				must(t, err)
				for _, m := range []queue.MessageInfo{m, found} {
					if !m.Unreadable || m.State != state || m.ID != "bad" || string(m.Payload) != foreign || m.When.IsZero() {
						t.Errorf("%s: %+v", state, m)
					}
				}
				if _, err := q.Value(m); err == nil {
					t.Error("it has a value")
				}
			}
			if !slices.Equal(got, []string{"a", "bad", "z"}) {
				t.Errorf("%s: %q", state, got)
			}
		}
		l.put(wire.Message{ID: "a", Delay: time.Second}, wire.Message{ID: "bad", Delay: time.Second}, wire.Message{ID: "z", Delay: time.Second})
		spoil()
		looks(queue.StateDue)
		l.Clock.Advance(time.Second)
		l.pump(wire.Pump{})
		l.wants(counts{ready: 3})
		must(t, l.Redis.HSet(t.Context(), l.key("q", ""), "bad", "\x01").Err())
		p := l.pump(wire.Pump{N: 9})
		if len(p.Taken) != 2 || len(p.Unreadable) != 1 || string(p.Unreadable[0].Payload) != "\x01" {
			t.Fatalf("%+v", p)
		}
		spoil()
		looks(queue.StateRunning)
		failed := p.KillUnreadable()
		for _, m := range p.Taken {
			failed = append(failed, wire.Nack{Receipt: m.Receipt, Kind: wire.Kill})
		}
		l.pump(wire.Pump{Nacks: failed})
		looks(queue.StateDead)
		dies := func(id string) {
			t.Helper()
			must(t, l.Redis.HSet(t.Context(), l.key("q", ""), id, foreign).Err())
			must(t, l.Redis.ZAdd(t.Context(), l.key("q", "dead"), redis.Z{Score: 1, Member: id}).Err())
		}
		invalid := []string{"", strings.Repeat("x", wire.MaxID+1)}
		for _, id := range invalid {
			dies(id)
			if _, err := q.Requeue(t.Context(), "q", id); err == nil {
				t.Errorf("Requeue takes an ID of %d bytes", len(id))
			}
		}
		if n, err := q.RequeueAll(t.Context(), "q"); n != 5 || err != nil {
			t.Errorf("requeued %d, %v", n, err)
		}
		must(t, l.Redis.ZRem(t.Context(), l.key("q", "ready"), invalid[0], invalid[1]).Err())
		for _, id := range invalid {
			dies(id)
		}
		if n, err := q.RemoveAllDead(t.Context(), "q"); n != 2 || err != nil {
			t.Errorf("deleted %d, %v", n, err)
		}
		p = l.pump(wire.Pump{N: 9})
		l.pump(wire.Pump{Acks: []string{p.Taken[0].Receipt, p.Taken[1].Receipt}, Nacks: p.KillUnreadable()})
		if n, err := q.RemoveAllDead(t.Context(), "q"); n != 1 || err != nil {
			t.Errorf("deleted %d, %v", n, err)
		}
		l.empty()
	})
}

func TestBadArguments(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		_, err := queue.New[string](nil, queue.Options{Lease: 1, Attempts: -2, Keep: -1})
		want := "queue: client is nil\nqueue: lease is 1ns; want 100ms to 24h0m0s\nqueue: keep is -1ns; want 0s to 87600h0m0s\n" +
			"queue: attempts is -2; want 1 to 65535, or Unlimited"
		if err == nil || err.Error() != want {
			t.Errorf("%v", err)
		}
		q := e.queue(t, queue.Options{})
		h := func(context.Context, *queue.Delivery[string]) error { return nil }
		for want, err := range map[string]error{
			"queue: concurrency is 1001; want 1 to 1000":              q.Run(t.Context(), "q", h, queue.RunOptions{Concurrency: 1001}),
			"queue: grace is -2ns; want 0s to 87600h0m0s":             q.Run(t.Context(), "q", h, queue.RunOptions{Grace: -2}),
			"redoubt: invalid name: it is empty; want 1 to 512 bytes": q.Run(t.Context(), "", h, queue.RunOptions{}),
			"queue: burst is -1; want 0 to 1000000":                   q.Limit(t.Context(), "q", queue.Limits{Burst: -1}),
		} {
			if err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
		if _, err := q.PutMany(t.Context(), "q", nil); err == nil {
			t.Error("no messages are fine")
		}
		must(t, e.Redis.Set(t.Context(), e.key("bad", "leases"), "x", 0).Err())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := q.Run(ctx, "bad", h, queue.RunOptions{}); err == nil || errors.Is(err, ctx.Err()) && ctx.Err() != nil {
			t.Errorf("a key of another type: %v", err)
		}
	})
}

func TestEvictionIsReported(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		must(t, e.queue(t, queue.Options{}).CheckEviction(t.Context(), "q"))
	})
	// In a server of its own: others would lose their keys.
	t.Run("evicting", func(t *testing.T) {
		e := &env{testenv.New(t, ownServer(t, "--maxmemory-policy", "allkeys-lru"))}
		if err := e.queue(t, queue.Options{}).CheckEviction(t.Context(), "q"); !errors.Is(err, queue.ErrEviction) {
			t.Errorf("%v", err)
		}
		var log events
		run(t, e.queue(t, queue.Options{OnEvent: log.add}), func(context.Context, *queue.Delivery[string]) error { return nil }, queue.RunOptions{})
		eventually(t, "it is reported", func() bool {
			errs := log.serverError()
			return len(errs) == 1 && errors.Is(errs[0], queue.ErrEviction)
		})
	})
}

// resending is a Conn that sends each command twice, as after a lost reply.
type resending struct{ redoubt.Conn }

func (c resending) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	c.Conn.Do(ctx, cmd)
	return c.Conn.Do(ctx, cmd)
}

// A message whose ID is not the caller's is new, also when its command was sent twice.
func TestNewMessagesAreAdded(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		q, err := queue.New[string](e.ClientOn(resending{clienttest.Wrap(t, e.Redis)}), queue.Options{})
		must(t, err)
		placed, err := q.PutMany(t.Context(), t.Name(), []queue.Request[string]{{Value: "new"}, {Value: "named", ID: "a"}})
		must(t, err)
		if placed[0].Status != queue.Added || placed[1].Status != queue.Exists {
			t.Errorf("placed as %+v, want the first added, and that the second exists", placed)
		}
	})
}
