// Package testenv gives each test of a primitive a back end, a client on it and connections for looking at
// keys. A primitive's own helpers are in a struct that embeds [Env].
package testenv

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/doors"
	"github.com/redoubt-go/redoubt/internal/test/frozenclock"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// An Env is one back end for one test.
type Env struct {
	redistest.Backend
	T      testing.TB
	Redis  redis.UniversalClient // for looking at keys
	Conn   redoubt.Conn
	Client *redoubt.Client   // on Conn
	Clock  *frozenclock.Conn // nil while time runs
}

// Each runs a test on every back end of [doors.Each].
func Each(t *testing.T, run func(t *testing.T, e *Env)) {
	t.Helper()
	doors.Each(t, on(run))
}

// EachInFull runs a test on every back end of [doors.EachInFull], which leaves the pools to make test-all.
func EachInFull(t *testing.T, run func(t *testing.T, e *Env)) {
	t.Helper()
	doors.EachInFull(t, on(run))
}

// EachServer runs a test on every back end of [redistest.Each], which has no pools.
func EachServer(t *testing.T, run func(t *testing.T, e *Env)) {
	t.Helper()
	redistest.Each(t, on(run))
}

func on(run func(t *testing.T, e *Env)) func(t *testing.T, b redistest.Backend) {
	return func(t *testing.T, b redistest.Backend) { run(t, New(t, b)) }
}

// New returns an Env on a back end.
func New(tb testing.TB, b redistest.Backend) *Env {
	tb.Helper()
	return On(tb, b, clienttest.Dial(tb, b.Addr))
}

// On returns an Env on a back end that rdb is connected to.
func On(tb testing.TB, b redistest.Backend, rdb redis.UniversalClient) *Env {
	tb.Helper()
	e := &Env{Backend: b, T: tb, Redis: rdb, Conn: clienttest.Wrap(tb, rdb)}
	e.Client = e.ClientOn(e.Conn)
	return e
}

// In returns the same Env for a subtest.
func (e *Env) In(tb testing.TB) *Env {
	sub := *e
	sub.T = tb
	return &sub
}

// Freeze gives the scripts of Conn and Client a time that the test sets by Clock. edit is that of
// [frozenclock.New].
func (e *Env) Freeze(scripts []*redoubt.Script, edit func(source string) string) {
	e.T.Helper()
	e.Clock = frozenclock.New(e.Conn, scripts, edit)
	e.Conn, e.Client = e.Clock, e.ClientOn(e.Clock)
}

// ClientAt returns a Client with its own connections, like that of another process.
func (e *Env) ClientAt(addr string) *redoubt.Client {
	e.T.Helper()
	return e.ClientOn(clienttest.Wrap(e.T, clienttest.Dial(e.T, addr)))
}

// ClientOn returns a Client on conn, like that of another process.
func (e *Env) ClientOn(conn redoubt.Conn) *redoubt.Client {
	e.T.Helper()
	return clienttest.New(e.T, conn, e.Prefix)
}

// Key returns the key that holds one part of a name.
func (e *Env) Key(name, part string) string { return e.Prefix + ":{" + name + "}:" + part }

// Keys returns the keys of the test. The back end is one server or a pool.
func (e *Env) Keys() (keys []string) {
	e.T.Helper()
	it := e.Redis.Scan(e.T.Context(), 0, e.Prefix+":*", 1000).Iterator()
	for it.Next(e.T.Context()) {
		keys = append(keys, it.Val())
	}
	if err := it.Err(); err != nil {
		e.T.Fatal(err)
	}
	return keys
}
