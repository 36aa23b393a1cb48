package redoubt

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// published is a gate whose subscriptions the test speaks through.
type published struct {
	*gate
	mu   sync.Mutex
	subs map[string]func(string, bool)
	fail error
}

func (p *published) Subscribe(_ context.Context, channel string, _ bool, on func(string, bool)) (func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail != nil {
		return nil, p.fail
	}
	if p.subs[channel] != nil {
		return nil, errors.New("subscribed twice")
	}
	p.subs[channel] = on
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.subs, channel)
	}, nil
}

// Do answers HELLO.
func (*published) Do(context.Context, Cmd) Reply { return hello("7.0.15", "standalone") }

func (p *published) send(payload string, lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, on := range p.subs {
		on(payload, lost)
	}
}

func woken(w *Waiter) bool {
	select {
	case <-w.C:
		return true
	default:
		return false
	}
}

func TestWaiter(t *testing.T) {
	p := &published{gate: newGate(), subs: make(map[string]func(string, bool))}
	c := newTestClient(t, p)

	p.fail = errors.New("no connection")
	if _, err := c.Waiter(t.Context(), "n", "k"); !errors.Is(err, p.fail) {
		t.Errorf("Waiter with no connection: %v", err)
	}
	p.fail = nil
	first, err := c.Waiter(t.Context(), "n", "k")
	if err != nil {
		t.Fatal(err)
	}
	second, _ := c.Waiter(t.Context(), "n", "k")
	other, _ := c.Waiter(t.Context(), "m", "other")
	if len(p.subs) != 1 || first.Channel != other.Channel || first.Verb != "PUBLISH" {
		t.Errorf("%d subscriptions, channels %q and %q", len(p.subs), first.Channel, other.Channel)
	}

	p.send("k", false)
	if woken(second) || !woken(first) || woken(other) {
		t.Error("one message must wake the oldest waiter of its key, and only that")
	}
	p.send("k", false)
	p.send("k", false)
	if !woken(first) || !woken(second) {
		t.Error("the second message before the first was received is for the second waiter")
	}
	p.send("", true)
	if !woken(first) || !woken(second) || !woken(other) {
		t.Error("after a lost connection everybody must look")
	}
	p.send("k", false)
	first.Close()
	if !woken(second) {
		t.Error("a wake-up that a closed waiter did not receive is for the next")
	}
	second.Close()
	other.Close()
	if len(p.subs) != 1 {
		t.Error("the inbox closed with its last waiter")
	}
	if err := c.Close(); err != nil || len(p.subs) != 0 {
		t.Errorf("after Close (%v) there are %d subscriptions", err, len(p.subs))
	}
}

func hello(version, mode string) Reply {
	return Reply{Val: []any{"server", "redis", "version", version, "proto", int64(2), "mode", mode, "modules", []any{}}}
}

func TestGreeting(t *testing.T) {
	for version, want := range map[string]int{"7.0.15": 7, "6.2.6": 6, "8": 8, "x": 0, "": 0} {
		if mode, major := greeting(hello(version, "cluster")); mode != "cluster" || major != want {
			t.Errorf("version %q: %s, %d; want cluster, %d", version, mode, major, want)
		}
	}
	for _, r := range []Reply{{}, {Val: "hello"}, {Val: []any{"mode"}}, {Val: []any{int64(1), int64(2), "mode", nil}}} {
		if mode, major := greeting(r); mode != "" || major != 0 {
			t.Errorf("%v: %q, %d", r.Val, mode, major)
		}
	}
}

// mute never confirms a subscription.
type mute struct{ *gate }

func (mute) Do(context.Context, Cmd) Reply { return hello("7.0.15", "standalone") }

func (mute) Subscribe(ctx context.Context, _ string, _ bool, _ func(string, bool)) (func(), error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Close does not wait for a subscription that is not confirmed.
func TestCloseEndsSubscribing(t *testing.T) {
	c, err := New(mute{newGate()}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := c.Waiter(context.Background(), "n", "k")
		got <- err
	}()
	waitFor(t, "it subscribes", func() bool {
		c.inbox.mu.Lock()
		defer c.inbox.mu.Unlock()
		return len(c.inbox.subs) == 1
	})
	_ = c.Close()
	if err := <-got; err == nil {
		t.Error("a Waiter without a subscription")
	}
}

// sharded is a node of a cluster that answers HELLO as the test says.
type sharded struct {
	*published
	greetings []Reply // one a call
}

func (s *sharded) Do(context.Context, Cmd) Reply {
	r := s.greetings[0]
	s.greetings = s.greetings[1:]
	return r
}

func (*sharded) Node(string) string                        { return "" } // not known yet
func (*sharded) Primaries(context.Context) ([]Conn, error) { return nil, nil }

func TestWaiterVerb(t *testing.T) {
	cluster := hello("7.0.15", "cluster")
	for name, tc := range map[string]struct {
		greetings []Reply
		verbs     []string // of Waiters made one after another; "" is an error
	}{
		"a cluster":                {[]Reply{cluster}, []string{"SPUBLISH", "SPUBLISH"}},
		"an old cluster":           {[]Reply{hello("6.2.6", "cluster")}, []string{"PUBLISH", "PUBLISH"}},
		"one server":               {[]Reply{hello("7.0.15", "standalone")}, []string{"PUBLISH", "PUBLISH"}},
		"no HELLO":                 {[]Reply{{Err: ServerError("ERR unknown command 'HELLO'")}}, []string{"PUBLISH", "PUBLISH"}},
		"no connection at first":   {[]Reply{{Err: errors.New("refused")}, cluster}, []string{"", "SPUBLISH", "SPUBLISH"}},
		"busy with a script first": {[]Reply{{Err: ServerError("BUSY a script runs")}, cluster}, []string{"", "SPUBLISH", "SPUBLISH"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sharded{&published{gate: newGate(), subs: make(map[string]func(string, bool))}, tc.greetings}
			c := newTestClient(t, s)
			for i, want := range tc.verbs {
				w, err := c.Waiter(t.Context(), "n", "k")
				if want == "" {
					if err == nil {
						t.Errorf("Waiter %d without an error", i)
					}
					continue
				}
				if err != nil || w.Verb != want {
					t.Fatalf("Waiter %d: %+v, %v; want %s", i, w, err, want)
				}
			}
		})
	}
}

// A sharded channel that was lost concerns its own subscribers only.
func TestLostChannelWakesItsWaiters(t *testing.T) {
	s := &sharded{
		&published{gate: newGate(), subs: make(map[string]func(string, bool))},
		[]Reply{hello("7.0.15", "cluster")},
	}
	c := newTestClient(t, s)
	a, err := c.Waiter(t.Context(), "a", "ka")
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Waiter(t.Context(), "b", "kb")
	if err != nil {
		t.Fatal(err)
	}
	s.subs[a.Channel]("", true)
	if !woken(a) || woken(b) {
		t.Error("a lost channel must wake its own waiters and no others")
	}
}
