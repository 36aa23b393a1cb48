package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
)

// TestPoolPubSub: channels and patterns are listened to on all servers, shard channels on the
// one that has the name as a key, and what the servers confirm is told as one would.
//
// Promise: A subscriber in front of a pool gets each message once, and a lost server costs only
// its own messages.
func TestPoolPubSub(t *testing.T) {
	p := startPool(t, 2)
	w, other := dial(t, p.addr), dial(t, p.addr)
	w.send("SUBSCRIBE", "a", "b", "a")
	for i, ch := range []string{"a", "b", "a"} {
		w.expect(array(bulk("subscribe"), bulk(ch), fmt.Sprintf(":%d\r\n", min(i+1, 2))))
	}
	w.send("PSUBSCRIBE", "c*", "d*")
	w.expect(array(bulk("psubscribe"), bulk("c*"), ":3\r\n"))
	w.expect(array(bulk("psubscribe"), bulk("d*"), ":4\r\n"))
	for i := range p.nodes {
		if got := p.nodes[i].CLI("PUBSUB", "NUMSUB", "a", "b"); got != "a\n1\nb\n1" {
			t.Errorf("redis-%d has the channels %q", i+1, got)
		}
		if got := p.nodes[i].CLI("PUBSUB", "NUMPAT"); got != "2" {
			t.Errorf("redis-%d has %s patterns", i+1, got)
		}
	}
	for _, ch := range []string{"a", "b"} {
		other.want(":1\r\n", "PUBLISH "+ch+" to-"+ch)
		w.expect(array(bulk("message"), bulk(ch), bulk("to-"+ch)))
		for _, key := range []string{"a", "b"} { // a script publishes where its key is
			other.want(":1\r\n", "EVAL return(redis.call('publish',ARGV[1],KEYS[1])) 1 "+key+" "+ch)
			w.expect(array(bulk("message"), bulk(ch), bulk(key)))
		}
	}
	for _, ch := range []string{"c1", "c2", "d1", "d2"} {
		other.want(":1\r\n", "PUBLISH "+ch+" x")
		w.expect(array(bulk("pmessage"), bulk(ch[:1]+"*"), bulk(ch), bulk("x")))
	}
	other.want(array(bulk("a"), ":1\r\n", bulk("b"), ":1\r\n", bulk("none"), ":0\r\n"), "PUBSUB NUMSUB a b none")
	other.want(":2\r\n", "PUBSUB NUMPAT")
	if got := fmt.Sprint(other.value("PUBSUB", "CHANNELS")); got != "[a b]" && got != "[b a]" {
		t.Errorf("PUBSUB CHANNELS: %s", got)
	}
	w.want(array(bulk("pong"), bulk("")), "PING")
	if got := w.do("GET", "a"); !strings.HasPrefix(got, "-ERR Can't execute 'get': only (P|S)SUBSCRIBE") {
		t.Errorf("GET while subscribed: %q", got)
	}
	w.send("UNSUBSCRIBE", "b", "none")
	w.expect(array(bulk("unsubscribe"), bulk("b"), ":3\r\n"))
	w.expect(array(bulk("unsubscribe"), bulk("none"), ":3\r\n"))
	other.want(":0\r\n", "PUBLISH b lost")
	w.send("PUNSUBSCRIBE")
	w.expect(array(bulk("punsubscribe"), bulk("c*"), ":2\r\n"))
	w.expect(array(bulk("punsubscribe"), bulk("d*"), ":1\r\n"))
	w.send("UNSUBSCRIBE")
	w.expect(array(bulk("unsubscribe"), bulk("a"), ":0\r\n"))
	w.send("UNSUBSCRIBE")
	w.expect(array(bulk("unsubscribe"), "$-1\r\n", ":0\r\n"))
	w.want("$-1\r\n", "GET a") // as any client again
	if n := p.Stats().Dedicated; n != 0 {
		t.Errorf("%d connections of clients' own", n)
	}

	// In RESP3 messages come between replies.
	if got := other.do("HELLO", "3"); !strings.Contains(got, "proto") {
		t.Fatal(got)
	}
	other.send("SSUBSCRIBE", "a")
	other.expect(">3\r\n" + bulk("ssubscribe") + bulk("a") + ":1\r\n")
	other.send("SUBSCRIBE", "__keyspace@0__:b")
	other.expect(">3\r\n" + bulk("subscribe") + bulk("__keyspace@0__:b") + ":1\r\n")
	w.want(array(bulk("__keyspace@0__:b")), "PUBSUB CHANNELS __*") // once, though it is on all servers
	w.want(array(bulk("__keyspace@0__:b"), ":1\r\n"), "PUBSUB NUMSUB __keyspace@0__:b")
	p.nodes[1].CLI("CONFIG", "SET", "notify-keyspace-events", "K$")
	w.want("+OK\r\n", "SET b 1")
	other.expect(">3\r\n" + bulk("message") + bulk("__keyspace@0__:b") + bulk("set"))
	w.want(":1\r\n", "SPUBLISH a x")
	other.expect(">3\r\n" + bulk("smessage") + bulk("a") + bulk("x"))
	other.want(bulk("1"), "GET b")

	// The loss of a server closes the subscribers to its shard channels.
	w.send("SUBSCRIBE", "a")
	w.expect(array(bulk("subscribe"), bulk("a"), ":1\r\n"))
	p.nodes[0].Kill()
	other.expectClosed()
	w.want(array(bulk("pong"), bulk("x")), "PING x")
	last := dial(t, p.addr)
	if got := last.do("SSUBSCRIBE", "a"); !strings.HasPrefix(got, "-ERR redoubt: back end redis-1 is unreachable") {
		t.Errorf("SSUBSCRIBE without redis-1: %q", got)
	}
	last.want("$-1\r\n", "GET d")
}

