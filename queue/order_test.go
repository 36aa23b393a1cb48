package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

// A message that became due while nobody looked is in front of later messages.
//
// Promise: Messages of a group run one at a time and in order; a message that failed keeps its
// turn.
func TestGroupsWhileNobodyLooks(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		const many = 300 // more than one call brings into the line
		want := make([]string, 0, many+3)
		messages := make([]wire.Message, many)
		for i := range messages {
			messages[i] = wire.Message{ID: fmt.Sprintf("due%03d", i), Group: "g", Delay: time.Second}
			want = append(want, messages[i].ID)
		}
		l.put(wire.Message{ID: "dead", Group: "g"})
		l.fails(wire.Kill, 0, l.takes(1, "dead")["dead"])
		l.put(messages...)
		l.Clock.Advance(time.Hour)
		l.put(wire.Message{ID: "put", Group: "g"})
		l.Clock.Advance(time.Millisecond)
		requeued, err := wire.ReadFlags(l.do(wire.RequeueCmd(l.keys, "dead")))
		must(t, err)
		if !requeued[0] {
			t.Fatal("not requeued")
		}
		l.Clock.Advance(time.Millisecond)
		l.put(wire.Message{ID: "last", Group: "g"})
		if l.Redis.Exists(t.Context(), l.key("q", "wake")).Val() != 1 {
			t.Error("nobody would be woken")
		}
		var acks []string
		for _, id := range append(want, "put", "dead", "last") {
			p := l.pump(wire.Pump{N: 9, Acks: acks})
			if len(p.Taken) != 1 || p.Taken[0].ID != id {
				t.Fatalf("%+v, want %s", p.Taken, id)
			}
			acks = []string{p.Taken[0].Receipt}
		}
		l.ack(acks...)
		l.empty()
	})
}

// Messages due in the same ms are ordered by id, and the messages of one process by the time of their
// creation.
//
// Promise: Messages of a lane are taken in the order in which they became ready.
func TestIDsAreInOrder(t *testing.T) {
	ids := make([]string, 1<<13) // more than two letters' worth
	for i := range ids {
		ids[i] = wire.NewID()
	}
	if !slices.IsSorted(ids) || len(ids[0]) != 16 {
		t.Errorf("not in order: %q …", ids[:70])
	}
}

func TestRequeuedKeepTheirOrder(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		l.ids("c", "a", "b")
		for id, receipt := range l.takes(3, "c", "a", "b") {
			_ = id
			l.fails(wire.Kill, 0, receipt)
		}
		must(t, l.do(wire.RequeueCmd(l.keys, "b", "c", "a")).Err)
		l.takes(9, "b", "c", "a")
	})
}

// A message that may fail for ever and kills its consumers lets others go first.
//
// Promise: A message that kills its consumers dies after its attempts; with unlimited attempts it
// waits longer after each failure.
func TestPoisonWithoutEnd(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		l.put(wire.Message{ID: "poison", Attempts: queue.Unlimited}, wire.Message{ID: "good"})
		for range 2 {
			l.takes(1, "poison")
			l.Clock.Advance(time.Minute)
		}
		l.ack(l.takes(9, "good")["good"])
		for n := 2; n < 1030; n++ { // 2^1024 is no number any more
			want := 10 * time.Minute
			if n <= 10 {
				want = time.Second << (n - 1)
			}
			if p := l.pump(wire.Pump{N: 1}); len(p.Taken) != 0 || p.Next != want {
				t.Fatalf("failure %d: %+v, want next after %v", n, p, want)
			}
			l.Clock.Advance(want)
			l.takes(1, "poison")
			l.Clock.Advance(time.Minute)
			if n == 12 {
				n = 1020
				l.Redis.HSet(t.Context(), l.key("q", "fails"), "poison", "1020 x")
			}
		}
	})
}
