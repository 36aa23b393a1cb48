package conn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/conn"
	"github.com/redoubt-go/redoubt/internal/test/await"
)

var errBroken, errFinal = errors.New("broken"), errors.New("final")

// A client is a HubClient whose connections a test holds.
type client struct {
	opened chan *session

	mu        sync.Mutex
	nodes     map[string]string // the owners of sharded channels
	refreshes int
	noRefresh error
}

func (c *client) Owner(_ context.Context, channel string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[channel], nil
}

func (c *client) Refresh(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refreshes++
	return c.noRefresh
}

func (c *client) Final(_ *conn.Hub, err error) error {
	if errors.Is(err, errFinal) {
		return err
	}
	return nil
}

func (c *client) Listen(ctx context.Context, b *conn.Hub) error {
	s := &session{hub: b, fail: make(chan error), ended: make(chan struct{})}
	defer close(s.ended)
	b.Begin()
	c.opened <- s
	select {
	case err := <-s.fail:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A session is one connection of a hub.
type session struct {
	hub   *conn.Hub
	fail  chan error // ends it
	ended chan struct{}
}

// closed reports whether the connection has ended.
func (s *session) closed() bool {
	synctest.Wait()
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// pending returns what there is to send, and fails the test if that is not what it wants: a channel, or "-" and the name
// of one to be unsubscribed.
func (s *session) pending(t *testing.T, want ...string) map[string]*conn.Channel {
	t.Helper()
	synctest.Wait()
	var got []string
	channels := map[string]*conn.Channel{}
	select {
	case <-s.hub.Changed():
		add, remove := s.hub.Pending()
		for _, name := range remove {
			got = append(got, "-"+name)
		}
		for _, ch := range add {
			got = append(got, ch.Name)
			channels[ch.Name] = ch
		}
	default:
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("%q are to be sent, want %q", got, want)
	}
	return channels
}

// A subscriber is a listener to a channel.
type subscriber struct {
	done chan struct{} // closed when Subscribe has returned
	stop func()
	err  error

	mu      sync.Mutex
	heard   []string
	hearing func() // called by the next message, or nil
}

// returned reports whether Subscribe has returned.
func (s *subscriber) returned() bool {
	synctest.Wait()
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

func (s *subscriber) wantHeard(t *testing.T, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.heard, want) {
		t.Errorf("heard %q, want %q", s.heard, want)
	}
}

func subscribe(ctx context.Context, h *conn.Hubs, name string, sharded bool) *subscriber {
	s := &subscriber{done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.stop, s.err = h.Subscribe(ctx, name, sharded, func(payload string, lost bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if lost {
				payload = "lost"
			}
			s.heard = append(s.heard, payload)
			if s.hearing != nil {
				s.hearing()
				s.hearing = nil
			}
		})
	}()
	return s
}

// bubble runs a test with hubs in a bubble of testing/synctest.
func bubble(t *testing.T, test func(t *testing.T, h *conn.Hubs, c *client)) {
	synctest.Test(t, func(t *testing.T) {
		c := &client{opened: make(chan *session, 10), nodes: map[string]string{}}
		h := &conn.Hubs{Package: "testconn", Client: c}
		t.Cleanup(h.Close)
		test(t, h, c)
	})
}

func TestListenersShareAChannel(t *testing.T) {
	bubble(t, func(t *testing.T, h *conn.Hubs, c *client) {
		one, two := subscribe(t.Context(), h, "ch", false), subscribe(t.Context(), h, "ch", false)
		s := <-c.opened
		ch := s.pending(t, "ch")["ch"]
		if one.returned() || two.returned() {
			t.Fatal("subscribed before the server has confirmed it")
		}
		if s.hub.Confirm(ch) {
			t.Error("the first confirmation counts as a later one")
		}
		if !one.returned() || !two.returned() || one.err != nil || two.err != nil {
			t.Fatalf("confirmed: %v, %v", one.err, two.err)
		}
		late := subscribe(t.Context(), h, "ch", false)
		if !late.returned() {
			t.Fatal("a channel that is confirmed is waited for")
		}
		s.pending(t)
		s.hub.Deliver(s.hub.Channel("ch"), "x", false)
		s.hub.Deliver(s.hub.Channel("other"), "y", false)
		one.stop()
		s.pending(t)
		s.hub.Deliver(ch, "z", false)
		two.stop()
		late.stop()
		late.stop()
		s.hub.Deliver(ch, "late", false)
		one.wantHeard(t, "x")
		two.wantHeard(t, "x", "z")
		late.wantHeard(t, "x", "z")
		s.pending(t, "-ch")
		if s.hub.Channel("ch") != nil || len(s.hub.Channels()) != 0 {
			t.Error("a channel without listeners stays")
		}
	})
}

// TestStopWhileAMessageIsDelivered: no call begins after stop has returned, and the other listeners miss nothing.
func TestStopWhileAMessageIsDelivered(t *testing.T) {
	bubble(t, func(t *testing.T, h *conn.Hubs, c *client) {
		one := subscribe(t.Context(), h, "ch", false)
		s := <-c.opened
		ch := s.pending(t, "ch")["ch"]
		s.hub.Confirm(ch)
		<-one.done
		two := subscribe(t.Context(), h, "ch", false)
		<-two.done
		three := subscribe(t.Context(), h, "ch", false)
		<-three.done
		one.hearing = two.stop
		s.hub.Deliver(ch, "x", false)
		one.wantHeard(t, "x")
		two.wantHeard(t)
		three.wantHeard(t, "x")
	})
}

func TestOrdinaryAndShardedChannelsAreApart(t *testing.T) {
	bubble(t, func(t *testing.T, h *conn.Hubs, c *client) {
		subscribers := []*subscriber{subscribe(t.Context(), h, "ch", false), subscribe(t.Context(), h, "ch", true)}
		one, two := <-c.opened, <-c.opened
		if one.hub.Sharded == two.hub.Sharded {
			t.Error("one connection for both")
		}
		for _, s := range []*session{one, two} {
			s.hub.Confirm(s.pending(t, "ch")["ch"])
		}
		for _, s := range subscribers {
			if !s.returned() || s.err != nil {
				t.Error(s.err)
			}
		}
	})
}

// TestHubLingers: the connection is closed a second after its last channel.
func TestHubLingers(t *testing.T) {
	bubble(t, func(t *testing.T, h *conn.Hubs, c *client) {
		one := subscribe(t.Context(), h, "one", false)
		s := <-c.opened
		s.hub.Confirm(s.pending(t, "one")["one"])
		<-one.done
		one.stop()
		await.Advance(999 * time.Millisecond)
		two := subscribe(t.Context(), h, "two", false)
		s.hub.Confirm(s.pending(t, "-one", "two")["two"])
		await.Advance(time.Minute)
		if s.closed() || !two.returned() {
			t.Fatal("the connection is closed although a channel is on it")
		}
		ctx, cancel := context.WithCancel(t.Context())
		brief := subscribe(ctx, h, "brief", false)
		synctest.Wait()
		cancel()
		<-brief.done
		s.pending(t) // neither the channel nor its end
		await.Advance(time.Minute)
		two.stop()
		await.Advance(999 * time.Millisecond)
		if s.closed() {
			t.Error("the connection is closed at once")
		}
		await.Advance(time.Millisecond)
		if !s.closed() {
			t.Error("the connection is kept")
		}
		subscribe(t.Context(), h, "three", false)
		(<-c.opened).pending(t, "three")
	})
}

// TestStoppedAndSubscribedAgain: an answer to the former subscription does not confirm the new one.
func TestStoppedAndSubscribedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, h *conn.Hubs, c *client) {
		ctx, cancel := context.WithCancel(t.Context())
		former := subscribe(ctx, h, "ch", false)
		s := <-c.opened
		old := s.pending(t, "ch")["ch"]
		cancel()
		if !former.returned() || !errors.Is(former.err, context.Canceled) {
			t.Fatalf("canceled: %v", former.err)
		}
		again := subscribe(t.Context(), h, "ch", false)
		synctest.Wait()
		for _, ch := range []*conn.Channel{old, s.hub.Channel("ch"), nil} {
			s.hub.Refuse(ch, errBroken)
			if s.hub.Sent(ch) || s.hub.Confirm(ch) || again.returned() {
				t.Fatal("a channel that was not sent is answered")
			}
		}
		ch := s.pending(t, "-ch", "ch")["ch"]
		if !s.hub.Sent(ch) || s.hub.Sent(old) {
			t.Error("the channel was not sent")
		}
		s.hub.Confirm(ch)
		if !again.returned() || again.err != nil {
			t.Errorf("confirmed: %v", again.err)
		}
	})
}