// TestPoolPubSubRefused: when a server refuses a subscription, the client gets that error and listens to
// nothing.
func TestPoolPubSubRefused(t *testing.T) {
	p := startPool(t, 2)
	p.nodes[1].CLI("ACL", "SETUSER", "default", "resetchannels")
	w, other := dial(t, p.addr), dial(t, p.addr)
	for _, c := range []string{"SUBSCRIBE a b", "SUBSCRIBE a", "PSUBSCRIBE a*", "SSUBSCRIBE a b"} {
		if got := w.do(strings.Fields(c)...); !strings.HasPrefix(got, "-NOPERM ") {
			t.Errorf("%s: %q", c, got)
		}
		if n := p.Stats().Dedicated; n != 0 {
			t.Errorf("after %s: %d connections of clients' own", c, n)
		}
	}
	other.want(":0\r\n", "SPUBLISH a x")
	w.want("$-1\r\n", "GET a") // not as one that listens
	w.send("SSUBSCRIBE", "a")
	w.expect(array(bulk("ssubscribe"), bulk("a"), ":1\r\n"))
	if got := w.do("SUBSCRIBE", "b"); !strings.HasPrefix(got, "-NOPERM ") {
		t.Errorf("SUBSCRIBE b: %q", got)
	}
	other.want(":1\r\n", "SPUBLISH a x")
	w.expect(array(bulk("smessage"), bulk("a"), bulk("x")))
}

// TestPoolPubSubLost: a client that asks the server of a shard channel to listen, and has no confirmation when
// the connection is lost, gets an error and goes on. One that listened there before is
// closed, and what it waits for ends.
func TestPoolPubSubLost(t *testing.T) {
	var network *faultnet.Proxy
	p := startPool(t, 2, through(t, &network))
	asks, listens, waits := dial(t, p.addr), dial(t, p.addr), dial(t, p.addr)
	lost := func(w *wire, channel string) {
		t.Helper()
		network.Blackhole(faultnet.ToClient)
		w.send("SSUBSCRIBE", channel)
		eventually(t, "the server has it", func() bool { return p.nodes[0].CLI("PUBSUB", "SHARDNUMSUB", channel) == channel+"\n1" })
		network.Cut()
		network.Heal()
		w.expect(string(proxy.Lost("redis-1").Reply()))
		eventually(t, "it is back, and this client is", func() bool { return asks.do("GET", "a") == "$-1\r\n" })
	}
	asks.want("$-1\r\n", "GET a") // connected
	for range 20 {
		lost(asks, "a")
	}
	listens.send("SSUBSCRIBE", "a")
	listens.expect(array(bulk("ssubscribe"), bulk("a"), ":1\r\n"))
	waits.do("HELLO", "3")
	waits.send("SSUBSCRIBE", "a")
	waits.expect(">3\r\n" + bulk("ssubscribe") + bulk("a") + ":1\r\n")
	waits.write("BLPOP b 0\r\n")
	eventually(t, "it waits", func() bool { return strings.Contains(p.nodes[1].CLI("INFO", "clients"), "blocked_clients:1") })
	lost(listens, "c")
	listens.expectClosed()
	waits.expect("-UNBLOCKED redoubt: a connection that the client listened on was lost: ask again\r\n")
	waits.expectClosed()
	asks.want("$-1\r\n", "GET a")
}

// TestPoolPubSubRefusedLate: what is published between the confirmation of one server and
// the refusal of another is no message to the client, which would take it for a reply.
func TestPoolPubSubRefusedLate(t *testing.T) {
	p := startPool(t, 2)
	p.nodes[1].CLI("ACL", "SETUSER", "default", "resetchannels")
	w := dial(t, p.addr)
	w.want("*2\r\n$-1\r\n$-1\r\n", "MGET a b") // connected
	publisher := dial(t, p.nodes[0].Addr())    // now, for the other has 5 s to confirm
	p.nodes[1].Pause()
	w.send("SUBSCRIBE", "a", "b")
	eventually(t, "one has confirmed it, and published", func() bool { return publisher.do("PUBLISH", "a", "x") == ":1\r\n" })
	p.nodes[1].Resume()
	if got := w.read(); !strings.HasPrefix(got, "-NOPERM ") {
		t.Errorf("SUBSCRIBE a b: %q", got)
	}
	w.want("$-1\r\n", "GET a")
}

// TestPoolPubSubOrder: no message comes before the confirmation of its channel, though
// one server has confirmed it long before another.
func TestPoolPubSubOrder(t *testing.T) {
	p := startPool(t, 2)
	w := dial(t, p.addr)
	w.want("*2\r\n$-1\r\n$-1\r\n", "MGET a b") // connected
	publisher := dial(t, p.nodes[0].Addr())    // now, for the other has 5 s to confirm
	p.nodes[1].Pause()
	w.send("SUBSCRIBE", "a", "b")
	eventually(t, "one has confirmed it, and published", func() bool { return publisher.do("PUBLISH", "a", "x") == ":1\r\n" })
	p.nodes[1].Resume()
	for i, ch := range []string{"a", "b"} {
		w.expect(array(bulk("subscribe"), bulk(ch), fmt.Sprintf(":%d\r\n", i+1)))
	}
	w.expect(array(bulk("message"), bulk("a"), bulk("x")))
}
