package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

// lines runs a test on every back end, with a clock that stands until the test
// moves it.
func lines(t *testing.T, run func(t *testing.T, l *line)) {
	eachFrozen(t, func(t *testing.T, e *env) { run(t, e.line(t, "q")) })
}

// Promise: Messages of a lane are taken in the order in which they became ready.
func TestPutTakeAck(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		l.ids("a", "b", "c")
		l.ids("0") // not before the others, although the clock stands
		l.wants(counts{ready: 4})
		r := l.takes(2, "a", "b")
		l.wants(counts{ready: 2, running: 2})
		l.ack(r["a"], r["b"])
		r = l.takes(9, "c", "0")
		l.ack(r["c"])
		l.ack(r["0"])
		l.empty()
	})
}

// Promise: A repeated put with the ID of a message in the queue adds nothing; it replaces a dead
// message.
func TestPutIsIdempotentUntilAcked(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		first := l.put(wire.Message{ID: "a"}, wire.Message{ID: "a"}, wire.Message{ID: "b", Delay: time.Hour})
		want := []wire.PutResult{{ID: "a", Status: queue.Added}, {ID: "a", Status: queue.Exists}, {ID: "b", Status: queue.Added}}
		if !slices.Equal(first, want) {
			t.Fatalf("%v, want %v", first, want)
		}
		if again := l.put(wire.Message{ID: "b"}); again[0].Status != queue.Exists {
			t.Fatalf("put again: %v", again)
		}
		r := l.takes(5, "a")
		if again := l.put(wire.Message{ID: "a"}); again[0].Status != queue.Exists {
			t.Fatalf("put while it is at work: %v", again)
		}
		l.ack(r["a"])
		l.wants(counts{due: 1})
		l.ids("a")
		l.wants(counts{due: 1, ready: 1})
	})
}

// Promise: A message is never taken before it is due, by the server's clock.
func TestNeverBeforeDue(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		at := l.Clock.Now().Add(50*time.Millisecond + time.Microsecond)
		l.put(wire.Message{ID: "later", Delay: time.Minute}, wire.Message{ID: "at", At: at}, wire.Message{ID: "past", At: at.Add(-time.Hour)})
		if p := l.pump(wire.Pump{N: 5}); len(p.Taken) != 1 || p.Taken[0].ID != "past" || p.Next != 50*time.Millisecond+time.Millisecond {
			t.Fatalf("%+v", p)
		}
		l.Clock.Advance(50 * time.Millisecond)
		l.takes(5)
		l.Clock.Advance(time.Millisecond)
		l.takes(5, "at")
		l.Clock.Advance(58 * time.Second)
		l.takes(5)
		// A short delay after a long one is the next.
		l.put(wire.Message{ID: "soon", Delay: 10 * time.Millisecond})
		if p := l.pump(wire.Pump{}); p.Next != 10*time.Millisecond {
			t.Fatalf("next after %v", p.Next)
		}
		l.Clock.Advance(10 * time.Millisecond)
		l.takes(5, "soon")
	})
}

// Due times are whole milliseconds: a delay that ends within one ends with it.
//
// Promise: A message is never taken before it is due, by the server's clock.
func TestDelaysAreNotCutShort(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		l.Clock.Advance(time.Microsecond)
		const delay = 10 * time.Millisecond
		l.put(wire.Message{ID: "a", Delay: delay})
		for _, step := range []wire.NackKind{wire.Retry, wire.Snooze, ""} {
			l.Clock.Advance(delay - time.Microsecond)
			l.takes(1)
			l.Clock.Advance(time.Millisecond)
			r := l.takes(1, "a")
			if step == "" {
				l.ack(r["a"])
				break
			}
			l.fails(step, delay, r["a"])
		}
		l.empty()
	})
}

