package queue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

// blocked wants so many messages that wait for others.
func (l *line) blocked(want int) {
	l.t.Helper()
	if s := l.stats(); s.Blocked != want {
		l.t.Fatalf("%+v, want %d blocked", s, want)
	}
}

// behind is a message that comes after others.
func behind(id string, others ...string) wire.Message { return wire.Message{ID: id, After: others} }

func (l *line) one(id string) wire.MessageInfo {
	l.t.Helper()
	m, err := wire.ReadFind(l.do(wire.FindCmd(l.keys, id)), id)
	must(l.t, err)
	return m
}

// wantStates checks the states of messages.
func (l *line) wantStates(want map[string]queue.State) {
	l.t.Helper()
	for id, state := range want {
		if m := l.one(id); m.State != state {
			l.t.Errorf("%s is %s, want %s: %+v", id, m.State, state, m)
		}
	}
}

// Promise: A message that comes after others is put once, in the step that settles the last of them.
func TestAfter(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		l.ids("a", "b")
		l.put(wire.Message{ID: "soon", Delay: time.Hour})
		placed := l.put(behind("all", "a", "b", "soon", "never put"), behind("then", "all"))
		want := []wire.PutResult{{ID: "all", Status: wire.Added, State: wire.StateBlocked}, {ID: "then", Status: wire.Added, State: wire.StateBlocked}}
		if !slices.Equal(placed, want) {
			t.Fatalf("put %+v, want %+v", placed, want)
		}
		if again := l.put(behind("all", "a")); again[0] != (wire.PutResult{ID: "all", Status: wire.Exists}) {
			t.Fatalf("put again: %+v", again)
		}
		l.wants(counts{ready: 2, due: 1})
		l.blocked(2)
		if m := l.one("all"); m.State != wire.StateBlocked || m.Unfinished != 3 || !slices.Equal(m.After, []string{"a", "b", "soon", "never put"}) || !m.When.IsZero() {
			t.Errorf("found %+v", m)
		}
		cmd, err := wire.MessagesCmd(l.keys, wire.StateBlocked, 0, 10)
		must(t, err)
		list, all, err := wire.ReadMessages(l.do(cmd), wire.StateBlocked)
		must(t, err)
		if all != 2 || len(list) != 2 || list[0].ID != "then" || list[0].Unfinished != 1 || list[1].Unfinished != 3 {
			t.Errorf("listed %d: %+v", all, list)
		}

		r := l.takes(9, "a", "b")
		l.Clock.Advance(time.Hour - time.Minute - time.Millisecond)
		l.do(wire.ExtendCmd(l.keys, 2*time.Hour, r["a"], r["b"]))
		l.Clock.Advance(time.Minute + time.Millisecond)
		soon := l.takes(9, "soon")["soon"]
		l.ack(r["a"], soon)
		l.takes(9)
		// The same step settles the last one and takes the next. Repeated, as after a lost reply, it changes nothing.
		p := wire.Pump{Take: "take-take-take-1", N: 5, Acks: []string{r["b"]}}
		first := l.pump(p)
		if len(first.Taken) != 1 || first.Taken[0].ID != "all" || len(first.Refused) > 0 || !slices.Equal(first.Taken[0].After, []string{"a", "b", "soon", "never put"}) {
			t.Fatalf("%+v", first)
		}
		if again := l.pump(p); !again.Again || len(again.Taken) != 1 || again.Taken[0].Receipt != first.Taken[0].Receipt {
			t.Fatalf("repeated: %+v", again)
		}
		l.wants(counts{running: 1})
		l.ack(first.Taken[0].Receipt)
		l.ack(l.takes(9, "then")["then"])
		l.empty()
	})
}

// A message keeps its delay, lane and group, and other messages come between.
func TestAfterWithOtherSettings(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		at := l.Clock.Now().Add(time.Hour)
		l.ids("a")
		l.put(
			wire.Message{ID: "delayed", After: []string{"a"}, Delay: time.Minute}, wire.Message{ID: "at", After: []string{"a"}, At: at},
			wire.Message{ID: "urgent", After: []string{"a"}, Lane: wire.Urgent}, wire.Message{ID: "g0", Group: "g"},
			wire.Message{ID: "g1", After: []string{"a"}, Group: "g"}, wire.Message{ID: "low", After: []string{"a"}, Lane: wire.Low, Headers: map[string]string{"h": "v"}},
		)
		l.Clock.Advance(30 * time.Second)
		l.do(wire.PauseCmd(l.keys))
		l.do(wire.ResumeCmd(l.keys))
		r := l.takes(1, "a")
		l.Redis.Del(t.Context(), l.key("q", "wake"))
		l.ack(r["a"])
		l.wants(counts{ready: 3, due: 2, waiting: 1})
		r = l.takes(9, "urgent", "g0", "low")
		l.ack(r["urgent"], r["g0"], r["low"])
		l.ack(l.takes(9, "g1")["g1"])
		l.Clock.Advance(time.Minute - time.Millisecond)
		l.takes(9)
		l.Clock.Advance(time.Millisecond)
		l.ack(l.takes(9, "delayed")["delayed"])
		l.Clock.Set(at.Add(-time.Millisecond))
		l.takes(9)
		l.Clock.Set(at)
		l.ack(l.takes(9, "at")["at"])
		l.empty()
	})
}

