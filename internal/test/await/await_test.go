package await_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/await"
)

// failing is a test that may fail.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// said is what run makes a test fail with, and how long it took.
func said(run func(tb testing.TB)) (string, time.Duration) {
	f, done, began := &failing{}, make(chan struct{}), time.Now()
	go func() {
		defer close(done)
		run(f)
	}()
	<-done
	return f.said, time.Since(began)
}

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		later := func() bool { return time.Since(began) > 3*time.Second }
		if s, _ := said(func(tb testing.TB) { await.Until(tb, 10*time.Second, "three seconds", later) }); s != "" {
			t.Error(s)
		}
		s, took := said(func(tb testing.TB) { await.Until(tb, 10*time.Second, "never", func() bool { return false }) })
		if s != "not within 10s: never" || took < 10*time.Second || took > 11*time.Second {
			t.Errorf("%q after %v", s, took)
		}
	})
}

func TestAlways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		until := func() bool { return time.Since(began) < 3*time.Second }
		if s, took := said(func(tb testing.TB) { await.Always(tb, 2*time.Second, "early", until) }); s != "" || took < 2*time.Second {
			t.Errorf("%q after %v", s, took)
		}
		s, took := said(func(tb testing.TB) { await.Always(tb, 2*time.Second, "early", until) })
		if s != "not so for 2s: early" || took > 2*time.Second {
			t.Errorf("%q after %v", s, took)
		}
	})
}

func TestAdvance(t *testing.T) {
	began := time.Now()
	synctest.Test(t, func(*testing.T) {
		inside := time.Now()
		await.Advance(time.Hour)
		if d := time.Since(inside); d != time.Hour {
			t.Errorf("the clock of the bubble went on by %v", d)
		}
	})
	if d := time.Since(began); d > time.Minute {
		t.Errorf("it took %v", d)
	}
	defer func() {
		if recover() == nil {
			t.Error("it waits outside of a bubble")
		}
	}()
	await.Advance(time.Millisecond)
}

// A pulse goes on with its beats, and by 2 ms at most for one that takes long.
func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quick := await.NewPulse(t)
		slow := await.NewPulseOf(t, func(context.Context) { await.Advance(100 * time.Millisecond) })
		await.Advance(time.Second)
		if d := quick.Now(); d < 990*time.Millisecond || d > time.Second {
			t.Errorf("a pulse went on by %v in a second", d)
		}
		if d := slow.Now(); d < 15*time.Millisecond || d > 25*time.Millisecond {
			t.Errorf("one that is late each time went on by %v in a second", d)
		}
	})
}