// A sleeping consumer learns of a message that is due earlier than the ones it knows.
func TestMarkerOfAnEarlierDueTime(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		marked := func() bool { return l.Redis.Del(t.Context(), l.key("q", "wake")).Val() == 1 }
		for i, c := range []struct {
			delay time.Duration
			want  bool
		}{{time.Hour, true}, {2 * time.Hour, false}, {time.Minute, true}, {time.Minute + time.Second, false}} {
			l.put(wire.Message{ID: fmt.Sprint(i), Delay: c.delay})
			if got := marked(); got != c.want {
				t.Errorf("%v: marked %v", c.delay, got)
			}
		}
	})
}

// Promise: A repeated pump returns the same messages, so a lost reply loses no message and uses
// up no attempt.
func TestRepeatedTake(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		l.ids("a", "b", "c")
		p := wire.Pump{Take: "take-take-take-1", N: 2}
		first := l.pump(p)
		again := l.pump(p)
		if len(first.Taken) != 2 || !again.Again || len(again.Taken) != 2 || again.Taken[0].Receipt != first.Taken[0].Receipt || again.Taken[1].ID != "b" {
			t.Fatalf("first %+v, again %+v", first, again)
		}
		l.wants(counts{ready: 1, running: 2})
		l.takes(5, "c")
		l.Clock.Advance(time.Minute)
		if p := l.pump(p); p.Again || len(p.Taken) != 2 || p.Taken[0].Failures != 1 {
			t.Fatalf("after the lease: %+v", p)
		}
	})
}

// Promise: A consumer that has lost a message can't settle it.
func TestLateAndStaleSettle(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		l.ids("a", "b")
		late := l.takes(2, "a", "b")
		l.Clock.Advance(2 * time.Minute)
		l.ack(late["a"]) // nobody has taken it since
		fresh := l.takes(2, "b")
		for _, p := range []wire.Pump{
			{Acks: []string{late["b"]}},
			{Nacks: []wire.Nack{{Receipt: late["b"], Kind: wire.Retry}}},
			{Results: []wire.Result{{Receipt: late["b"], Value: "x", Keep: time.Minute}}},
			{Acks: []string{"nonsense"}},
		} {
			if got := l.pump(p); !slices.Equal(got.Refused, []int{0}) {
				t.Errorf("%+v: refused %v", p, got.Refused)
			}
		}
		l.wants(counts{running: 1})
		l.ack(fresh["b"])
		l.empty()
	})
}

// Promise: Once a put has returned, its message is handed to a handler until one returns nil, the
// message is dead, or it is cancelled.
//
// Promise: A message that kills its consumers dies after its attempts; with unlimited attempts it
// waits longer after each failure.
func TestPoison(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		l.ids("x", "y")
		for i := range 3 { // its consumers die
			if p := l.pump(wire.Pump{N: 1}); p.Taken[0].ID != "x" || p.Taken[0].Failures != i {
				t.Fatalf("%+v", p.Taken[0])
			}
			l.Clock.Advance(time.Minute)
		}
		r := l.takes(5, "y")
		l.wants(counts{dead: 1, running: 1})
		for i := range 3 {
			l.fails(wire.Retry, -1, r["y"])
			if i == 2 {
				break
			}
			want := time.Second << i
			if p := l.pump(wire.Pump{N: 1}); len(p.Taken) != 0 || p.Next != want {
				t.Fatalf("failure %d: %+v", i, p)
			}
			l.Clock.Advance(want)
			r = l.takes(1, "y")
		}
		l.wants(counts{dead: 2})
		cmd, err := wire.MessagesCmd(l.keys, queue.StateDead, 0, 10)
		must(t, err)
		dead, all, err := wire.ReadMessages(l.do(cmd), queue.StateDead)
		must(t, err)
		if all != 2 || dead[0].ID != "x" || dead[0].LastReason != "its lease ran out" || dead[1].LastReason != "why" || dead[1].Failures != 3 {
			t.Fatalf("dead: %+v", dead)
		}
		requeued, err := wire.ReadFlags(l.do(wire.RequeueCmd(l.keys, "x", "z")))
		must(t, err)
		if !slices.Equal(requeued, []bool{true, false}) {
			t.Fatalf("requeued %v", requeued)
		}
		l.wants(counts{ready: 1, dead: 1})
		if placed := l.put(wire.Message{ID: "y"}); placed[0].Status != queue.Added {
			t.Fatalf("put over a dead one: %v", placed)
		}
		l.wants(counts{ready: 2})
		r = l.takes(5, "x", "y")
		l.fails(wire.Kill, 0, r["x"])
		l.ack(r["y"])
		if was := l.cancel(wire.CancelCmd, "x"); was[0] != queue.StateDead {
			t.Fatalf("cancel of a dead one: %v", was)
		}
		l.wants(counts{dead: 1})
		if was := l.cancel(wire.DeleteCmd, "x", "x"); !slices.Equal(was, []queue.State{queue.StateDead, queue.StateAbsent}) {
			t.Fatalf("delete: %v", was)
		}
		l.empty()
	})
}

