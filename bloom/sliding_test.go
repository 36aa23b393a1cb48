package bloom_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/bloom"
	"github.com/redoubt-go/redoubt/internal/test/frozenclock"
	wire "github.com/redoubt-go/redoubt/internal/wire/bloom"
)

const week = 7 * 24 * time.Hour

// An item is found within the window, and not found more than a period after it, at any times, by
// the process that added it and by others.
//
// Promise: a sliding filter finds every item of its window and forgets it at most a period later.
func TestSliding(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		clock := frozenclock.New(e.Conn, wire.Scripts(), nil)
		filters := slidingOn(t, e.ClientOn(clock))
		spec := bloom.SlidingSpec{Window: week, Periods: 7, Capacity: 70_000, ErrorRate: 0.001}
		open := func() *bloom.SlidingFilter {
			s, err := filters.Open(t.Context(), "seen", spec)
			must(t, err)
			return s
		}
		s, other := open(), open()
		added := map[string]time.Time{}
		rnd := rand.New(rand.NewPCG(1, 2))
		ask := func(f *bloom.SlidingFilter, item string) bool {
			may, err := f.MayContain(t.Context(), item)
			must(t, err)
			return may
		}
		wrong := 0
		for i := range 60 {
			clock.Advance(time.Duration(rnd.Int64N(int64(16 * time.Hour))))
			s.Sync()
			other.Sync()
			item := fmt.Sprint(rnd.IntN(40))
			age := clock.Now().Sub(added[item])
			isNew, err := s.Add(t.Context(), item)
			must(t, err)
			if age <= week && isNew || age > 8*24*time.Hour && !isNew {
				t.Errorf("step %d: %s is new: %v, and was last added %v before", i, item, isNew, age)
			}
			added[item] = clock.Now()
			for _, f := range []*bloom.SlidingFilter{s, other, open()} {
				for item, at := range added {
					if rnd.IntN(6) > 0 {
						continue // some of them, to be quick
					}
					switch age, may := clock.Now().Sub(at), ask(f, item); {
					case age <= week-2*time.Second && !may:
						t.Fatalf("step %d: %s is denied %v after it was added", i, item, age)
					case age > 8*24*time.Hour && may:
						wrong++
					}
				}
			}
		}
		if wrong > 3 {
			t.Errorf("%d items were there long after they had gone", wrong)
		}
		// Everything goes by itself.
		if ttl := e.Redis.PTTL(t.Context(), e.Prefix+":{seen}:sliding").Val(); ttl < week || ttl > 10*24*time.Hour {
			t.Errorf("the description lasts %v", ttl)
		}
		// An item that comes at the end of a period is found until a period after the window.
		for it := e.Redis.Scan(t.Context(), 0, e.Prefix+":{seen:*", 100).Iterator(); it.Next(t.Context()); {
			if ttl := e.Redis.PTTL(t.Context(), it.Val()).Val(); ttl < 8*24*time.Hour || ttl > 10*24*time.Hour {
				t.Errorf("%s lasts %v", it.Val(), ttl)
			}
		}
		// Its description lasts as long as somebody adds, and doesn't grow.
		key := e.Prefix + ":{seen}:sliding"
		must(t, e.Redis.PExpire(t.Context(), key, time.Hour).Err())
		clock.Advance(2 * 24 * time.Hour)
		s.Sync()
		_, err := s.Add(t.Context(), "late")
		must(t, err)
		if ttl := e.Redis.PTTL(t.Context(), key).Val(); ttl < week {
			t.Errorf("the description lasts %v after an item was added", ttl)
		}
		if n := e.Redis.HLen(t.Context(), key).Val(); n > 1+7+2 {
			t.Errorf("the description has %d fields, want one for each of 7 periods, and a few", n)
		}
		deleted, err := filters.Delete(t.Context(), "seen")
		must(t, err)
		again, err := filters.Delete(t.Context(), "seen")
		must(t, err)
		if !deleted || again {
			t.Errorf("deleted %v, and then %v", deleted, again)
		}
	})
}

// The server's clock corrects a wrong estimate.
//
// Promise: a sliding filter finds every item of its window and forgets it at most a period later.
func TestSlidingByTheServersClock(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		clock := frozenclock.New(e.Conn, wire.Scripts(), nil)
		filters := slidingOn(t, e.ClientOn(clock))
		s, err := filters.Open(t.Context(), "s", bloom.SlidingSpec{Window: 4 * time.Hour, Capacity: 1000, ErrorRate: 0.01})
		must(t, err)
		_, err = s.Add(t.Context(), "a")
		must(t, err)
		clock.Advance(10 * time.Hour) // unknown to s
		isNew, err := s.Add(t.Context(), "a")
		must(t, err)
		if !isNew {
			t.Error("an item of ten hours before is not new")
		}
	})
}

