package hll_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/hll"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/doors"
	"github.com/redoubt-go/redoubt/internal/test/exampleserver"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(doors.M{TestingM: exampleserver.M{M: m}}) }

var connect = exampleserver.Connect

// env is one back end with a client on a Conn that can break.
type env struct {
	*testenv.Env
	lossy *lossyConn
}

// each runs a test on every back end.
func each(t *testing.T, run func(t *testing.T, e *env)) {
	t.Parallel()
	testenv.EachInFull(t, func(t *testing.T, e *testenv.Env) { run(t, newEnv(e)) })
}

func newEnv(on *testenv.Env) *env {
	e := &env{on, &lossyConn{}}
	e.lossy.Conn = e.Conn
	e.Client = e.ClientOn(e.lossy)
	return e
}

// pool reports whether the keys are on several servers.
func (e *env) pool() bool { return strings.HasSuffix(e.Name, "pool") }

// noon is the time at which all tests of periods begin.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// long is how long the tests keep periods. Servers have a clock of their own, and for them noon may
// be long ago.
const long = 100 * 365 * 24 * time.Hour

// visitors returns Visitors whose clock stands at noon. By default they flush only when a test says
// so.
func (e *env) visitors(opts hll.Options) (*hll.Visitors, *clock) {
	e.T.Helper()
	if opts.FlushEvery == 0 {
		opts.FlushEvery = time.Hour
	}
	if opts.Keep == 0 {
		opts.Keep = long
	}
	c := &clock{now: noon}
	v, err := hll.NewWithClock(e.Client, opts, c.Now)
	must(e.T, err)
	c.v = v
	e.T.Cleanup(func() {
		_ = v.Close()
	})
	return v, c
}

// A clock stands still.
type clock struct {
	mu  sync.Mutex
	now time.Time
	v   *hll.Visitors // whose it is
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Set(t time.Time) {
	c.mu.Lock()
	c.now = t
	c.mu.Unlock()
	c.v.Turn()
}

var must, is, says = expect.Must, expect.Is, expect.Says

// A lossyConn counts round trips and can break.
type lossyConn struct {
	clienttest.Counter
	// broken says what happens to pipelines: the commands are lost, or their replies.
	broken atomic.Int32
	// sent is called with each pipeline; it may be nil.
	sent atomic.Pointer[func(cmds []redoubt.Cmd)]
}

const (
	whole int32 = iota
	losesCommands
	losesReplies
)

func (l *lossyConn) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	return l.Pipeline(ctx, []redoubt.Cmd{cmd})[0]
}

func (l *lossyConn) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	if f := l.sent.Load(); f != nil {
		(*f)(cmds)
	}
	how := l.broken.Load()
	replies := make([]redoubt.Reply, len(cmds))
	if how != losesCommands {
		replies = l.Counter.Pipeline(ctx, cmds)
	}
	if how != whole {
		for i := range replies {
			replies[i] = redoubt.Reply{Err: redoubt.UnknownOutcome(context.DeadlineExceeded)}
		}
	}
	return replies
}
