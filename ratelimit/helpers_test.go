package ratelimit_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/doors"
	"github.com/redoubt-go/redoubt/internal/test/exampleserver"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
	"github.com/redoubt-go/redoubt/ratelimit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(doors.M{TestingM: exampleserver.M{M: m}}) }

var connect = exampleserver.Connect

// env is one back end with a client on it.
type env struct{ *testenv.Env }

// each runs a test on every back end, on its own clock.
func each(t *testing.T, run func(t *testing.T, e *env)) {
	testenv.EachInFull(t, func(t *testing.T, e *testenv.Env) { run(t, &env{e}) })
}

// eachFrozen runs a test on every back end, with a clock that the test sets.
func eachFrozen(t *testing.T, run func(t *testing.T, e *env)) {
	each(t, func(t *testing.T, e *env) {
		// To the algorithms a key past its time is the same as no key.
		e.Freeze(wire.Scripts(), func(source string) string { return expiry.ReplaceAllString(source, "") })
		run(t, e)
	})
}

// expiry is how the scripts let a key expire.
var expiry = regexp.MustCompile(`, 'PX', string.format\('%.0f', px\)|redis.call\('PEXPIRE', [^\n]*\)`)

// thorough says how many times something is repeated: RATELIMIT=full shows more,
// for longer.
func thorough(full, short int) int {
	if os.Getenv("RATELIMIT") == "full" {
		return full
	}
	return short
}

func (e *env) limiter(t *testing.T, limit ratelimit.Limit) *ratelimit.Limiter {
	t.Helper()
	l, err := ratelimit.New(e.Client, ratelimit.Options{Limit: limit})
	must(t, err)
	return l
}

func (e *env) key(name string) string { return e.Key(name, "gcra") }

var must = expect.Must

func allow(t *testing.T, l *ratelimit.Limiter, name string, n int) ratelimit.Decision {
	t.Helper()
	defer randtest.Command(t, func() string { return fmt.Sprintf("take %d of %s", n, name) })()
	d, err := l.AllowN(t.Context(), name, n)
	must(t, err)
	return d
}

func peek(t *testing.T, l *ratelimit.Limiter, name string) ratelimit.Decision {
	t.Helper()
	defer randtest.Command(t, func() string { return "peek at " + name })()
	d, err := l.AllowN(t.Context(), name, 0)
	must(t, err)
	return d
}

func show(d ratelimit.Decision) string {
	verdict := "refused"
	if d.Allowed {
		verdict = "allowed"
	}
	retry := d.RetryAfter.String()
	if d.RetryAfter == ratelimit.Never {
		retry = "never"
	}
	return fmt.Sprintf("%s remaining=%d retry=%s reset=%s", verdict, d.Remaining, retry, d.ResetAfter)
}

// flusher is a Conn whose pipelines lose the server's scripts half way.
type flusher struct {
	redoubt.Conn
	flushed int
}

func (c *flusher) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	half := len(cmds) / 2
	c.flushed++
	all := slices.Insert(slices.Clone(cmds), half, redoubt.Cmd{Name: "SCRIPT FLUSH"})
	return slices.Delete(c.Conn.Pipeline(ctx, all), half, half+1)
}

// inBubble runs a test in a bubble with a client on an engine that counts
// commands.
func inBubble(t *testing.T, run func(t *testing.T, client *redoubt.Client, sent *clienttest.Counter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e, err := engine.Open(t.Context(), engine.Options{})
		must(t, err)
		sent := &clienttest.Counter{Conn: e}
		client, err := redoubt.New(sent, redoubt.Options{})
		must(t, err)
		run(t, client, sent)
		must(t, client.Close())
		must(t, e.Close())
	})
}