// A consumer that only settles wakes another for a message that is due later because of it.
func TestAfterWakesForALaterMessage(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		l.ids("a")
		l.put(wire.Message{ID: "b", After: []string{"a"}, Delay: time.Second})
		r := l.takes(1, "a")
		l.Redis.Del(t.Context(), l.key("q", "wake"))
		l.ack(r["a"])
		if l.Redis.Exists(t.Context(), l.key("q", "wake")).Val() != 1 {
			t.Error("nobody is woken")
		}
	})
}

// Promise: A message that comes after one that dies or is removed dies too, unless failures are ignored.
func TestAfterAFailure(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		for _, c := range []struct {
			name   string
			fails  func()
			reason string
		}{
			{"killed", func() { l.fails(wire.Kill, 0, l.takes(1, "a")["a"]) }, "it comes after a, which is dead"},
			{"last attempt", func() {
				for range 3 {
					l.takes(1, "a")
					l.Clock.Advance(time.Minute)
				}
				l.pump(wire.Pump{})
			}, "it comes after a, which is dead"},
			{"cancelled", func() { l.cancel(wire.CancelCmd, "a") }, "it comes after a, which was removed"},
			{"cancelled at work", func() { l.takes(1, "a"); l.cancel(wire.CancelCmd, "a") }, "it comes after a, which was removed"},
		} {
			l.ids("a")
			l.put(wire.Message{ID: "other", Delay: time.Hour})
			l.put(behind("b", "a", "other"), behind("c", "b"), behind("d", "other", "c"), wire.Message{ID: "e", After: []string{"b", "a"}, IgnoreFailure: true})
			l.blocked(4)
			c.fails()
			l.blocked(0)
			l.wantStates(map[string]queue.State{"b": queue.StateDead, "c": queue.StateDead, "d": queue.StateDead})
			for id, reason := range map[string]string{"b": c.reason, "c": "it comes after b, which is dead", "d": "it comes after c, which is dead"} {
				if m := l.one(id); m.LastReason != reason || m.Failures != 0 {
					t.Errorf("%s: %s: %q after %d failures, want %q", c.name, id, m.LastReason, m.Failures, reason)
				}
			}
			l.ack(l.takes(9, "e")["e"])
			if links := l.Redis.Exists(t.Context(), l.key("q", "links"), l.key("q", "ended"), l.key("q", "blocked")).Val(); links > 0 {
				t.Errorf("%s: links are left", c.name)
			}
			l.cancel(wire.DeleteCmd, "a", "b", "c", "d")
			l.cancel(wire.CancelCmd, "other")
			l.empty()
		}
	})
}

// A message that is put after a dead one is dead; requeued, all of them run in their order.
func TestAfterADeadOne(t *testing.T) {
	for _, order := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}} {
		lines(t, func(t *testing.T, l *line) {
			l.ids("a")
			l.fails(wire.Kill, 0, l.takes(1, "a")["a"])
			placed := l.put(behind("b", "a"), behind("c", "b"), wire.Message{ID: "e", After: []string{"a"}, IgnoreFailure: true})
			if placed[0].State != wire.StateDead || placed[1].State != wire.StateDead || placed[2].State != "" || placed[2].Status != wire.Added {
				t.Fatalf("put %+v", placed)
			}
			l.ack(l.takes(9, "e")["e"])
			for _, id := range order {
				if dead, err := wire.ReadFlags(l.do(wire.RequeueCmd(l.keys, id))); err != nil || !dead[0] {
					t.Fatalf("requeue of %s: %v, %v", id, dead, err)
				}
			}
			l.wants(counts{ready: 1})
			l.blocked(2)
			for _, id := range []string{"a", "b", "c"} {
				l.ack(l.takes(9, id)[id])
			}
			l.empty()
		})
	}
}

