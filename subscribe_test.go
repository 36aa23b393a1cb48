package redoubt

import (
	"errors"
	"testing"
)

func TestSubscribe(t *testing.T) {
	p := &published{gate: newGate(), subs: make(map[string]func(string, bool))}
	c := newTestClient(t, p)
	var heard []string
	stop, err := c.Subscribe(t.Context(), "news", func(payload string, lost bool) {
		if lost {
			payload = "lost"
		}
		heard = append(heard, payload)
	})
	if err != nil || !c.CanSubscribe() || p.subs["news"] == nil {
		t.Fatalf("%v, can: %v, subscriptions: %d", err, c.CanSubscribe(), len(p.subs))
	}
	p.send("one", false)
	p.send("", true)
	stop()
	p.send("two", false)
	if len(heard) != 2 || heard[0] != "one" || heard[1] != "lost" {
		t.Errorf("heard %q", heard)
	}
	none := newTestClient(t, newGate())
	if _, err := none.Subscribe(t.Context(), "news", nil); !errors.Is(err, ErrNoSubscriber) || none.CanSubscribe() {
		t.Errorf("on a Conn that can't: %v", err)
	}
	_ = c.Close()
	if _, err := c.Subscribe(t.Context(), "news", nil); !errors.Is(err, ErrClosed) {
		t.Errorf("on a closed client: %v", err)
	}
}
