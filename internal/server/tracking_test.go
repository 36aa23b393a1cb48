package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestTracking: CLIENT TRACKING is that of Redis, with the ids of the clients of this server.
//
// Promise: CLIENT TRACKING works as in Redis, with REDIRECT too.
func TestTracking(t *testing.T) {
	doorsOf(t, nil, func(t *testing.T, addr string) {
		asRedis(t, addr, `
			a CLIENT TRACKING
			a CLIENT TRACKING maybe
			a CLIENT GETREDIR
			a CLIENT TRACKINGINFO
			a CLIENT CACHING YES
			a CLIENT TRACKING OFF
			a CLIENT TRACKING ON REDIRECT
			a CLIENT TRACKING ON REDIRECT x
			a CLIENT TRACKING ON REDIRECT 0
			a CLIENT TRACKING ON REDIRECT 999999
			a CLIENT TRACKING ON REDIRECT -1
			a CLIENT TRACKING ON REDIRECT $b REDIRECT $b
			a CLIENT TRACKING ON NOSUCH
			a CLIENT TRACKING ON PREFIX p
			a CLIENT TRACKING ON BCAST OPTIN
			a CLIENT TRACKING ON OPTIN OPTOUT
			a CLIENT TRACKING ON BCAST PREFIX p PREFIX pq
			a CLIENT GETREDIR
			a CLIENT TRACKING ON NOLOOP
			a CLIENT TRACKINGINFO
			a CLIENT GETREDIR
			z CLIENT LIST ID $a
			a CLIENT TRACKING ON BCAST
			a CLIENT CACHING NO
			a CLIENT TRACKING OFF
			a CLIENT TRACKING ON OPTIN
			a CLIENT CACHING NO
			a CLIENT CACHING maybe
			a CLIENT CACHING YES
			a CLIENT TRACKING ON OPTOUT
			a CLIENT TRACKING OFF
			a CLIENT TRACKING ON BCAST PREFIX p:
			a CLIENT TRACKING ON BCAST PREFIX p:q
			a CLIENT TRACKING ON BCAST PREFIX r:
			z CLIENT LIST ID $a
			a CLIENT TRACKING OFF

			b SUBSCRIBE __redis__:invalidate
			a CLIENT TRACKING ON REDIRECT $b
			a CLIENT GETREDIR
			a CLIENT TRACKINGINFO
			a MULTI
			a CLIENT GETREDIR
			a EXEC
			z CLIENT LIST ID $a $b
			a GET k
			z SET k 1
			b<
			z SET k 2
			a GET k
			z DEL k
			b<
			a GET k
			a SET k 3
			b<
			z FLUSHALL
			b<
			a CLIENT TRACKING ON REDIRECT $b NOLOOP
			a GET k
			a SET k 4
			a GET k
			z SET k 5
			b<
			a CLIENT TRACKING OFF
			a CLIENT TRACKING ON REDIRECT $b OPTIN
			a GET k
			a CLIENT CACHING YES
			a GET other
			z MSET k 6 other 1
			b<
			a CLIENT TRACKING OFF
			a CLIENT TRACKING ON REDIRECT $b BCAST PREFIX p: PREFIX q:
			z CLIENT LIST ID $a
			a CLIENT TRACKINGINFO
			z MSET r:1 1 q:1 1
			b<
			z SET q:2 1
			b<
			b PING
			a CLIENT TRACKING OFF

			c SUBSCRIBE anything
			a CLIENT TRACKING ON REDIRECT $c
			a GET k
			z SET k 7
			c<
			a GET k
			c UNSUBSCRIBE anything
			c CLIENT INFO
			c RESET
			c PING
			a PING
			a RESET
			a CLIENT GETREDIR
			z CLIENT LIST ID $a $c
		`)
	})
}