// A cancelled message waits for nothing, and another with its ID only for what it names.
func TestCancelOfABlockedMessage(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		l.ids("a", "b")
		l.put(behind("c", "a", "b"))
		if was := l.cancel(wire.CancelCmd, "c"); was[0] != queue.StatePending {
			t.Fatalf("it was %s", was)
		}
		l.put(behind("c", "b"))
		r := l.takes(9, "a", "b")
		l.ack(r["a"])
		l.takes(9)
		l.ack(r["b"])
		l.ack(l.takes(9, "c")["c"])
		l.empty()

		// Both at once, in any order: nothing dies.
		l.ids("a")
		l.put(behind("b", "a"), behind("c", "b"))
		l.cancel(wire.CancelCmd, "a", "b", "c")
		l.wants(counts{})
		l.empty()
	})
}

func TestDrainOfBlockedMessages(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		l.ids("a", "running")
		l.put(behind("b", "a"), behind("c", "b"), behind("d", "running"), wire.Message{ID: "e", After: []string{"a"}, IgnoreFailure: true})
		l.fails(wire.HandBack, 0, l.takes(1, "a")["a"])
		l.fails(wire.Retry, time.Hour, l.takes(1, "a")["a"])
		r := l.takes(1, "running")
		removed := 0
		for skip, more := 0, true; more; {
			var n int
			var err error
			n, skip, more, err = wire.ReadDrain(l.do(wire.DrainCmd(l.keys, 1, skip)))
			must(t, err)
			removed += n
		}
		if removed != 5 {
			t.Errorf("%d are removed, want 5", removed)
		}
		l.wants(counts{running: 1})
		l.ack(r["running"])
		l.empty()
	})
}

// A message for which very many wait releases them step by step. Meanwhile no new one can wait for it.
func TestAfterInSteps(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		const n = 2500
		l.ids("a")
		for from := 0; from < n; from += 500 {
			messages := make([]wire.Message, 500)
			for i := range messages {
				messages[i] = behind(fmt.Sprintf("b%04d", from+i), "a")
			}
			l.put(messages...)
		}
		l.blocked(n)
		r := l.takes(9, "a")
		p := l.pump(wire.Pump{Acks: []string{r["a"]}})
		if p.Next != 0 || l.stats().Blocked != n-1000 {
			t.Fatalf("%+v, %+v", p, l.stats())
		}
		l.ids("a") // another one
		// The first try is refused, and the Conn repeats it.
		if placed := l.put(behind("c", "a")); placed[0].State != wire.StateBlocked {
			t.Errorf("put %+v", placed)
		}
		l.blocked(1)
		got := map[string]bool{}
		for len(got) < n+2 { // with the second a, and c
			p := l.pump(wire.Pump{N: 1000})
			if len(p.Taken) == 0 && p.Next != 0 {
				t.Fatalf("%d of %d are taken: %+v", len(got), n+1, p)
			}
			acks := make([]string, 0, len(p.Taken))
			for _, m := range p.Taken {
				if got[m.ID] {
					t.Errorf("%s is taken twice", m.ID)
				}
				got[m.ID] = true
				acks = append(acks, m.Receipt)
			}
			l.pump(wire.Pump{Acks: acks})
		}
		l.empty()
	})
}