// TestNewConnectionSubscribesAll: listeners are told that messages may be lost.
func TestNewConnectionSubscribesAll(t *testing.T) {
	bubble(t, func(t *testing.T, h *conn.Hubs, c *client) {
		one := subscribe(t.Context(), h, "one", false)
		s := <-c.opened
		s.hub.Confirm(s.pending(t, "one")["one"])
		gone := subscribe(t.Context(), h, "gone", false)
		s.hub.Confirm(s.pending(t, "gone")["gone"])
		<-gone.done
		gone.stop() // and the connection breaks before that is sent
		two := subscribe(t.Context(), h, "two", false)
		synctest.Wait()
		s.fail <- errBroken
		s = <-c.opened
		channels := s.pending(t, "one", "two")
		if !s.hub.Confirm(channels["one"]) {
			t.Error("a channel that was confirmed before is not told from a new one")
		}
		s.hub.Deliver(channels["one"], "", true)
		if s.hub.Confirm(channels["two"]) || !two.returned() || two.err != nil {
			t.Errorf("the new channel: %v", two.err)
		}
		one.wantHeard(t, "lost")
		two.wantHeard(t)
	})
}

// TestPausesBetweenConnections: they grow while connections fail, and begin anew after one that lasted.
func TestPausesBetweenConnections(t *testing.T) {
	bubble(t, func(t *testing.T, h *conn.Hubs, c *client) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		subscribe(ctx, h, "ch", false)
		s := <-c.opened
		pause := func() time.Duration {
			start := time.Now()
			s.fail <- errBroken
			s = <-c.opened
			return time.Since(start)
		}
		for range 200 {
			pause()
		}
		if d := pause(); d < 64*time.Millisecond {
			t.Errorf("after 200 failures the pause was %v", d)
		}
		await.Advance(conn.HubPing + time.Millisecond)
		if d := pause(); d >= 2*time.Millisecond {
			t.Errorf("after a connection that lasted the pause was %v", d)
		}
	})
}