// TestTrackingOfOwnKeys: without REDIRECT a client of RESP3 is told itself, and one of RESP2 is not.
func TestTrackingOfOwnKeys(t *testing.T) {
	doorsOf(t, nil, func(t *testing.T, addr string) {
		for _, c := range []struct {
			hello string
			s     script
		}{
			{"2", `
				a CLIENT TRACKING ON
				a GET k
				z SET k 1
				a PING
				z CLIENT LIST ID $a
				a HELLO 3
			`},
			{"3", `
				a CLIENT TRACKING ON
				a GET k
				z SET k 1
				a<
				a GET k
				a CLIENT TRACKING ON REDIRECT $a
				a GET k
				z SET k 2
				a<
				a CLIENT TRACKING OFF
				a CLIENT TRACKING ON REDIRECT $b
				a GET k
				z SET k 3
				b<
				b PING
				a GET k
				b !
				z SET k 4
				a<
				z CLIENT LIST ID $a
				a CLIENT TRACKINGINFO
				a CLIENT GETREDIR
				a GET k
				z SET k 5
				a<
				a PING
			`},
		} {
			t.Run("RESP"+c.hello, func(t *testing.T) {
				direct := redistest.Start(t).Addr()
				burn(t, direct)
				burn(t, addr)
				_ = dial(t, addr).do("FLUSHALL")
				want, got := newCast(t, direct).play(c.s, c.hello), newCast(t, addr).play(c.s, c.hello)
				compare(t, want, got)
			})
		}
	})
}

// TestTrackersShareInboxes: a client for which others track has one connection to the back end for
// that, while there are any. It hears what was changed before the last of them ended.
func TestTrackersShareInboxes(t *testing.T) {
	backend := redistest.Start(t)
	srv, addr := start(t, backend.URL())
	ids := map[*wire]string{}
	client := func() *wire {
		w := dial(t, addr)
		w.want("+OK\r\n", "CLIENT SETNAME c") // so each has its own place in the lists
		_ = w.do("HELLO", "3")
		ids[w] = fmt.Sprint(w.value("CLIENT", "ID"))
		return w
	}
	// own is how many trackers have a connection of their own; has is how many connections there are
	// besides, here and there.
	has := func(when string, own, inboxes int64) {
		t.Helper()
		eventually(t, fmt.Sprintf("%s: %d inboxes", when, inboxes), func() bool {
			behind := int64(strings.Count(backend.CLI("CLIENT", "LIST"), "cmd=client|id"))
			return int64(srv.Stats().Dedicated) == own+inboxes && behind == inboxes
		})
	}
	a, b, writer := client(), client(), client()
	track := func(w, target *wire) {
		t.Helper()
		w.want("+OK\r\n", "CLIENT TRACKING ON REDIRECT "+ids[target])
	}
	hears := func(w, target *wire, key string) {
		t.Helper()
		_ = w.do("GET", key)
		writer.want("+OK\r\n", "SET "+key+" v")
		target.expect(">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\n" + key + "\r\n")
	}
	var targets [5]*wire
	for i := range targets {
		targets[i] = client()
		track(a, targets[i])
		has("redirected to another", 1, 1)
	}
	last := targets[len(targets)-1]
	hears(a, last, "k")
	track(b, last)
	has("two track for one", 2, 1)
	a.want("+OK\r\n", "CLIENT TRACKING OFF")
	has("one of two is off", 2, 1)
	hears(b, last, "l")
	b.want("+RESET\r\n", "RESET")
	has("the other is reset", 1, 0)

	track(a, last)
	hears(a, last, "m")
	if got := a.do("CLIENT", "TRACKING", "ON", "REDIRECT", ids[targets[0]], "NOSUCH"); got[0] != '-' {
		t.Errorf("a wrong option: %q", got)
	}
	has("refused", 1, 1)
	hears(a, last, "n")
	// The invalidations of earlier changes arrive although the connection ends behind them.
	_ = a.do("GET", "o")
	writer.want("+OK\r\n", "SET o v")
	a.want("+OK\r\n", "CLIENT TRACKING OFF")
	last.expect(">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\no\r\n")
	has("off", 1, 0)
	track(a, last)
	_ = a.conn.Close()
	has("ended", 0, 0)
	last.want("+PONG\r\n", "PING") // it was not closed
}
