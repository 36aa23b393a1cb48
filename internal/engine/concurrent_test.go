package engine

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

func open(t testing.TB, opts Options) *Engine {
	t.Helper()
	e, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// run runs a line of words and waits for the reply.
func run(s *Session, line string) string {
	reply, wait := s.Do(nil, split(line))
	if wait != nil {
		<-wait.Done()
		reply = wait.Append(reply)
	}
	return string(reply)
}

func want(t testing.TB, s *Session, line, reply string) {
	t.Helper()
	if got := run(s, line); got != reply {
		t.Errorf("%s: got %q, want %q", line, got, reply)
	}
}

// Promise: Clients that block on a key are served in the order of their arrival, whichever command
// makes the key ready.
func TestBlockedAreServedInOrder(t *testing.T) {
	e := open(t, Options{})
	const n = 20
	var waits []*Wait
	for range n {
		_, w := e.Session().Do(nil, split("BLPOP q other 0"))
		if w == nil {
			t.Fatal("BLPOP on an empty list did not wait")
		}
		waits = append(waits, w)
	}
	waits[3].Cancel()
	s := e.Session()
	for i := range n {
		want(t, s, fmt.Sprint("RPUSH q ", i), ":1\r\n")
	}
	next := 0
	for i, w := range waits {
		<-w.Done()
		if i == 3 {
			continue
		}
		exp := string(resp.AppendCommand(nil, "q", fmt.Sprint(next)))
		if got := string(w.Append(nil)); got != exp {
			t.Errorf("waiter %d got %q, want %q", i, got, exp)
		}
		next++
	}
	want(t, s, "LRANGE q 0 -1", "*1\r\n$2\r\n19\r\n")
}

func TestBlockedMoveAcrossShards(t *testing.T) {
	e := open(t, Options{})
	_, first := e.Session().Do(nil, split("BLMOVE a b LEFT RIGHT 0"))
	_, second := e.Session().Do(nil, split("BLPOP b 0"))
	want(t, e.Session(), "RPUSH a x", ":1\r\n")
	<-first.Done()
	<-second.Done()
	if got := string(first.Append(nil)); got != "$1\r\nx\r\n" {
		t.Errorf("BLMOVE got %q", got)
	}
	if got := string(second.Append(nil)); got != "*2\r\n$1\r\nb\r\n$1\r\nx\r\n" {
		t.Errorf("BLPOP got %q", got)
	}
}

// A client in BLMOVE gets the element that a command, a transaction or a script pushes, although
// serving it takes a second shard and other clients try to take the element.
//
// Promise: Clients that block on a key are served in the order of their arrival, whichever command
// makes the key ready.
func TestNobodyOvertakesAMove(t *testing.T) {
	e := open(t, Options{})
	destination := &e.shards[shardOf([]byte("b"))]
	for name, push := range map[string]func(s *Session){
		"command": func(s *Session) { run(s, "RPUSH a x") },
		"transaction": func(s *Session) {
			run(s, "MULTI")
			run(s, "RPUSH a x")
			run(s, "EXEC")
		},
		"script": func(s *Session) { s.Do(nil, argv("EVAL", "return redis.call('RPUSH', KEYS[1], 'x')", "1", "a")) },
	} {
		_, move := e.Session().Do(nil, split("BLMOVE a b LEFT RIGHT 0"))
		_, pop := e.Session().Do(nil, split("BLPOP b 0"))
		if move == nil || pop == nil {
			t.Fatal("nothing waits")
		}
		destination.mu.Lock() // as another command does, in the middle of the push
		pushed := make(chan struct{})
		go func() {
			defer close(pushed)
			s := e.Session()
			defer s.Close()
			push(s)
		}()
		thief := e.Session()
		for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); {
			if got, _, _ := thief.do(nil, split("LPOP a"), true); strings.Contains(string(got), "x") {
				destination.mu.Unlock()
				t.Fatalf("%s: another came between", name)
			}
		}
		destination.mu.Unlock()
		<-pushed
		<-move.Done()
		<-pop.Done()
		if got := string(pop.Append(nil)); got != "*2\r\n$1\r\nb\r\n$1\r\nx\r\n" {
			t.Fatalf("%s: BLPOP of the destination got %q", name, got)
		}
	}
}

