package server_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// A script is what several clients say, one command a line behind the client's name:
//
//	a GET k       the reply counts
//	a> BLPOP k 0  the reply is not waited for
//	a<            the next reply or message
//	a ~ b         waits until CLIENT LIST shows the flag b of a
//	a !           closes the connection
//
// $a is the id of client a.
type script string

// A cast is the clients of a script that talk to one server.
type cast struct {
	t       *testing.T
	addr    string
	clients map[string]*wire
	ids     map[string]string // by name
	watcher *wire
}

func newCast(t *testing.T, addr string) *cast {
	t.Helper()
	return &cast{t: t, addr: addr, clients: map[string]*wire{}, ids: map[string]string{}, watcher: dial(t, addr)}
}

func (c *cast) client(name string, hello string) *wire {
	w := c.clients[name]
	if w == nil {
		w = dial(c.t, c.addr)
		_ = w.do("HELLO", hello)
		c.clients[name], c.ids[name] = w, fmt.Sprint(w.value("CLIENT", "ID"))
	}
	return w
}

func (c *cast) flags(name string) string {
	line := fmt.Sprint(c.watcher.value("CLIENT", "LIST", "ID", c.ids[name]))
	_, rest, _ := strings.Cut(line, " flags=")
	flags, _, _ := strings.Cut(rest, " ")
	return flags
}

// connected is how many connections the server has that keeps the data.
func (c *cast) connected() (n int) {
	for line := range strings.Lines(fmt.Sprint(c.watcher.value("INFO", "clients"))) {
		if _, err := fmt.Sscanf(line, "connected_clients:%d", &n); err == nil {
			return n
		}
	}
	c.t.Fatal("INFO has no connected_clients")
	return 0
}

var own = regexp.MustCompile(`\$[a-z]\b`)

// play returns what a script is answered. hello is the protocol of the clients.
func (c *cast) play(s script, hello string) (answers []string) {
	c.t.Helper()
	defer func() {
		if c.t.Failed() {
			c.t.Logf("%s has answered: %q", c.addr, answers)
		}
	}()
	for line := range strings.Lines(string(s)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, text, _ := strings.Cut(line, " ")
		who := strings.TrimRight(name, "<>")
		w := c.client(who, hello)
		text = own.ReplaceAllStringFunc(text, func(of string) string {
			c.client(of[1:], hello)
			return c.ids[of[1:]]
		})
		switch {
		case strings.HasSuffix(name, "<"):
			answers = append(answers, line+" "+c.plain(w.read()))
		case strings.HasSuffix(name, ">"):
			w.send(strings.Fields(text)...)
		case text == "!":
			before := c.connected()
			_ = w.conn.Close()
			eventually(c.t, who+" is gone", func() bool { return c.flags(who) == "" && c.connected() < before })
		case strings.HasPrefix(text, "~ "):
			eventually(c.t, who+" has the flags "+text, func() bool { return strings.Contains(c.flags(who), text[2:]) })
		default:
			answers = append(answers, line+" "+c.plain(w.do(strings.Fields(text)...)))
		}
	}
	return answers
}

var (
	varies    = regexp.MustCompile(`\b(id|fd|age|idle|qbuf|qbuf-free|argv-mem|multi-mem|rbs|rbp|obl|oll|omem|tot-mem)=-?\d+`)
	addresses = regexp.MustCompile(`\b(addr|laddr)=[0-9.]+:\d+`)
	since7    = regexp.MustCompile(` lib-name=\S* lib-ver=\S*`)
	length    = regexp.MustCompile(`^[$=]\d+\r\n`)
	integers  = regexp.MustCompile(`:(\d+)\r\n`)
	redir     = regexp.MustCompile(`redir=(\d+)`)
)

