package engine

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// twins are a session of the engine and a connection to a Redis that get the same commands.
type twins struct {
	s *Session
	o *oracle
}

func newTwins(t *testing.T) twins {
	t.Helper()
	return twins{open(t, Options{}).Session(), dialOracle(t, startOracle(t))}
}

// run runs a command on both and returns the replies as values.
func (p twins) run(t *testing.T, words ...string) (ours, theirs any) {
	t.Helper()
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	value := func(raw string) any {
		v, _, err := resp.Parse([]byte(raw))
		if err != nil {
			t.Fatalf("%q: %q %v", words, raw, err)
		}
		return v
	}
	return value(runScript(p.s, words...)), value(string(p.o.do(args)))
}

// same checks that both reply with the same.
func (p twins) same(t *testing.T, words ...string) {
	t.Helper()
	if ours, theirs := p.run(t, words...); fmt.Sprint(ours) != fmt.Sprint(theirs) {
		t.Errorf("%q: %v, Redis says %v", words, ours, theirs)
	}
}

// TestSlowLogIsThatOfRedis: SLOWLOG shows the commands that Redis shows, cut in the same way.
func TestSlowLogIsThatOfRedis(t *testing.T) {
	p := newTwins(t)
	p.same(t, "CONFIG", "GET", "slowlog-max-len")
	p.same(t, "CONFIG", "GET", "slowlog-log-slower-than")
	p.same(t, "CONFIG", "SET", "slowlog-log-slower-than", "0")
	p.same(t, "SLOWLOG", "RESET")
	long := strings.Repeat("x", 200)
	for _, words := range [][]string{
		{"SET", "k", long},
		slices.Concat([]string{"RPUSH", "l"}, strings.Fields(strings.Repeat("e ", 30))),
		slices.Concat([]string{"RPUSH", "l"}, strings.Fields(strings.Repeat("e ", 31))),
		slices.Concat([]string{"RPUSH", "l"}, strings.Fields(strings.Repeat("e ", 60))),
		{"GET", "l"},
		{"GET"},
		{"MULTI"}, {"INCR", "n"}, {"EXEC"},
		{"EVAL", "return redis.call('SET', KEYS[1], 'v')", "1", "k"},
		{"AUTH", "secret"},
		{"HELLO", "2", "AUTH", "default", "secret"},
		{"BLPOP", "none", "0.01"},
	} {
		if words[0] == "BLPOP" {
			run(p.s, strings.Join(words, " "))
			p.o.do([][]byte{[]byte(words[0]), []byte(words[1]), []byte(words[2])})
			continue
		}
		p.run(t, words...)
	}
	entries := func(v any) (list []string) {
		for _, e := range v.([]any) {
			f := e.([]any)
			if len(f) != 6 {
				t.Fatalf("an entry has %d fields", len(f))
			}
			addr := strings.HasPrefix(fmt.Sprint(f[4]), "?")
			list = append(list, fmt.Sprint(f[0], f[3], f[5], addr && fmt.Sprint(f[3]) == "[SET k v]"))
		}
		return list
	}
	ours, theirs := p.run(t, "SLOWLOG", "GET", "-1")
	if a, b := entries(ours), entries(theirs); !slices.Equal(a, b) {
		t.Errorf("SLOWLOG GET:\n%s\nRedis:\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
	p.same(t, "SLOWLOG", "LEN")
	p.same(t, "CONFIG", "SET", "slowlog-max-len", "3")
	p.same(t, "SLOWLOG", "LEN")
	p.same(t, "CONFIG", "SET", "slowlog-log-slower-than", "-1")
	p.same(t, "SLOWLOG", "LEN")
	for _, line := range []string{
		"SLOWLOG", "SLOWLOG FOO", "SLOWLOG GET x", "SLOWLOG GET -2", "SLOWLOG GET 1 2", "SLOWLOG LEN 1", "SLOWLOG HELP",
		"SLOWLOG RESET", "SLOWLOG GET", "SLOWLOG LEN", "CONFIG SET slowlog-log-slower-than -2", "CONFIG SET slowlog-max-len -1",
		"LATENCY", "LATENCY LATEST", "LATENCY HISTORY", "LATENCY HISTORY command", "LATENCY RESET", "LATENCY RESET x y",
		"CONFIG GET latency-tracking", "CONFIG GET latency-monitor*", "CONFIG GET latency-tracking-*", "CONFIG SET latency-tracking-info-percentiles 101", "CONFIG SET latency-tracking-info-percentiles x",
	} {
		p.same(t, strings.Fields(line)...)
	}
}

// TestSlowLogFindsTheSlow: with the default threshold the log has what takes long, and neither quick commands nor
// commands that wait behind the slow one.
func TestSlowLogFindsTheSlow(t *testing.T) {
	s := open(t, Options{}).Session()
	s.SetNamer(func() string { return "me" })
	runScript(s, "CONFIG", "SET", "slowlog-log-slower-than", "5000", "latency-monitor-threshold", "5")
	for range 100 {
		runScript(s, "SET", "k", "v")
		runScript(s, "GET", "k")
	}
	runScript(s, "DEBUG", "SLEEP", "0.006")
	got := runScript(s, "SLOWLOG", "GET")
	if !strings.Contains(got, "$5\r\nDEBUG\r\n$5\r\nSLEEP\r\n$5\r\n0.006\r\n$3\r\n?:0\r\n$2\r\nme\r\n") || !strings.HasPrefix(got, "*1\r\n") {
		t.Errorf("SLOWLOG GET: %q", got)
	}
	if got := runScript(s, "LATENCY", "LATEST"); !strings.HasPrefix(got, "*1\r\n*4\r\n$7\r\ncommand\r\n") {
		t.Errorf("LATENCY LATEST: %q", got)
	}
	if got := runScript(s, "LATENCY", "HISTORY", "command"); !strings.HasPrefix(got, "*1\r\n*2\r\n:") {
		t.Errorf("LATENCY HISTORY: %q", got)
	}
	begins(t, runScript(s, "LATENCY", "RESET"), ":1\r\n")
}

var cmdstat = regexp.MustCompile(`(?m)^cmdstat_(.+):calls=(\d+),usec=\d+,usec_per_call=\d+\.\d\d,rejected_calls=(\d+),failed_calls=(\d+)\r$`)

// statsOf returns calls, rejected and failed calls by command.
func statsOf(info any) map[string]string {
	m := map[string]string{}
	for _, f := range cmdstat.FindAllStringSubmatch(fmt.Sprint(info), -1) {
		m[f[1]] = strings.Join(f[2:], " ")
	}
	return m
}

// TestCommandstatsAreThoseOfRedis: INFO commandstats counts what Redis counts: also refused and failed calls,
// commands of scripts and transactions, and commands that waited.
func TestCommandstatsAreThoseOfRedis(t *testing.T) {
	p := newTwins(t)
	p.same(t, "CONFIG", "RESETSTAT")
	for range 50 {
		p.run(t, "SET", "k", "v")
		p.run(t, "GET", "k")
	}
	for _, words := range [][]string{
		{"GET"}, {"NOSUCH"}, {"CLIENT", "NOSUCH"}, {"LPUSH", "k", "x"}, {"LPUSH", "l", "x"}, {"LPOP", "l"}, {"MGET", "k", "l"},
		{"MULTI"}, {"INCR", "n"}, {"LPUSH", "k", "x"}, {"EXEC"},
		{"MULTI"}, {"NOSUCH"}, {"EXEC"}, {"EXEC"},
		{"EVAL", "redis.call('SET', KEYS[1], 1) redis.pcall('LPUSH', KEYS[1], 1) return redis.call('GET', KEYS[1])", "1", "k"},
		{"EVAL", "return redis.error_reply('ERR no')", "0"},
		{"EVALSHA", strings.Repeat("0", 40), "0"},
		{"CONFIG", "GET", "maxmemory"}, {"DBSIZE"}, {"SLOWLOG", "GET", "x"},
	} {
		p.run(t, words...)
	}
	run(p.s, "BLPOP none 0.01")
	p.o.do([][]byte{[]byte("BLPOP"), []byte("none"), []byte("0.01")})
	ours, theirs := p.run(t, "INFO", "commandstats")
	if a, b := statsOf(ours), statsOf(theirs); !maps.Equal(a, b) {
		t.Errorf("INFO commandstats: %v\nRedis: %v", a, b)
	}
	names := func(info any) []string {
		var all []string
		for _, f := range regexp.MustCompile(`(?m)^latency_percentiles_usec_(.+):p50=\d+\.\d{3},p99=\d+\.\d{3},p99\.9=\d+\.\d{3}\r$`).FindAllStringSubmatch(fmt.Sprint(info), -1) {
			all = append(all, f[1])
		}
		slices.Sort(all)
		return all
	}
	ours, theirs = p.run(t, "INFO", "latencystats")
	if a, b := names(ours), names(theirs); !slices.Equal(a, b) {
		t.Errorf("INFO latencystats: %v\nRedis: %v", a, b)
	}
	ours, theirs = p.run(t, "INFO")
	if a, b := strings.Contains(fmt.Sprint(ours), "cmdstat_"), strings.Contains(fmt.Sprint(theirs), "cmdstat_"); a != b {
		t.Errorf("INFO has commandstats: %t, with Redis %t", a, b)
	}
	p.same(t, "CONFIG", "RESETSTAT")
	p.run(t, "CONFIG", "SET", "maxmemory", "1")
	p.run(t, "SET", "k", "v")
	p.run(t, "EVAL", "return redis.call('SET', KEYS[1], 'v')", "1", "k")
	p.run(t, "EVAL", "redis.pcall('SET', KEYS[1], 'v') return 1", "1", "k")
	p.run(t, "EVAL", "return redis.pcall('SET', KEYS[1])", "1", "k")
	p.run(t, "CONFIG", "SET", "maxmemory", "0")
	ours, theirs = p.run(t, "INFO", "commandstats")
	if a, b := statsOf(ours), statsOf(theirs); !maps.Equal(a, b) {
		t.Errorf("INFO commandstats after CONFIG RESETSTAT: %v\nRedis: %v", a, b)
	}
}

// TestLatencyHistogram: the shape and the bounds are the same as Redis', in both protocols, and the last step has
// all calls although not all were timed.
func TestLatencyHistogram(t *testing.T) {
	p := newTwins(t)
	for range 1000 {
		p.run(t, "SET", "k", "v")
	}
	ours, theirs := p.run(t, "LATENCY", "HISTOGRAM", "set", "nosuch", "config")
	for _, v := range []any{ours, theirs} {
		top := v.([]any)
		if len(top) != 2 || top[0] != "set" {
			t.Fatalf("LATENCY HISTOGRAM: %v", v)
		}
		entry := top[1].([]any)
		steps := entry[3].([]any)
		if len(entry) != 4 || entry[0] != "calls" || entry[1] != int64(1000) || entry[2] != "histogram_usec" || steps[len(steps)-1] != int64(1000) {
			t.Fatalf("LATENCY HISTOGRAM: %v", v)
		}
		for i := 0; i < len(steps); i += 2 {
			if !slices.Contains([]int64{1, 2, 4, 8, 16, 33, 66, 132, 264, 528, 1056, 2113, 4227, 8454, 16908, 33816}, steps[i].(int64)) {
				t.Errorf("a bound is %v", steps[i])
			}
		}
	}
	p.run(t, "HELLO", "3")
	ours, theirs = p.run(t, "LATENCY", "HISTOGRAM", "set")
	for _, v := range []any{ours, theirs} {
		entry := v.(resp.Map)[1].(resp.Map)
		if _, ok := entry[3].(resp.Map); !ok || len(entry) != 4 {
			t.Errorf("LATENCY HISTOGRAM in RESP3: %v", v)
		}
	}
}

// TestTimeBuckets: each time is in the bucket whose end is the first that is not below it.
func TestTimeBuckets(t *testing.T) {
	for i := range timeBuckets {
		end := bucketEnd(i)
		if got := timeBucket(time.Duration(end)); got != i {
			t.Errorf("%d ns is in bucket %d, want %d", end, got, i)
		}
		if got := timeBucket(time.Duration(end + 1)); got != min(i+1, timeBuckets-1) {
			t.Errorf("%d ns is in bucket %d, want %d", end+1, got, i+1)
		}
	}
	var st commandStats
	for us := range 1000 {
		st.observe(time.Duration(us+1)*time.Microsecond, 1)
	}
	for _, c := range []struct{ percent, low, high float64 }{{50, 500, 540}, {99, 990, 1060}, {100, 1000, 1060}} {
		if got := st.percentile(c.percent); got < c.low || got > c.high {
			t.Errorf("p%v is %v µs, want %v to %v", c.percent, got, c.low, c.high)
		}
	}
	if got := st.micros(2000); got < 1_000_000 || got > 1_002_000 {
		t.Errorf("2000 calls like these took %d µs, want 1001000", got)
	}
}

// TestNamedCommands: a script that runs for a command that the engine doesn't know counts as that command, and so does
// a command that its caller has answered.
func TestNamedCommands(t *testing.T) {
	s := open(t, Options{}).Session()
	runScript(s, "CONFIG", "SET", "slowlog-log-slower-than", "0")
	args := [][]byte{[]byte("CL.THROTTLE"), []byte("k")}
	s.Begin("cl.throttle", args)
	runScript(s, "EVAL", "return redis.call('GET', KEYS[1])", "1", "k")
	s.End(true, false)
	s.Begin("ping", nil)
	s.End(true, false)
	s.Begin("multi", nil)
	s.End(false, false)
	got := statsOf(runScript(s, "INFO", "commandstats"))
	want := map[string]string{"config|set": "1 0 0", "cl.throttle": "1 0 0", "get": "1 0 0", "ping": "1 0 0"}
	if !maps.Equal(got, want) {
		t.Errorf("INFO commandstats: %v, want %v", got, want)
	}
	if got := runScript(s, "SLOWLOG", "GET", "2"); !strings.Contains(got, "*2\r\n$11\r\nCL.THROTTLE\r\n$1\r\nk\r\n") {
		t.Errorf("SLOWLOG GET: %q", got)
	}
}

// TestPeak: INFO remembers how much memory the keys have taken.
func TestPeak(t *testing.T) {
	s := open(t, Options{}).Session()
	runScript(s, "SET", "k", strings.Repeat("x", 1<<20))
	figure := func() (n int) {
		_, err := fmt.Sscanf(regexp.MustCompile(`used_memory_peak:\d+`).FindString(runScript(s, "INFO", "memory")), "used_memory_peak:%d", &n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := figure()
	runScript(s, "DEL", "k")
	if after := figure(); before < 1<<20 || after != before {
		t.Errorf("the peak is %d, and %d after DEL", before, after)
	}
	if got := runScript(s, "INFO", "cpu"); !regexp.MustCompile(`# CPU\r\nused_cpu_sys:\d+\.\d{6}\r\nused_cpu_user:\d+\.\d{6}\r\n`).MatchString(got) {
		t.Errorf("INFO cpu: %q", got)
	}
}
