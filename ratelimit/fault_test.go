package ratelimit_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/ratelimit"
)

// A reply is lost. Allow is not sent again, so that it takes one token and not
// two; Info, Refund and Reset are, and Refund gives once.
//
// Promise: A call takes its tokens at most once: it is not sent again after a
// lost reply, and its error matches redoubt.ErrUnknownOutcome.
func TestLostReplies(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		proxy := faultnet.New(t, e.Addr)
		e.Client = e.ClientAt(proxy.Addr())
		l := e.limiter(t, ratelimit.PerHour(10))
		allow(t, l, "a", 1) // the script is loaded

		proxy.SwallowNextReply()
		if _, err := l.Allow(t.Context(), "a"); !errors.Is(err, redoubt.ErrUnknownOutcome) {
			t.Errorf("Allow: %v", err)
		}
		proxy.SwallowNextReply()
		info, err := l.Info(t.Context(), "a")
		if err != nil || info.Remaining != 8 {
			t.Errorf("Info: %+v, %v; want 8 remaining", info, err)
		}
		_, err = l.Refund(t.Context(), "a", 1, "") // loads its script
		must(t, err)
		allow(t, l, "a", 5)
		proxy.SwallowNextReply()
		d, err := l.Refund(t.Context(), "a", 1, "")
		if err != nil || d.Remaining != 5 {
			t.Errorf("Refund: %s, %v; want 5 remaining", show(d), err)
		}
		proxy.SwallowNextReply()
		must(t, l.Reset(t.Context(), "a"))
		if d := peek(t, l, "a"); d.Remaining != 10 {
			t.Errorf("after Reset: %s", show(d))
		}
	})
}

func TestWrongType(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		l := e.limiter(t, ratelimit.PerSecond(1))
		must(t, e.Redis.LPush(t.Context(), e.key("a"), "x").Err())
		_, err1 := l.Allow(t.Context(), "a")
		_, err2 := l.Info(t.Context(), "a")
		for _, err := range []error{err1, err2} {
			if !redoubt.IsCode(err, "WRONGTYPE") || strings.Contains(err.Error(), "script") {
				t.Errorf("error %v", err)
			}
		}
		must(t, l.Reset(t.Context(), "a"))
		allow(t, l, "a", 1)
	})
}

// A value that is no number is an error, and stays as it is.
func TestCorruptValue(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		l := e.limiter(t, ratelimit.PerSecond(1))
		key := e.key("a")
		for _, bad := range []string{"", "x", "-1760000000000000000", "1.76e18", "1760000000000000000 ", " 1760000000000000000",
			"17600000x0000000000", "17600000000000000.0", "0x10", "176000000000000000000", "\x001760000000000000000", "1760000000000000000\n"} {
			must(t, e.Redis.Set(t.Context(), key, bad, 0).Err())
			_, err := l.Allow(t.Context(), "a")
			if !redoubt.IsCode(err, "ERR") || !strings.Contains(err.Error(), "not a decimal integer") {
				t.Errorf("%q: %v", bad, err)
			}
			if got := e.Redis.Get(t.Context(), key).Val(); got != bad {
				t.Errorf("%q became %q", bad, got)
			}
		}
		for _, past := range []string{"0", "5", "012", "999999999", "1000000000", "1760000000000000000", "0001760000000000000"} {
			must(t, e.Redis.Set(t.Context(), key, past, 0).Err())
			if d := allow(t, l, "a", 1); !d.Allowed || d.Remaining != 0 {
				t.Errorf("%q: %s", past, show(d))
			}
		}
	})
}

// A time as far off as the key can hold is a long wait and no overflow.
func TestFarFuture(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		l := e.limiter(t, ratelimit.PerSecond(1))
		must(t, e.Redis.Set(t.Context(), e.key("a"), "99999999999999999999", 0).Err())
		d := allow(t, l, "a", 1)
		const long = 292 * 365 * 24 * time.Hour
		if d.Allowed || d.Remaining != 0 || d.RetryAfter < long || d.ResetAfter < long {
			t.Errorf("%s", show(d))
		}
	})
}
