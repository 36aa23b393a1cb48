package policy_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/ratelimit"
	"github.com/redoubt-go/redoubt/ratelimit/policy"
)

var must = expect.Must

func newSet(t *testing.T, opts policy.Options[string], policies ...policy.Policy[string]) *policy.Set[string] {
	t.Helper()
	opts.Policies = policies
	s, err := policy.New(opts)
	must(t, err)
	return s
}

func client(t *testing.T) *redoubt.Client {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{})
	must(t, err)
	c, err := redoubt.New(e, redoubt.Options{})
	must(t, err)
	t.Cleanup(func() {
		must(t, c.Close())
		must(t, e.Close())
	})
	return c
}

func limiter(t *testing.T, c *redoubt.Client, perHour int) *ratelimit.Limiter {
	t.Helper()
	l, err := ratelimit.New(c, ratelimit.Options{Limit: ratelimit.PerHour(perHour)})
	must(t, err)
	return l
}

func itself(s string) string { return s }

// Promise: A request passes all policies in their order, and a refused one
// gets back what it took from the earlier ones.
func TestRefusalGivesBack(t *testing.T) {
	c := client(t)
	calls, err := ratelimit.NewConcurrency(c, ratelimit.ConcurrencyOptions{Limit: 5})
	must(t, err)
	first, last := limiter(t, c, 10), limiter(t, c, 3)
	s := newSet(t, policy.Options[string]{},
		policy.Policy[string]{Name: "first", Limiter: first, Key: itself},
		policy.Policy[string]{Name: "busy", Concurrency: calls},
		policy.Policy[string]{Name: "last", Limiter: last})
	var passed int
	for range 8 {
		a := s.Admit(t.Context(), "me")
		if a.Verdict == policy.Allowed {
			passed++
			if len(a.Answers) != 3 {
				t.Errorf("answers: %+v", a.Answers)
			}
		} else if a.Policy != "last" || a.RetryAfter <= 0 || len(a.Answers) != 1 || a.Answers[0].Policy != "last" {
			t.Errorf("%+v", a)
		}
		defer a.End()
	}
	d, err := first.Info(t.Context(), "first:me")
	must(t, err)
	call, busy, err := calls.Begin(t.Context(), "busy")
	must(t, err)
	if passed != 3 || d.Remaining != 7 || call == nil || busy.Remaining != 1 {
		t.Errorf("%d passed; %d left of the first, %d places; want 3, 7 and 1", passed, d.Remaining, busy.Remaining)
	}
}

// A fake limiter answers what it is told to.
type fake struct {
	d     ratelimit.Decision
	err   error
	names []string
}

func (f *fake) Allow(ctx context.Context, name string) (ratelimit.Decision, error) {
	f.names = append(f.names, name)
	if f.err == nil {
		return f.d, ctx.Err()
	}
	return f.d, f.err
}

// Promise: When a limiter fails, the options decide whether a request passes;
// a request whose ctx has ended never passes.
func TestFailure(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		failure policy.FailureMode
		want    policy.Verdict
	}{{policy.FailOpen, policy.Allowed}, {policy.FailClosed, policy.Failed}} {
		var told []string
		next := &fake{d: ratelimit.Decision{Allowed: true}}
		s := newSet(t, policy.Options[string]{
			OnFailure: c.failure,
			OnError:   func(r, policy string, err error) { told = append(told, r+" "+policy+" "+err.Error()) },
		}, policy.Policy[string]{Name: "broken", Limiter: &fake{err: boom}}, policy.Policy[string]{Name: "next", Limiter: next})
		a := s.Admit(t.Context(), "me")
		if a.Verdict != c.want || !slices.Equal(told, []string{"me broken boom"}) || (len(next.names) == 1) != (c.want == policy.Allowed) {
			t.Errorf("%d: %+v, told %q, next asked %q", c.failure, a, told, next.names)
		}
	}
}

// refunding is a fake that counts what is given back.
type refunding struct {
	fake
	back int
}

