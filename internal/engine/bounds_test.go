package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/slow"
	"github.com/redoubt-go/redoubt/internal/test/threadtime"
)

// small returns an engine with bounds that a test can reach.
func small(t *testing.T) *Engine {
	e := open(t, Options{})
	e.bounds = bounds{reply: 1000, scripted: 1000, arguments: 1000, transaction: 1000, names: 1000, prefixes: 3, tracked: 1000, clientName: 10, source: 400, loaded: 1200, evals: 3, evalBytes: 1500}
	return e
}

func wantError(t *testing.T, s *Session, line, part string) {
	t.Helper()
	if got := run(s, line); !strings.HasPrefix(got, "-ERR ") || !strings.Contains(got, part) {
		t.Errorf("%.60s: got %.200q, want an error with %q", line, got, part)
	}
}

// TestLargeReplies wants an error in place of a reply that is too large,
// however it comes about, and nothing taken out that was not told.
func TestLargeReplies(t *testing.T) {
	e := small(t)
	s := e.Session()
	run(s, "SET k "+strings.Repeat("x", 200))
	run(s, "HSET h f "+strings.Repeat("x", 200))
	run(s, "SADD s "+strings.Repeat("x", 200))
	run(s, "ZADD z 1 "+strings.Repeat("x", 200))
	run(s, "SET 1 "+strings.Repeat("x", 200))
	run(s, "RPUSH l 1 1 1 1 1 1")
	const large = "the reply is larger than 1000 bytes"
	for _, line := range []string{
		"MGET k k k k k", "SRANDMEMBER s -10", "ZRANDMEMBER z -10", "HRANDFIELD h -10 WITHVALUES", "HMGET h f f f f f",
		"HGETEX h PERSIST FIELDS 5 f f f f f", "EVAL return{redis.call('mget','k','k','k','k','k')} 1 k",
	} {
		wantError(t, s, line, large)
		unlocked(t, e, line)
	}
	want(t, s, "GETRANGE k 0 2", "$3\r\nxxx\r\n")
	// Of a transaction the commands that fit are answered, and all are run.
	e.bounds.transaction = 10000
	for _, line := range []string{"MULTI", "GET k", "GET k", "GET k", "GET k", "MGET k k", "SET done 1"} {
		run(s, line)
	}
	got := run(s, "EXEC")
	if _, parts := elements([]byte(got)); len(parts) != 6 || !strings.Contains(string(parts[4]), large) || string(parts[5]) != "+OK\r\n" {
		t.Errorf("EXEC: %q", got)
	}
	// A pop always replies with its elements.
	for range 10 {
		run(s, "RPUSH list "+strings.Repeat("x", 200))
	}
	if got := run(s, "LPOP list 10"); !strings.HasPrefix(got, "*10\r\n") {
		t.Errorf("LPOP: %.100q", got)
	}
	if n := e.stats.panics.Load(); n != 0 {
		t.Errorf("%d panics were noted", n)
	}
}

func TestLargeTransactions(t *testing.T) {
	s := small(t).Session()
	run(s, "MULTI")
	wantError(t, s, "SET k "+strings.Repeat("x", 1000), "transaction is larger than 1000 bytes")
	if got := run(s, "EXEC"); !strings.HasPrefix(got, "-EXECABORT") {
		t.Errorf("EXEC: %q", got)
	}
	for range 3 { // the bytes are given back each time
		run(s, "MULTI")
		want(t, s, "SET k "+strings.Repeat("x", 500), "+QUEUED\r\n")
		want(t, s, "EXEC", "*1\r\n+OK\r\n")
		run(s, "MULTI")
		want(t, s, "SET k "+strings.Repeat("x", 500), "+QUEUED\r\n")
		want(t, s, "DISCARD", "+OK\r\n")
	}
	for range 3 {
		want(t, s, "WATCH "+strings.Repeat("x", 500), "+OK\r\n")
		wantError(t, s, "WATCH "+strings.Repeat("y", 500), "too many keys are watched")
		run(s, "UNWATCH")
	}
}

// A subscription that is one too many is refused, not forgotten.
func TestManySubscribers(t *testing.T) {
	e := small(t)
	listen := func(channel string) (func(), error) {
		return e.Subscribe(t.Context(), channel, false, func(string, bool) {})
	}
	stop, err := listen(strings.Repeat("x", 500))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listen(strings.Repeat("y", 500)); err == nil {
		t.Error("a second long name was taken")
	}
	stop()
	if _, err := listen(strings.Repeat("y", 500)); err != nil {
		t.Error(err)
	}
}

func TestManySubscriptions(t *testing.T) {
	s := small(t).Session()
	s.SetProtocol(resp.RESP3)
	for range 3 {
		for _, kind := range []string{"", "P", "S"} {
			if got := run(s, kind+"SUBSCRIBE "+strings.Repeat("x", 500)); !strings.HasPrefix(got, ">3\r\n") {
				t.Fatalf("%sSUBSCRIBE: %q", kind, got)
			}
			wantError(t, s, "SUBSCRIBE "+strings.Repeat("y", 500), "too many subscriptions")
			run(s, kind+"UNSUBSCRIBE")
		}
	}
	wantError(t, s, "CLIENT TRACKING ON BCAST PREFIX a PREFIX b PREFIX c PREFIX d", "too many prefixes")
	want(t, s, "CLIENT TRACKING ON BCAST PREFIX a PREFIX b", "+OK\r\n")
	wantError(t, s, "CLIENT TRACKING ON BCAST PREFIX c PREFIX d", "too many prefixes")
	wantError(t, s, "CLIENT SETNAME 12345678901", "10 bytes")
	wantError(t, s, "CLIENT SETINFO lib-name 12345678901", "10 bytes")
	want(t, s, "CLIENT SETNAME 1234567890", "+OK\r\n")
}

