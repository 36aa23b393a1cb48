package bitmap_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt/bitmap"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/doors"
	"github.com/redoubt-go/redoubt/internal/test/exampleserver"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(doors.M{TestingM: exampleserver.M{M: m}}) }

var connect = exampleserver.Connect

// env is one back end with a client whose round trips are counted.
type env struct {
	*testenv.Env
	counter *clienttest.Counter
}

// each runs a test on every back end.
func each(t *testing.T, run func(t *testing.T, e *env)) {
	t.Parallel()
	testenv.EachInFull(t, func(t *testing.T, e *testenv.Env) { run(t, newEnv(e)) })
}

func newEnv(on *testenv.Env) *env {
	e := &env{on, &clienttest.Counter{Conn: on.Conn}}
	e.Client = e.ClientOn(e.counter)
	return e
}

func (e *env) calendars(opts bitmap.CalendarOptions) *bitmap.Calendars {
	e.T.Helper()
	cs, err := bitmap.NewCalendars(e.Client, opts)
	must(e.T, err)
	return cs
}

var must, is, says = expect.Must, expect.Is, expect.Says

// tripsOf returns how many round trips f takes.
func (e *env) tripsOf(f func()) int64 {
	before := e.counter.Trips.Load()
	f()
	return e.counter.Trips.Load() - before
}
