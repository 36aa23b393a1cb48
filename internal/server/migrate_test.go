package server_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// migrated makes a key of each type, and says how to read it.
var migrated = []struct{ key, make, read string }{
	{"string", "SET string v", "GET string"}, {"number", "SET number 42", "GET number"}, {"timed", "SET timed v PX 900000", "GET timed"},
	{"list", "RPUSH list a b c", "LRANGE list 0 -1"}, {"hash", "HSET hash f v g w", "HMGET hash f g h"},
	{"set", "SADD set a b c", "SMISMEMBER set a b c d"}, {"ints", "SADD ints 1 2 3", "SMISMEMBER ints 1 2 3 4"},
	{"zset", "ZADD zset 1 a 2.5 b", "ZRANGE zset 0 -1 WITHSCORES"}, {"stream", "XADD stream 1-1 f v", "XRANGE stream - +"},
	{"visitors", "PFADD visitors a b", "PFCOUNT visitors"}, {"bits", "SETBIT bits 100 1", "BITPOS bits 1"},
}

// TestMigrate: MIGRATE moves keys of all types between the engine and a real server, in both directions, and answers
// what a real server answers.
func TestMigrate(t *testing.T) {
	_, engine := start(t, engineURL(t))
	first, second := redistest.Start(t), redistest.Start(t)
	for name, way := range map[string]struct{ from, to string }{
		"engine to Redis": {engine, first.Addr()}, "Redis to engine": {second.Addr(), engine}, "Redis to Redis": {second.Addr(), first.Addr()},
	} {
		from, to := dial(t, way.from), dial(t, way.to)
		host, port, _ := net.SplitHostPort(way.to)
		migrate := func(key, db string, more ...string) string {
			return from.do(append([]string{"MIGRATE", host, port, key, db, "5000"}, more...)...)
		}
		for _, w := range []*wire{from, to} {
			w.want("+OK\r\n", "FLUSHALL")
		}
		var keys []string
		values := make(map[string]string)
		for _, m := range migrated {
			from.do(words(t, m.make)...)
			keys, values[m.key] = append(keys, m.key), from.do(words(t, m.read)...)
		}
		want := func(what, got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %s: got %q, want %q", name, what, got, want)
			}
		}
		want("a copy", migrate("string", "0", "COPY"), "+OK\r\n")
		want("the copy", to.do("GET", "string"), "$1\r\nv\r\n")
		want("the original", from.do("GET", "string"), "$1\r\nv\r\n")
		want("a key that is there", migrate("string", "0"), "-ERR Target instance replied with error: BUSYKEY Target key name already exists.\r\n")
		want("the key", from.do("GET", "string"), "$1\r\nv\r\n")
		want("no key", migrate("nosuch", "0"), "+NOKEY\r\n")
		want("both kinds of keys", migrate("string", "0", "KEYS", "list"), "-ERR When using MIGRATE KEYS option, the key argument must be set to the empty string\r\n")
		want("an unknown option", migrate("string", "0", "NOSUCH"), "-ERR syntax error\r\n")
		to.want(":1\r\n", "RPUSH list other")
		if way.from == engine { // Redis overwrites it
			want("a wrong database", migrate("list", "99", "REPLACE"), "-ERR Target instance replied with error: ERR DB index is out of range\r\n")
			want("the key of the same name", to.do("LRANGE", "list", "0", "-1"), "*1\r\n$5\r\nother\r\n")
		}
		want("a wrong database", migrate("list", "99"), "-ERR Target instance replied with error: ERR DB index is out of range\r\n")
		want("no database", migrate("list", "x"), "-ERR value is not an integer or out of range\r\n")
		want("another database", migrate("list", "3", "COPY"), "+OK\r\n")
		want("all", migrate("", "0", append([]string{"REPLACE", "KEYS", "nosuch"}, keys...)...), "+OK\r\n")
		want("what is left", from.do("DBSIZE"), ":0\r\n")
		for _, m := range migrated {
			want(m.read, to.do(words(t, m.read)...), values[m.key])
		}
		if ttl := to.do("PTTL", "timed"); len(ttl) != len(":899999\r\n") || ttl[:2] != ":8" {
			t.Errorf("%s: time to live %q", name, ttl)
		}
		to.want("+OK\r\n", "SELECT 3")
		want("the other database", to.do("DBSIZE"), ":1\r\n")
	}
	// A password, which a connection of others does not have.
	third := redistest.Start(t)
	dial(t, third.Addr()).want("+OK\r\n", "CONFIG SET requirepass secret")
	w := dial(t, engine)
	host, port, _ := net.SplitHostPort(third.Addr())
	w.want("+OK\r\n", "SET key v")
	for _, c := range []struct{ more, want string }{
		{"", "-ERR Target instance replied with error: NOAUTH Authentication required.\r\n"},
		{"AUTH wrong", "-ERR Target instance replied with error: WRONGPASS invalid username-password pair or user is disabled.\r\n"},
		{"COPY AUTH secret", "+OK\r\n"},
		{"COPY REPLACE AUTH2 default secret", "+OK\r\n"},
		{"REPLACE AUTH2 default wrong", "-ERR Target instance replied with error: WRONGPASS invalid username-password pair or user is disabled.\r\n"},
		{"AUTH", "-ERR syntax error\r\n"},
		{"REPLACE AUTH secret", "+OK\r\n"},
	} {
		if got := w.do(append([]string{"MIGRATE", host, port, "key", "0", "5000"}, words(t, c.more)...)...); got != c.want {
			t.Errorf("MIGRATE %s: got %q, want %q", c.more, got, c.want)
		}
	}
}

