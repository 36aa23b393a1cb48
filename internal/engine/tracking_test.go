package engine

import (
	"fmt"
	"testing"
	"time"
)

func invalidation(keys ...string) string {
	s := ">2\r\n$10\r\ninvalidate\r\n*" + string(rune('0'+len(keys))) + "\r\n"
	for _, k := range keys {
		s += "$" + string(rune('0'+len(k))) + "\r\n" + k + "\r\n"
	}
	return s
}

// tracked opens a connection in RESP3 with CLIENT TRACKING ON and options.
func tracked(t *testing.T, e *Engine, options string) *peer {
	t.Helper()
	p := connect(t, e)
	p.send("HELLO 3", "CLIENT TRACKING ON "+options)
	for line := ""; line != "*0\r\n"; {
		line, _ = p.r.ReadString('\n')
	}
	p.want("+OK\r\n")
	return p
}

func TestTrackingTellsOnceOfWhatWasRead(t *testing.T) {
	e := open(t, Options{})
	p, q := tracked(t, e, ""), connect(t, e)
	q.send("MSET a 1 b 2 c 3")
	q.want("+OK\r\n")
	p.send("MGET a b")
	p.want("*2\r\n$1\r\n1\r\n$1\r\n2\r\n")
	q.send("SET c 4", "SET a 5", "SET a 6", "DEL b")
	q.want("+OK\r\n+OK\r\n+OK\r\n:1\r\n")
	p.want(invalidation("a") + invalidation("b"))
	p.quiet()
	// Invalidations of a transaction, of the client's own write, and of FLUSHALL.
	p.send("MULTI", "GET a", "EXEC", "SET a 1")
	p.want("+OK\r\n+QUEUED\r\n*1\r\n$1\r\n6\r\n+OK\r\n" + invalidation("a"))
	p.send("GET a")
	p.want("$1\r\n1\r\n")
	q.send("FLUSHALL")
	q.want("+OK\r\n")
	p.want(">2\r\n$10\r\ninvalidate\r\n_\r\n")
	p.send("CLIENT TRACKING OFF", "GET a")
	p.want("+OK\r\n_\r\n")
	q.send("SET a 1")
	q.want("+OK\r\n")
	p.quiet()
	if n := e.tracking.keys.Load(); n != 0 {
		t.Errorf("%d keys are remembered for nobody", n)
	}
}

func TestTrackingTellsOfExpiry(t *testing.T) {
	clock := newFakeClock()
	e := open(t, Options{Clock: clock})
	p, b := tracked(t, e, ""), tracked(t, e, "BCAST")
	q := connect(t, e)
	q.send("SET k v PX 10")
	q.want("+OK\r\n")
	b.want(invalidation("k"))
	p.send("GET k")
	p.want("$1\r\nv\r\n")
	clock.advance(20 * time.Millisecond)
	p.want(invalidation("k"))
	b.want(invalidation("k"))
}

func TestTrackingModes(t *testing.T) {
	e := open(t, Options{})
	in, out, loop := tracked(t, e, "OPTIN"), tracked(t, e, "OPTOUT"), tracked(t, e, "NOLOOP")
	w := connect(t, e)
	in.send("GET a", "CLIENT CACHING YES", "GET b", "GET c")
	in.want("_\r\n+OK\r\n_\r\n_\r\n")
	out.send("GET a", "CLIENT CACHING NO", "GET b", "GET c")
	out.want("_\r\n+OK\r\n_\r\n_\r\n")
	loop.send("GET a", "SET a 1", "GET a")
	loop.want("_\r\n+OK\r\n$1\r\n1\r\n")
	out.want(invalidation("a"))
	w.send("SET a 2", "SET b 2", "SET c 2")
	w.want("+OK\r\n+OK\r\n+OK\r\n")
	in.want(invalidation("b"))
	out.want(invalidation("c"))
	loop.want(invalidation("a"))
	for _, p := range []*peer{in, out, loop} {
		p.quiet()
	}
}

func TestTrackingBroadcast(t *testing.T) {
	e := open(t, Options{})
	all, some := tracked(t, e, "BCAST"), tracked(t, e, "BCAST PREFIX a PREFIX b NOLOOP")
	some.send("MULTI", "SET a1 x", "EXEC")
	some.want("+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n")
	all.want(invalidation("a1"))
	w := connect(t, e)
	w.send("MULTI", "INCR a2", "INCR c1", "INCR b1", "INCR a2", "EXEC")
	w.want("+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*4\r\n:1\r\n:1\r\n:1\r\n:2\r\n")
	all.want(invalidation("a2", "c1", "b1"))
	some.want(invalidation("a2") + invalidation("b1"))
	some.send("CLIENT TRACKING ON BCAST PREFIX abc", "CLIENT TRACKING ON")
	some.want("-ERR Prefix 'abc' overlaps with an existing prefix 'a'. Prefixes for a single client must not overlap.\r\n" +
		"-ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.\r\n")
}

