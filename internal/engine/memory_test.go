package engine

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

const oom = "-OOM command not allowed when used memory > 'maxmemory'.\r\n"

// full returns a session of an engine that has no room.
func full(t *testing.T) *Session {
	s := open(t, Options{}).Session()
	run(s, "SET x 1")
	run(s, "RPUSH l a b")
	want(t, s, "CONFIG SET maxmemory 1", "+OK\r\n")
	return s
}

func TestOOM(t *testing.T) {
	s := full(t)
	for _, line := range []string{"SET y 1", "SET x 1", "APPEND x 1", "LPUSH l x", "HSET h f v", "COPY x y", "BLMOVE l l LEFT LEFT 0"} {
		want(t, s, line, oom)
	}
	want(t, s, "GET x", "$1\r\n1\r\n")
	want(t, s, "EXPIRE x 100", ":1\r\n")
	want(t, s, "RENAME x y", "+OK\r\n")
	want(t, s, "PING", "+PONG\r\n")
	want(t, s, "LPOP l", "$1\r\na\r\n")
	want(t, s, "DEL y l", ":2\r\n")
	want(t, s, "SET x 1", "+OK\r\n") // nothing is there, so it fits
}

func TestOOMInTransactions(t *testing.T) {
	s := full(t)
	want(t, s, "MULTI", "+OK\r\n")
	want(t, s, "SET x 2", oom)
	want(t, s, "EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n")
	want(t, s, "MULTI", "+OK\r\n")
	want(t, s, "GET x", oom) // queueing takes memory too
	want(t, s, "DISCARD", "+OK\r\n")

	e := s.e
	other := e.Session()
	want(t, other, "CONFIG SET maxmemory 0", "+OK\r\n")
	want(t, s, "MULTI", "+OK\r\n")
	want(t, s, "GET x", "+QUEUED\r\n")
	want(t, other, "CONFIG SET maxmemory 1", "+OK\r\n")
	want(t, s, "EXEC", "*1\r\n$1\r\n1\r\n")

	want(t, other, "CONFIG SET maxmemory 0", "+OK\r\n")
	want(t, s, "MULTI", "+OK\r\n")
	want(t, s, "GET x", "+QUEUED\r\n")
	want(t, s, "SET x 3", "+QUEUED\r\n")
	want(t, other, "CONFIG SET maxmemory 1", "+OK\r\n")
	want(t, s, "EXEC", "-EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.\r\n")
	want(t, s, "GET x", "$1\r\n1\r\n") // no transaction is open
}

var oomScripts = [][]string{
	{"EVAL", "return redis.call('SET', KEYS[1], 1)", "1", "x"},
	{"EVAL", "return redis.pcall('SET', KEYS[1], 1)", "1", "x"},
	{"EVAL", "local r = redis.pcall('SET', KEYS[1], 1); return {r.err, redis.call('GET', KEYS[1])}", "1", "x"},
	{"EVAL", "redis.call('EXPIRE', KEYS[1], 1000); return redis.call('SET', KEYS[1], 5)", "1", "x"}, // it has written already
	{"EVAL", "redis.call('DEL', 'nothing{x}'); return redis.call('SET', KEYS[1], 6)", "1", "x"},
	{"EVAL", "return redis.call('GET', KEYS[1])", "1", "x"},
	{"EVAL", "#!lua\nreturn redis.call('GET', KEYS[1])", "1", "x"},
	{"EVAL", "#!lua flags=allow-oom\nreturn redis.call('SET', KEYS[1], 7)", "1", "x"},
	{"EVAL", "#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])", "1", "x"},
	{"EVAL_RO", "return redis.call('GET', KEYS[1])", "1", "x"},
	{"EVALSHA", "ffffffffffffffffffffffffffffffffffffffff", "0"},
}

