package redoubt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/await"
)

// A mortal is a Conn of two nodes, "a" and "b" by the first byte of a key, that may be
// silent. SLOW takes ten seconds, BLPOP never ends.
type mortal struct {
	silent map[string]*atomic.Bool
	pings  atomic.Int64
	sent   atomic.Int64
	far    atomic.Bool // a PING takes 2 s
	refuse error       // what a silent node's calls meet when they are ended; nil: nothing
}

func newMortal() *mortal {
	return &mortal{silent: map[string]*atomic.Bool{"": {}, "a": {}, "b": {}}}
}

func (m *mortal) Do(ctx context.Context, cmd Cmd) Reply {
	m.sent.Add(1)
	node := cmd.At
	if len(cmd.Keys) > 0 {
		node = cmd.Keys[0]
	}
	node = node[:min(len(node), 1)]
	var done <-chan time.Time
	switch {
	case cmd.Name == "PING":
		m.pings.Add(1)
		done = time.After(0)
		if m.far.Load() {
			done = time.After(2 * time.Second)
		}
	case cmd.Name == "SLOW":
		done = time.After(10 * time.Second)
	case cmd.Name != "BLPOP":
		done = time.After(time.Millisecond)
	}
	for {
		select {
		case <-done:
			if !m.silent[node].Load() {
				return Reply{Val: "OK"}
			}
			done = nil
		case <-ctx.Done():
			err := ctx.Err()
			switch {
			case m.refuse != nil:
				err = fmt.Errorf("%w; last: %w", err, m.refuse)
			case cmd.Flags&ReadOnly == 0:
				err = UnknownOutcome(err)
			}
			return Reply{Err: err}
		}
	}
}

func (m *mortal) Pipeline(ctx context.Context, cmds []Cmd) []Reply {
	replies := make([]Reply, len(cmds))
	var wg sync.WaitGroup
	for i, cmd := range cmds {
		wg.Go(func() { replies[i] = m.Do(ctx, cmd) })
	}
	wg.Wait()
	return replies
}

func (m *mortal) Subscribe(ctx context.Context, _ string, _ bool, _ func(string, bool)) (func(), error) {
	return func() {}, m.Do(ctx, Cmd{Flags: ReadOnly}).Err
}

// A cluster is a mortal that tells its nodes apart.
type mortals struct{ *mortal }

func (mortals) Node(key string) string                      { return key[:1] }
func (m mortals) Primaries(context.Context) ([]Conn, error) { return []Conn{m.mortal}, nil }

// inBubble runs a test with a client on conn, in a bubble.
func inBubble(t *testing.T, conn Conn, opts Options, run func(t *testing.T, c *Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, err := New(conn, opts)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		run(t, c)
	})
}

// took returns how long f takes by the bubble's clock.
func took(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// isDown checks an error of a call that began at start, and returns it.
func isDown(t *testing.T, err error, start time.Time) *UnavailableError {
	t.Helper()
	var down *UnavailableError
	if !errors.Is(err, ErrUnavailable) || !errors.As(err, &down) {
		t.Fatalf("got %v, want ErrUnavailable", err)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v looks as if the caller had left", err)
	}
	if d := down.Since.Sub(start); d < -time.Second || d > time.Second {
		t.Errorf("down since %v, %v after the call", down.Since, d)
	}
	return down
}

// A call without a deadline to a silent server ends within DownAfter. Later ones fail at
// once, and go through when the server is back.
func TestSilentServer(t *testing.T) {
	m := newMortal()
	inBubble(t, m, Options{}, func(t *testing.T, c *Client) {
		m.silent[""].Store(true)
		start := time.Now()
		var err error
		if d := took(func() { err = c.Do(t.Context(), Cmd{Name: "SET"}).Err }); d > time.Second {
			t.Errorf("found out after %v", d)
		}
		first := isDown(t, err, start)
		if !errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("a write on its way gave %v", err)
		}

		fails := func(most time.Duration) {
			t.Helper()
			start := time.Now()
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() {
					err := c.Do(context.Background(), Cmd{Name: "SET"}).Err
					if down := isDown(t, err, first.Since); !down.Since.Equal(first.Since) {
						t.Errorf("down since %v, then %v", first.Since, down.Since)
					}
					if errors.Is(err, ErrUnknownOutcome) {
						t.Errorf("a command that was not sent gave %v", err)
					}
				})
			}
			wg.Wait()
			if d := time.Since(start); d > most {
				t.Errorf("it took %v until 100 calls had failed", d)
			}
		}
		for range 60 {
			fails(0)
			await.Advance(time.Second)
		}
		// When nobody calls, nobody asks; the next call does, and waits for that.
		await.Advance(15 * time.Second)
		m.sent.Store(0)
		await.Advance(time.Hour)
		if n := m.sent.Load(); n > 0 {
			t.Errorf("%d PINGs in an hour in which nobody called", n)
		}
		fails(time.Second)
		fails(0)
		if n := m.sent.Load(); n > 2 {
			t.Errorf("%d commands were sent to a server that is down", n)
		}
		await.Advance(time.Hour)
		m.silent[""].Store(false) // by now it is back, and no call fails
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if err := c.Do(t.Context(), Cmd{Name: "SET"}).Err; err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		m.silent[""].Store(true)
		_ = isDown(t, c.Do(t.Context(), Cmd{Name: "SET"}).Err, time.Now())
		m.silent[""].Store(false)
		await.Advance(4 * time.Second) // the PING under way is lost, the next is answered
		for range 2 {
			if r := c.Do(t.Context(), Cmd{Name: "SET"}); r.Err != nil {
				t.Errorf("the server is back, but: %v", r.Err)
			}
		}
	})
}