// TestTransfersKeepTheSum moves amounts between keys of many shards in transactions while other
// clients read all keys at once.
//
// Promise: Every client sees a transaction or a script as a whole or not at all.
func TestTransfersKeepTheSum(t *testing.T) {
	e := open(t, Options{})
	const accounts = 16
	s := e.Session()
	var all []string
	for i := range accounts {
		all = append(all, fmt.Sprint("acct", i))
		run(s, fmt.Sprintf("SET acct%d 100", i))
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			s := e.Session()
			for i := range 2000 {
				a, b := (i*7+w)%accounts, (i*13+5*w+1)%accounts
				run(s, "MULTI")
				run(s, fmt.Sprintf("DECR acct%d", a))
				run(s, fmt.Sprintf("INCR acct%d", b))
				run(s, "EXEC")
			}
		})
		wg.Go(func() {
			s := e.Session()
			for range 1000 {
				_, parts := elements([]byte(run(s, "MGET "+strings.Join(all, " "))))
				sum := int64(0)
				for _, p := range parts { // $n, number
					n, _ := resp.ParseInt([]byte(strings.Fields(string(p))[1]))
					sum += n
				}
				if sum != accounts*100 {
					t.Errorf("the sum is %d, want %d", sum, accounts*100)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestWatch(t *testing.T) {
	e := open(t, Options{})
	a, b := e.Session(), e.Session()
	run(a, "WATCH k other")
	run(b, "SET k 1")
	run(b, "DEL k")
	run(a, "MULTI")
	run(a, "SET x 1")
	want(t, a, "EXEC", "*-1\r\n")
	run(a, "WATCH k")
	run(a, "MULTI")
	run(a, "SET x 1")
	want(t, a, "EXEC", "*1\r\n+OK\r\n")
}

// TestManyAtOnce runs commands of all kinds from many goroutines, for the race
// detector.
func TestManyAtOnce(t *testing.T) {
	e := open(t, Options{})
	lines := []string{"SET k1 v", "GET k1", "LPUSH l1 a b", "LPOP l1", "BLPOP l1 l2 0.001", "BLMOVE l1 l2 LEFT RIGHT 0.001", "ZADD z 1 a 2 b", "ZPOPMIN z", "HSET h a b", "HEXPIRE h 100 FIELDS 1 a", "HGETALL h",
		"SUNIONSTORE s3 s1 s2", "SADD s1 a", "SADD s2 b", "FLUSHALL", "SCAN 0", "DBSIZE", "PUBLISH ch x", "SUBSCRIBE ch", "UNSUBSCRIBE", "PEXPIRE k1 1", "KEYS *", "INFO", "MULTI", "SET k2 x", "EXEC", "WATCH k1", "SWAPDB 0 1", "RENAME k1 k2", "CONFIG SET notify-keyspace-events KEA", "COPY z z2", "RANDOMKEY", "BZPOPMIN z 0.001"}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			s := e.Session()
			s.SetProtocol(resp.RESP3)
			s.OnPush(func([]byte) {})
			defer s.Close()
			for i := range 1500 {
				run(s, lines[(i*31+g*17+i*i)%len(lines)])
			}
		})
	}
	wg.Wait()
}

// A fakeClock stands still until it is advanced.
type fakeClock struct {
	mu     sync.Mutex
	now    time.Time
	timers map[*fakeTimer]struct{}
}

type fakeTimer struct {
	c  *fakeClock
	at time.Time
	f  func()
}

func newFakeClock() *fakeClock {
	return &fakeClock{now: time.Unix(1700000000, 0), timers: map[*fakeTimer]struct{}{}}
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) AfterFunc(d time.Duration, f func()) Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &fakeTimer{c, c.now.Add(d), f}
	c.timers[t] = struct{}{}
	return t
}

func (t *fakeTimer) Stop() bool {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	_, ok := t.c.timers[t]
	delete(t.c.timers, t)
	return ok
}

// advance moves the clock and calls what has become due, in the caller's
// goroutine.
func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	var due []*fakeTimer
	for t := range c.timers {
		if !t.at.After(c.now) {
			due = append(due, t)
			delete(c.timers, t)
		}
	}
	c.mu.Unlock()
	for _, t := range due {
		t.f()
	}
}

