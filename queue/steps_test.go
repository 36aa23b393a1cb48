package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

// many is more messages than one script searches.
const many = 4100

// inMany makes a queue whose messages m0, m1, … are running. Of the group g0, g1, … the first is running and
// the others wait.
func (l *line) inMany() {
	l.t.Helper()
	messages := make([]wire.Message, 0, 2*many)
	for i := range many {
		messages = append(messages, wire.Message{ID: fmt.Sprint("m", i)}, wire.Message{ID: fmt.Sprint("g", i), Group: "group"})
	}
	l.put(messages...)
	for taken := 0; taken <= many; {
		got := l.pump(wire.Pump{N: wire.MaxSettle})
		if len(got.Taken) == 0 {
			l.t.Fatalf("%d were taken, want %d", taken, many+1)
		}
		taken += len(got.Taken)
	}
	l.wants(counts{running: many + 1, waiting: many - 1})
}

// A message is found and cancelled among any number that are running or wait, in steps; one script
// refuses to look for it. It puts and takes 8,200 messages on each back end, or there would not be
// too many for one script.
func TestOneOfVeryMany(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		ctx := t.Context()
		l.inMany()
		for id, want := range map[string]queue.State{"m7": queue.StateRunning, "g0": queue.StateRunning, "g7": queue.StateWaiting, "none": queue.StateAbsent} {
			got, err := wire.Find(ctx, l.Client, l.keys, id)
			must(t, err)
			if got.State != want || got.ID != id {
				t.Errorf("%s is %s %s, want %s", id, got.State, got.ID, want)
			}
		}
		if _, err := wire.ReadFind(l.do(wire.FindCmd(l.keys, "m7")), "m7"); !errors.Is(err, wire.ErrManyRunning) {
			t.Errorf("one script finds it: %v", err)
		}
		for _, id := range []string{"m7", "g7"} {
			if was, err := wire.ReadCancel(l.do(wire.CancelCmd(l.keys, id))); err == nil {
				t.Errorf("one script cancels %s, which was %v", id, was)
			}
		}
		l.wants(counts{running: many + 1, waiting: many - 1})
		was, err := wire.Cancel(ctx, l.Client, l.keys, "m7", "g7", "none", "m8", "g4099", "m7")
		must(t, err)
		if want := []queue.State{queue.StateRunning, queue.StatePending, queue.StateAbsent, queue.StateRunning, queue.StatePending, queue.StateAbsent}; !slices.Equal(was, want) {
			t.Errorf("they were %v, want %v", was, want)
		}
		l.wants(counts{running: many - 1, waiting: many - 3})
		// The first of the group gives its turn to the next.
		was, err = wire.Cancel(ctx, l.Client, l.keys, "g0")
		must(t, err)
		if !slices.Equal(was, []queue.State{queue.StateRunning}) {
			t.Errorf("g0 was %v", was)
		}
		l.wants(counts{ready: 1, running: many - 2, waiting: many - 4})
		l.takes(2, "g1")
	})
}

// A mover moves a message whenever somebody has looked for it.
type mover struct {
	redoubt.Conn
	move func()
}

func (m *mover) Do(ctx context.Context, c redoubt.Cmd) redoubt.Reply {
	r := m.Conn.Do(ctx, c)
	if c.Name == "ZSCAN" {
		m.move()
	}
	return r
}

// A message that is handed to another consumer after it was seen is looked for again.
func TestCancelOfOneThatMoves(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		l.inMany()
		moves := 0
		conn := &mover{Conn: l.Clock}
		l2 := l.env.ClientOn(conn)
		conn.move = func() {
			found, err := wire.Find(t.Context(), l.Client, l.keys, "m7")
			if err != nil || found.State != queue.StateRunning || moves > 1 {
				return
			}
			moves++
			receipt := ""
			for _, r := range l.Redis.ZRange(t.Context(), l.key(l.name, "leases"), 0, -1).Val() {
				if wire.IDOf(r) == "m7" {
					receipt = r
				}
			}
			l.fails(wire.HandBack, 0, receipt)
			l.takes(1, "m7")
		}
		was, err := wire.Cancel(t.Context(), l2, l.keys, "m7")
		must(t, err)
		if !slices.Equal(was, []queue.State{queue.StateRunning}) || moves != 2 {
			t.Errorf("it was %v, and moved %d times", was, moves)
		}
		l.wants(counts{running: many, waiting: many - 1})
	})
}

