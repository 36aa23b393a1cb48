package engine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/rdb"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// samples are commands that make a key called k, in all forms that Redis has
// for a value.
func samples() (all [][]string) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range []string{"", "0", "-1", "127", "-129", "32768", "-32769", "2147483647", "2147483648", "9223372036854775807", "007", "x\x00y\r\n", strings.Repeat("ab", 5000)} {
		all = append(all, []string{"SET", "k", s})
	}
	random := func() string {
		switch r.IntN(4) {
		case 0:
			return fmt.Sprint(r.Int64() >> r.IntN(64))
		case 1:
			return fmt.Sprint(-(r.Int64() >> r.IntN(64)))
		case 2:
			return strings.Repeat("y", r.IntN(100))
		}
		b := make([]byte, r.IntN(1<<r.IntN(14)))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return string(b)
	}
	for _, n := range []int{1, 5, 100, 700} {
		list, ints, set := []string{"RPUSH", "k"}, []string{"SADD", "k"}, []string{"SADD", "k"}
		zset, hash := []string{"ZADD", "k"}, []string{"HSET", "k"}
		for i := range n {
			list = append(list, random())
			ints = append(ints, fmt.Sprint(r.Int64()>>(r.IntN(4)*16)))
			set = append(set, random()+fmt.Sprint(i))
			zset = append(zset, []string{"inf", "-inf", "0", strconv.FormatFloat(r.NormFloat64(), 'g', -1, 64)}[r.IntN(4)], random()+fmt.Sprint(i))
			hash = append(hash, random()+fmt.Sprint(i), random())
		}
		all = append(all, list, ints, set, zset, hash)
	}
	return append(all, []string{"RPUSH", "k", strings.Repeat("z", 100_000), "1"}, []string{"ZADD", "k", "1.5", "small"}, []string{"HSET", "k", "a", "1"})
}

func argv(s ...string) [][]byte {
	out := make([][]byte, len(s))
	for i := range s {
		out[i] = []byte(s[i])
	}
	return out
}

// contents reads k in an order that both sides share.
func contents(t *testing.T, do func(...string) []byte) string {
	t.Helper()
	kind := string(do("TYPE", "k"))
	var reply []byte
	switch kind {
	case "+string\r\n":
		reply = do("GET", "k")
	case "+list\r\n":
		reply = do("LRANGE", "k", "0", "-1")
	case "+set\r\n":
		reply = do("SMEMBERS", "k")
	case "+zset\r\n":
		reply = do("ZRANGE", "k", "0", "-1", "WITHSCORES")
	case "+hash\r\n":
		reply = do("HGETALL", "k")
	default:
		t.Fatalf("k is %q", kind)
	}
	v, _ := decode(reply)
	var parts []string
	if vs, ok := v.([]any); ok {
		step := 1
		if kind == "+hash\r\n" {
			step = 2
		}
		for i := 0; i < len(vs); i += step {
			parts = append(parts, fmt.Sprintf("%q", vs[i:i+step]))
		}
		if kind == "+set\r\n" || kind == "+hash\r\n" {
			slices.Sort(parts)
		}
	} else {
		parts = append(parts, fmt.Sprintf("%q", v))
	}
	return kind + strings.Join(parts, "\n")
}

// Values go from the engine to redis-server and back, and from it to the
// engine, and are the same.
// TestRestoreIsBounded wants a small payload that unpacks to much to be refused.
func TestRestoreIsBounded(t *testing.T) {
	e := open(t, Options{})
	s := e.Session()
	v := &rdb.Value{Kind: rdb.List, Elements: make([][]byte, 40_000)} // a byte each
	restore := func(key string) string {
		out, _ := s.Do(nil, [][]byte{[]byte("RESTORE"), []byte(key), []byte("0"), rdb.Payload(nil, v)})
		return string(out)
	}
	if got := restore("a"); got != "+OK\r\n" {
		t.Error(got)
	}
	e.bounds.restored = 1 << 20
	if got := restore("b"); !strings.Contains(got, "ERR the payload unpacks to more than") || !strings.Contains(got, "1048576 bytes") {
		t.Error(got)
	}
	want(t, s, "EXISTS a b", ":1\r\n")
}

func TestDumpIsThatOfRedis(t *testing.T) {
	p := newPair(t, resp.RESP2)
	engine := func(args ...string) []byte { b, _ := p.s.Do(nil, argv(args...)); return b }
	redis := func(args ...string) []byte { return p.o.do(argv(args...)) }
	for _, compress := range []string{"yes", "no"} {
		redis("CONFIG", "SET", "rdbcompression", compress)
		for _, make := range samples() {
			for _, way := range []struct {
				name     string
				from, to func(...string) []byte
			}{{"to redis", engine, redis}, {"from redis", redis, engine}} {
				name := fmt.Sprintf("%s %d %s, compression %s", make[0], len(make), way.name, compress)
				way.from("DEL", "k")
				if got := way.from(make...); got[0] == '-' {
					t.Fatalf("%s: %s", name, got)
				}
				want := contents(t, way.from)
				v, _ := decode(way.from("DUMP", "k"))
				payload, _ := v.(string)
				way.to("DEL", "k")
				if got := string(way.to("RESTORE", "k", "0", payload)); got != "+OK\r\n" {
					t.Errorf("%s: RESTORE says %q", name, got)
					continue
				}
				if got := contents(t, way.to); got != want {
					t.Errorf("%s:\n%.300s\nwant\n%.300s", name, got, want)
				}
			}
		}
	}
}