func TestExpiry(t *testing.T) {
	clock := newFakeClock()
	var events []string
	e := open(t, Options{Clock: clock, Events: func(ev Event) { events = append(events, ev.Name+" "+string(ev.Key)) }})
	s := e.Session()
	run(s, "SET a 1 PX 100")
	run(s, "HSET h f 1 g 2")
	want(t, s, "HPEXPIRE h 50 FIELDS 2 f nosuch", "*2\r\n:1\r\n:-2\r\n")
	want(t, s, "HPTTL h FIELDS 2 f g", "*2\r\n:50\r\n:-1\r\n")
	events = nil
	clock.advance(60 * time.Millisecond)
	if got := fmt.Sprint(events); got != "[hexpired h]" {
		t.Errorf("events %s", got)
	}
	want(t, s, "HGETALL h", "*2\r\n$1\r\ng\r\n$1\r\n2\r\n")
	want(t, s, "PTTL a", ":40\r\n")
	events = nil
	clock.advance(60 * time.Millisecond)
	if got := fmt.Sprint(events); got != "[expired a]" {
		t.Errorf("events %s", got)
	}
	want(t, s, "DBSIZE", ":1\r\n")
	_, w := s.Do(nil, split("BLPOP q 1"))
	clock.advance(time.Second)
	<-w.Done()
	if got := string(w.Append(nil)); got != "*-1\r\n" {
		t.Errorf("BLPOP at its end got %q", got)
	}
}

func TestFieldTTL(t *testing.T) {
	s := open(t, Options{Clock: newFakeClock()}).Session()
	for _, c := range [][2]string{
		{"HEXPIRE none 10 FIELDS 1 a", "*1\r\n:-2\r\n"},
		{"HSET h a 1 b 2 c 3", ":3\r\n"},
		{"HEXPIRE h 10 XX FIELDS 1 a", "*1\r\n:0\r\n"},
		{"HEXPIRE h 10 GT FIELDS 1 a", "*1\r\n:0\r\n"},
		{"HEXPIRE h 10 LT FIELDS 1 a", "*1\r\n:1\r\n"},
		{"HEXPIRE h 10 NX FIELDS 1 a", "*1\r\n:0\r\n"},
		{"HEXPIRE h 0 FIELDS 1 b", "*1\r\n:2\r\n"},
		{"HEXPIRE h -1 FIELDS 1 c", "-ERR invalid expire time, must be >= 0\r\n"},
		{"HEXPIRE h 10 FIELDS 0 c", "-ERR Parameter `numFields` should be greater than 0\r\n"},
		{"HEXPIRE h 10 FIELDS 2 c", "-ERR The `numfields` parameter must match the number of arguments\r\n"},
		{"HEXPIRE h 10 FOO 1 c", "-ERR Mandatory argument FIELDS is missing or not at the right position\r\n"},
		{"HTTL h FIELDS 3 a b c", "*3\r\n:10\r\n:-2\r\n:-1\r\n"},
		{"HINCRBY h a 5", ":6\r\n"},
		{"HTTL h FIELDS 1 a", "*1\r\n:10\r\n"},
		{"HSET h a 1", ":0\r\n"},
		{"HTTL h FIELDS 1 a", "*1\r\n:-1\r\n"},
		{"HPERSIST h FIELDS 1 a", "*1\r\n:-1\r\n"},
		{"HSETEX h FNX EX 10 FIELDS 2 a 1 z 2", ":0\r\n"},
		{"HSETEX h FXX EX 10 FIELDS 2 a 1 z 2", ":0\r\n"},
		{"HSETEX h EX 10 FIELDS 2 a 7 z 2", ":1\r\n"},
		{"HSETEX h EX 10 KEEPTTL FIELDS 1 a 7", "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified\r\n"},
		{"HGETEX h PERSIST FIELDS 1 a", "*1\r\n$1\r\n7\r\n"},
		{"HEXPIRETIME h FIELDS 2 a z", "*2\r\n:-1\r\n:1700000010\r\n"},
		{"HSETEX h EXAT 1 FIELDS 1 z 5", ":1\r\n"},
		{"HGETDEL h FIELDS 3 a z c", "*3\r\n$1\r\n7\r\n$-1\r\n$1\r\n3\r\n"},
		{"EXISTS h", ":0\r\n"},
	} {
		want(t, s, c[0], c[1])
	}
}