// Large messages are removed and requeued in steps; one script does all or nothing.
func TestManyLargeMessages(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		ctx := t.Context()
		payload, ids := make([]byte, 900<<10), []string{"0", "1", "2", "3", "4"}
		for _, id := range ids {
			l.put(wire.Message{ID: id, Payload: payload, Group: id, Attempts: 1})
		}
		settle := func(p wire.Pump) (wire.Pumped, error) {
			l.take++
			p.Take, p.Consumer, p.Lease = fmt.Sprintf("take%012d", l.take), "c", time.Minute
			return wire.ReadPump(l.do(wire.PumpCmd(l.keys, p)))
		}
		var receipts []string
		for len(receipts) < len(ids) {
			got, err := settle(wire.Pump{N: 10})
			must(t, err)
			for _, m := range got.Taken {
				receipts = append(receipts, m.Receipt)
			}
		}
		if _, err := settle(wire.Pump{Acks: receipts, Bounded: true}); err == nil {
			t.Error("so many are settled at once")
		}
		l.wants(counts{running: 5})
		for _, r := range receipts {
			_, err := settle(wire.Pump{Nacks: []wire.Nack{{Receipt: r, Kind: wire.Kill}}, Bounded: true})
			must(t, err)
		}
		l.wants(counts{dead: 5})
		if _, err := wire.ReadFlags(l.do(wire.RequeueCmd(l.keys, ids...))); err == nil {
			t.Error("so many are requeued at once")
		}
		l.wants(counts{dead: 5})
		dead, err := wire.Requeue(ctx, l.Client, l.keys, append(ids, "none")...)
		must(t, err)
		if !slices.Equal(dead, []bool{true, true, true, true, true, false}) {
			t.Errorf("they were dead: %v", dead)
		}
		l.wants(counts{ready: 5})
		if was, err := wire.ReadCancel(l.do(wire.CancelCmd(l.keys, ids...))); err == nil {
			t.Errorf("so many are cancelled at once: %v", was)
		}
		was, err := wire.Cancel(ctx, l.Client, l.keys, ids...)
		must(t, err)
		if !slices.Equal(was, slices.Repeat([]queue.State{queue.StatePending}, 5)) {
			t.Errorf("they were %v", was)
		}
		l.empty()
	})
}

// The turn of a group goes to a large message too, and in its order.
func TestTurnOfALargeMessage(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		large := make([]byte, 100<<10)
		l.put(wire.Message{ID: "1", Group: "g"}, wire.Message{ID: "2", Group: "g", Payload: large}, wire.Message{ID: "3", Group: "g", Payload: large})
		take := func() (ids []string, receipts []string) {
			l.take++
			got, err := wire.ReadPump(l.do(wire.PumpCmd(l.keys, wire.Pump{Take: fmt.Sprintf("take%012d", l.take), Consumer: "c", N: 10, Lease: time.Minute})))
			must(t, err)
			for _, m := range got.Taken {
				ids, receipts = append(ids, m.ID), append(receipts, m.Receipt)
			}
			return ids, receipts
		}
		ids, receipts := take()
		if !slices.Equal(ids, []string{"1"}) {
			t.Fatalf("took %v", ids)
		}
		l.ack(receipts...)
		l.wants(counts{ready: 1, waiting: 1})
		was, err := wire.Cancel(t.Context(), l.Client, l.keys, "2")
		must(t, err)
		if !slices.Equal(was, []queue.State{queue.StatePending}) {
			t.Errorf("2 was %v", was)
		}
		if n := l.Redis.Exists(t.Context(), l.key(l.name, "wake")).Val(); n != 1 {
			t.Error("nobody would be woken")
		}
		if ids, _ := take(); !slices.Equal(ids, []string{"3"}) {
			t.Errorf("took %v, want 3", ids)
		}
	})
}

// Messages that are put together have 4 MiB at most, and all are put or none.
func TestLargeBatch(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		half := wire.Message{Attempts: 1, Payload: make([]byte, queue.MaxBatchBytes/2)}
		a, b := half, half
		a.ID, b.ID = "a", "b"
		if _, err := wire.PutCmd(l.keys, []wire.Message{a, b}); !errors.Is(err, queue.ErrTooLarge) {
			t.Errorf("the error is %v", err)
		}
		a.Payload, b.Payload = a.Payload[:len(a.Payload)-100], b.Payload[:len(b.Payload)-100]
		l.put(a, b)
		l.put(wire.Message{ID: "c", Payload: make([]byte, queue.MaxPayload)})
		l.wants(counts{ready: 3})
	})
}