// TestMigrateFaults: a target that can't be reached, that answers nothing, or that has closed an idle connection.
func TestMigrateFaults(t *testing.T) {
	_, engine := start(t, engineURL(t))
	w := dial(t, engine)
	w.want("+OK\r\n", "SET key v")
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(silent.Addr().String())
	w.want("-IOERR error or timeout reading from target instance\r\n", "MIGRATE "+host+" "+port+" key 0 50")
	silent.Close()
	w.want("-IOERR error or timeout writing to target instance\r\n", "MIGRATE "+host+" "+port+" key 0 50")
	w.want("$1\r\nv\r\n", "GET key")

	real := redistest.Start(t)
	host, port, _ = net.SplitHostPort(real.Addr())
	migrate := "MIGRATE " + host + " " + port + " key 0 5000 REPLACE"
	w.want("+OK\r\n", migrate)
	if info := w.do("INFO", "stats"); !strings.Contains(info, "migrate_cached_sockets:1\r\n") {
		t.Errorf("%q", info)
	}
	dial(t, real.Addr()).do("CLIENT", "KILL", "TYPE", "normal")
	w.want("+OK\r\n", "SET key w")
	w.want("+OK\r\n", migrate) // by another connection
	if got := dial(t, real.Addr()).do("GET", "key"); got != "$1\r\nw\r\n" {
		t.Errorf("got %q", got)
	}
}

// TestMigrateEndsWithEngine: a target that doesn't answer holds up nobody when the engine closes.
func TestMigrateEndsWithEngine(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	host, port, _ := net.SplitHostPort(silent.Addr().String())
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := e.Session()
	s.Do(nil, [][]byte{[]byte("SET"), []byte("key"), []byte("v")})
	reply := make(chan string, 1)
	go func() {
		out, _ := s.Do(nil, [][]byte{[]byte("MIGRATE"), []byte(host), []byte(port), []byte("key"), []byte("0"), []byte("3600000")})
		reply <- string(out)
	}()
	conn, err := silent.Accept() // the key is on its way
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	closed := make(chan error, 1)
	go func() { closed <- e.Close() }()
	select {
	case err := <-closed:
		if got := <-reply; err != nil || !strings.HasPrefix(got, "-IOERR ") {
			t.Errorf("%v, %q", err, got)
		}
	case <-time.After(patience):
		t.Fatal("Close waits for the target")
	}
}

// TestMigrateIsSaved: keys that were moved away are not there after a restart.
func TestMigrateIsSaved(t *testing.T) {
	real := redistest.Start(t)
	host, port, _ := net.SplitHostPort(real.Addr())
	dir := t.TempDir()
	serve := func() (*engine.Engine, *wire) {
		e, err := engine.New(engine.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		_, addr := start(t, engineURL(t), func(o *server.Options) {
			o.Backend, o.Sessions = e, func(c net.Conn) server.Session { return e.SessionFor(c) }
		})
		return e, dial(t, addr)
	}
	e, w := serve()
	w.want("+OK\r\n", "MSET a 1 b 2 c 3")
	if got := w.do("MIGRATE", host, port, "", "0", "5000", "KEYS", "a", "c"); got != "+OK\r\n" {
		t.Fatal(got)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	_, w = serve()
	w.want("*3\r\n$-1\r\n$1\r\n2\r\n$-1\r\n", "MGET a b c")
}