func (f *refunding) Refund(_ context.Context, _ string, n int, _ string) (ratelimit.Decision, error) {
	f.back += n
	return ratelimit.Decision{}, nil
}

// TestDegraded: what a Limiter answers without its server took nothing there, so
// that nothing is given back, and says nothing of the limit.
//
// Promise: An answer that a limiter gives without its server is not shown to
// callers as its limit, and is not refunded.
func TestDegraded(t *testing.T) {
	c := client(t)
	must(t, c.Close())
	limit := ratelimit.PerHour(2)
	for _, mode := range []struct {
		failure ratelimit.FailureMode
		want    policy.Verdict
		answers int
	}{{ratelimit.FailOpen, policy.Allowed, 0}, {ratelimit.FailClosed, policy.Failed, 0}, {ratelimit.FailLocal, policy.Allowed, 0}} {
		l, err := ratelimit.New(c, ratelimit.Options{Limit: limit, OnFailure: mode.failure})
		must(t, err)
		a := newSet(t, policy.Options[string]{}, policy.Policy[string]{Name: "api", Limiter: l}).Admit(t.Context(), "me")
		policies, limits := a.Fields()
		if a.Verdict != mode.want || policies+limits != "" || (a.RetryAfter > 0) == (a.Verdict == policy.Allowed) {
			t.Errorf("%d: %+v, %s, %s", mode.failure, a, policies, limits)
		}
	}
	l, err := ratelimit.New(c, ratelimit.Options{Limit: limit, OnFailure: ratelimit.FailLocal})
	must(t, err)
	s := newSet(t, policy.Options[string]{}, policy.Policy[string]{Name: "api", Limiter: l})
	for i, want := range []policy.Verdict{policy.Allowed, policy.Allowed, policy.Refused} {
		if a := s.Admit(t.Context(), "me"); a.Verdict != want {
			t.Errorf("local, request %d: %+v", i, a)
		}
	}
	for _, degraded := range []error{nil, errors.New("no server")} {
		first := &refunding{fake: fake{d: ratelimit.Decision{Allowed: true, Taken: 1, Violated: -1, Degraded: degraded}}}
		a := newSet(t, policy.Options[string]{}, policy.Policy[string]{Name: "first", Limiter: first},
			policy.Policy[string]{Name: "last", Limiter: &fake{d: ratelimit.Decision{RetryAfter: 1}}}).Admit(t.Context(), "me")
		if a.Verdict != policy.Refused || (first.back == 1) != (degraded == nil) {
			t.Errorf("degraded by %v: %d given back", degraded, first.back)
		}
	}
}

// TestDisconnectedClientDoesNotPass: a client that disconnects does not pass, even if requests pass when a limiter fails.
//
// Promise: When a limiter fails, the options decide whether a request passes;
// a request whose ctx has ended never passes.
func TestDisconnectedClientDoesNotPass(t *testing.T) {
	s := newSet(t, policy.Options[string]{OnError: func(string, string, error) { t.Error("an ended request is no error of the limiter") }},
		policy.Policy[string]{Name: "api", Limiter: &fake{}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if a := s.Admit(ctx, "me"); a.Verdict != policy.Failed {
		t.Errorf("%+v", a)
	}
}

// TestConcurrency: a place is held for long, and freed by End; when it is lost the
// ctx ends.
//
// Promise: A request holds its place of a concurrency limit until End, and the
// place is extended meanwhile.
func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := client(t)
		calls, err := ratelimit.NewConcurrency(c, ratelimit.ConcurrencyOptions{Limit: 1})
		must(t, err)
		s := newSet(t, policy.Options[string]{}, policy.Policy[string]{Name: "busy", Concurrency: calls})
		first := s.Admit(t.Context(), "a")
		<-time.After(10 * time.Minute) // by the clock of the bubble
		if second := s.Admit(t.Context(), "b"); second.Verdict != policy.Refused || second.RetryAfter != time.Second || first.Context.Err() != nil {
			t.Errorf("after 10 minutes: %+v", second)
		}
		first.End()
		first.End()
		second := s.Admit(t.Context(), "b")
		must(t, c.Do(t.Context(), redoubt.Cmd{Name: "DEL", Keys: []string{"rd:{busy}:calls"}}).Err)
		<-second.Context.Done()
		if !errors.Is(context.Cause(second.Context), ratelimit.ErrCallLost) {
			t.Errorf("lost: %v", context.Cause(second.Context))
		}
		second.End()
	})
}