// TestOOMInScripts compares with redis-server.
func TestOOMInScripts(t *testing.T) {
	o := dialOracle(t, startOracle(t))
	s := full(t)
	for _, line := range []string{"SET x 1", "RPUSH l a b", "CONFIG SET maxmemory 1"} {
		o.do(split(line))
	}
	both := func(args []string) {
		t.Helper()
		a := make([][]byte, len(args))
		for i := range args {
			a[i] = []byte(args[i])
		}
		got, _ := s.Do(nil, a)
		if wanted := o.do(a); string(got) != string(wanted) {
			t.Errorf("%q: got %q, want %q", args, got, wanted)
		}
	}
	for _, args := range oomScripts {
		both(args)
	}
	// Queued while there was room.
	for _, args := range oomScripts {
		both([]string{"CONFIG", "SET", "maxmemory", "0"})
		both([]string{"MULTI"})
		both(args)
		both([]string{"CONFIG", "SET", "maxmemory", "1"})
		both([]string{"EXEC"})
		both([]string{"CONFIG", "SET", "maxmemory", "1"})
	}
	for _, args := range oomScripts {
		both([]string{"CONFIG", "SET", "maxmemory", "0"})
		both([]string{"MULTI"})
		both(args)
		limit := [][]byte{[]byte("CONFIG"), []byte("SET"), []byte("maxmemory"), []byte("1")}
		second := dialOracle(t, o.conn.RemoteAddr().String())
		second.do(limit)
		s.e.Session().Do(nil, limit)
		both([]string{"EXEC"})
	}
}

func TestOOMStopsNatives(t *testing.T) {
	src := "redis.call('SET', KEYS[1], ARGV[1]); return 1"
	sum := sha1.Sum([]byte(src))
	ran := 0
	e := open(t, Options{Natives: map[string]Native{hex.EncodeToString(sum[:]): func(tx *Tx) bool {
		ran++
		tx.Do(CommandOf("SET"), tx.Keys[0], tx.Args[0])
		tx.Int(1)
		return true
	}}})
	s := e.Session()
	begins(t, runScript(s, "EVAL", src, "1", "k", "v"), ":1")
	run(s, "CONFIG SET maxmemory 1")
	begins(t, runScript(s, "EVAL", src, "1", "k", "w"), "-OOM command not allowed when used memory > 'maxmemory'. script: ")
	want(t, s, "GET k", "$1\r\nv\r\n")
	if ran != 1 {
		t.Errorf("the function ran %d times, want once: there was memory", ran)
	}
}

