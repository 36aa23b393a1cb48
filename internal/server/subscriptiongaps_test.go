package server_test

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// keyOn returns a key of the server with this number.
func (p *poolOf) keyOn(at int) string {
	for _, k := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"} {
		if p.pool.Pick([]byte(k)) == p.pool.Nodes()[at] {
			return k
		}
	}
	panic("no key")
}

// listen has a new client subscribe to a channel and a pattern.
func (p *poolOf) listen(t *testing.T) *wire {
	t.Helper()
	w := dial(t, p.addr)
	w.send("SUBSCRIBE", "news")
	w.expect(array(bulk("subscribe"), bulk("news"), ":1\r\n"))
	w.send("PSUBSCRIBE", "p*")
	w.expect(array(bulk("psubscribe"), bulk("p*"), ":2\r\n"))
	return w
}

// hears has a script publish on a server with this number, and all subscribers hear it.
func (p *poolOf) hears(t *testing.T, at int, all ...*wire) {
	t.Helper()
	const publish = "EVAL return{redis.call('publish','news',KEYS[1]),redis.call('publish','p1',KEYS[1])} 1 "
	key, n := p.keyOn(at), fmt.Sprintf(":%d\r\n", len(all))
	eventually(t, "the server knows who has gone", func() bool {
		f := strings.Fields(p.nodes[at].CLI("PUBSUB", "NUMSUB", "news"))
		listen, err := strconv.Atoi(f[len(f)-1])
		return err == nil && listen <= len(all)
	})
	dial(t, p.addr).want(array(n, n), publish+key)
	for _, w := range all {
		w.expect(array(bulk("message"), bulk("news"), bulk(key)))
		w.expect(array(bulk("pmessage"), bulk("p*"), bulk("p1"), bulk(key)))
	}
}

// TestPoolListensWithoutAServer: while a server is down or silent, clients listen to the others. So do
// clients that subscribe meanwhile. All are closed once the server is back, since they may have missed
// its messages.
//
// Promise: A subscriber in front of a pool gets each message once, and a lost server costs only
// its own messages.
func TestPoolListensWithoutAServer(t *testing.T) {
	for name, fault := range map[string]struct{ begin, end func(p *poolOf) }{
		"killed": {func(p *poolOf) { p.nodes[1].Kill() }, func(p *poolOf) { p.nodes[1].Restart() }},
		"paused": {func(p *poolOf) { p.nodes[1].Pause() }, func(p *poolOf) { p.nodes[1].Resume() }},
	} {
		t.Run(name, func(t *testing.T) {
			p := startPool(t, 3)
			before := p.listen(t)
			for i := range p.nodes {
				p.hears(t, i, before)
			}
			fault.begin(p)
			p.hears(t, 0, before)
			during := p.listen(t)
			p.hears(t, 2, before, during)
			during.send("SUBSCRIBE", "more")
			during.expect(array(bulk("subscribe"), bulk("more"), ":3\r\n"))
			during.send("UNSUBSCRIBE", "more")
			during.expect(array(bulk("unsubscribe"), bulk("more"), ":2\r\n"))
			p.hears(t, 0, before, during)
			fault.end(p)
			during.expectClosed()
			if name == "killed" { // a server that was silent has lost nothing
				before.expectClosed()
				before = p.listen(t)
			}
			after := p.listen(t)
			for i := range p.nodes {
				p.hears(t, i, before, after)
			}
		})
	}
}

// TestPoolTellsFirst: a server that is back is sent no command before the clients that it could not
// tell of what it has published are closed.
func TestPoolTellsFirst(t *testing.T) {
	p, opts := poolServers(t, 2)
	var log await.Buffer
	p.serve(t, opts, func(o *server.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	asker, key := dial(t, p.addr), p.keyOn(1)
	for round := range 4 {
		p.nodes[1].Kill()
		eventually(t, "its keys fail", func() bool { return asker.do("GET", key)[0] == '-' })
		w := p.listen(t)
		p.nodes[1].Restart()
		eventually(t, "it is back", func() bool { return asker.do("GET", key) == "$-1\r\n" })
		if got := strings.Count(log.String(), "a subscriber is closed"); got != round+1 {
			t.Errorf("a command has run after %d subscribers were closed, want %d", got, round+1)
		}
		w.expectClosed()
	}
}

// TestPoolListensToNone: a client is closed when there is no server left to listen to, and
// none listens before there is one again.
func TestPoolListensToNone(t *testing.T) {
	p := startPool(t, 2)
	w := p.listen(t)
	p.nodes[0].Kill()
	p.hears(t, 1, w)
	p.nodes[1].Kill()
	w.expectClosed()
	again := dial(t, p.addr)
	if got := again.do("SUBSCRIBE", "news"); got[0] != '-' {
		t.Errorf("SUBSCRIBE with no server: %q", got)
	}
	p.nodes[0].Restart()
	eventually(t, "it is back", func() bool { return again.do("GET", p.keyOn(0)) == "$-1\r\n" })
	p.hears(t, 0, p.listen(t))
}

// TestPoolListensAfterACut: a client that a server has cut off, though it is up, is closed to
// subscribe anew, at once.
func TestPoolListensAfterACut(t *testing.T) {
	p := startPool(t, 3)
	w := p.listen(t)
	p.nodes[1].CLI("CLIENT", "KILL", "TYPE", "pubsub")
	w.expectClosed()
	p.hears(t, 1, p.listen(t))
}

// TestPoolListensWithoutPing: a server without PING serves in a pool, and a client that it has cut off is
// closed as well.
func TestPoolListensWithoutPing(t *testing.T) {
	p, opts := poolServers(t, 2)
	without := redistest.Start(t, "--rename-command", "PING", "")
	p.nodes[1] = without
	opts.Servers[1].Backend = &proxy.Redis{Addr: without.Addr(), Label: "redis-2"}
	p.serve(t, opts)
	w := p.listen(t)
	without.CLI("CLIENT", "KILL", "TYPE", "pubsub")
	w.expectClosed()
	p.hears(t, 1, p.listen(t))
}

// TestPoolListensWhenEjected: when keys move to another server, the pool closes the subscribers
// to notifications about them, so that they look again.
func TestPoolListensWhenEjected(t *testing.T) {
	p := startPool(t, 3, func(o *proxy.PoolOptions) {
		o.Eject, o.FailureLimit, o.RetryTimeout, o.Distribution = true, 1, 50*time.Millisecond, ring.Ketama
	})
	w := p.listen(t)
	p.nodes[1].Kill()
	w.expectClosed()
	w = p.listen(t)
	p.nodes[1].Restart()
	w.expectClosed()
}

// TestPoolListensToASlowServer: a server that confirms late counts as absent once, and no
// client is closed again and again because of that.
func TestPoolListensToASlowServer(t *testing.T) {
	slow.Test(t, "a subscription waits half a second for a server")
	var network *faultnet.Proxy
	p := startPool(t, 3, through(t, &network))
	other := dial(t, p.addr)
	other.want("$-1\r\n", "GET "+p.keyOn(0)) // connected
	network.Delay(400 * time.Millisecond)
	w := p.listen(t)
	w.expectClosed()
	w = p.listen(t)
	p.hears(t, 0, w)
	w.want(array(bulk("pong"), bulk("")), "PING")
}
