package budget_test

import (
	"testing"

	"github.com/redoubt-go/redoubt/internal/proxy/budget"
)

// A client is one of a test's.
type client struct {
	budget.Share
	in, out budget.Part
	ended   chan struct{}
}

func join(b *budget.Budget) *client {
	c := &client{ended: make(chan struct{})}
	c.Join(b, func() { close(c.ended) })
	c.in.Of(&c.Share)
	c.out.Of(&c.Share)
	return c
}

func (c *client) isEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// TestTheLargestGoes: when nothing is left, the client with the most is disconnected for
// one that has less, and one that would have the most is refused.
func TestTheLargestGoes(t *testing.T) {
	b := budget.New(100 << 10)
	small, large, other := join(b), join(b), join(b)
	for what, ok := range map[string]bool{
		"large's input":  large.in.Hold(40 << 10),
		"large's output": large.out.Hold(20 << 10),
		"small":          small.in.Hold(30 << 10),
	} {
		if !ok {
			t.Fatalf("%s found no room", what)
		}
	}
	if large.in.Hold(60 << 10) {
		t.Error("the largest was given more than is left")
	}
	if small.in.Hold(70 << 10) {
		t.Error("one that would be the largest was given more than is left")
	}
	if !other.out.Hold(20 << 10) {
		t.Error("a small one found no room")
	}
	<-large.ended
	if small.isEnded() || other.isEnded() {
		t.Error("another than the largest was disconnected")
	}
	if large.in.Hold(48 << 10) {
		t.Error("one that is disconnected was given more")
	}
	if got := b.Stats(); got.Used != 48<<10 || got.Clients != 3 || got.Ended != 1 || got.Limit != 100<<10 {
		t.Errorf("%+v", got)
	}
	for _, c := range []*client{small, large, other} {
		c.Leave()
		c.Leave()
	}
	if got := b.Stats(); got.Used != 0 || got.Clients != 0 || got.Peak < 80<<10 || got.Peak > 100<<10 {
		t.Errorf("%+v after all have left", got)
	}
}

// TestPartsShrink: what a part gives back is there for others, and a part of no share is
// not counted.
func TestPartsShrink(t *testing.T) {
	b := budget.New(64 << 10)
	c, d := join(b), join(b)
	if !c.in.Hold(64<<10) || d.in.Hold(64<<10) || !c.in.Hold(0) || !d.in.Hold(64<<10) {
		t.Errorf("%+v", b.Stats())
	}
	var none budget.Part
	if !none.Hold(1 << 40) {
		t.Error("a part of no share was counted")
	}
	if got := budget.New(0).Stats().Limit; got != budget.Default {
		t.Errorf("the default is %d", got)
	}
	if !d.out.Hold(4<<10 - 1) {
		t.Error("a short reply was refused")
	}
	if free := join(budget.New(-1)); !free.in.Hold(1 << 50) {
		t.Error("there is a limit where there is to be none")
	}
}
