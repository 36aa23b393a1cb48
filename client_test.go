package redoubt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/await"
)

// gate is a Conn whose calls wait until the test lets them go.
type gate struct {
	mu        sync.Mutex
	calls     [][]Cmd // what Do and Pipeline got, in order
	arrived   chan struct{}
	let       chan struct{} // one value lets one call go; closed lets all
	deadlines []time.Time
}

func newGate() *gate {
	return &gate{arrived: make(chan struct{}, 10_000), let: make(chan struct{}, 10_000)}
}

func (g *gate) Do(ctx context.Context, c Cmd) Reply { return g.Pipeline(ctx, []Cmd{c})[0] }

func (g *gate) Pipeline(ctx context.Context, cs []Cmd) []Reply {
	d, _ := ctx.Deadline()
	g.mu.Lock()
	g.calls = append(g.calls, cs)
	g.deadlines = append(g.deadlines, d)
	g.mu.Unlock()
	g.arrived <- struct{}{}
	replies := make([]Reply, len(cs))
	select {
	case <-g.let:
		for i, c := range cs {
			replies[i].Val = c.Name
		}
	case <-ctx.Done():
		for i := range replies {
			replies[i].Err = ctx.Err()
		}
	}
	return replies
}

func (g *gate) sizes() (sizes []int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.calls {
		sizes = append(sizes, len(c))
	}
	return sizes
}

func newTestClient(t *testing.T, conn Conn) *Client {
	t.Helper()
	c, err := New(conn, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.single.max = minLanes // calls that the test holds up are no slow link
	return c
}

func (b *combiner) queued() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue)
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	await.Until(t, 10*time.Second, what, ok)
}

func TestKey(t *testing.T) {
	c, err := New(newGate(), Options{Prefix: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	if k, err := c.Key("orders:42", "lock"); k != "shop:{orders:42}:lock" || err != nil {
		t.Errorf("Key gave %q, %v", k, err)
	}
	for _, bad := range []string{"", "}", "}x", strings.Repeat("x", MaxName+1)} {
		if k, err := c.Key(bad, "lock"); !errors.Is(err, ErrInvalidName) || k != "" {
			t.Errorf("Key(%.10q) gave %q, %v", bad, k, err)
		}
	}
	for _, good := range []string{"x", "a}b", "{", "\x00", strings.Repeat("x", MaxName)} {
		if _, err := c.Key(good, "lock"); err != nil {
			t.Errorf("Key(%.10q): %v", good, err)
		}
	}
}

func TestNewRejects(t *testing.T) {
	_, err := New(nil, Options{Prefix: "a{b"})
	for _, want := range []string{"conn is nil", "brace"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New gave %v, want one about %q too", err, want)
		}
	}
}

func TestClose(t *testing.T) {
	g := newGate()
	close(g.let)
	c := newTestClient(t, g)
	for range 2 {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := c.Do(t.Context(), Cmd{Name: "PING"}).Err; !errors.Is(err, ErrClosed) {
		t.Errorf("Do on a closed client: %v", err)
	}
	for _, r := range c.Pipeline(t.Context(), make([]Cmd, 2)) {
		if !errors.Is(r.Err, ErrClosed) {
			t.Errorf("Pipeline on a closed client: %v", r.Err)
		}
	}
	if _, err := c.Waiter(t.Context(), "n", "k"); !errors.Is(err, ErrClosed) {
		t.Errorf("Waiter on a closed client: %v", err)
	}
}

// Close waits for what primitives clean up, and lets it use the client.
func TestCloseWaitsForBackground(t *testing.T) {
	g := newGate()
	c := newTestClient(t, g)
	var cleaned error
	c.Go(func() { cleaned = c.Do(context.Background(), Cmd{Name: "CLEAN"}).Err })
	<-g.arrived
	closed := make(chan struct{})
	go func() {
		_ = c.Close()
		close(closed)
	}()
	waitFor(t, "it is being closed", func() bool {
		c.mu.RLock()
		defer c.mu.RUnlock()
		return c.ending
	})
	select {
	case <-closed:
		t.Error("Close did not wait")
	case <-time.After(20 * time.Millisecond):
	}
	close(g.let)
	<-closed
	if cleaned != nil {
		t.Error(cleaned)
	}
}

func TestReply(t *testing.T) {
	var three [3]int64
	if err := (Reply{Val: []any{int64(1), "22", int64(-3)}}).Ints(three[:]); err != nil || three != [3]int64{1, 22, -3} {
		t.Errorf("Ints gave %v, %v", three, err)
	}
	for _, bad := range []Reply{
		{Val: []any{int64(1), int64(2)}},
		{Val: []any{int64(1), int64(2), nil}},
		{Val: "1 2 3"},
		{},
		{Err: ServerError("ERR no")},
	} {
		if err := bad.Ints(three[:]); err == nil {
			t.Errorf("Ints of %+v gave no error", bad)
		}
	}
	if !(Reply{}).IsNil() || (Reply{Err: ErrClosed}).IsNil() || (Reply{Val: ""}).IsNil() {
		t.Error("IsNil")
	}
	if s, err := (Reply{Val: int64(5)}).Text(); s != "5" || err != nil {
		t.Errorf("Text gave %q, %v", s, err)
	}
	if _, err := (Reply{}).Text(); err == nil {
		t.Error("Text of null gave no error")
	}
	err := fmt.Errorf("wrapped: %w", ServerError("WRONGTYPE Operation against a key"))
	if !IsCode(err, "WRONGTYPE") || IsCode(err, "ERR") {
		t.Error("IsCode")
	}
}
