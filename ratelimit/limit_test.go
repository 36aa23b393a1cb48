package ratelimit_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/ratelimit"
)

// randomLimit returns a limit that New takes: from one token in days to a
// million a second, with a burst that a test can take one by one.
func randomLimit(r *rand.Rand) ratelimit.Limit {
	l := ratelimit.Limit{Rate: 1 + r.IntN(1000), Period: time.Duration(1+r.IntN(60)) * time.Second, Burst: 1 + r.IntN(12)}
	switch r.IntN(4) {
	case 0:
		l.Period = time.Duration(1 + r.Int64N(int64(100*24*time.Hour)))
		l.Rate = 1 + r.IntN(1+int(l.Period/10_000))
	case 1:
		l.Rate, l.Period = 1+r.IntN(1_000_000), time.Second
	}
	return l
}

func TestBadOptions(t *testing.T) {
	client := clienttest.New(t, noConn{}, "rd")
	for _, c := range []struct {
		limit ratelimit.Limit
		want  string // parts of the error, or empty
	}{
		{ratelimit.Limit{}, "rate is 0|period is 0s|burst is 0"},
		{ratelimit.PerSecond(0), "rate is 0|burst is 0"},
		{ratelimit.PerMinute(-3), "rate is -3; want at least 1|burst is -3; want at least 1"},
		{ratelimit.Limit{Rate: 1, Period: -time.Second}, "period is -1s; want more than 0"},
		{ratelimit.Limit{Rate: 1, Period: time.Second, Burst: -1}, "burst is -1"},
		{ratelimit.Limit{Rate: 1, Period: time.Second}, ""},
		{ratelimit.Limit{Rate: 1, Period: 1}, ""},
		{ratelimit.Limit{Rate: 2, Period: 1}, "rate of 2 in 1ns is too fast"},
		{ratelimit.PerSecond(1_000_000_000), ""},
		{ratelimit.PerSecond(1_000_000_001), "too fast"},
		{ratelimit.PerSecond(600_000_000), "off by more than 1%"}, // would be 1,000,000,000
		{ratelimit.PerSecond(16_420_361), "off by more than 1%"},  // by 1.5%
		{ratelimit.PerSecond(10_000_000), ""},
		{ratelimit.PerSecond(9_999_999), ""},
		{ratelimit.PerSecond(9_900_991), ""}, // 101 ns, and the most that is cut there
		{ratelimit.Limit{Rate: 1, Period: math.MaxInt64, Burst: 1}, "292 years"},
		{ratelimit.Limit{Rate: 1, Period: math.MaxInt64 - 1, Burst: 1}, ""},
		{ratelimit.Limit{Rate: 1, Period: time.Hour, Burst: math.MaxInt}, "292 years"},
	} {
		l, err := ratelimit.New(client, ratelimit.Options{Limit: c.limit})
		if c.want == "" {
			if err != nil || l == nil {
				t.Errorf("%+v: %v", c.limit, err)
			}
			continue
		}
		if err == nil || l != nil {
			t.Errorf("%+v is taken", c.limit)
			continue
		}
		for part := range strings.SplitSeq(c.want, "|") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%+v: %q does not say %q", c.limit, err, part)
			}
		}
	}
	if _, err := ratelimit.New(nil, ratelimit.Options{}); err == nil || !strings.Contains(err.Error(), "client is nil\nratelimit: rate is 0") {
		t.Errorf("without anything: %v", err)
	}
	l, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerSecond(1)})
	must(t, err)
	if _, err := l.AllowN(t.Context(), "a", -1); err == nil || !strings.Contains(err.Error(), "n is -1") {
		t.Errorf("n = -1: %v", err)
	}
}

// noConn is never used.
type noConn struct{ redoubt.Conn }

// Over a long run a limit gives what it was asked for, to a part in a hundred,
// though its interval is cut to ns, its clock shows µs and its key expires by
// ms.
//
// Promise: No token is lost: an unused limit gives Burst tokens at once, and
// over a long run the rate is the one asked for, to 1%, and never lower.
func TestLongRun(t *testing.T) {
	t.Parallel()
	client, m := withTime(t)
	r := randtest.Rand(t)
	for _, limit := range []ratelimit.Limit{
		{Rate: 1, Period: time.Hour, Burst: 2},
		{Rate: 7, Period: time.Second, Burst: 7},
		{Rate: 1111, Period: time.Second, Burst: 1},
		{Rate: 29_999, Period: time.Second, Burst: 100},
		{Rate: 600_000, Period: time.Second, Burst: 600},
		{Rate: 999_999, Period: time.Second, Burst: 1000},
		{Rate: 1_000_000, Period: time.Second, Burst: 1_000_000},
		{Rate: 1_000_000, Period: time.Second, Burst: 50},
		{Rate: 9_900_991, Period: time.Second, Burst: 5000},
	} {
		l, err := ratelimit.New(client, ratelimit.Options{Limit: limit})
		must(t, err)
		name := strconv.Itoa(limit.Rate) + ":" + strconv.Itoa(limit.Burst)
		now := m.Now()
		taken := -limit.Burst
		take := func(n int) {
			if d := allow(t, l, name, n); d.Allowed {
				taken += n
			}
		}
		take(limit.Burst)
		interval := limit.Period / time.Duration(limit.Rate)
		start := now
		for range 150 {
			// Until there is a token, and on while the burst is not full, so
			// that none that comes back is dropped.
			spare := int64(interval) * int64(limit.Burst-1) / int64(time.Microsecond)
			pause := peek(t, l, name).RetryAfter + time.Duration(r.Int64N(spare/2+1))*time.Microsecond
			now = now.Add(pause)
			m.advance(pause)
			if n := peek(t, l, name).Remaining; n > 0 {
				take(n)
			}
		}
		want := float64(limit.Rate) * float64(now.Sub(start)) / float64(limit.Period)
		// The last token may be on its way.
		if got := float64(taken); got < 0.99*want-1 || got > 1.01*want {
			t.Errorf("%+v: %.0f tokens in %v; want %.1f", limit, got, now.Sub(start), want)
		}
	}
}

// A limit that New accepts is never slower than asked, and at most a part in a hundred
// faster; at up to a million a second, a part in a thousand.
//
// Promise: No token is lost: an unused limit gives Burst tokens at once, and
// over a long run the rate is the one asked for, to 1%, and never lower.
func FuzzLimit(f *testing.F) {
	f.Add(1_000_000, int64(time.Second), 1)
	f.Add(9_900_991, int64(time.Second), 5)
	f.Add(3, int64(math.MaxInt64), 1)
	client := clienttest.New(f, noConn{}, "rd")
	f.Fuzz(func(t *testing.T, rate int, period int64, burst int) {
		limit := ratelimit.Limit{Rate: rate, Period: time.Duration(period), Burst: burst}
		_, err := ratelimit.New(client, ratelimit.Options{Limit: limit})
		if err != nil {
			if rate > 0 && period > 0 && burst == 1 && int64(rate) <= period/101 && period < math.MaxInt64 {
				t.Fatalf("%+v: %v", limit, err)
			}
			return
		}
		asked := float64(rate) / float64(period)
		given := 1 / float64(period/int64(rate))
		switch excess := given / asked; {
		case excess < 1-1e-15, excess > 1.01+1e-9, period/int64(rate) >= 1000 && excess > 1.001+1e-9:
			t.Fatalf("%+v: %v times what was asked", limit, excess)
		}
	})
}