// plain is a reply without what no two servers have in common.
func (c *cast) plain(reply string) string {
	named := func(id, otherwise string) string {
		for name, is := range c.ids {
			if is == id {
				return "$" + name
			}
		}
		return otherwise
	}
	if strings.Contains(reply, " flags=") {
		reply = length.ReplaceAllString(since7.ReplaceAllString(reply, ""), "")
		reply = varies.ReplaceAllString(addresses.ReplaceAllString(reply, "$1="), "$1=")
		return redir.ReplaceAllStringFunc(reply, func(of string) string { return "redir=" + named(of[6:], of[6:]) })
	}
	// Numbers of two digits are ids, where a test uses such.
	return integers.ReplaceAllStringFunc(reply, func(of string) string {
		return ":" + named(strings.TrimSpace(of[1:]), strings.TrimSpace(of[1:])) + "\r\n"
	})
}

// burn uses up ids, so that no number in a reply is taken for one.
func burn(t *testing.T, addr string) {
	t.Helper()
	for range 12 {
		w := dial(t, addr)
		w.want("+PONG\r\n", "PING")
		_ = w.conn.Close()
	}
}

// asRedis plays a script to a redis-server and to Redoubt, in both protocols, and compares.
func asRedis(t *testing.T, addr string, s script) {
	t.Helper()
	direct := redistest.Start(t).Addr()
	burn(t, direct)
	burn(t, addr)
	for _, hello := range []string{"2", "3"} {
		t.Run("RESP"+hello, func(t *testing.T) {
			for _, a := range []string{direct, addr} {
				_ = dial(t, a).do("FLUSHALL") // pools keep what there is
			}
			want := newCast(t, direct).play(s, hello)
			got := newCast(t, addr).play(s, hello)
			compare(t, want, got)
		})
	}
}

func compare(t *testing.T, want, got []string) {
	t.Helper()
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			t.Errorf("Redis:   %q\nRedoubt: %q", at(want, i), at(got, i))
		}
	}
}

func at(all []string, i int) string {
	if i < len(all) {
		return all[i]
	}
	return ""
}

// doorsOf runs a test behind all that serve a client: in front of one server, of an engine, of a
// pool and of a cluster.
func doorsOf(t *testing.T, pools []string, run func(t *testing.T, addr string)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) {
		_, addr := start(t, redistest.Start(t).URL())
		run(t, addr)
	})
	t.Run("engine", func(t *testing.T) {
		_, addr := start(t, engineURL(t))
		run(t, addr)
	})
	if slices.Contains(pools, "pool") {
		t.Run("pool", func(t *testing.T) {
			run(t, startPool(t, 3, func(o *proxy.PoolOptions) { o.Tag = "{}" }).addr)
		})
	}
	if slices.Contains(pools, "cluster") {
		t.Run("cluster", func(t *testing.T) { run(t, startCluster(t, 0).addr) })
	}
}

var everyPool = []string{"pool", "cluster"}

// TestUnblock: CLIENT UNBLOCK ends what others wait for, as with Redis.
func TestUnblock(t *testing.T) {
	doorsOf(t, everyPool, func(t *testing.T, addr string) {
		asRedis(t, addr, `
			z CLIENT UNBLOCK
			z CLIENT UNBLOCK x
			z CLIENT UNBLOCK x FOO
			z CLIENT UNBLOCK 1 FOO
			z CLIENT UNBLOCK 1 ERROR more
			z CLIENT UNBLOCK 999999
			z CLIENT UNBLOCK 0
			z CLIENT UNBLOCK -1 ERROR
			z CLIENT UNBLOCK $z
			a SET k v
			z CLIENT UNBLOCK $a
			a> BLPOP none1 0
			a ~ b
			z CLIENT INFO
			z CLIENT LIST ID $a
			z CLIENT UNBLOCK $a
			a<
			z CLIENT UNBLOCK $a
			a GET k
			a> BZPOPMIN none2 0
			a ~ b
			z CLIENT UNBLOCK $a ERROR
			a<
			a> BLMOVE {n}3 {n}4 LEFT RIGHT 0
			a ~ b
			z CLIENT UNBLOCK $a timeout
			a<
			b> BLMPOP 0 1 none5 LEFT
			a> BRPOP none6 100
			a ~ b
			b ~ b
			z CLIENT UNBLOCK $b error
			b<
			z CLIENT UNBLOCK $a
			a<
			z CLIENT LIST ID $a
			z LPUSH none6 x
			a BRPOP none6 0
			a PING
		`)
	})
}