// Promise: No key makes a name that the server refuses, or a name of another
// policy.
func TestNames(t *testing.T) {
	c := client(t)
	l := limiter(t, c, 1)
	s := newSet(t, policy.Options[string]{OnFailure: policy.FailClosed}, policy.Policy[string]{Name: "api", Limiter: l, Key: itself})
	for _, key := range []string{"", "}", "{a}", "\x00\xff", strings.Repeat("x", 256), strings.Repeat("x", 100_000), strings.Repeat("x", 100_001)} {
		for _, want := range []policy.Verdict{policy.Allowed, policy.Refused} {
			if a := s.Admit(t.Context(), key); a.Verdict != want {
				t.Errorf("%.20q: verdict %d, want %d", key, a.Verdict, want)
			}
		}
	}
	f := &fake{d: ratelimit.Decision{Allowed: true}}
	newSet(t, policy.Options[string]{}, policy.Policy[string]{Name: "all", Limiter: f}).Admit(t.Context(), "me")
	newSet(t, policy.Options[string]{}, policy.Policy[string]{Name: "all", Limiter: f, Key: itself}).Admit(t.Context(), "me")
	if !slices.Equal(f.names, []string{"all", "all:me"}) {
		t.Errorf("%q", f.names)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := policy.New(policy.Options[string]{
		Policies: []policy.Policy[string]{
			{Name: "a:b", Limiter: &fake{}}, {Name: "}", Limiter: &fake{}}, {Name: "größer", Limiter: &fake{}}, {Limiter: &fake{}},
			{Name: "twice", Limiter: &fake{}}, {Name: "twice", Limiter: &fake{}}, {Name: "none"},
			{Name: strings.Repeat("x", 65), Limiter: &fake{}},
		},
		OnFailure: 2,
		Timeout:   -1,
	})
	for _, want := range []string{
		`policy 0 is called "a:b"`, `policy 1 is called "}"`, "policy 2", "policy 3", "policy 7", `two policies are called "twice"`,
		`policy "none": want either`, "OnFailure is 2", "Timeout is -1ns",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %q", err, want)
		}
	}
	if _, err := policy.New(policy.Options[string]{}); err == nil {
		t.Error("no policies are no error")
	}
}

func TestSkip(t *testing.T) {
	f := &fake{}
	odd := func(s string) bool { return s == "odd" }
	for _, s := range []*policy.Set[string]{
		newSet(t, policy.Options[string]{Skip: odd}, policy.Policy[string]{Name: "p", Limiter: f}),
		newSet(t, policy.Options[string]{}, policy.Policy[string]{Name: "p", Limiter: f, Skip: odd}),
	} {
		if a := s.Admit(t.Context(), "odd"); a.Verdict != policy.Allowed || f.names != nil {
			t.Errorf("skipped: %+v, asked %q", a, f.names)
		}
		if a := s.Admit(t.Context(), "even"); a.Verdict != policy.Refused {
			t.Errorf("not skipped: %+v", a)
		}
		f.names = nil
	}
}

