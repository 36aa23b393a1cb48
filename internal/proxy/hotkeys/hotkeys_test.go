package hotkeys

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// TestSampler: each key is taken with the same probability, wherever it stands in what
// comes again and again, and also by samplers that see few keys.
func TestSampler(t *testing.T) {
	const rounds = 1 << 20
	check := func(what string, taken, of int) {
		t.Helper()
		want := float64(of) / Every
		if d := math.Abs(float64(taken) - want); d > 6*math.Sqrt(want) {
			t.Errorf("%s: %d of %d taken, want about %.0f", what, taken, of, want)
		}
	}
	var s Sampler
	var at [8]int
	for i := range rounds {
		if s.Next() {
			at[i%len(at)]++
		}
	}
	for i, n := range at {
		check(fmt.Sprintf("key %d of 8", i), n, rounds/len(at))
	}
	var first, second int
	for range rounds / 4 {
		var short Sampler
		if short.Next() {
			first++
		}
		if short.Next() {
			second++
		}
	}
	check("the first", first, rounds/4)
	check("the second", second, rounds/4)
}

// TestBounds: among many more keys than there are counters, no rate is told too high, none
// more than Error too low, Error is as small as is promised, and whoever is asked for
// more than the bound is told. The samples are given here, so there is no chance in it.
func TestBounds(t *testing.T) {
	now := time.Unix(1000, 0)
	s := New(now)
	const seconds, each = 200, 500 // samples a second
	names := func(i int) string { return fmt.Sprintf("key:%d", i) }
	perSecond := map[string]float64{}
	for range seconds {
		for i := range each {
			k := names(100 + i*7919%100_000 + int(now.Unix())*31%100_000) // asked for now and then
			switch {
			case i%5 == 0:
				k = "hot"
			case i%50 == 1:
				k = "warm"
			}
			s.Add([]byte(k), now)
			now = now.Add(time.Second / each)
		}
	}
	perSecond["hot"], perSecond["warm"] = each/5*Every, each/50*Every
	bound := float64(each * Every / Size)
	top := s.Top(Size, now)
	if len(top) != Size {
		t.Fatalf("%d keys", len(top))
	}
	for i, want := range []string{"hot", "warm"} {
		if top[i].Key != want {
			t.Errorf("place %d: %+v, want %s", i, top[i], want)
		}
	}
	for _, k := range top {
		want, often := perSecond[k.Key]
		if !often && k.PerSecond > 30 { // a handful of samples
			t.Errorf("%+v, but it is asked for now and then", k)
		}
		if often && (k.PerSecond > want*1.02 || k.PerSecond+k.Error < want*0.98) {
			t.Errorf("%+v, but it is asked for %.0f times a second", k, want)
		}
		if k.Error > bound*1.02 {
			t.Errorf("%+v: the error is to be at most %.0f", k, bound)
		}
	}
	now = now.Add(2 * maxAge * HalfLife)
	s.Add([]byte("new"), now)
	for i, k := range s.Top(Size, now) {
		if (k.Key == "new") != (i == 0) || k.Error > 0.01 || k.PerSecond < 0 {
			t.Errorf("much later, place %d: %+v", i, k)
		}
	}
}

// TestNow: what was asked for before is forgotten, however long the sketch has been there.
func TestNow(t *testing.T) {
	now := time.Unix(1000, 0)
	s := New(now)
	rate := func(key string) float64 {
		for _, k := range s.Top(10, now) {
			if k.Key == key {
				return k.PerSecond
			}
		}
		return 0
	}
	ask := func(key string, seconds int) {
		for range 100 * seconds {
			s.Add([]byte(key), now)
			now = now.Add(10 * time.Millisecond)
		}
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > want/50 {
			t.Errorf("%s: %.1f a second, want %.1f", what, got, want)
		}
	}
	ask("a", 3)
	near("at once", rate("a"), 100*Every)
	for range 3 { // each more than an epoch
		ask("a", 100)
		near("as before", rate("a"), 100*Every)
		was := rate("a")
		now = now.Add(HalfLife)
		near("half-life", rate("a"), was/2)
		now = now.Add(2 * maxAge * HalfLife)
		ask("b", 100)
		near("b", rate("b"), 100*Every)
		if r := rate("a"); r > 0.01 {
			t.Errorf("a, which nobody asks for: %.3f a second", r)
		}
	}
	s.Add([]byte(strings.Repeat("x", MaxKey+1)), now)
	if n := len(s.Top(10, now)); n != 2 {
		t.Errorf("%d keys are counted, want 2: one is too long", n)
	}
}

func BenchmarkSampled(b *testing.B) {
	keys := make([][]byte, 1<<16)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "user:%d:profile", i)
	}
	s := New(time.Now())
	var sampler Sampler
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		if k := keys[i*7919&(len(keys)-1)]; sampler.Next() {
			s.Add(k, time.Now())
		}
	}
}