func TestAfterIsChecked(t *testing.T) {
	many := make([]string, wire.MaxAfter+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for want, messages := range map[string][]wire.Message{
		"is the message itself":           {behind("a", "a")},
		"named twice":                     {behind("a", "b", "b")},
		"after: queue: id has 0 bytes":    {behind("a", "")},
		"after: queue: id has 256":        {behind("a", strings.Repeat("x", 256))},
		"comes after 1001 messages":       {behind("a", many...)},
		"come after 1001 others":          {behind("a", many[:501]...), behind("b", many[:500]...)},
		`message 0 comes after "b"`:       {behind("a", "b"), {ID: "b"}},
		"failures are to be ignored":      {{ID: "a", IgnoreFailure: true}},
		"comes after \"1\", which is put": {behind("0", "1"), behind("1", "0")},
	} {
		for i := range messages {
			messages[i].Attempts = 1
		}
		if _, err := wire.PutCmd(wire.Keys{}, messages); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Messages that come after others in random ways, and end in random ways: a model says which may be taken.
//
// Promise: A message that comes after others is put once, in the step that settles the last of them.
func TestAfterAtRandom(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		rnd, steps := randtest.Rand(t), randtest.Watch(t)
		const n = 60
		type node struct {
			after  []int
			ignore bool
			state  string // "", done or failed
			runs   string // its receipt
		}
		nodes := make([]node, n)
		name := func(i int) string { return fmt.Sprintf("m%02d", i) }
		number := map[string]int{}
		var fail func(i int)
		fail = func(i int) {
			nodes[i].state, nodes[i].runs = "failed", ""
			for j := range nodes {
				if nodes[j].state == "" && !nodes[j].ignore && slices.Contains(nodes[j].after, i) {
					fail(j)
				}
			}
		}
		var messages []wire.Message
		for i := range nodes {
			m := wire.Message{ID: name(i), Lane: wire.Lane(rnd.IntN(4) - 1), IgnoreFailure: i > 0 && rnd.IntN(3) == 0} //nolint:gosec // < 4
			number[m.ID] = i
			for range min(i, rnd.IntN(4)) {
				if p := rnd.IntN(i); !slices.Contains(nodes[i].after, p) {
					nodes[i].after, m.After = append(nodes[i].after, p), append(m.After, name(p))
				}
			}
			m.IgnoreFailure = m.IgnoreFailure && len(m.After) > 0
			nodes[i].ignore = m.IgnoreFailure
			if rnd.IntN(4) == 0 {
				m.Delay = time.Duration(rnd.IntN(3)) * time.Minute
			}
			if rnd.IntN(4) == 0 {
				m.Group = fmt.Sprint(rnd.IntN(2))
			}
			messages = append(messages, m)
		}
		l.put(messages...)
		for step := 0; ; step++ {
			if step > 100*n {
				t.Fatalf("it does not end: %+v", l.stats())
			}
			steps.Begin(func() string { return fmt.Sprint("step ", step) })
			p := l.pump(wire.Pump{N: 1 + rnd.IntN(5), Lease: 5 * time.Minute})
			for _, m := range p.Taken {
				at := &nodes[number[m.ID]]
				if at.state != "" || at.runs != "" {
					t.Fatalf("%s is taken, and is %+v", m.ID, at)
				}
				for _, p := range at.after {
					if state := nodes[p].state; state == "" || state == "failed" && !at.ignore {
						t.Fatalf("%s is taken, and %s before it is %q", m.ID, name(p), state)
					}
				}
				at.runs = m.Receipt
			}
			i := rnd.IntN(n)
			switch at := &nodes[i]; {
			case at.runs != "" && rnd.IntN(4) == 0:
				l.fails(wire.Kill, 0, at.runs)
				fail(i)
			case at.runs != "":
				l.ack(at.runs)
				at.state, at.runs = "done", ""
			case at.state == "" && rnd.IntN(20) == 0:
				l.cancel(wire.CancelCmd, name(i))
				fail(i)
			case rnd.IntN(5) == 0:
				l.Clock.Advance(time.Minute)
				for j := range nodes { // so that no lease ends
					if r := nodes[j].runs; r != "" {
						l.do(wire.ExtendCmd(l.keys, 5*time.Minute, r))
					}
				}
			}
			steps.End()
			if !slices.ContainsFunc(nodes, func(n node) bool { return n.state == "" }) {
				break
			}
		}
		l.pump(wire.Pump{})
		for i := range nodes {
			if got := l.one(name(i)).State; got != wire.StateAbsent && (got != wire.StateDead || nodes[i].state != "failed") {
				t.Errorf("%s is %s, want %s", name(i), got, nodes[i].state)
			}
			l.cancel(wire.DeleteCmd, name(i))
		}
		l.empty()
	})
}

// Chains and fan-in through consumers whose replies are lost: each message is handled once, after the ones
// before it.
//
// Promise: A repeated pump returns the same messages, so a lost reply loses no message and uses
// up no attempt.
func TestAfterWithLostReplies(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		conn := &flaky{Conn: clienttest.Wrap(t, e.Redis), lose: 5}
		q, err := queue.New[string](e.ClientOn(conn), queue.Options{})
		must(t, err)
		var requests []queue.Request[string]
		for chain := range 4 {
			for i := range 5 {
				r := queue.Request[string]{ID: fmt.Sprintf("%d.%d", chain, i)}
				if i > 0 {
					r.After = []string{fmt.Sprintf("%d.%d", chain, i-1)}
				}
				requests = append(requests, r)
			}
		}
		requests = append(requests, queue.Request[string]{ID: "last", After: []string{"0.4", "1.4", "2.4", "3.4"}})
		placed, err := q.PutMany(t.Context(), "q", requests)
		must(t, err)
		if placed[0].State != "" || placed[1].State != queue.StateBlocked {
			t.Errorf("put %+v", placed[:2])
		}
		var mu sync.Mutex
		done := map[string]int{}
		run(t, q, func(_ context.Context, d *queue.Delivery[string]) error {
			mu.Lock()
			defer mu.Unlock()
			for _, id := range d.After {
				if done[id] == 0 {
					t.Errorf("%s is handled before %s", d.ID, id)
				}
			}
			done[d.ID]++
			return nil
		}, queue.RunOptions{Concurrency: 3})
		e.gone(t)
		mu.Lock()
		defer mu.Unlock()
		for _, r := range requests {
			if done[r.ID] != 1 {
				t.Errorf("%s is handled %d times", r.ID, done[r.ID])
			}
		}
	})
}