func TestMemoryConfig(t *testing.T) {
	o := dialOracle(t, startOracle(t))
	s := open(t, Options{}).Session()
	for _, line := range []string{
		"CONFIG GET maxmemory", "CONFIG GET maxmemory-policy", "CONFIG GET maxmemory-samples", "CONFIG GET maxmemory-eviction-tenacity", "CONFIG GET lfu-log-factor", "CONFIG GET lfu-decay-time",
		"CONFIG SET maxmemory-policy allkeys-lru", "CONFIG GET maxmemory-policy", "CONFIG SET maxmemory-policy ALLKEYS-LFU", "CONFIG GET maxmemory-policy", "CONFIG SET maxmemory-policy lru",
		"CONFIG SET maxmemory-policy noeviction",
		"CONFIG SET maxmemory 100mb", "CONFIG GET maxmemory", "CONFIG SET maxmemory 1Gb", "CONFIG GET maxmemory", "CONFIG SET maxmemory 3k", "CONFIG GET maxmemory", "CONFIG SET maxmemory 100b", "CONFIG GET maxmemory",
		"CONFIG SET maxmemory 0", "CONFIG SET maxmemory -1", "CONFIG SET maxmemory 1tb", "CONFIG SET maxmemory x", "CONFIG SET maxmemory 1.5gb",
		"CONFIG SET maxmemory-samples 10", "CONFIG GET maxmemory-samples", "CONFIG SET maxmemory-samples 0", "CONFIG SET maxmemory-eviction-tenacity 101",
	} {
		if got, want := run(s, line), string(o.do(split(line))); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

func TestMemoryInfo(t *testing.T) {
	s := open(t, Options{MaxMemory: 3 << 20, MaxMemoryPolicy: "volatile-ttl"}).Session()
	run(s, "SET key "+xs(100))
	usage := run(s, "MEMORY USAGE key")
	used := strings.Trim(usage, ":\r\n")
	info := run(s, "INFO memory")
	for _, line := range []string{"used_memory:" + used, "used_memory_human:" + used + "B", "maxmemory:3145728", "maxmemory_human:3.00M", "maxmemory_policy:volatile-ttl"} {
		if !strings.Contains(info, line+"\r\n") {
			t.Errorf("INFO memory lacks %s:\n%s", line, info)
		}
	}
	want(t, s, "MEMORY USAGE nothing", "$-1\r\n")
}

func TestIdleTime(t *testing.T) {
	clock := newFakeClock()
	e := open(t, Options{Clock: clock})
	s := e.Session()
	run(s, "SET k v")
	clock.advance(7 * time.Second)
	want(t, s, "OBJECT IDLETIME k", ":7\r\n")
	want(t, s, "OBJECT ENCODING k", "$6\r\nembstr\r\n") // is no access
	want(t, s, "OBJECT IDLETIME k", ":7\r\n")
	run(s, "GET k")
	want(t, s, "OBJECT IDLETIME k", ":0\r\n")
	clock.advance(400 * 24 * time.Hour)
	want(t, s, "OBJECT IDLETIME k", fmt.Sprintf(":%d\r\n", 400*24*3600))
	run(s, "TOUCH k")
	want(t, s, "OBJECT IDLETIME k", ":0\r\n")
	begins(t, run(s, "OBJECT FREQ k"), "-ERR An LFU maxmemory policy is not selected")
}

func TestFrequency(t *testing.T) {
	clock := newFakeClock()
	e := open(t, Options{Clock: clock, MaxMemoryPolicy: "allkeys-lfu"})
	s := e.Session()
	run(s, "SET k v")
	want(t, s, "OBJECT FREQ k", ":5\r\n")
	for range 3000 {
		run(s, "GET k")
	}
	freq := func() (n int) {
		_, _ = fmt.Sscanf(run(s, "OBJECT FREQ k"), ":%d", &n)
		return n
	}
	hot := freq()
	if hot < 15 || hot > 60 { // Redis' documentation has 18 after 1,000 and 142 after 100,000
		t.Errorf("3000 uses count as %d", hot)
	}
	clock.advance(5 * time.Minute)
	if n := freq(); n != hot-5 {
		t.Errorf("5 minutes later %d is %d", hot, n)
	}
	begins(t, run(s, "OBJECT IDLETIME k"), "-ERR An LFU maxmemory policy is selected")
	clock.advance(1000 * time.Hour)
	if n := freq(); n != 0 {
		t.Errorf("much later it is %d", n)
	}
}

// TestShortStringsAreCounted: a key that has its value in the same allocation counts as what that takes. It is measured
// in a process of its own, where no garbage of other tests goes meanwhile.
func TestShortStringsAreCounted(t *testing.T) {
	const alone = "REDOUBT_TEST_ALONE"
	if os.Getenv(alone) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), alone+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Errorf("%v:\n%s", err, out)
		}
		return
	}
	const n = 100_000
	for _, width := range []int{6, 12, 16, 20, 30, 40} {
		e := open(t, Options{})
		s := e.Session()
		before := liveBytes()
		for i := range n {
			run(s, fmt.Sprintf("INCR %0*d", width, i))
		}
		held := liveBytes() - before
		if counted := e.UsedMemory(); float64(counted) < .95*float64(held) || float64(counted) > 1.01*float64(held) {
			t.Errorf("keys of %d bytes: %d bytes counted for each, %d held", width, counted/n, held/n)
		}
		runtime.KeepAlive(e)
	}
}
