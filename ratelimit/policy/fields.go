package policy

import (
	"strconv"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt/ratelimit"
)

// PolicyField and LimitField are the header fields of
// draft-ietf-httpapi-ratelimit-headers-11.
const (
	PolicyField = "RateLimit-Policy"
	LimitField  = "RateLimit"
)

// Fields returns the values of the header fields RateLimit-Policy and RateLimit. They are
// empty when no policy answered.
//
// A policy's quota q is its burst, and its window w is the time in which a burst comes
// back: 100 a second with a burst of 200 is q=200;w=2. With several limits in one Limiter
// it is the limit that the request came closest to. The effective window t is how long a
// refused client should wait and, for an allowed request, the time until all tokens are
// back. Times are rounded up to seconds.
func (a *Admission) Fields() (policies, limits string) {
	var p, l strings.Builder
	for i, d := range a.Answers {
		if i > 0 {
			p.WriteString(", ")
			l.WriteString(", ")
		}
		name := quoted(d.Policy)
		p.WriteString(name + ";q=" + integer(int64(d.Limit.Burst)))
		l.WriteString(name + ";r=" + integer(int64(d.Remaining)))
		if d.Concurrent {
			p.WriteString(`;qu="concurrent-requests"`)
			continue
		}
		p.WriteString(";w=" + integer(max(1, Seconds(window(d.Limit)))))
		after := d.ResetAfter
		if !d.Allowed {
			after = d.RetryAfter
		}
		if after != ratelimit.Never {
			l.WriteString(";t=" + integer(Seconds(after)))
		}
	}
	return p.String(), l.String()
}

// window is the time in which a burst comes back, in whole intervals of the limiter.
func window(l ratelimit.Limit) time.Duration {
	return l.Period / time.Duration(max(1, l.Rate)) * time.Duration(l.Burst)
}

// Seconds returns d in seconds, rounded up.
func Seconds(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return seconds
}

// quoted returns s as a String of RFC 9651; s is printable ASCII.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// integer returns n as an Integer of RFC 9651, which has at most 15 digits.
func integer(n int64) string { return strconv.FormatInt(min(n, 999_999_999_999_999), 10) }
