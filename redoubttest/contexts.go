package redoubttest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
)

// testContexts holds that a call whose context has ended sends nothing.
func testContexts(t *testing.T, open func(*testing.T) redoubt.Conn) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for name, ctx := range map[string]context.Context{"cancelled": cancelled, "expired": expired} {
		t.Run(name, func(t *testing.T) {
			c, k := open(t), newKeys()
			cmd := redoubt.Cmd{Name: "INCR", Keys: []string{k.together("n")}}
			blocking := redoubt.Cmd{Name: "BLPOP", Keys: []string{k.together("q")}, Args: []string{"0"}, Flags: redoubt.Blocking}
			replies := append(c.Pipeline(ctx, []redoubt.Cmd{cmd, cmd}), c.Do(ctx, cmd), c.Do(ctx, blocking))
			for i, r := range replies {
				if !errors.Is(r.Err, ctx.Err()) || errors.Is(r.Err, redoubt.ErrUnknownOutcome) {
					t.Errorf("call %d: error %v, want only %v", i, r.Err, ctx.Err())
				}
			}
			if n := counter(t, c, k.together("n")); n != 0 {
				t.Errorf("counted %d, want 0", n)
			}
		})
	}
}

// leaves calls f with a context that ends soon, by deadline and by cancellation,
// and checks that f returns then. f gets the error of the context. prepare runs
// before each. On a busy machine the context may end before f has sent anything:
// f then returns false, and is called again with a context that lives longer.
func leaves(t *testing.T, prepare func(), f func(t *testing.T, ctx context.Context, end error) (sent bool)) {
	t.Helper()
	timed := func(t *testing.T, end error, begin func(life time.Duration) (context.Context, func())) {
		t.Helper()
		for life := 60 * time.Millisecond; ; life *= 3 {
			prepare()
			pulse := await.NewPulse(t)
			start, before := time.Now(), pulse.Now()
			ctx, cancel := begin(life)
			sent := f(t, ctx, end)
			cancel()
			if d := time.Since(start); d < life/2 || pulse.Now()-before > life+promptly {
				t.Errorf("returned after %v, want %v: when its context ends", d, life)
			}
			switch {
			case sent:
				return
			case life > 10*time.Second:
				t.Fatalf("nothing was sent in %v", life)
			}
		}
	}
	t.Run("deadline", func(t *testing.T) {
		timed(t, context.DeadlineExceeded, func(life time.Duration) (context.Context, func()) {
			ctx, cancel := context.WithTimeout(t.Context(), life)
			return ctx, cancel
		})
	})
	t.Run("cancel", func(t *testing.T) {
		timed(t, context.Canceled, func(life time.Duration) (context.Context, func()) {
			ctx, cancel := context.WithCancel(t.Context())
			timer := time.AfterFunc(life, cancel)
			return ctx, func() { timer.Stop(); cancel() }
		})
	})
}

func testBlocking(t *testing.T, open func(*testing.T) redoubt.Conn) {
	pop := func(key, timeout string) redoubt.Cmd {
		return redoubt.Cmd{Name: "BLPOP", Keys: []string{key}, Args: []string{timeout}, Flags: redoubt.Blocking}
	}

	t.Run("waits", func(t *testing.T) {
		c, k := open(t), newKeys()
		got := make(chan redoubt.Reply, 1)
		ctx := bounded(t)
		go func() { got <- c.Do(ctx, pop(k.together("q"), "0")) }()
		for i := range 20 { // others are not held up
			must(t, c.Do(ctx, redoubt.Cmd{Name: "SET", Keys: []string{k.apart(i)}, Args: []string{"x"}}))
		}
		select {
		case r := <-got:
			t.Fatalf("returned %#v before there was anything", r)
		default:
		}
		must(t, c.Do(ctx, redoubt.Cmd{Name: "RPUSH", Keys: []string{k.together("q")}, Args: []string{"a"}}))
		if a, err := (<-got).Array(); err != nil || len(a) != 2 || a[1] != "a" {
			t.Errorf("got %v, %v", a, err)
		}
	})

	t.Run("times out", func(t *testing.T) {
		if r := open(t).Do(bounded(t), pop(newKeys().together("q"), "0.02")); !r.IsNil() {
			t.Errorf("got %#v, want null", r)
		}
	})

	t.Run("leaves", func(t *testing.T) {
		c, k := open(t), newKeys()
		leaves(t, func() {}, func(t *testing.T, ctx context.Context, end error) bool {
			r := c.Do(ctx, pop(k.together("q"), "0"))
			if !errors.Is(r.Err, end) {
				t.Errorf("error %v, want %v", r.Err, end)
			}
			return t.Failed() || errors.Is(r.Err, redoubt.ErrUnknownOutcome)
		})
	})
}
