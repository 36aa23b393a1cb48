package hll_test

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/hll"
	"github.com/redoubt-go/redoubt/internal/test/await"
)

// Counts are sent after FlushEvery, or earlier when they take FlushBytes, and by Close.
//
// Promise: counts are sent within FlushEvery, at FlushBytes, and by Close.
func TestFlushes(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		often, _ := e.visitors(hll.Options{FlushEvery: 20 * time.Millisecond})
		must(t, often.Add("often", "x"))
		await.Until(t, 30*time.Second, "a flush by time", func() bool { return count(t, often, "often", noon).Visitors == 1 })
		large, _ := e.visitors(hll.Options{FlushBytes: 10_000})
		must(t, large.Add("large-0", "x"))
		await.Always(t, 50*time.Millisecond, "nothing is sent", func() bool { return count(t, large, "large-0", noon).Visitors == 0 })
		for i := range 100 {
			must(t, large.Add(fmt.Sprint("large-", i), "x"))
		}
		await.Until(t, 30*time.Second, "a flush by size", func() bool { return count(t, large, "large-0", noon).Visitors == 1 })

		closed, _ := e.visitors(hll.Options{})
		must(t, closed.Add("closed", "x"))
		must(t, closed.Close())
		must(t, closed.Close())
		if c := count(t, closed, "closed", noon); c != (hll.Count{Visitors: 1, Views: 1}) {
			t.Errorf("Close has sent %+v", c)
		}
		is(t, closed.Add("closed", "y"), redoubt.ErrClosed)
	})
}

// A batch counts once, even if its commands or its replies are lost. Visits that come meanwhile are
// neither lost nor counted with it.
//
// Promise: a view that was sent counts once, even if it is lost on the way and sent again.
func TestLostBatches(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		v, _ := e.visitors(hll.Options{})
		want := hll.Count{}
		for step, how := range []int32{losesCommands, losesReplies, losesReplies, whole, losesCommands, losesReplies, whole} {
			e.lossy.broken.Store(how)
			for i := range 3 {
				must(t, v.Add("p", fmt.Sprint(step, i)))
				must(t, v.Add("p", fmt.Sprint(step, i)))
			}
			want.Visitors, want.Views = want.Visitors+3, want.Views+6
			err := v.Flush(t.Context())
			if (err != nil) != (how != whole) {
				t.Fatalf("step %d: %v", step, err)
			}
			if how == whole {
				if c := count(t, v, "p", noon); c != want {
					t.Errorf("step %d: %+v, want %+v", step, c, want)
				}
				if n := v.Bytes(); n != 0 {
					t.Errorf("%d bytes wait still", n)
				}
			}
		}
		// Close says what is lost.
		e.lossy.broken.Store(losesCommands)
		must(t, v.Add("p", "last"))
		err := v.Close()
		is(t, err, redoubt.ErrUnknownOutcome)
		says(t, err, "bytes of counts are not sent")
		e.lossy.broken.Store(whole)
		must(t, v.Close())
		want.Visitors, want.Views = want.Visitors+1, want.Views+1
		if c := count(t, v, "p", noon); c != want {
			t.Errorf("%+v, want %+v", c, want)
		}
	})
}

// Many goroutines count while others flush: no view is lost or counted twice.
//
// Promise: a view that was sent counts once, even if it is lost on the way and sent again.
func TestConcurrent(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		v, _ := e.visitors(hll.Options{FlushEvery: 10 * time.Millisecond})
		other, _ := e.visitors(hll.Options{FlushEvery: 10 * time.Millisecond})
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				of := []*hll.Visitors{v, other}[g%2]
				for i := range 5000 {
					if err := of.Add(fmt.Sprint("p", i%3), fmt.Sprint(i)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		must(t, v.Close())
		must(t, other.Close())
		c, err := v.Last(t.Context(), 1, "p0", "p1", "p2")
		must(t, err)
		if c.Views != 40_000 || math.Abs(float64(c.Visitors)/5000-1) > 0.03 {
			t.Errorf("%+v, want 40,000 views by 5,000", c)
		}
	})
}

// While the server is away memory is bounded, and the errors say so.
//
// Promise: while the server is away, unsent counts take at most MaxBytes.
func TestFull(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		v, _ := e.visitors(hll.Options{MaxBytes: 64 << 10})
		e.lossy.broken.Store(losesCommands)
		counted := int64(0)
		for i := range 1000 {
			err := v.Add(fmt.Sprint("p", i), "x")
			if err == nil {
				counted++
				continue
			}
			is(t, err, hll.ErrFull)
		}
		if counted < 100 || counted > 400 || v.Bytes() > 64<<10 {
			t.Errorf("%d pages are counted, in %d bytes", counted, v.Bytes())
		}
		// A page that has a tally takes visits that need no room.
		must(t, v.Add("p0", "x"))
		is(t, v.Flush(t.Context()), redoubt.ErrUnknownOutcome)
		e.lossy.broken.Store(whole)
		must(t, v.Flush(t.Context()))
		var pages []string
		for i := range 1000 {
			pages = append(pages, fmt.Sprint("p", i))
		}
		c, err := v.Last(t.Context(), 1, pages...)
		must(t, err)
		if c.Visitors != 1 || c.Views != counted+1 {
			t.Errorf("%+v, want 1 visitor and %d views", c, counted+1)
		}
	})
}

// OnError gets the error of a background flush that failed. The counts are kept.
func TestOnError(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		errs := make(chan error, 1)
		v, _ := e.visitors(hll.Options{FlushEvery: 10 * time.Millisecond, OnError: func(err error) {
			select {
			case errs <- err:
			default:
			}
		}})
		e.lossy.broken.Store(losesCommands)
		must(t, v.Add("p", "x"))
		select {
		case err := <-errs:
			is(t, err, redoubt.ErrUnknownOutcome)
		case <-time.After(30 * time.Second):
			t.Fatal("nobody hears of it")
		}
		e.lossy.broken.Store(whole)
		must(t, v.Flush(t.Context()))
		if c := count(t, v, "p", noon); c != (hll.Count{Visitors: 1, Views: 1}) {
			t.Errorf("%+v is counted", c)
		}
	})
}

// A page whose key holds something else does not hold up the others.
//
// Promise: a page whose key holds something else does not hold up the others.
func TestHopelessPage(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		v, _ := e.visitors(hll.Options{})
		bad, other := e.Prefix+":{bad}:visitors:2026-11-21", e.Prefix+":{text}:visitors:2026-11-21"
		must(t, e.Redis.LPush(t.Context(), bad, "x").Err())
		must(t, e.Redis.Set(t.Context(), other, "text", 0).Err())
		for i := range 500 {
			must(t, v.Add("bad", fmt.Sprint(i)))
			must(t, v.Add("text", fmt.Sprint(i)))
			must(t, v.Add("good", "x"))
		}
		err := v.Flush(t.Context())
		says(t, err, "WRONGTYPE")
		if c := count(t, v, "good", noon); c != (hll.Count{Visitors: 1, Views: 500}) || v.Bytes() != 0 {
			t.Errorf("%+v is counted, and %d bytes wait", c, v.Bytes())
		}
		if keys := e.Keys(); len(keys) != 4 {
			t.Errorf("the keys are %v", keys)
		}
		if got := e.Redis.Get(t.Context(), other).Val(); got != "text" {
			t.Errorf("the text is %q", got)
		}
	})
}