// TestUnblockWhatRedoubtWaitsFor: LOCK.ACQUIRE, LIMIT.WAIT and QUEUE.TAKE end as if their time had run out, or
// with Redis' error, and others don't get what they waited for twice.
func TestUnblockWhatRedoubtWaitsFor(t *testing.T) {
	doorsOf(t, everyPool, func(t *testing.T, addr string) {
		holder, w, z := dial(t, addr), dial(t, addr), dial(t, addr)
		id := fmt.Sprint(w.value("CLIENT", "ID"))
		watched := &cast{t: t, watcher: z, ids: map[string]string{"w": id}}
		const unblocked = "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"
		if got := holder.do("LOCK.ACQUIRE", "l", "60000", "ID", "holder"); !strings.HasPrefix(got, "*3") {
			t.Fatalf("LOCK.ACQUIRE: %q", got)
		}
		if got := holder.do("LIMIT.TAKE", "t", "1", "1", "3600000", "1"); !strings.HasPrefix(got, "*5\r\n:1\r\n") {
			t.Fatalf("LIMIT.TAKE: %q", got)
		}
		for _, c := range []struct{ command, how, want string }{
			{"LOCK.ACQUIRE l 1000 BLOCK 0", "TIMEOUT", "*-1\r\n"},
			{"LOCK.ACQUIRE l 1000 BLOCK 0", "ERROR", unblocked},
			{"LOCK.ACQUIRE l 1000 BLOCK 0 FAIR", "ERROR", unblocked},
			{"LIMIT.WAIT t 1 1 3600000 1", "TIMEOUT", unblocked}, // it has no reply for "not in time"
			{"LIMIT.WAIT t 1 1 3600000 1", "ERROR", unblocked},
			{"QUEUE.TAKE q 1 1000 BLOCK 0", "TIMEOUT", "*0\r\n"},
			{"QUEUE.TAKE q 1 1000 BLOCK 0", "ERROR", unblocked},
		} {
			w.send(strings.Fields(c.command)...)
			eventually(t, c.command+" waits", func() bool { return strings.Contains(watched.flags("w"), "b") })
			z.want(":1\r\n", "CLIENT UNBLOCK "+id+" "+c.how)
			w.expect(c.want)
			z.want(":0\r\n", "CLIENT UNBLOCK "+id)
			w.want("+PONG\r\n", "PING")
		}
		holder.want(":1\r\n", "LOCK.RELEASE l holder")
		if got := z.do("LOCK.ACQUIRE", "l", "60000"); !strings.HasPrefix(got, "*3") {
			t.Errorf("LOCK.ACQUIRE behind the waiters: %q", got)
		}
	})
}