func TestSnoozeAndBackCountNothing(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		l.ids("a", "b")
		for range 5 {
			r := l.takes(1, "a")
			l.fails(wire.HandBack, 0, r["a"]) // and is in front again
		}
		for range 5 {
			r := l.takes(1, "a")
			l.fails(wire.Snooze, time.Minute, r["a"])
			r = l.takes(2, "b")
			l.fails(wire.HandBack, 0, r["b"])
			l.Clock.Advance(time.Minute)
			l.pump(wire.Pump{})
			l.takes(0)
			r = l.takes(1, "b")
			l.fails(wire.Snooze, 0, r["b"]) // behind a, which is due since then
		}
		if p := l.pump(wire.Pump{N: 2}); p.Taken[0].Failures != 0 {
			t.Fatalf("%+v", p)
		}
	})
}

// Promise: Messages of a lane are taken in the order in which they became ready.
func TestLanes(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		for i, lane := range []queue.Lane{queue.Normal, queue.Low, queue.Urgent, queue.High, queue.Normal, queue.Urgent} {
			l.put(wire.Message{ID: fmt.Sprint(i), Lane: lane})
		}
		if s := l.stats(); s.ReadyIn[queue.Urgent] != 2 || s.ReadyIn[queue.Low] != 1 || s.Ready != 6 {
			t.Errorf("%+v", s)
		}
		l.takes(6, "2", "5", "3", "0", "4", "1")
	})
}

// Promise: Messages of a group run one at a time and in order; a message that failed keeps its
// turn.
func TestGroups(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		put := func(id, group string, delay time.Duration) {
			l.put(wire.Message{ID: id, Group: group, Delay: delay})
		}
		put("a3", "a", 2*time.Second)
		put("a1", "a", 0)
		put("a2", "a", 0)
		put("b1", "aa", 0)
		put("n", "", 0)
		l.wants(counts{ready: 3, waiting: 1, due: 1})
		r := l.takes(9, "a1", "b1", "n")
		// The first keeps its turn until it is done, or dead.
		l.fails(wire.Retry, 3*time.Second, r["a1"])
		l.takes(9)
		l.Clock.Advance(2 * time.Second)
		l.takes(9)
		l.wants(counts{waiting: 2, due: 1, running: 2})
		l.Clock.Advance(time.Second)
		r2 := l.takes(9, "a1")
		l.ack(r2["a1"])
		r2 = l.takes(9, "a2")
		l.fails(wire.Kill, 0, r2["a2"])
		r3 := l.takes(9, "a3")
		l.put(wire.Message{ID: "a4", Group: "a"})
		requeued, err := wire.ReadFlags(l.do(wire.RequeueCmd(l.keys, "a2")))
		must(t, err)
		if !requeued[0] {
			t.Fatal("not requeued")
		}
		l.wants(counts{waiting: 2, running: 3})
		l.Clock.Advance(time.Minute) // their consumers die
		l.pump(wire.Pump{})
		l.wants(counts{waiting: 2, ready: 3})
		_ = r3
		got := l.takes(9, "a3", "b1", "n")
		l.ack(got["a3"], got["b1"], got["n"])
		for _, id := range []string{"a4", "a2"} {
			got := l.takes(9, id)
			l.ack(got[id])
		}
		l.empty()
	})
}

