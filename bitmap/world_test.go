package bitmap_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/bitmap"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/doors"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// world is one back end with bitmaps on it.
type world struct {
	redistest.Backend
	t      testing.TB
	rdb    *redis.Client // for looking at keys
	conn   *clienttest.Counter
	client *redoubt.Client
}

// each runs a test on every back end.
func each(t *testing.T, run func(t *testing.T, w *world)) {
	t.Parallel()
	doors.EachInFull(t, func(t *testing.T, b redistest.Backend) { run(t, newWorld(t, b)) })
}

func newWorld(t testing.TB, b redistest.Backend) *world {
	w := &world{Backend: b, t: t, rdb: clienttest.Dial(t, b.Addr)}
	w.conn = &clienttest.Counter{Conn: clienttest.Wrap(t, w.rdb)}
	w.client = w.on(w.conn)
	return w
}

// on returns the client of another process.
func (w *world) on(conn redoubt.Conn) *redoubt.Client { return clienttest.New(w.t, conn, w.Prefix) }

func (w *world) calendars(opts bitmap.CalendarOptions) *bitmap.Calendars {
	w.t.Helper()
	cs, err := bitmap.NewCalendars(w.client, opts)
	must(w.t, err)
	return cs
}

// key returns the key of a name.
func (w *world) key(name, part string) string { return w.Prefix + ":{" + name + "}:" + part }

// keys counts the keys of the test.
func (w *world) keys() int {
	w.t.Helper()
	return len(clienttest.Keys(w.t, w.rdb, w.Prefix))
}

var must, is, says = expect.Must, expect.Is, expect.Says

// tripsOf returns how many round trips f takes.
func (w *world) tripsOf(f func()) int64 {
	before := w.conn.Trips.Load()
	f()
	return w.conn.Trips.Load() - before
}