// TestClientListIsRedis: CLIENT INFO and LIST have the fields and flags of Redis 7.0, and the filters
// of LIST and KILL take and refuse the same.
func TestClientListIsRedis(t *testing.T) {
	doorsOf(t, everyPool, func(t *testing.T, addr string) {
		asRedis(t, addr, `
			a CLIENT INFO
			a CLIENT LIST ID $a
			a CLIENT LIST ID $a $a 999999
			a CLIENT LIST ID 0
			a CLIENT LIST ID -1
			a CLIENT LIST ID x
			a CLIENT LIST ID
			a CLIENT LIST TYPE
			a CLIENT LIST TYPE nosuch
			a CLIENT LIST NOSUCH
			a CLIENT LIST TYPE master
			a CLIENT LIST TYPE replica
			s SUBSCRIBE x
			s PSUBSCRIBE p*
			a CLIENT LIST TYPE pubsub
			s UNSUBSCRIBE
			a CLIENT LIST ID $s
			s PUNSUBSCRIBE
			a CLIENT LIST ID $s
			a CLIENT LIST TYPE pubsub
			s SSUBSCRIBE shard
			a CLIENT LIST ID $s
			m MULTI
			a CLIENT LIST ID $m
			m SET k v
			m GET k
			a CLIENT LIST ID $m
			m EXEC
			a CLIENT LIST ID $m
			m MULTI
			m GET k
			m DISCARD
			a CLIENT LIST ID $m
			n CLIENT NO-EVICT x
			n CLIENT NO-EVICT on
			n CLIENT SETNAME nina
			n CLIENT INFO
			a CLIENT LIST ID $n
			n GET k
			a CLIENT LIST ID $n
			n NOSUCH k
			a CLIENT LIST ID $n
			n CLIENT NO-EVICT OFF
			n client info
			n CLIENT NOSUCH
			a CLIENT LIST ID $n
			a CLIENT KILL
			a CLIENT KILL USER nosuch
			a CLIENT KILL ID x
			a CLIENT KILL ID 0
			a CLIENT KILL ID -1
			a CLIENT KILL TYPE nosuch
			a CLIENT KILL SKIPME maybe
			a CLIENT KILL ID
			a CLIENT KILL ID 1 NOSUCH
			a CLIENT KILL ID 1 NOSUCH 1
			a CLIENT KILL 1.2.3.4:5
			a CLIENT KILL ADDR 1.2.3.4:5
			a CLIENT KILL LADDR 1.2.3.4:5
			a CLIENT KILL ID $a
			a CLIENT KILL ID $n TYPE pubsub
			a CLIENT KILL ID $n TYPE normal USER default SKIPME yes
			a CLIENT LIST ID $n
			a CLIENT KILL TYPE pubsub
			a CLIENT LIST TYPE pubsub
			a CLIENT REPLY nosuch
		`)
	})
}

// TestClientListOfState: flags of what is not there in front of a pool.
func TestClientListOfState(t *testing.T) {
	doorsOf(t, nil, func(t *testing.T, addr string) {
		asRedis(t, addr, `
			w WATCH k
			a CLIENT LIST ID $w
			a SET k 1
			a CLIENT LIST ID $w
			w CLIENT INFO
			w UNWATCH
			a CLIENT LIST ID $w
			a SET k 2
			a CLIENT LIST ID $w
			n SELECT 3
			n CLIENT INFO
			n SELECT 0
			n MULTI
			n CLIENT GETREDIR
			n EXEC
			n CLIENT INFO
			n RESET
			o MONITOR
			a CLIENT LIST ID $o
			a CLIENT LIST TYPE normal ID
			n CLIENT KILL ID $o TYPE normal
		`)
	})
}

// TestConnectedClients: on the engine INFO counts each client once, whatever connections it needs inside, and nothing
// that is the server's own.
func TestConnectedClients(t *testing.T) {
	_, addr := start(t, engineURL(t))
	w, inTransaction, subscriber := dial(t, addr), dial(t, addr), dial(t, addr)
	want := func(n int) {
		t.Helper()
		eventually(t, fmt.Sprint("there are ", n, " clients"), func() bool {
			return strings.Contains(w.do("INFO", "clients"), fmt.Sprintf("connected_clients:%d\r\n", n))
		})
	}
	inTransaction.want("+OK\r\n", "MULTI")
	subscriber.do("SUBSCRIBE", "news")
	want(3)
	_ = subscriber.conn.Close()
	want(2)
	inTransaction.want("+OK\r\n", "DISCARD")
	_ = inTransaction.conn.Close()
	want(1)
}
