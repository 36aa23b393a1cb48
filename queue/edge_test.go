package queue_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

// A message whose ID is in the queue already is not put, and its unique key is not taken.
//
// Promise: A unique key drops further messages with the same key for its time.
func TestUniqueKeyOfWhatExists(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		l.ids("x")
		m := func(id string) wire.Message { return wire.Message{ID: id, Unique: "k", UniqueFor: time.Hour} }
		got := append(l.put(m("x")), l.put(m("y"), m("x"), m("z"))...)
		want := []wire.PutResult{{ID: "x", Status: queue.Exists}, {ID: "y", Status: queue.Added}, {ID: "y", Status: queue.Duplicate}, {ID: "y", Status: queue.Duplicate}}
		if !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

// The marker stays until a consumer pumps, because that consumer learns when to pump again.
func TestMarkerStaysWhileThereIsSomething(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		wants := func(what string, want bool) {
			t.Helper()
			if got := l.Redis.Exists(t.Context(), l.key("q", "wake")).Val() == 1; got != want {
				t.Fatalf("%s: marked %v", what, got)
			}
		}
		touch := func(what string, want bool) {
			t.Helper()
			l.pump(wire.Pump{Acks: []string{"0123456789abcdefnobody"}})
			wants(what+", after an ack", want)
			l.cancel(wire.CancelCmd, "nobody")
			wants(what+", after a cancel", want)
		}
		drain := func() {
			must(t, l.do(wire.DrainCmd(l.keys, 1, 0)).Err)
		}
		l.put(wire.Message{ID: "a", Delay: time.Hour}, wire.Message{ID: "b", Delay: time.Hour})
		touch("due later", true)
		drain()
		wants("one of two drained", true)
		drain()
		wants("both drained", false)

		l.ids("a")
		r := l.takes(1, "a")
		wants("nothing left", false)
		l.pump(wire.Pump{N: wire.Leave})
		wants("a consumer leaves", true)
		touch("on lease", true)
		drain()
		wants("nothing to drain", true)
		l.ack(r["a"])
		wants("nothing", false)
	})
}

// An entry that is no message fails like a message, and harms no other.
//
// Promise: A stored entry that is not a message becomes dead and stops no consumer.
func TestStrangeEnvelopes(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		for _, envelope := range []string{"", "\x02", "\x06", "\x06\x00", "\x06\x00\x03", "\x06\x00\x03\x09ab"} {
			for _, step := range []string{"ready", "due", "running", "drain", "cancel", "requeue"} {
				l.Redis.Del(t.Context(), l.Redis.Keys(t.Context(), l.key("q", "")+"*").Val()...)
				delay := time.Duration(0)
				if step == "due" {
					delay = time.Second
				}
				l.put(wire.Message{ID: "a", Delay: delay}, wire.Message{ID: "bad", Delay: delay, Group: "g"},
					wire.Message{ID: "c", Delay: delay, Group: "g"})
				pump := func() {
					t.Helper()
					l.take++
					p := wire.Pump{Consumer: "c", Take: wire.NewTake(), N: 9, Lease: time.Second}
					if err := l.do(wire.PumpCmd(l.keys, p)).Err; err != nil {
						t.Fatalf("%q, %s: %v", envelope, step, err)
					}
				}
				spoil := func() { must(t, l.Redis.HSet(t.Context(), l.key("q", ""), "bad", envelope).Err()) }
				var cmds []redoubt.Cmd
				switch step {
				case "running":
					pump()
				case "drain":
					cmds = append(cmds, wire.DrainCmd(l.keys, 9, 0))
				case "cancel":
					cmds = append(cmds, wire.CancelCmd(l.keys, "bad", "c"))
				case "requeue":
					for range 3 {
						pump()
						l.Clock.Advance(time.Second)
					}
					pump()
					cmds = append(cmds, wire.RequeueCmd(l.keys, "bad", "a"), wire.FindCmd(l.keys, "bad"))
				}
				spoil()
				for _, cmd := range cmds {
					if err := l.do(cmd).Err; err != nil {
						t.Fatalf("%q, %s: %v", envelope, step, err)
					}
				}
				for range 5 {
					l.Clock.Advance(time.Second)
					pump()
				}
				if step == "drain" {
					continue
				}
				f, err := wire.ReadFind(l.do(wire.FindCmd(l.keys, "a")), "a")
				must(t, err)
				if s := l.stats(); f.State != queue.StateDead && step != "requeue" && f.State != queue.StateRunning || s.Waiting > 1 {
					t.Errorf("%q, %s: a is %s; %+v", envelope, step, f.State, s)
				}
			}
		}
	})
}

