package engine

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/faultdisk"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// dice makes choices out of bytes, so that the fuzzer can change them one by
// one. It has run out when all are used.
type dice struct{ b []byte }

func (d *dice) out() bool { return len(d.b) == 0 }

func (d *dice) n(sides int) int {
	if d.out() {
		return 0
	}
	width := 1
	if sides > 256 {
		width = 2
	}
	var buf [2]byte
	d.b = d.b[copy(buf[:width], d.b):]
	return int(binary.LittleEndian.Uint16(buf[:])) % sides
}

// everything is one key of each type and form, all under one tag, so that
// every command that needs several finds them.
var everything = []string{
	"SET {t}str hello", "SET {t}int 42", "SETBIT {t}bits 77 1", "PFADD {t}hll a b c", "RPUSH {t}list a b c 1 2 3", "SADD {t}ints 1 2 3",
	"SADD {t}set a b c", "ZADD {t}zset 1 a 2 b 3 c", "ZADD {t}zero 0 a 0 b", "GEOADD {t}geo 13.361389 38.115556 a 15.087269 37.502669 b",
	"HSET {t}hash a 1 b 2", "HSETEX {t}ttl EX 100 FIELDS 2 a 1 b 2", "SET {t}gone x PX 1", "SET {t}soon x PX 100000",
	"HSET {t}wide " + strings.Repeat("x", 200) + " 1", "ZADD {t}deep 1 " + strings.Repeat("x", 200), "SADD {t}strs " + strings.Repeat("x", 200),
}

// anyWords are what arguments are made of: keys, the ends of every range, and
// all options, where they belong and where they don't. There is no number that
// makes a large string.
var anyWords = append(strings.Fields(`{t}str {t}int {t}bits {t}hll {t}list {t}ints {t}set {t}zset {t}zero {t}geo {t}hash {t}ttl {t}gone {t}soon {t}wide {t}deep {t}strs {t}no {t}new
	0 1 2 3 -1 -2 -3 7 10 100 1000 -100 4294967296 4294967297 -4294967296 2147483648 9223372036854775807 -9223372036854775808 -9223372036854775807 9223372036854775808
	18446744073709551615 1e300 -1e300 0.5 -0 inf -inf +inf nan 1.5 (1 (2 [a (a [ ( - + (inf a b c d m x abc * ? [a-c] [^a] \ [ a* #0 #1 #9223372036854775807 -#1
	u8 i8 u1 i64 u63 u64 i65 u0 i0 > < = # $ {t}* 0-0 1700000000 1700000100 1700000000000 99999999999999
	NX XX GT LT CH INCR EX PX EXAT PXAT KEEPTTL PERSIST GET SET INCRBY OVERFLOW WRAP SAT FAIL BY LIMIT ASC DESC ALPHA STORE nosort COUNT MATCH TYPE string list set zset hash
	LEFT RIGHT BEFORE AFTER RANK MAXLEN WEIGHTS AGGREGATE SUM MIN MAX WITHSCORES WITHSCORE REV BYSCORE BYLEX FIELDS FNX FXX WITHVALUES REPLACE ABSTTL IDLETIME FREQ DB
	FROMLONLAT FROMMEMBER BYRADIUS BYBOX m km ft mi WITHCOORD WITHDIST WITHHASH ANY STOREDIST BIT BYTE AND OR XOR NOT IDX LEN MINMATCHLEN WITHMATCHLEN
	ON OFF SKIP YES NO BCAST NOLOOP OPTIN OPTOUT PREFIX REDIRECT ID TYPE NORMAL ADDR LADDR SKIPME USER default SYNC ASYNC 3 SETNAME AUTH LIB-NAME LIB-VER TIMEOUT ERROR`), "", "\r\n", "\x00", "\xff\xfe")

// A mangler makes argument vectors.
type mangler struct {
	dice
	commands []*command
	seen     [][]byte // arguments and parts of replies so far
}

func newMangler(b []byte) *mangler {
	m := &mangler{dice: dice{b}}
	var collect func(map[string]*command)
	collect = func(t map[string]*command) {
		for _, name := range slices.Sorted(maps.Keys(t)) {
			if name == "panics" || name == "breaks" { // a test's own
				continue
			}
			m.commands = append(m.commands, t[name])
			collect(t[name].subIndex)
		}
	}
	collect(commands)
	return m
}

func (m *mangler) args() [][]byte {
	cmd := m.commands[m.n(len(m.commands))]
	var args [][]byte
	for part := range strings.SplitSeq(cmd.Name, "|") {
		args = append(args, []byte(part))
	}
	least, more := cmd.Arity, m.n(4)
	if least < 0 {
		least = -least + more*m.n(3)
	}
	if more == 3 { // and now and then of a wrong number
		least += m.n(4) - 1
	}
	for len(args) < least {
		args = append(args, m.word())
	}
	// Keys where there should be some.
	for _, i := range cmd.keys(nil, args) {
		if i < len(args) && m.n(8) > 0 {
			args[i] = []byte(anyWords[m.n(19)])
		}
	}
	m.seen = append(m.seen, args[len(args)-1])
	return args
}