func TestTrackingRedirects(t *testing.T) {
	e := open(t, Options{})
	target := connect(t, e)
	target.send("CLIENT ID", "SUBSCRIBE __redis__:invalidate")
	target.want(":1\r\n*3\r\n$9\r\nsubscribe\r\n$20\r\n__redis__:invalidate\r\n:1\r\n")
	p := tracked(t, e, "REDIRECT 1")
	w := connect(t, e)
	p.send("GET k", "CLIENT GETREDIR", "CLIENT TRACKING ON REDIRECT 99")
	p.want("_\r\n:1\r\n-ERR The client ID you want redirect to does not exist\r\n")
	w.send("SET k 1")
	w.want("+OK\r\n")
	target.want("*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n$1\r\nk\r\n")
	target.Close()
	p.send("GET k")
	p.want("$1\r\n1\r\n")
	w.send("SET k 2")
	w.want("+OK\r\n")
	p.want(">2\r\n$21\r\ntracking-redir-broken\r\n:1\r\n")
	p.send("CLIENT TRACKINGINFO")
	p.want("%3\r\n$5\r\nflags\r\n~2\r\n$2\r\non\r\n$15\r\nbroken_redirect\r\n$8\r\nredirect\r\n:1\r\n$8\r\nprefixes\r\n*0\r\n")
}

// Invalidations of a blocked command's own changes follow its reply.
func TestTrackingTellsBehindTheReply(t *testing.T) {
	e := open(t, Options{})
	p, w := tracked(t, e, ""), connect(t, e)
	p.send("LRANGE to 0 -1", "BLMOVE from to LEFT LEFT 0")
	p.want("*0\r\n")
	w.send("RPUSH from a")
	w.want(":1\r\n")
	p.want("$1\r\na\r\n" + invalidation("to"))
}

func TestTrackingForgetsKeys(t *testing.T) {
	e := open(t, Options{})
	p := tracked(t, e, "")
	p.send("GET a", "GET b", "CONFIG SET tracking-table-max-keys 1")
	p.want("_\r\n_\r\n+OK\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\n")
	first, _ := p.r.ReadString('\n')
	p.send("GET c")
	p.want("_\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\n")
	second, _ := p.r.ReadString('\n')
	if n := e.tracking.keys.Load(); n != 1 || first == second {
		t.Errorf("%q and %q were forgotten, %d keys are left", first, second, n)
	}
}

// A client with NOLOOP also learns of keys that the table drops for lack of room: the client didn't change
// them.
func TestTrackingForgetsKeysOfNoLoop(t *testing.T) {
	e := open(t, Options{})
	p := tracked(t, e, " NOLOOP")
	p.send("GET a", "SET a 1", "GET a", "CONFIG SET tracking-table-max-keys 1", "GET b")
	p.want("_\r\n+OK\r\n$1\r\n1\r\n+OK\r\n_\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\n") // one of them
}

func TestTrackingInfo(t *testing.T) {
	e := open(t, Options{})
	p, q := tracked(t, e, ""), tracked(t, e, "")
	p.send("GET a", "GET b")
	p.want("_\r\n_\r\n")
	q.send("GET c", "CLIENT TRACKING OFF", "CLIENT TRACKING ON", "GET b")
	q.want("_\r\n+OK\r\n+OK\r\n_\r\n")
	p.send("CLIENT TRACKING OFF")
	p.want("+OK\r\n")
	q.send("CLIENT TRACKING OFF", "FLUSHALL", "CLIENT TRACKING ON", "GET a", "GET b", "PING")
	q.want("+OK\r\n+OK\r\n+OK\r\n_\r\n_\r\n+PONG\r\n")
	tracked(t, e, " BCAST PREFIX x: PREFIX y:")
	tracked(t, e, " BCAST PREFIX y: PREFIX z:")
	s := e.Session()
	want := "[tracking_clients:3 tracking_total_keys:2 tracking_total_items:2 tracking_total_prefixes:3]"
	if got := fmt.Sprint(info(s, "tracking_")); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