// A receipt counts once in a call.
func TestReceiptTwice(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		l.ids("a", "b", "c")
		r := l.takes(9, "a", "b", "c")
		failed := wire.Nack{Receipt: r["b"], Kind: wire.Retry, Delay: time.Second}
		buried := wire.Nack{Receipt: r["b"], Kind: wire.Kill}
		p := l.pump(wire.Pump{Acks: []string{r["a"], r["a"]}, Nacks: []wire.Nack{failed, buried, {Receipt: r["a"], Kind: wire.HandBack}}})
		if !slices.Equal(p.Refused, []int{1, 3, 4}) {
			t.Errorf("refused %v", p.Refused)
		}
		l.wants(counts{due: 1, running: 1})
		p = l.pump(wire.Pump{
			Acks:    []string{r["c"]},
			Results: []wire.Result{{Receipt: r["c"], Value: "x", Keep: time.Minute}},
		})
		if !slices.Equal(p.Refused, []int{1}) {
			t.Errorf("refused %v", p.Refused)
		}
		f, err := wire.ReadFind(l.do(wire.FindCmd(l.keys, "c")), "c")
		must(t, err)
		if f.State != queue.StateAbsent {
			t.Errorf("%+v", f)
		}
	})
}

// A rate is never more than was asked for, and to set it again gives no new burst.
func TestRateIsNotExceeded(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		limit := func(limits queue.Limits) {
			t.Helper()
			cmd, err := wire.LimitCmd(l.keys, wire.Limits(limits))
			must(t, err)
			must(t, l.do(cmd).Err)
		}
		limit(queue.Limits{Rate: 600_000})
		if got := l.stats().Limits; got.Rate != 1 || got.Per != 2*time.Microsecond {
			t.Errorf("600000 a second is %d in %v", got.Rate, got.Per)
		}
		l.ids("a", "b", "c")
		slow := queue.Limits{Rate: 1, Per: time.Minute}
		limit(slow)
		l.takes(9, "a")
		limit(slow)
		l.takes(9)
		slow.Concurrency = 5
		limit(slow)
		l.takes(9)
		limit(queue.Limits{Rate: 1, Per: time.Minute, Burst: 2}) // another limit begins anew
		l.takes(9, "b", "c")
	})
}

// A consumer that does not know the name of its last take gets again what it has of
// it; what it takes after that has other receipts, also the same message.
//
// Promise: A consumer that has lost a message can't settle it.
//
// Promise: A repeated pump returns the same messages, so a lost reply loses no message and uses
// up no attempt.
func TestTakeThatRepeats(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		take := func(id string, failures int) wire.Pumped {
			t.Helper()
			p := l.pump(wire.Pump{Repeats: true, N: 1})
			if len(p.Taken) != 1 || p.Taken[0].ID != id || p.Taken[0].Failures != failures {
				t.Fatalf("%+v, want %s", p, id)
			}
			return p
		}
		stale := func(receipt string) {
			t.Helper()
			for _, p := range []wire.Pump{
				{Acks: []string{receipt}},
				{Nacks: []wire.Nack{{Receipt: receipt, Kind: wire.Retry}}},
				{Results: []wire.Result{{Receipt: receipt, Keep: time.Minute}}},
			} {
				if got := l.pump(p); !slices.Equal(got.Refused, []int{0}) {
					t.Errorf("%+v: refused %v", p, got.Refused)
				}
			}
			held, err := wire.ReadFlags(l.do(wire.ExtendCmd(l.keys, time.Hour, receipt)))
			must(t, err)
			if held[0] {
				t.Error("a stale receipt was extended")
			}
		}
		l.ids("a", "b")
		first := take("a", 0).Taken[0].Receipt
		if p := take("a", 0); !p.Again || p.Taken[0].Receipt != first {
			t.Fatalf("again: %+v, want the receipt %s", p, first)
		}
		l.Clock.Advance(time.Minute) // the lease is over
		second := take("a", 1).Taken[0].Receipt
		stale(first)
		l.fails(wire.HandBack, 0, second)
		third := take("a", 1).Taken[0].Receipt
		stale(first)
		stale(second)
		l.ack(third)
		last := take("b", 0)
		if last.Again {
			t.Errorf("%+v", last)
		}
		l.ack(last.Taken[0].Receipt)
		l.ids("a")
		last = take("a", 0)
		stale(third)
		l.ack(last.Taken[0].Receipt)
		l.empty()
	})
}