func TestRestoreRefuses(t *testing.T) {
	p := newPair(t, resp.RESP2)
	p.do(argv("SET", "k", "v"))
	v, _ := decode(p.o.do(argv("DUMP", "k")))
	good := v.(string)
	changed := []byte(good)
	changed[2] ^= 1
	for _, args := range [][]string{
		{"k", "0", good}, {"n", "-1", good}, {"n", "x", good}, {"n", "0", string(changed)}, {"n", "0", good[1:]}, {"n", "0", ""},
		{"n", "0", good, "NOT"}, {"n", "0", good, "IDLETIME"}, {"n", "0", good, "IDLETIME", "-1"}, {"n", "0", good, "FREQ", "256"},
		{"n", "0", good, "FREQ", "1", "IDLETIME", "1"}, {"k", "1", good, "ABSTTL", "REPLACE"}, {"k", "0", good, "REPLACE", "IDLETIME", "5"},
	} {
		p.do(argv(append([]string{"RESTORE"}, args...)...))
		p.do(argv("EXISTS", "k", "n"))
	}
	p.do(argv("RESTORE", "n", "4102444800000", good, "ABSTTL"))
	p.do(argv("PEXPIRETIME", "n"))
	p.do(argv("DUMP", "nothing"))
}

// Fields keep their time to live.
func TestDumpOfFieldsThatExpire(t *testing.T) {
	s := open(t, Options{}).Session()
	run(s, "HSET h a 1 b 2 c 3")
	run(s, "HPEXPIREAT h 4102444800000 FIELDS 1 a")
	run(s, "HPEXPIREAT h 4102444800123 FIELDS 1 c")
	v, _ := decode([]byte(run(s, "DUMP h")))
	reply, _ := s.Do(nil, argv("RESTORE", "g", "0", v.(string)))
	if string(reply) != "+OK\r\n" {
		t.Fatalf("RESTORE: %q", reply)
	}
	want(t, s, "HPEXPIRETIME g FIELDS 3 a b c", run(s, "HPEXPIRETIME h FIELDS 3 a b c"))
	want(t, s, "HGET g c", "$1\r\n3\r\n")
	if !bytes.Contains([]byte(run(s, "HPEXPIRETIME g FIELDS 1 c")), []byte("4102444800123")) {
		t.Error("c has lost its time to live")
	}
}

// RESTORE serves a client that waits for a list.
func TestRestoreWakes(t *testing.T) {
	e := open(t, Options{})
	s := e.Session()
	run(s, "RPUSH a x")
	v, _ := decode([]byte(run(s, "DUMP a")))
	_, w := e.Session().Do(nil, split("BLPOP b 0"))
	if reply, _ := s.Do(nil, argv("RESTORE", "b", "0", v.(string))); string(reply) != "+OK\r\n" {
		t.Fatalf("RESTORE: %q", reply)
	}
	<-w.Done()
	if got := string(w.Append(nil)); got != "*2\r\n$1\r\nb\r\n$1\r\nx\r\n" {
		t.Errorf("BLPOP got %q", got)
	}
}

// TestRestoreKeepsToTheLimit: a value that would take more than maxmemory is refused before it
// is unpacked, and one that is saved is read back whatever the limit is now.
func TestRestoreKeepsToTheLimit(t *testing.T) {
	dir := t.TempDir()
	e := open(t, Options{Dir: dir})
	s := e.Session()
	run(s, "SET x "+xs(100_000))
	dumped, _ := s.Do(nil, split("DUMP x"))
	payload := dumped[bytes.IndexByte(dumped, '\n')+1 : len(dumped)-2]
	restore := [][]byte{[]byte("RESTORE"), []byte("y"), []byte("0"), payload}
	if got, _ := s.Do(nil, restore); string(got) != "+OK\r\n" {
		t.Fatalf("%s", got)
	}
	run(s, "DEL x y")
	run(s, "CONFIG SET maxmemory 50000")
	if got, _ := s.Do(nil, restore); !bytes.HasPrefix(got, []byte("-ERR the payload unpacks to more than a key may take")) {
		t.Errorf("%s", got)
	}
	run(s, "CONFIG SET maxmemory 0")
	if got, _ := s.Do(nil, restore); string(got) != "+OK\r\n" {
		t.Fatalf("%s", got)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	want(t, open(t, Options{Dir: dir, MaxMemory: 50_000}).Session(), "STRLEN y", ":100000\r\n")
}
