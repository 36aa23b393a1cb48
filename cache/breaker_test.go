package cache

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/await"
)

// While it is broken one call at a time tries, and the first success mends it.
func TestBreakerLetsOneTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker{limit: 2, rest: time.Second}
		allows := func(when string, want ...bool) {
			t.Helper()
			for i, w := range want {
				if got := b.allow(); got != w {
					t.Errorf("%s: call %d is allowed: %v", when, i, got)
				}
			}
		}
		b.done(false)
		allows("after one failure", true, true)
		b.done(false)
		allows("after two", false, false)
		await.Advance(time.Second)
		allows("after the rest", true, false, false)
		await.Advance(time.Second)
		allows("when that one is not back", true, false)
		b.done(false)
		allows("when it has failed", false)
		await.Advance(time.Second)
		allows("after another rest", true, false)
		b.done(true)
		allows("when one has succeeded", true, true)
	})
}
