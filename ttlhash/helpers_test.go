package ttlhash_test

import (
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/doors"
	"github.com/redoubt-go/redoubt/internal/test/exampleserver"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/faults"
	"github.com/redoubt-go/redoubt/internal/test/frozenclock"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	wire "github.com/redoubt-go/redoubt/internal/wire/ttlhash"
	"github.com/redoubt-go/redoubt/ttlhash"
)

func TestMain(m *testing.M) {
	faults.Main()
	goleak.VerifyTestMain(doors.M{TestingM: exampleserver.M{M: m}})
}

var connect = exampleserver.Connect

// env is one back end with hashes on it.
type env struct {
	*testenv.Env
	native bool // fields are left to the server
	hashes *ttlhash.Hashes
}

// each runs a test on every back end. If a back end expires fields itself, the test runs both with that
// and with the emulation.
func each(t *testing.T, run func(t *testing.T, e *env)) {
	doors.EachInFull(t, func(t *testing.T, b redistest.Backend) {
		e := newEnv(testenv.New(t, b))
		if os.Getenv("TTLHASH") == "native" && !e.native {
			t.Fatal("the server does not expire fields: it is older than Redis 7.4 or Valkey 9")
		}
		if !e.native {
			run(t, e)
			return
		}
		t.Run("native", func(t *testing.T) { run(t, newEnv(testenv.New(t, b))) })
		t.Run("emulated", func(t *testing.T) {
			b.Prefix += "e"
			run(t, newEnv(testenv.New(t, b)).emulated())
		})
	})
}

// emulating runs a test with the emulation on every back end.
func emulating(t *testing.T, run func(t *testing.T, e *env)) {
	testenv.EachInFull(t, func(t *testing.T, e *testenv.Env) { run(t, newEnv(e).emulated()) })
}

// onNative runs a test on the back ends that expire fields.
func onNative(t *testing.T, run func(t *testing.T, e *env)) {
	each(t, func(t *testing.T, e *env) {
		if e.native {
			run(t, e)
		}
	})
}

func newEnv(on *testenv.Env) *env {
	e := &env{Env: on}
	e.native = e.Redis.Do(e.T.Context(), "HPEXPIRETIME", e.Prefix, "FIELDS", 1, "f").Err() == nil
	e.Client, e.hashes = e.on(e.Conn, ttlhash.Options{})
	return e
}

func (e *env) emulated() *env {
	e.native = false
	e.hashes = e.with(ttlhash.Options{Emulate: true})
	return e
}

// on returns the hashes of another process.
func (e *env) on(conn redoubt.Conn, opts ttlhash.Options) (*redoubt.Client, *ttlhash.Hashes) {
	client := e.ClientOn(conn)
	opts.Emulate = opts.Emulate || !e.native
	hashes, err := ttlhash.New(client, opts)
	must(e.T, err)
	return client, hashes
}

func (e *env) with(opts ttlhash.Options) *ttlhash.Hashes {
	_, h := e.on(e.Conn, opts)
	return h
}

// freeze makes the scripts' time stand still, an hour ahead.
func (e *env) freeze() *frozenclock.Conn {
	e.Freeze(wire.Scripts(), nil)
	e.Clock.Set(time.Now().Add(time.Hour).Truncate(time.Millisecond))
	e.Client, e.hashes = e.on(e.Conn, ttlhash.Options{})
	return e.Clock
}

var must, is, says = expect.Must, expect.Is, expect.Says

func (e *env) set(name, field, value string, ttl time.Duration) {
	e.T.Helper()
	must(e.T, e.hashes.Set(e.T.Context(), name, field, value, ttl))
}

// get returns "-" for what is not there.
func (e *env) get(field string) string {
	e.T.Helper()
	v, ok, err := e.hashes.Get(e.T.Context(), "h", field)
	must(e.T, err)
	if !ok {
		return "-"
	}
	return v
}

// expect looks at fields of h.
func (e *env) expect(fieldsAndValues ...string) {
	e.T.Helper()
	for i := 0; i < len(fieldsAndValues); i += 2 {
		if got := e.get(fieldsAndValues[i]); got != fieldsAndValues[i+1] {
			e.T.Fatalf("%s is %q, want %q", fieldsAndValues[i], got, fieldsAndValues[i+1])
		}
	}
}

// left returns the keys of a hash that there are.
func (e *env) left(name string) (parts []string) {
	e.T.Helper()
	for _, part := range []string{"ttlhash", "ttlindex", "ttlevents"} {
		n, err := e.Redis.Exists(e.T.Context(), e.Key(name, part)).Result()
		must(e.T, err)
		if n == 1 {
			parts = append(parts, part)
		}
	}
	return parts
}

// time is the server's time, asked by a script: a pool has no TIME.
func (e *env) time() (time.Time, error) {
	const script = "local t = redis.call('TIME') return t[1] * 1000000 + t[2]"
	us, err := e.Redis.Eval(e.T.Context(), script, []string{e.Key("h", "time")}).Int64()
	return time.UnixMicro(us), err
}

// now is the server's time.
func (e *env) now() time.Time {
	e.T.Helper()
	now, err := e.time()
	must(e.T, err)
	return now
}