// Promise: A consumer that has lost a message can't settle it.
func TestCancel(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		l.put(wire.Message{ID: "running"}, wire.Message{ID: "ready"}, wire.Message{ID: "due", Delay: time.Minute})
		r := l.takes(1, "running")
		for i := range 6 {
			l.put(wire.Message{ID: fmt.Sprint("g", i), Group: "g"})
		}
		l.wants(counts{ready: 2, due: 1, running: 1, waiting: 5})
		was := l.cancel(wire.CancelCmd, "running", "ready", "due", "nobody", "g2", "g0", "g3", "g2")
		want := []queue.State{queue.StateRunning, queue.StatePending, queue.StatePending, queue.StateAbsent, queue.StatePending, queue.StatePending, queue.StatePending, queue.StateAbsent}
		if !slices.Equal(was, want) {
			t.Fatalf("%v, want %v", was, want)
		}
		l.wants(counts{ready: 1, waiting: 2})
		held, err := wire.ReadFlags(l.do(wire.ExtendCmd(l.keys, time.Minute, r["running"])))
		must(t, err)
		if held[0] {
			t.Error("the lease of a cancelled message is held")
		}
		// The same id again is another message, which a late ack leaves alone.
		l.ids("running")
		if p := l.pump(wire.Pump{Acks: []string{r["running"]}}); len(p.Refused) != 1 {
			t.Error("the ack of a cancelled message was taken")
		}
		got := l.takes(2, "g1", "running")
		l.ack(got["running"], got["g1"])
		for _, id := range []string{"g4", "g5"} {
			got := l.takes(1, id)
			l.ack(got[id])
		}
		l.empty()
	})
}

// Promise: A unique key drops further messages with the same key for its time.
func TestUnique(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		m := func(id string) wire.Message { return wire.Message{ID: id, Unique: "k", UniqueFor: time.Hour} }
		first := l.put(m("a"), m("b"), m("a"), wire.Message{ID: "c", Unique: "other", UniqueFor: time.Hour})
		want := []wire.PutResult{{ID: "a", Status: queue.Added}, {ID: "a", Status: queue.Duplicate}, {ID: "a", Status: queue.Exists}, {ID: "c", Status: queue.Added}}
		if !slices.Equal(first, want) {
			t.Fatalf("%v, want %v", first, want)
		}
		r := l.takes(5, "a", "c")
		l.ack(r["a"], r["c"])
		if again := l.put(m("d")); again[0] != (wire.PutResult{ID: "a", Status: queue.Duplicate}) {
			t.Fatalf("after the ack: %v", again)
		}
		if again := l.put(m("a")); again[0] != (wire.PutResult{ID: "a", Status: queue.Exists}) {
			t.Fatalf("the same after the ack: %v", again)
		}
		for _, key := range l.Redis.Keys(t.Context(), l.key("q", "unique:*")).Val() {
			if ttl := l.Redis.PTTL(t.Context(), key).Val(); ttl < 50*time.Minute || ttl > time.Hour {
				t.Errorf("%s lasts %v", key, ttl)
			}
			must(t, l.Redis.Del(t.Context(), key).Err())
		}
		l.empty()
	})
}

func TestPauseAndLimits(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		must(t, l.do(wire.PauseCmd(l.keys)).Err)
		l.ids("a", "b", "c", "d", "e")
		l.takes(9)
		if s := l.stats(); !s.Paused {
			t.Error("not paused")
		}
		if p := l.pump(wire.Pump{N: 1}); p.Next >= 0 {
			t.Errorf("next after %v while it is paused", p.Next)
		}
		must(t, l.do(wire.ResumeCmd(l.keys)).Err)
		l.wants(counts{ready: 5})
		limit := func(limits queue.Limits) {
			cmd, err := wire.LimitCmd(l.keys, wire.Limits(limits))
			must(t, err)
			must(t, l.do(cmd).Err)
		}
		limit(queue.Limits{Concurrency: 2})
		r := l.takes(9, "a", "b")
		l.takes(9)
		l.ack(r["b"])
		if l.Redis.Exists(t.Context(), l.key("q", "wake")).Val() != 1 {
			t.Error("nobody hears of the free place")
		}
		r = l.takes(9, "c")
		limit(queue.Limits{Rate: 2, Per: time.Second, Burst: 1})
		l.takes(9, "d")
		if p := l.pump(wire.Pump{N: 9}); len(p.Taken) > 0 || p.Next != 500*time.Millisecond {
			t.Errorf("beyond the rate: %+v", p)
		}
		l.Clock.Advance(500 * time.Millisecond)
		l.takes(9, "e")
		limit(queue.Limits{})
		if n := l.Redis.Exists(t.Context(), l.key("q", "config")).Val(); n != 0 {
			t.Error("settings are left")
		}
		_ = r
	})
}