func (m *mangler) word() []byte {
	w := []byte(anyWords[m.n(len(anyWords))]) // never nil, which no argument is
	switch m.n(16) {
	case 0: // raw bytes
		n := min(m.n(20), len(m.b))
		w = append([]byte{}, m.b[:n]...)
		m.b = m.b[n:]
	case 1: // something seen before
		if len(m.seen) > 0 {
			w = m.seen[m.n(len(m.seen))]
		}
	case 2: // one byte changed
		if w = bytes.Clone(w); len(w) > 0 {
			w[m.n(len(w))] ^= byte(1 << m.n(8))
		}
	case 3:
		w = append([]byte{}, bytes.Repeat(w, 1+m.n(100))...)
	case 4, 5, 6, 7: // a number at an end of its range
		w = []byte(extremes[m.n(len(extremes))])
	case 8:
		w = []byte(extremeFloats[m.n(len(extremeFloats))])
	}
	return w
}

// harmless says whether the command may be run in a test: it does not sleep, make a string of the largest size,
// or connect to a master.
func harmless(args [][]byte) bool {
	switch strings.ToLower(string(args[0])) {
	case "replicaof", "slaveof":
		return false
	case "debug":
		return len(args) < 2 || !strings.EqualFold(string(args[1]), "sleep")
	case "setbit", "setrange", "bitfield":
		return !slices.ContainsFunc(args, func(a []byte) bool {
			n, ok := parseInt(bytes.TrimPrefix(a, []byte("#")))
			return ok && n > 1<<20 && n < 1<<33
		})
	}
	return true
}

// tryStep runs one command as a step of a random test. It doesn't wait for what blocks.
func tryStep(steps *randtest.Steps, s *Session, args [][]byte) []byte {
	steps.Begin(func() string { return quote(args) })
	out, wait := s.Do(nil, args)
	if wait != nil && !wait.Cancel() {
		out = wait.Append(nil)
	}
	return out
}

// anyArguments runs what b says, and wants no panic, no lock held, replies that
// are whole, and a log that leads to the same data.
func anyArguments(t *testing.T, steps *randtest.Steps, b []byte) {
	if len(b) == 0 {
		return
	}
	clock, disk := newFakeClock(), faultdisk.New()
	opts := Options{Clock: clock, fs: disk, reserve: 1024}
	saved := b[0]&1 == 0
	if !saved {
		opts.fs = nil
	}
	e, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { e.Close() }() //nolint:errcheck // in memory
	s := e.Session()
	if b[0]&2 != 0 {
		s.SetProtocol(resp.RESP3)
	}
	for _, line := range everything {
		run(s, line)
	}
	clock.advance(10 * time.Millisecond)
	m := newMangler(b[1:])
	for !m.out() {
		args := m.args()
		if !harmless(args) {
			continue
		}
		out := tryStep(steps, s, args)
		if n := e.stats.panics.Load(); n != 0 {
			t.Fatalf("%q panicked: %q", args, out)
		}
		unlocked(t, e, quote(args))
		whole(t, args, out)
		if len(out) > 1 && len(out) < 300 {
			m.seen = append(m.seen, append([]byte{}, bytes.TrimSpace(out[bytes.IndexByte(out, '\n')+1:])...))
		}
		if s.quitting {
			s.Close()
			s = e.Session()
		}
	}
	s.Close()
	if !saved {
		return
	}
	before := state(e)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := New(opts)
	if err != nil {
		t.Fatalf("the log can't be read: %v", err)
	}
	e = again
	if after := state(e); !maps.Equal(before, after) {
		for k, v := range before {
			if after[k] != v {
				t.Errorf("%q was %.300s\nis %.300s", k, v, after[k])
			}
		}
		t.Fatalf("%d keys were there, %d are", len(before), len(after))
	}
}

// whole wants replies that end where the buffer does.
func whole(t *testing.T, args [][]byte, out []byte) {
	t.Helper()
	var sc resp.ReplyScanner
	for rest := out; len(rest) > 0; {
		n, err := sc.Next(rest)
		if err != nil || n == 0 {
			t.Fatalf("%s: the reply is broken: %q, %v", quote(args), out, err)
		}
		rest = rest[n:]
	}
}

// TestAnyArguments is FuzzAnyArguments with random bytes.
func TestAnyArguments(t *testing.T) {
	r, steps := randtest.Rand(t), randtest.Watch(t)
	for range thorough(20_000, 150) {
		b := make([]byte, 2000)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		anyArguments(t, steps, b)
		if t.Failed() {
			return
		}
	}
}

// FuzzAnyArguments runs every command with every kind of argument.
func FuzzAnyArguments(f *testing.F) {
	f.Add([]byte(nil))
	for i := range byte(4) {
		f.Add(bytes.Repeat([]byte{i, 3, 0, 1, 77, 2}, 100))
	}
	f.Fuzz(func(t *testing.T, b []byte) { anyArguments(t, randtest.Watch(t), b) })
}
