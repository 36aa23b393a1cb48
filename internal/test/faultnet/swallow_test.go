package faultnet_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestSwallowNextReply(t *testing.T) {
	s, p := start(t)
	c, other := dial(t, p.Addr()), dial(t, p.Addr())
	for _, c := range []*client{c, other} {
		c.send("PING")
		c.want("+PONG")
	}
	p.SwallowNextReply()
	c.send("PING") // belongs to setting up a connection
	c.want("+PONG")
	c.send("INCR n")
	c.wantEnd()
	if got := s.CLI("GET", "n"); got != "1" {
		t.Errorf("n is %q: the request was not run", got)
	}
	if n := p.Stats().Swallowed; n != 1 {
		t.Errorf("Swallowed is %d, want 1", n)
	}
	other.send("INCR n") // only one reply is lost, and only one connection
	other.want(":2")
}

func TestSwallowOneOfAPipeline(t *testing.T) {
	s, p := start(t)
	c := dial(t, p.Addr())
	p.SwallowNextReply("incr")
	c.send("SET k 12345\nGET k\nINCR k\nGET k")
	c.want("+OK")
	c.want("$5")
	c.want("12345")
	c.wantEnd()
	if got := s.CLI("GET", "k"); got != "12346" {
		t.Errorf("k is %q", got)
	}
}

// The request before the call has no answer yet. That answer passes.
func TestSwallowLeavesEarlierReplies(t *testing.T) {
	s, p := start(t)
	c := dial(t, p.Addr())
	s.Pause()
	c.send("INCR n")
	eventually(t, "the request is passed on", func() bool { return p.Stats().ToServer == int64(len("INCR n\r\n")) })
	p.SwallowNextReply()
	c.send("INCR n")
	s.Resume()
	c.want(":1")
	c.wantEnd()
	if got := s.CLI("GET", "n"); got != "2" {
		t.Errorf("n is %q", got)
	}
}

// The answer comes in many reads; no byte of it passes.
func TestSwallowLargeReply(t *testing.T) {
	_, p := start(t)
	c := dial(t, p.Addr())
	c.send("SETRANGE k 3000000 x\nGETRANGE k 0 3")
	c.want(":3000001")
	c.want("$4")
	c.want("\x00\x00\x00\x00")
	p.SwallowNextReply("GET")
	c.send("PING\nGET k")
	c.want("+PONG")
	c.wantEnd()
	if n := p.Stats().ToClient; n > 100 {
		t.Errorf("%d bytes were passed on", n)
	}
}

func TestSwallowCallsAddUp(t *testing.T) {
	_, p := start(t)
	a, b, c := dial(t, p.Addr()), dial(t, p.Addr()), dial(t, p.Addr())
	p.SwallowNextReply("get k")
	p.SwallowNextReply("SET")
	a.send("GET other\nSET k v")
	a.want("$-1")
	a.wantEnd()
	b.send("SET k v\nGET k")
	b.want("+OK")
	b.wantEnd()
	c.send("GET k")
	c.want("$1")
	if n := p.Stats().Swallowed; n != 2 {
		t.Errorf("Swallowed is %d, want 2", n)
	}
}

// A connection that listens sends what nobody asked for at that moment.
func TestSwallowLeavesSubscribersAlone(t *testing.T) {
	s, p := start(t)
	c, sub := dial(t, p.Addr()), dial(t, p.Addr())
	p.SwallowNextReply()
	sub.send("SUBSCRIBE ch")
	for _, line := range []string{"*3", "$9", "subscribe", "$2", "ch", ":1"} {
		sub.want(line)
	}
	s.CLI("PUBLISH", "ch", "m")
	for _, line := range []string{"*3", "$7", "message", "$2", "ch", "$1", "m"} {
		sub.want(line)
	}
	c.send("INCR n")
	c.wantEnd()
}

// Pushes of RESP3 stand between the answers without being one.
func TestSwallowDoesNotCountPushes(t *testing.T) {
	s, p := start(t)
	c := dial(t, p.Addr())
	c.send("HELLO 3")
	eventually(t, "HELLO is answered", func() bool {
		line, err := c.line(patience)
		return err == nil && line == "*0" // the list of modules ends it
	})
	c.send("CLIENT TRACKING ON\nGET k")
	c.want("+OK")
	c.want("_")
	s.CLI("SET", "k", "v")
	for _, line := range []string{">2", "$10", "invalidate", "*1", "$1", "k"} {
		c.want(line)
	}
	p.SwallowNextReply()
	c.send("PING\nGET k\nGET k")
	c.want("+PONG")
	c.wantEnd()
}

func TestWhatIsNotRESPPasses(t *testing.T) {
	_, p := start(t)
	c, other := dial(t, p.Addr()), dial(t, p.Addr())
	p.SwallowNextReply()
	c.send("*1\n!4\nPING")
	if got, _ := c.line(patience); !strings.HasPrefix(got, "-ERR Protocol error") {
		t.Errorf("the server answered %q", got)
	}
	c.wantEnd()
	other.send("GET k")
	other.wantEnd()
}

// The commands by which a go-redis client connects do not use up the order.
func TestSwallowReplyOfAClient(t *testing.T) {
	s, p := start(t)
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr(), MaxRetries: -1, DB: 1})
	defer rdb.Close()
	p.SwallowNextReply()
	if err := rdb.Incr(t.Context(), "n").Err(); err == nil {
		t.Error("INCR returned no error although its reply was lost")
	}
	if got := s.CLI("-n", "1", "GET", "n"); got != "1" {
		t.Errorf("n is %q", got)
	}
	if n, err := rdb.Incr(t.Context(), "n").Result(); n != 2 {
		t.Errorf("the next INCR returned %d, %v", n, err)
	}
}