func TestFields(t *testing.T) {
	for _, c := range []struct {
		d                ratelimit.Decision
		policies, limits string
	}{
		{ratelimit.Decision{Allowed: true, Limit: ratelimit.Limit{Rate: 100, Period: time.Second, Burst: 200}, Remaining: 199, ResetAfter: 10 * time.Millisecond},
			`"a\"\\";q=200;w=2`, `"a\"\\";r=199;t=1`},
		{ratelimit.Decision{Limit: ratelimit.Limit{Rate: 3, Period: time.Second, Burst: 6}, RetryAfter: 1001 * time.Millisecond, ResetAfter: time.Hour},
			`"a\"\\";q=6;w=2`, `"a\"\\";r=0;t=2`},
		{ratelimit.Decision{Limit: ratelimit.Limit{Rate: 1000, Period: time.Second, Burst: 1}, RetryAfter: ratelimit.Never},
			`"a\"\\";q=1;w=1`, `"a\"\\";r=0`},
		{ratelimit.Decision{Allowed: true, Limit: ratelimit.Limit{Rate: 1e18, Period: time.Second, Burst: 1e18}, Remaining: 1e18},
			`"a\"\\";q=999999999999999;w=1`, `"a\"\\";r=999999999999999;t=0`},
	} {
		a := newSet(t, policy.Options[string]{}, policy.Policy[string]{Name: `a"\`, Limiter: &fake{d: c.d}}).Admit(t.Context(), "me")
		if p, l := a.Fields(); p != c.policies || l != c.limits {
			t.Errorf("%+v:\n%s, want %s\n%s, want %s", c.d, p, c.policies, l, c.limits)
		}
	}
}

func TestProblem(t *testing.T) {
	for _, c := range []struct {
		a           policy.Admission
		retry, body string
		status      int
	}{
		{policy.Admission{Verdict: policy.Refused, Policy: `a"b`, RetryAfter: 1001 * time.Millisecond}, "2", `"status":429,"violated-policies":["a\"b"]}`, 429},
		{policy.Admission{Verdict: policy.Refused, RetryAfter: ratelimit.Never}, "", `"title":"Request cannot`, 429},
		{policy.Admission{Verdict: policy.Refused, RetryAfter: 1}, "1", `#quota-exceeded"`, 429},
		{policy.Admission{Verdict: policy.Failed, Policy: "api", RetryAfter: time.Second}, "1", `{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"`, 503},
	} {
		status, body := c.a.Problem()
		if status != c.status || !strings.Contains(string(body), c.body) || c.a.RetrySeconds() != c.retry {
			t.Errorf("%+v: %d, retry %q\n%s", c.a, status, c.a.RetrySeconds(), body)
		}
	}
	if got := new(policy.Admission).RetrySeconds(); got != "" {
		t.Errorf("an allowed request: retry %q", got)
	}
}

// A waiting limiter returns what it is told to.
type waiting struct{ err error }

func (w waiting) Wait(context.Context, string) error { return w.err }

// Promise: A call of a client waits for its token, is refused if that comes after its deadline, and passes or fails
// as the options decide when the limiter fails.
func TestClient(t *testing.T) {
	boom := errors.New("boom")
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		ctx     context.Context //nolint:containedctx // a table
		err     error
		failure policy.FailureMode
		want    policy.Verdict
		is      error
		told    int
	}{
		{t.Context(), nil, policy.FailClosed, policy.Allowed, nil, 0},
		{t.Context(), ratelimit.ErrTooLate, policy.FailOpen, policy.Refused, ratelimit.ErrTooLate, 0},
		{t.Context(), ratelimit.ErrExceedsBurst, policy.FailOpen, policy.Refused, ratelimit.ErrExceedsBurst, 0},
		{t.Context(), boom, policy.FailOpen, policy.Allowed, nil, 1},
		{t.Context(), boom, policy.FailClosed, policy.Failed, boom, 1},
		{ended, boom, policy.FailOpen, policy.Failed, context.Canceled, 0},
	} {
		told := 0
		client, err := policy.NewClient(policy.ClientOptions[string]{
			Limiter: waiting{c.err}, Name: "api", Key: itself, OnFailure: c.failure,
			OnError: func(string, error) { told++ },
		})
		must(t, err)
		if got, err := client.Wait(c.ctx, "me"); got != c.want || !errors.Is(err, c.is) || told != c.told {
			t.Errorf("%+v: %v, %v, told %d times", c, got, err, told)
		}
	}
	_, err := policy.NewClient(policy.ClientOptions[string]{OnFailure: 7})
	for _, want := range []string{"Limiter is nil", "Name is empty", "OnFailure is 7"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %q", err, want)
		}
	}
}