// Servers whose clocks are a second apart find every item of the window, whether the item's server
// is ahead or behind.
//
// Promise: a sliding filter finds every item of its window and forgets it at most a period later.
func TestSlidingClocksApart(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		clock := frozenclock.New(e.Conn, wire.Scripts(), nil)
		filters := slidingOn(t, e.ClientOn(clock))
		spec := bloom.SlidingSpec{Window: 4 * time.Hour, Capacity: 1000, ErrorRate: 0.001}
		open := func() *bloom.SlidingFilter {
			s, err := filters.Open(t.Context(), "s", spec)
			must(t, err)
			return s
		}
		can := func(s *bloom.SlidingFilter, item, when string) {
			t.Helper()
			may, err := s.MayContain(t.Context(), item)
			must(t, err)
			if !may {
				t.Errorf("%s it is denied", when)
			}
		}
		end := clock.Now().Truncate(time.Hour).Add(time.Hour) // of a period
		clock.Set(end.Add(-500 * time.Millisecond))
		adds := open()
		_, err := adds.Add(t.Context(), "behind")
		must(t, err)
		asks := open()
		clock.Set(end.Add(400 * time.Millisecond))
		adds = open()
		_, err = adds.Add(t.Context(), "before")
		must(t, err)
		can(asks, "before", "by a clock almost a second behind")

		clock.Set(end.Add(spec.Window + 499*time.Millisecond))
		can(open(), "behind", "at the end of the window, by a clock a second before,")
	})
}

// An answer is "maybe" when the key of a period is lost.
//
// Promise: a lost key or an error makes the answer "maybe" and never "no".
func TestSlidingLostKey(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		clock := frozenclock.New(e.Conn, wire.Scripts(), nil)
		filters := slidingOn(t, e.ClientOn(clock))
		s, err := filters.Open(t.Context(), "s", bloom.SlidingSpec{Window: 4 * time.Hour, Capacity: 1000, ErrorRate: 0.01})
		must(t, err)
		_, err = s.Add(t.Context(), "a")
		must(t, err)
		for it := e.Redis.Scan(t.Context(), 0, e.Prefix+":*:bits", 100).Iterator(); it.Next(t.Context()); {
			must(t, e.Redis.Del(t.Context(), it.Val()).Err())
		}
		isNew, err := s.Add(t.Context(), "b")
		must(t, err)
		for _, item := range []string{"a", "b", "c"} {
			may, err := s.MayContain(t.Context(), item)
			must(t, err)
			if !may || isNew {
				t.Errorf("%s is denied, or b was new: %v", item, isNew)
			}
		}
		clock.Advance(2 * time.Hour) // a period whose key is there follows
		s.Sync()
		isNew, err = s.Add(t.Context(), "d")
		must(t, err)
		if isNew {
			t.Error("d is called new, though it may have been in the key that is lost")
		}
	})
}

func TestSlidingSpecs(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		good := bloom.SlidingSpec{Window: time.Hour, Periods: 4, Capacity: 100, ErrorRate: 0.01}
		for want, change := range map[string]func(s *bloom.SlidingSpec){
			"-1 periods; want 1 to 64":                       func(s *bloom.SlidingSpec) { s.Periods = -1 },
			"65 periods":                                     func(s *bloom.SlidingSpec) { s.Periods = 65 },
			"window is 3s; want 4s":                          func(s *bloom.SlidingSpec) { s.Window = 3 * time.Second },
			"window is 0s":                                   func(s *bloom.SlidingSpec) { s.Window = 0 },
			"which 4 periods don't divide":                   func(s *bloom.SlidingSpec) { s.Window += time.Microsecond },
			"capacity is 3; want 4, one for each period":     func(s *bloom.SlidingSpec) { s.Capacity = 3 },
			"error rate is 1e-06; want 4.9999999999999996e-": func(s *bloom.SlidingSpec) { s.ErrorRate = 1e-6 },
			"error rate is NaN":                              func(s *bloom.SlidingSpec) { s.ErrorRate = math.NaN() },
		} {
			spec := good
			change(&spec)
			if _, err := e.sliding.Open(t.Context(), "s", spec); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: the error is %v, want %q", spec, err, want)
			}
		}
		_, err := e.sliding.Open(t.Context(), "s", bloom.SlidingSpec{})
		is(t, err, bloom.ErrNotFound)
		if n := len(e.Keys()); n != 0 {
			t.Errorf("%d keys were written", n)
		}
		_, err = e.sliding.Open(t.Context(), "s", good)
		must(t, err)
		other := good
		other.Capacity++
		_, err = e.sliding.Open(t.Context(), "s", other)
		is(t, err, bloom.ErrMismatch)
		s, err := e.sliding.Open(t.Context(), "s", bloom.SlidingSpec{})
		must(t, err)
		if s.Spec() != good {
			t.Errorf("the spec is %v", s.Spec())
		}
	})
}