// TestManyTrackedKeys wants keys with long names to be forgotten, whoever reads
// them to be told so, and the count of bytes to be true.
func TestManyTrackedKeys(t *testing.T) {
	e := small(t)
	s := e.Session()
	s.SetProtocol(resp.RESP3)
	var told int
	s.OnPush(func(frame []byte) { told += strings.Count(string(frame), "invalidate") })
	run(s, "CLIENT TRACKING ON")
	for i := range 20 {
		run(s, fmt.Sprintf("GET {t}%d%s", i, strings.Repeat("x", 200))) // in one shard: each forgets of its own
	}
	if n := e.tracking.bytes.Load(); n > 1000 || n < 600 || told < 15 {
		t.Errorf("%d bytes are remembered; %d invalidations", n, told)
	}
	run(e.Session(), "FLUSHALL")
	if n := e.tracking.bytes.Load(); n != 0 {
		t.Errorf("%d bytes are remembered of nothing", n)
	}
}

// TestManyScripts wants the scripts of EVAL to be forgotten, the oldest first,
// and the scripts of SCRIPT LOAD to stay.
func TestManyScripts(t *testing.T) {
	e := small(t)
	s := e.Session()
	digest := func(n int) string {
		reply := run(e.Session(), fmt.Sprintf("EVAL return{redis.sha1hex('return'..'('..(%d)..')')} 0", n))
		return strings.Fields(reply)[2]
	}
	there := func(n int) bool { return e.cache.find([]byte(digest(n))) != nil }
	kept := strings.Fields(run(s, "SCRIPT LOAD return(0)"))[1]
	for i := range 20 {
		want(t, s, fmt.Sprintf("EVAL return(%d) 0", i), fmt.Sprintf(":%d\r\n", i))
	}
	if n := len(e.cache.byDigest); n != 4 || e.cache.bytes != 3*e.cache.passing[0].size {
		t.Errorf("%d scripts are left, of %d bytes", n, e.cache.bytes)
	}
	if there(3) {
		t.Error("an old script of EVAL is still there")
	}
	want(t, s, "EVALSHA "+kept+" 0", ":0\r\n")
	want(t, s, "EVAL return(0) 0", ":0\r\n")
	wantError(t, s, "SCRIPT LOAD return('"+strings.Repeat("x", 100)+"')", "SCRIPT FLUSH")
	long := "EVAL return('" + strings.Repeat("x", 100) + "') 0"
	if got := run(s, long); !strings.HasPrefix(got, "$100\r\n") {
		t.Errorf("a long script: %q", got)
	}
	// One that is loaded after it came by EVAL stays from then on.
	run(s, "EVAL return(7) 0")
	run(s, "SCRIPT LOAD return(7)")
	for i := 10; i < 15; i++ {
		run(s, fmt.Sprintf("EVAL return(%d) 0", i))
	}
	if !there(7) {
		t.Error("a script that was loaded is gone")
	}
	run(s, "SCRIPT FLUSH")
	want(t, s, "SCRIPT LOAD return('"+strings.Repeat("x", 80)+"')", run(s, "SCRIPT LOAD return('"+strings.Repeat("x", 80)+"')"))
}

// TestManyNames wants what a million names cost to grow with their number, not
// with its square: commands that hold locks meanwhile.
func TestManyNames(t *testing.T) {
	slow.Test(t, "its commands have 100,000 names")
	const n = 100_000
	threadtime.Lock(t)
	e := open(t, Options{})
	s := e.Session()
	s.SetProtocol(resp.RESP3)
	names := make([][]byte, n)
	for i := range names {
		names[i] = fmt.Appendf(nil, "n%d", i)
	}
	do := func(first string, args [][]byte, last ...string) {
		t.Helper()
		all := append([][]byte{[]byte(first)}, args...)
		for _, a := range last {
			all = append(all, []byte(a))
		}
		began := threadtime.Now()
		out, wait := s.Do(nil, all)
		if wait != nil {
			wait.Cancel()
		} else if out[0] == '-' {
			t.Fatalf("%s: %.100q", first, out)
		}
		// The square of their number takes a minute.
		if took := threadtime.Now() - began; took > 5*time.Second {
			t.Errorf("%s of %d names took %v of the processor", first, n, took)
		}
	}
	do("SUBSCRIBE", names)
	do("UNSUBSCRIBE", names)
	do("SUBSCRIBE", names)
	do("UNSUBSCRIBE", nil)
	do("BLPOP", names, "0")
	do("WATCH", names)
	do("UNWATCH", nil)
	other := e.Session()
	other.SetProtocol(resp.RESP3)
	want(t, other, "CLIENT TRACKING ON BCAST", "+OK\r\n")
	do("SINTER", append(names, names...))
	var pairs [][]byte
	for _, name := range names {
		pairs = append(pairs, name, name)
	}
	do("MSET", pairs)
	do("MGET", names)
	do("DEL", names)
}