// TestFinalErrorEndsTheWait: only subscribers that wait for the first confirmation get the error.
func TestFinalErrorEndsTheWait(t *testing.T) {
	bubble(t, func(t *testing.T, h *conn.Hubs, c *client) {
		old := subscribe(t.Context(), h, "old", false)
		s := <-c.opened
		s.hub.Confirm(s.pending(t, "old")["old"])
		waits := subscribe(t.Context(), h, "waits", false)
		s.pending(t, "waits")
		s.fail <- errFinal
		if !waits.returned() || !errors.Is(waits.err, errFinal) {
			t.Errorf("got %v", waits.err)
		}
		s = <-c.opened
		s.hub.Confirm(s.pending(t, "old")["old"])
		s.hub.Deliver(s.hub.Channel("old"), "x", false)
		old.wantHeard(t, "x")
	})
}

func TestRefusedChannel(t *testing.T) {
	bubble(t, func(t *testing.T, h *conn.Hubs, c *client) {
		refused, other := subscribe(t.Context(), h, "refused", false), subscribe(t.Context(), h, "other", false)
		s := <-c.opened
		channels := s.pending(t, "other", "refused")
		s.hub.Refuse(channels["refused"], errBroken)
		s.hub.Refuse(channels["refused"], errBroken)
		if !refused.returned() || !errors.Is(refused.err, errBroken) || other.returned() {
			t.Errorf("got %v", refused.err)
		}
		s.hub.Confirm(channels["other"])
		if !other.returned() || other.err != nil {
			t.Errorf("the other channel: %v", other.err)
		}
		s.hub.Refuse(channels["other"], errBroken)
		s.hub.Deliver(channels["other"], "x", false)
		other.wantHeard(t, "x")
	})
}

// TestSubscribeGivesUp: after ten seconds without a deadline, with the error of the last connection.
func TestSubscribeGivesUp(t *testing.T) {
	for _, test := range []struct {
		limit          time.Duration // of the context, 0 for none
		broken, mended bool
		takes          time.Duration
		want           string
	}{
		{0, false, false, 10 * time.Second, `testconn: subscription to "ch" was not confirmed within 10s`},
		{0, true, false, 10 * time.Second, "broken"},
		{0, true, true, 10 * time.Second, `testconn: subscription to "ch" was not confirmed within 10s`},
		{time.Minute, false, false, time.Minute, "context deadline exceeded"},
		{time.Minute, true, false, time.Minute, "context deadline exceeded; last: broken"},
	} {
		t.Run(fmt.Sprint(test.limit, test.broken, test.mended), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *conn.Hubs, c *client) {
				ctx := t.Context()
				if test.limit > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.limit)
					defer cancel()
				}
				start := time.Now()
				sub := subscribe(ctx, h, "ch", false)
				s := <-c.opened
				if test.broken {
					s.fail <- errBroken
				}
				if test.mended {
					subscribe(ctx, h, "other", false)
					s = <-c.opened
					s.hub.Confirm(s.pending(t, "ch", "other")["other"])
				}
				<-sub.done
				if d := time.Since(start); sub.err == nil || sub.err.Error() != test.want || sub.stop != nil || d != test.takes {
					t.Errorf("after %v: %v", d, sub.err)
				}
			})
		})
	}
}