// Whatever kind of call waits for a silent server is ended.
func TestSilentServerEndsAllCalls(t *testing.T) {
	cmd := Cmd{Name: "GET", Flags: ReadOnly}
	for name, call := range map[string]func(ctx context.Context, c *Client) error{
		"Do": func(ctx context.Context, c *Client) error { return c.Do(ctx, cmd).Err },
		"deadline": func(_ context.Context, c *Client) error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			return c.Do(ctx, cmd).Err
		},
		"Pipeline":  func(ctx context.Context, c *Client) error { return c.Pipeline(ctx, []Cmd{cmd, cmd})[1].Err },
		"Subscribe": func(ctx context.Context, c *Client) error { _, err := c.Subscribe(ctx, "ch", nil); return err },
		"Waiter":    func(ctx context.Context, c *Client) error { _, err := c.Waiter(ctx, "n", "k"); return err },
		"Names": func(ctx context.Context, c *Client) error {
			_, _, err := c.NamesPage(ctx, "lock", "hash", "", "")
			return err
		},
		"merged": func(ctx context.Context, c *Client) error {
			errs := make([]error, 100)
			var wg sync.WaitGroup
			for i := range errs {
				wg.Go(func() { errs[i] = c.Do(ctx, cmd).Err })
			}
			wg.Wait()
			for _, err := range errs {
				if !errors.Is(err, ErrUnavailable) {
					return err
				}
			}
			return errs[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMortal()
			m.silent[""].Store(true)
			inBubble(t, m, Options{}, func(t *testing.T, c *Client) {
				start := time.Now()
				var err error
				// A call that waits in line ends a twentieth later.
				if d := took(func() { err = call(context.Background(), c) }); d > 1050*time.Millisecond {
					t.Errorf("ended after %v", d)
				}
				_ = isDown(t, err, start)
			})
		})
	}
}

// A node whose connections take longer to make than DownAfter is up again when it answers.
func TestSlowNodeComesBack(t *testing.T) {
	m := newMortal()
	inBubble(t, m, Options{}, func(t *testing.T, c *Client) {
		m.silent[""].Store(true)
		if err := c.Do(t.Context(), Cmd{Name: "SET"}).Err; !errors.Is(err, ErrUnavailable) {
			t.Fatalf("got %v", err)
		}
		m.silent[""].Store(false)
		m.far.Store(true)
		await.Advance(10 * time.Second)
		if err := c.Do(t.Context(), Cmd{Name: "SET"}).Err; err != nil {
			t.Error(err)
		}
	})
}

// The error has the error of the latest attempt, and not the end of the context.
func TestUnavailableSaysWhy(t *testing.T) {
	m := newMortal()
	m.refuse = errors.New("connection refused")
	m.silent[""].Store(true)
	inBubble(t, m, Options{DownAfter: 100 * time.Millisecond}, func(t *testing.T, c *Client) {
		for range 3 {
			err := c.Do(t.Context(), Cmd{Name: "SET"}).Err
			if want := "redoubt: server unavailable since 2000-01-01T00:00:00.000Z: connection refused"; err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
			if !errors.Is(err, m.refuse) || errors.Is(err, ErrUnknownOutcome) {
				t.Errorf("%v doesn't match what it met", err)
			}
		}
	})
}

// Slow and blocking calls last as long as the server lives.
func TestLongCallsOnALivingServer(t *testing.T) {
	m := newMortal()
	inBubble(t, m, Options{}, func(t *testing.T, c *Client) {
		if r := c.Do(t.Context(), Cmd{Name: "SLOW"}); r.Err != nil {
			t.Errorf("a slow call: %v", r.Err)
		}
		blocked := make(chan error, 1)
		go func() { blocked <- c.Do(t.Context(), Cmd{Name: "BLPOP", Flags: Blocking | ReadOnly}).Err }()
		m.pings.Store(0)
		await.Advance(time.Hour)
		select {
		case err := <-blocked:
			t.Fatalf("a blocking call was ended: %v", err)
		default:
		}
		if n := m.pings.Load(); n < 360 || n > 720 {
			t.Errorf("%d PINGs in an hour; want one in 5 to 10 s", n)
		}
		m.silent[""].Store(true)
		start := time.Now()
		var err error
		if d := took(func() { err = <-blocked }); d > 7*time.Second {
			t.Errorf("it was ended %v after the server", d)
		}
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("got %v, %v", err, start)
		}
	})
}

