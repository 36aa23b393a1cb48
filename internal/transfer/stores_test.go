package transfer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/rdb"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// A store is a server in a test, of either kind.
type store struct {
	t testing.TB
	b Backend
	c *conn
}

func (s *store) do(args ...string) any {
	s.t.Helper()
	add(s.c, args...)
	var v any
	err := s.c.flush(s.t.Context(), func(_ int, reply any) error {
		v = reply
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// must is like do but fails the test on an error.
func (s *store) must(args ...string) any {
	s.t.Helper()
	defer randtest.Command(s.t, func() string { return fmt.Sprintf("%.200q", args) })()
	v := s.do(args...)
	if err, ok := v.(resp.Error); ok {
		s.t.Fatalf("%.200q: %v", args, err)
	}
	return v
}

func (s *store) server(db int) *Server {
	s.t.Helper()
	server, err := NewServer(s.t.Context(), s.b, db)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(server.Close)
	return server
}

func open(t testing.TB, b Backend) *store {
	t.Helper()
	c, err := dial(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return &store{t, b, c}
}

// startRedis starts a redis-server with these arguments.
func startRedis(t testing.TB, args ...string) (*store, *redistest.Server) {
	t.Helper()
	r := redistest.Start(t, args...)
	b, err := proxy.ParseURL(r.URL())
	if err != nil {
		t.Fatal(err)
	}
	return open(t, b), r
}

func startEngine(t testing.TB) *store {
	t.Helper()
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return open(t, e)
}

// fill writes random keys of every type and encoding, with expiry times and without, to databases 0 and 3. It
// returns how many.
func fill(s *store) (n int) {
	r := randtest.Rand(s.t)
	word := func() string {
		switch r.IntN(5) {
		case 0:
			return strconv.FormatInt(r.Int64()>>r.IntN(64), 10)
		case 1:
			return strconv.FormatInt(-(r.Int64() >> r.IntN(64)), 10)
		case 2:
			return strings.Repeat("ab", r.IntN(60)) // gets compressed
		}
		b := make([]byte, r.IntN(1<<r.IntN(12)))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return string(b)
	}
	for _, db := range []string{"0", "3"} {
		s.must("SELECT", db)
		for range 150 {
			key := strconv.Itoa(100+n) + word() // three digits, so that no two are alike
			count := 1 + r.IntN(20)
			if r.IntN(8) == 0 {
				count = 600
			}
			args := []string{key}
			switch kind := r.IntN(8); kind {
			case 0:
				args = []string{"SET", key, word()}
			case 1:
				args = []string{"SET", key, strings.Repeat(word(), 30)}
			case 2:
				args = []string{"RPUSH", key}
				for range count {
					args = append(args, word())
				}
				if r.IntN(10) == 0 {
					args = append(args, strings.Repeat("z", 20_000)) // a node of its own
				}
			case 3, 4:
				args = []string{"SADD", key}
				for range count {
					if kind == 3 {
						args = append(args, strconv.FormatInt(r.Int64()>>r.IntN(64), 10))
					} else {
						args = append(args, word())
					}
				}
			case 5:
				args = []string{"ZADD", key}
				for range count {
					args = append(args, []string{"inf", "-inf", "0", strconv.FormatFloat(r.NormFloat64(), 'g', -1, 64)}[r.IntN(4)], word())
				}
			case 6:
				args = []string{"HSET", key}
				for range count {
					args = append(args, word(), word())
				}
			case 7:
				args = []string{"PFADD", key}
				for range count {
					args = append(args, word())
				}
			}
			s.must(args...)
			if r.IntN(3) == 0 {
				s.must("PEXPIRE", key, strconv.Itoa(1_000_000+r.IntN(1_000_000)))
			}
			n++
		}
		s.must("GEOADD", "Sicily", "13.361389", "38.115556", "Palermo", "15.087269", "37.502669", "Catania")
		s.must("SETBIT", "bits", "70001", "1")
		s.must("RPUSH", "a\x00b\r\n", "")
		n += 3
	}
	return n
}

// contents reads all keys in an order that does not depend on the kind of server.
func (s *store) contents() map[string]string {
	s.t.Helper()
	all := map[string]string{}
	for _, db := range []string{"0", "3", "5"} {
		s.must("SELECT", db)
		keys, _ := s.must("KEYS", "*").([]any)
		for _, k := range keys {
			key := k.(string)
			var parts []string
			list := func(v any) {
				for _, p := range v.([]any) {
					parts = append(parts, fmt.Sprintf("%q", p))
				}
			}
			kind := s.must("TYPE", key)
			switch kind {
			case "string":
				parts = []string{s.must("GET", key).(string)}
			case "list":
				list(s.must("LRANGE", key, "0", "-1"))
			case "set":
				list(s.must("SMEMBERS", key))
				slices.Sort(parts)
			case "zset":
				pairs := s.must("ZRANGE", key, "0", "-1", "WITHSCORES").([]any)
				for i := 0; i < len(pairs); i += 2 { // servers write the same number with different digits
					score, err := strconv.ParseFloat(pairs[i+1].(string), 64)
					if err != nil {
						s.t.Fatalf("score %q of %q", pairs[i+1], key)
					}
					parts = append(parts, fmt.Sprintf("%q=%v", pairs[i], score))
				}
			case "hash":
				pairs := s.must("HGETALL", key).([]any)
				for i := 0; i < len(pairs); i += 2 {
					parts = append(parts, fmt.Sprintf("%q=%q", pairs[i], pairs[i+1]))
				}
				slices.Sort(parts)
			case "stream":
				parts = []string{fmt.Sprint(s.must("XRANGE", key, "-", "+"))}
			}
			all[db+"/"+key] = fmt.Sprint(kind, s.must("PEXPIRETIME", key), parts)
		}
	}
	return all
}

// same compares all keys of two stores.
func same(t *testing.T, what string, want, got map[string]string) {
	t.Helper()
	if len(want) < 200 {
		t.Fatalf("%s: there are only %d keys to compare", what, len(want))
	}
	faults := 0
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if want[k] != got[k] {
			if faults++; faults < 5 {
				t.Errorf("%s: key %q is %.300q\nwant %.300q", what, k, got[k], want[k])
			}
		}
		delete(got, k)
	}
	for k := range got {
		t.Errorf("%s: key %q should not be there", what, k)
	}
}

// mustMove moves keys and expects n of them.
func mustMove(t *testing.T, from Source, to Target, opts Options, n int) Result {
	t.Helper()
	result, err := Move(t.Context(), from, to, opts)
	if err != nil || result.Keys != int64(n) || result.Unknown != 0 {
		t.Fatalf("%+v, %v; want %d keys", result, err, n)
	}
	return result
}

// rdbFile opens a file until the test ends.
func rdbFile(t *testing.T, path string) *File {
	t.Helper()
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// A stalling source returns one batch and then waits for the end of ctx.
type stalling struct{ batch []rdb.Entry }

func (s *stalling) Name() string                                { return "stalling" }
func (s *stalling) total() int64                                { return 100 }
func (s *stalling) libraries(context.Context) ([]string, error) { return nil, nil }
func (s *stalling) survey(context.Context, bool, func(int64, int64), func([]item) error) error {
	return nil
}

func (s *stalling) each(ctx context.Context, _ *int64, f func([]rdb.Entry) error) error {
	if err := f(s.batch); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func entry(key, value string, deadline time.Duration) rdb.Entry {
	e := rdb.Entry{Key: []byte(key), Payload: rdb.Payload(nil, &rdb.Value{Str: []byte(value)})}
	if deadline != 0 {
		e.Deadline = time.Now().Add(deadline).UnixMilli()
	}
	return e
}
