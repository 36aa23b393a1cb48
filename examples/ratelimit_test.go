package examples

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// A user gets 5 replies, the next one is refused with the standard fields, and others are not affected.
// Two servers on one Redis share the limit.
func TestRatelimit(t *testing.T) {
	one := start(t, "ratelimit", "-addr", "127.0.0.1:0")
	t.Run("embedded", func(t *testing.T) { limitsReplies(t, one, one) })
	one.interrupt(t)

	url := redistest.Start(t).URL()
	one = start(t, "ratelimit", "-addr", "127.0.0.1:0", "-url", url)
	two := start(t, "ratelimit", "-addr", "127.0.0.1:0", "-url", url)
	t.Run("redis", func(t *testing.T) { limitsReplies(t, one, two) })
	one.interrupt(t)
	two.interrupt(t)
}

func limitsReplies(t *testing.T, servers ...*process) {
	t.Helper()
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.find(t, `listening on (http://\S+);`)[1])
	}
	reply := func(n int, user string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, urls[n%len(urls)]+"/replies", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if user != "" {
			r.SetBasicAuth(user, "")
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close() // there is nothing to read
		return answer
	}
	for n, left := range []string{"4", "3", "2", "1", "0"} {
		a := reply(n, "ann")
		if want := `"replies";r=` + left + ";"; a.StatusCode != http.StatusCreated || !strings.HasPrefix(a.Header.Get("RateLimit"), want) {
			t.Errorf("reply %d: status %d, RateLimit %q; want 201, %s…", n, a.StatusCode, a.Header.Get("RateLimit"), want)
		}
	}
	a := reply(5, "ann")
	if a.StatusCode != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "" ||
		a.Header.Get("RateLimit-Policy") != `"replies";q=5;w=10` || a.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("reply 6: status %d, fields %v", a.StatusCode, a.Header)
	}
	if a := reply(6, "bob"); a.StatusCode != http.StatusCreated {
		t.Errorf("another user: status %d, want 201", a.StatusCode)
	}
	if a := reply(7, ""); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("nobody: status %d, want 401", a.StatusCode)
	}
}