// Calls that leave sooner than a server can be found to be down find it out together.
func TestShortCallsFindOut(t *testing.T) {
	m := newMortal()
	m.silent[""].Store(true)
	inBubble(t, m, Options{}, func(t *testing.T, c *Client) {
		for i := 0; ; i++ {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			err := c.Do(ctx, Cmd{Name: "SET"}).Err
			cancel()
			if errors.Is(err, ErrUnavailable) {
				return
			}
			if i == 10 {
				t.Fatalf("not found out by the %dth call: %v", i, err)
			}
		}
	})
}

// A node of a cluster that is down ends no call to another.
func TestSilentNode(t *testing.T) {
	m := newMortal()
	m.silent["a"].Store(true)
	inBubble(t, mortals{m}, Options{}, func(t *testing.T, c *Client) {
		start := time.Now()
		on := func(key string) Cmd { return Cmd{Name: "SET", Keys: []string{key}} }
		for range 2 {
			r := c.Pipeline(t.Context(), []Cmd{on("a1"), on("b1"), on("a2"), {Name: "SLOW", Keys: []string{"b2"}}})
			if down := isDown(t, r[0].Err, start); down.Node != "a" {
				t.Errorf("node %q", down.Node)
			}
			start = time.Now()
			if !errors.Is(r[2].Err, ErrUnavailable) || r[1].Err != nil || r[3].Err != nil {
				t.Errorf("got %v, %v, %v", r[1].Err, r[2].Err, r[3].Err)
			}
			if err := c.Do(t.Context(), on("b")).Err; err != nil {
				t.Error(err)
			}
			start = start.Add(-11 * time.Second)
		}
	})
}

// Calls with a context of Patient are tried until it ends, on a server that is down.
func TestPatient(t *testing.T) {
	m := newMortal()
	m.silent[""].Store(true)
	inBubble(t, m, Options{}, func(t *testing.T, c *Client) {
		_ = c.Do(t.Context(), Cmd{Name: "SET"})
		for name, call := range map[string]func(context.Context) error{
			"Do":       func(ctx context.Context) error { return c.Do(ctx, Cmd{Name: "SET"}).Err },
			"Pipeline": func(ctx context.Context) error { return c.Pipeline(ctx, []Cmd{{Name: "SET"}})[0].Err },
		} {
			ctx, cancel := context.WithTimeout(Patient(t.Context()), 5*time.Second)
			var err error
			if d := took(func() { err = call(ctx) }); d != 5*time.Second || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: after %v: %v", name, d, err)
			}
			cancel()
		}
		// Its reply counts for all calls.
		m.silent[""].Store(false)
		if err := c.Do(Patient(t.Context()), Cmd{Name: "SET"}).Err; err != nil {
			t.Error(err)
		}
		m.pings.Store(0)
		if err := c.Do(t.Context(), Cmd{Name: "SET"}).Err; err != nil || m.pings.Load() > 0 {
			t.Errorf("got %v, after %d PINGs", err, m.pings.Load())
		}
	})
}

// Close doesn't wait for the PING that a silent server owes.
func TestCloseLeavesASilentServer(t *testing.T) {
	m := newMortal()
	m.silent[""].Store(true)
	inBubble(t, m, Options{}, func(t *testing.T, c *Client) {
		ctx, cancel := context.WithCancel(t.Context())
		called := make(chan error, 1)
		go func() { called <- c.Do(ctx, Cmd{Name: "GET", Flags: ReadOnly}).Err }()
		for m.pings.Load() == 0 {
			await.Advance(10 * time.Millisecond)
		}
		cancel()
		if err := <-called; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if d := took(func() { _ = c.Close() }); d > 0 {
			t.Errorf("Close took %v", d)
		}
	})
}

// With DownAfter below 0, calls end with their contexts alone.
func TestNeverDown(t *testing.T) {
	m := newMortal()
	m.silent[""].Store(true)
	inBubble(t, m, Options{DownAfter: -1}, func(t *testing.T, c *Client) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for _, err := range []error{c.Do(ctx, Cmd{Name: "GET"}).Err, c.Pipeline(ctx, []Cmd{{Name: "GET"}})[0].Err} {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		}
		if m.pings.Load() != 0 {
			t.Error("it was asked by PING")
		}
	})
	if _, err := New(m, Options{DownAfter: time.Millisecond}); err == nil || err.Error() != "redoubt: DownAfter is 1ms; want at least 10ms, 0 for the default, or less than 0 for never" {
		t.Errorf("New gave %v", err)
	}
}
