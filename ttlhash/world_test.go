package ttlhash_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/doors"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/frozenclock"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	wire "github.com/redoubt-go/redoubt/internal/wire/ttlhash"
	"github.com/redoubt-go/redoubt/ttlhash"
)

// world is one back end with hashes on it.
type world struct {
	redistest.Backend
	t      testing.TB
	rdb    *redis.Client // for looking at keys
	conn   redoubt.Conn
	client *redoubt.Client
	native bool // fields are left to the server
	hashes *ttlhash.Hashes
}

// each runs a test on every back end. If a back end expires fields itself, the test runs both with that
// and with the emulation.
func each(t *testing.T, run func(t *testing.T, w *world)) {
	doors.EachInFull(t, func(t *testing.T, b redistest.Backend) {
		w := newWorld(t, b)
		if os.Getenv("TTLHASH") == "native" && !w.native {
			t.Fatal("the server does not expire fields: it is older than Redis 7.4 or Valkey 9")
		}
		if !w.native {
			run(t, w)
			return
		}
		t.Run("native", func(t *testing.T) { run(t, newWorld(t, b)) })
		t.Run("emulated", func(t *testing.T) {
			b.Prefix += "e"
			run(t, newWorld(t, b).emulated())
		})
	})
}

// emulating runs a test with the emulation on every back end.
func emulating(t *testing.T, run func(t *testing.T, w *world)) {
	doors.EachInFull(t, func(t *testing.T, b redistest.Backend) { run(t, newWorld(t, b).emulated()) })
}

// onNative runs a test on the back ends that expire fields.
func onNative(t *testing.T, run func(t *testing.T, w *world)) {
	each(t, func(t *testing.T, w *world) {
		if w.native {
			run(t, w)
		}
	})
}

func newWorld(t testing.TB, b redistest.Backend) *world {
	w := &world{Backend: b, t: t, rdb: clienttest.Dial(t, b.Addr)}
	w.conn = clienttest.Wrap(t, w.rdb)
	w.native = w.rdb.Do(t.Context(), "HPEXPIRETIME", w.Prefix, "FIELDS", 1, "f").Err() == nil
	w.client, w.hashes = w.on(w.conn, ttlhash.Options{})
	return w
}

func (w *world) emulated() *world {
	w.native = false
	w.hashes = w.with(ttlhash.Options{Emulate: true})
	return w
}

// on returns the hashes of another process.
func (w *world) on(conn redoubt.Conn, opts ttlhash.Options) (*redoubt.Client, *ttlhash.Hashes) {
	client := clienttest.New(w.t, conn, w.Prefix)
	opts.Emulate = opts.Emulate || !w.native
	hashes, err := ttlhash.New(client, opts)
	must(w.t, err)
	return client, hashes
}

func (w *world) with(opts ttlhash.Options) *ttlhash.Hashes {
	_, h := w.on(w.conn, opts)
	return h
}

// freeze makes the scripts' time stand still, an hour ahead.
func (w *world) freeze() *frozenclock.Conn {
	c := frozenclock.New(w.conn, wire.Scripts(), nil)
	c.Set(time.Now().Add(time.Hour).Truncate(time.Millisecond))
	w.conn = c
	w.client, w.hashes = w.on(w.conn, ttlhash.Options{})
	return c
}

var must, is, says = expect.Must, expect.Is, expect.Says

func (w *world) set(name, field, value string, ttl time.Duration) {
	w.t.Helper()
	must(w.t, w.hashes.Set(w.t.Context(), name, field, value, ttl))
}

// get returns "-" for what is not there.
func (w *world) get(field string) string {
	w.t.Helper()
	v, ok, err := w.hashes.Get(w.t.Context(), "h", field)
	must(w.t, err)
	if !ok {
		return "-"
	}
	return v
}

// expect looks at fields of h.
func (w *world) expect(fieldsAndValues ...string) {
	w.t.Helper()
	for i := 0; i < len(fieldsAndValues); i += 2 {
		if got := w.get(fieldsAndValues[i]); got != fieldsAndValues[i+1] {
			w.t.Fatalf("%s is %q, want %q", fieldsAndValues[i], got, fieldsAndValues[i+1])
		}
	}
}

func (w *world) key(name, part string) string { return fmt.Sprintf("%s:{%s}:%s", w.Prefix, name, part) }

// left returns the keys of a hash that there are.
func (w *world) left(name string) (parts []string) {
	w.t.Helper()
	for _, part := range []string{"ttlhash", "ttlindex", "ttlevents"} {
		n, err := w.rdb.Exists(w.t.Context(), w.key(name, part)).Result()
		must(w.t, err)
		if n == 1 {
			parts = append(parts, part)
		}
	}
	return parts
}

// time is the server's time, asked by a script: a pool has no TIME.
func (w *world) time() (time.Time, error) {
	const script = "local t = redis.call('TIME') return t[1] * 1000000 + t[2]"
	us, err := w.rdb.Eval(w.t.Context(), script, []string{w.key("h", "time")}).Int64()
	return time.UnixMicro(us), err
}

// now is the server's time.
func (w *world) now() time.Time {
	w.t.Helper()
	now, err := w.time()
	must(w.t, err)
	return now
}
