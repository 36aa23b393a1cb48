package policy

import (
	"encoding/json"
	"net/http"
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

// RetryField is the header field with the value of [Admission.RetrySeconds].
const RetryField = "Retry-After"

// ProblemType is the media type of problem details.
const ProblemType = "application/problem+json"

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

// RetrySeconds returns the value of the header field Retry-After: 1 second or more. It is empty when the
// request may be served, and when it can never pass.
func (a *Admission) RetrySeconds() string {
	if a.Verdict == Allowed || a.RetryAfter == ratelimit.Never {
		return ""
	}
	return integer(max(1, Seconds(a.RetryAfter)))
}

// Problem returns the status and the problem details (RFC 9457) that answer an HTTP request that must not be
// served: 429 with the draft's type quota-exceeded, or 503 if the verdict is [Failed].
func (a *Admission) Problem() (status int, body []byte) {
	p := problem{
		Type:  "https://iana.org/assignments/http-problem-types#quota-exceeded",
		Title: "Request cannot be satisfied as assigned quota has been exceeded", Status: http.StatusTooManyRequests,
		Violated: []string{a.Policy},
	}
	if a.Verdict == Failed {
		p = problem{
			Type: "about:blank", Title: http.StatusText(http.StatusServiceUnavailable), Status: http.StatusServiceUnavailable,
			Detail: "The rate limit can't be checked at the moment.",
		}
	}
	body, _ = json.Marshal(p) // strings and a number
	return p.Status, append(body, '\n')
}

// A problem is a body of RFC 9457, with the member of the draft.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Violated []string `json:"violated-policies,omitempty"`
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
