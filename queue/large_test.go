package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

// A script hands over, brings back and lists no more than 2 MiB at once, so that large
// messages don't hold up the server. They keep their order, and none is left behind.
func TestLargeMessages(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		payload := make([]byte, 900<<10)
		take := func(n int, lease time.Duration) (ids []string, ready int) {
			l.take++
			got, err := wire.ReadPump(l.do(wire.PumpCmd(l.keys, wire.Pump{Take: fmt.Sprintf("take%012d", l.take), Consumer: "c", N: n, Lease: lease})))
			must(t, err)
			for _, m := range got.Taken {
				ids = append(ids, m.ID)
			}
			return ids, got.Ready
		}
		list := func(from int) (ids []string) {
			cmd, err := wire.MessagesCmd(l.keys, queue.StateReady, from, 100)
			must(t, err)
			page, all, err := wire.ReadMessages(l.do(cmd), queue.StateReady)
			must(t, err)
			if all != 6 {
				t.Errorf("%d are ready, want 6", all)
			}
			for _, m := range page {
				ids = append(ids, m.ID)
			}
			return ids
		}
		for i := range 5 {
			l.put(wire.Message{ID: fmt.Sprint(i), Payload: payload})
		}
		l.put(wire.Message{ID: "huge", Payload: make([]byte, queue.MaxPayload)})
		for from, want := range map[int][]string{0: {"0", "1"}, 4: {"4"}, 5: {"huge"}} {
			if got := list(from); !slices.Equal(got, want) {
				t.Errorf("listed from %d: %v, want %v", from, got, want)
			}
		}
		for _, want := range []struct {
			ids   []string
			ready int
		}{{[]string{"0", "1"}, 4}, {[]string{"2", "3"}, 2}, {[]string{"4"}, 1}, {[]string{"huge"}, 0}} {
			if ids, ready := take(1000, time.Millisecond); !slices.Equal(ids, want.ids) || ready != want.ready {
				t.Errorf("took %v, and left %d; want %v, %d", ids, ready, want.ids, want.ready)
			}
		}
	})
}

// Due and abandoned messages come back by 2 MiB a pump.
func TestLargeMessagesComeBack(t *testing.T) {
	lines(t, func(t *testing.T, l *line) {
		payload := make([]byte, 900<<10)
		for i := range 5 {
			l.put(wire.Message{ID: fmt.Sprint(i), Payload: payload, Delay: time.Second})
		}
		ready := func() int {
			got, err := wire.ReadPump(l.do(wire.PumpCmd(l.keys, wire.Pump{Take: "0123456789abcdef", Consumer: "d", Lease: time.Second})))
			must(t, err)
			return got.Ready
		}
		l.Clock.Advance(2 * time.Second)
		for _, want := range []int{2, 4, 5} {
			if n := ready(); n != want {
				t.Errorf("%d are ready, want %d", n, want)
			}
		}
		for i := range 3 {
			_, err := wire.ReadPump(l.do(wire.PumpCmd(l.keys, wire.Pump{Take: fmt.Sprintf("take%012d", i), Consumer: "c", N: 10, Lease: time.Second})))
			must(t, err)
		}
		l.Clock.Advance(2 * time.Second)
		for _, want := range []int{2, 4, 5} {
			if n := ready(); n != want {
				t.Errorf("%d came back, want %d", n, want)
			}
		}
	})
}