// TestChannelsFollowTheirSlots: after trouble a channel moves to the connection to its new owner.
func TestChannelsFollowTheirSlots(t *testing.T) {
	bubble(t, func(t *testing.T, h *conn.Hubs, c *client) {
		c.nodes = map[string]string{"moves": "a", "stays": "a", "new": "b"}
		moves, stays := subscribe(t.Context(), h, "moves", true), subscribe(t.Context(), h, "stays", true)
		a := <-c.opened
		for _, ch := range a.pending(t, "moves", "stays") {
			a.hub.Confirm(ch)
		}
		if a.hub.Node != "a" || !a.hub.Sharded || !moves.returned() || !stays.returned() {
			t.Fatalf("the connection is to %q", a.hub.Node)
		}
		fail := func(noRefresh error, nodes map[string]string) {
			c.mu.Lock()
			c.nodes, c.noRefresh = nodes, noRefresh
			c.mu.Unlock()
			a.fail <- errBroken
		}
		moved := map[string]string{"moves": "b", "stays": "a"}
		fail(errBroken, moved)
		a = <-c.opened // the cluster can't be asked: all stay
		a.pending(t, "moves", "stays")
		both := subscribe(t.Context(), h, "moves", true) // meanwhile it stays on the former owner's
		a.pending(t)
		fail(nil, moved)
		one, two := <-c.opened, <-c.opened
		if one.hub.Node == "b" {
			one, two = two, one
		}
		a = one
		a.hub.Confirm(a.pending(t, "stays")["stays"])
		if two.hub.Node != "b" {
			t.Fatalf("moved to %q", two.hub.Node)
		}
		ch := two.pending(t, "moves")["moves"]
		if !two.hub.Confirm(ch) {
			t.Error("a channel that moved counts as new")
		}
		two.hub.Deliver(ch, "", true)
		moves.wantHeard(t, "lost")
		both.wantHeard(t, "lost")
		stays.wantHeard(t)
		c.mu.Lock()
		if c.refreshes != 2 {
			t.Errorf("%d looks at the cluster, want one after each trouble", c.refreshes)
		}
		c.mu.Unlock()

		fail(nil, map[string]string{"moves": "b", "stays": "b"})
		two.hub.Confirm(two.pending(t)["stays"]) // nothing yet: a pauses
		await.Advance(time.Second)
		two.pending(t, "stays")
		await.Advance(time.Second)
		if last := <-c.opened; last.hub.Node != "a" || !last.closed() {
			t.Error("a connection without channels is kept")
		}
	})
}

// TestCloseEndsAll: Close returns when no connection is left.
func TestCloseEndsAll(t *testing.T) {
	bubble(t, func(t *testing.T, h *conn.Hubs, c *client) {
		sub := subscribe(t.Context(), h, "ch", false)
		s := <-c.opened
		s.hub.Confirm(s.pending(t, "ch")["ch"])
		<-sub.done
		h.Close()
		select {
		case <-s.ended:
		default:
			t.Error("Close returned before the connection has ended")
		}
		h.Close()
		sub.stop()
		subscribe(t.Context(), h, "ch", false) // asks the client, which knows that it is closed
		(<-c.opened).pending(t, "ch")
	})
}

func TestTransient(t *testing.T) {
	for text, want := range map[string]bool{
		"MOVED 1 a:1": true, "ASK 1 a:1": true, "CLUSTERDOWN x": true, "TRYAGAIN x": true, "LOADING x": true, "MASTERDOWN x": true,
		"READONLY x": true, "NOPERM x": false, "ERR unknown command": false, "NOAUTH x": false,
	} {
		if got := conn.Transient(redoubt.ServerError(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