// A batch beyond what Lua's unpack can hold, half of it delayed.
func TestBatch(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		messages := make([]wire.Message, queue.MaxBatch)
		for i := range messages {
			messages[i].ID = fmt.Sprintf("%05d", i)
			if i%2 == 1 {
				messages[i].Delay = time.Minute
			}
		}
		for i, p := range l.put(messages...) {
			if p.Status != queue.Added {
				t.Fatalf("%d: %+v", i, p)
			}
		}
		l.wants(counts{ready: 5000, due: 5000})
		next, receipts := 0, []string{}
		drain := func() {
			for {
				got := l.pump(wire.Pump{N: wire.MaxSettle, Acks: receipts})
				receipts = receipts[:0]
				for _, m := range got.Taken {
					if m.ID != fmt.Sprintf("%05d", next) {
						t.Fatalf("%s, want %05d", m.ID, next)
					}
					next += 2
					receipts = append(receipts, m.Receipt)
				}
				if len(receipts) == 0 && got.Next != 0 {
					return
				}
			}
		}
		drain()
		next = 1
		l.Clock.Advance(time.Minute)
		drain()
		if next != 10001 {
			t.Fatalf("%d", next)
		}
		l.empty()
	})
}

func TestResults(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		l.put(wire.Message{ID: "a", Headers: map[string]string{"trace": "1", "b": ""}}, wire.Message{ID: "b"})
		find := func(id string) wire.MessageInfo {
			t.Helper()
			f, err := wire.ReadFind(l.do(wire.FindCmd(l.keys, id)), id)
			must(t, err)
			return f
		}
		if f := find("a"); f.State != queue.StateReady || !f.When.Equal(l.Clock.Now()) || f.Headers["trace"] != "1" || len(f.Headers) != 2 {
			t.Errorf("%+v", f)
		}
		r := l.takes(1, "a")
		if f := find("a"); f.State != queue.StateRunning || !f.When.Equal(l.Clock.Now().Truncate(time.Millisecond).Add(time.Minute)) {
			t.Errorf("%+v", f)
		}
		l.pump(wire.Pump{Results: []wire.Result{{Receipt: r["a"], Value: "out", Keep: time.Hour}}})
		if f := find("a"); f.State != queue.StateDone || string(f.Result) != "out" {
			t.Errorf("%+v", f)
		}
		r = l.takes(1, "b")
		l.fails(wire.Retry, time.Minute, r["b"])
		if f := find("b"); f.State != queue.StateDue || f.Failures != 1 || f.LastReason != "why" {
			t.Errorf("%+v", f)
		}
		if f := find("c"); f.State != queue.StateAbsent {
			t.Errorf("%+v", f)
		}
	})
}

func TestExtend(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		l.ids("a", "b")
		r := l.takes(2, "a", "b")
		l.ack(r["b"])
		extend := func(d time.Duration) []bool {
			held, err := wire.ReadFlags(l.do(wire.ExtendCmd(l.keys, d, r["a"], r["b"])))
			must(t, err)
			return held
		}
		if held := extend(time.Hour); !slices.Equal(held, []bool{true, false}) {
			t.Fatalf("%v", held)
		}
		extend(time.Second) // not shorter
		l.Clock.Advance(59 * time.Minute)
		l.takes(1)
		l.Clock.Advance(time.Minute)
		l.takes(1, "a")
		if held := extend(time.Hour); held[0] {
			t.Fatal("another has it")
		}
	})
}
