package server_test

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/servertest"
)

// usersOf has a rule of each kind.
var usersOf = map[string]string{
	"all":      "on >pw ~* &* +@all",
	"orders":   "on >pw ~orders:* %R~stock:* &orders:* +@all -@dangerous",
	"reader":   "on >pw allkeys allchannels +@read +@connection -client|list +@transaction",
	"one":      "on >pw ~a +get +client|id",
	"writer":   "on >pw %W~* resetchannels allcommands",
	"nothing":  "on >pw",
	"scripts":  "on >pw ~a ~b +@scripting +ping",
	"listener": "on >pw &news:* &a?c +@pubsub",
}

// conversationOfUsers is what each user sends to the pool, and to a server with the same users.
var conversationOfUsers = strings.Split(strings.TrimSpace(`
PING
ECHO x
GET a
get orders:1
GET stock:1
SET stock:1 x
SET orders:1 x
SET orders:1 x GET
SET a 1
BITFIELD stock:1 GET u8 0
BITFIELD stock:1 SET u8 0 1
GET
NOSUCH a
CLIENT ID
CLIENT LIST
client kill id 1000000
CLIENT NOSUCH
CLIENT
CONFIG GET x
MGET a b
MGET orders:1 orders:2 a
MGET orders:1 orders:2
MSET orders:1 x a x
DEL orders:1 a
EXISTS a b c
RENAME {orders:1} {orders:1}a
COPY {stock:1} {stock:1}a
SORT orders:l BY w_*
SORT orders:l BY nosort
SORT orders:l GET #
SORT orders:l
SORT a
SORT_RO stock:1 STORE a
KEYS nomatch
SCAN 0
DBSIZE
FLUSHALL
SLOWLOG LEN
INFO server
EVAL "return 1" 1 a
EVAL "return 1" 2 {a} {a}b
EVAL "return 1" 1 orders:1
EVAL_RO "return 1" 1 stock:1
EVALSHA ffffffffffffffffffffffffffffffffffffffff 1 c
SCRIPT LOAD "return 1"
PUBLISH orders:1 x
PUBLISH news:1 x
PUBLISH abc x
SPUBLISH other x
PUBSUB CHANNELS nomatch
PUBSUB NUMPAT
LPUSH orders:l x
BLPOP orders:l 0.1
BLPOP a 0.01
XREAD COUNT 1 STREAMS stock:1 0
XREAD BLOCK 10 STREAMS b 0
XGROUP CREATE a g $
OBJECT ENCODING orders:1
OBJECT ENCODING b
MEMORY USAGE a
WATCH {orders:1}a
WATCH orders:1
MULTI
GET {orders:1}a
GET orders:1
EXEC
MULTI
GET orders:1
SET orders:1 y
EXEC
MULTI
EXEC
UNWATCH
DISCARD
ACL WHOAMI
ACL CAT
AUTH one pw
AUTH all nonsense
SELECT 0
TIME
WAIT 0 0
RESET
GET a
`), "\n")

// usersPool serves a pool of two servers with users.
func usersPool(t *testing.T, users map[string]string) *poolOf {
	t.Helper()
	p, opts := poolServers(t, 2, func(o *proxy.PoolOptions) { o.Tag = "{}" })
	p.serve(t, opts, func(o *server.Options) { o.Users = users })
	return p
}

// login opens a connection of a user with the password pw.
func login(t *testing.T, addr, user string) *wire {
	t.Helper()
	w := dial(t, addr)
	w.want("+OK\r\n", "AUTH "+user+" pw")
	return w
}

// denied reports whether a reply says that rights are missing.
func denied(reply string) bool {
	return strings.HasPrefix(reply, "-NOPERM") || strings.Contains(reply, "insufficient ACL") || strings.HasPrefix(reply, "-EXECABORT")
}

// TestUsersAreRedis: what is allowed, and the error for what is not, is that of a real server
// with the same users.
func TestUsersAreRedis(t *testing.T) {
	p := usersPool(t, usersOf)
	t.Run("pool", func(t *testing.T) { talkAsUsers(t, p.addr) })
	users := func(o *server.Options) { o.Users = usersOf }
	t.Run("redis", func(t *testing.T) {
		_, addr := start(t, redistest.Start(t).URL(), users)
		talkAsUsers(t, addr)
	})
	t.Run("engine", func(t *testing.T) {
		_, addr := start(t, engineURL(t), users)
		talkAsUsers(t, addr)
	})
}

// talkAsUsers has each user hold the conversation, at addr and on a real server.
func talkAsUsers(t *testing.T, addr string) {
	t.Helper()
	real := redistest.Start(t)
	admin := dial(t, real.Addr())
	for name, rules := range usersOf {
		admin.want("+OK\r\n", "ACL SETUSER "+name+" "+rules)
	}
	for _, name := range slices.Sorted(maps.Keys(usersOf)) {
		refused, allowed := 0, 0
		here, there := login(t, addr, name), login(t, real.Addr(), name)
		for _, line := range conversationOfUsers {
			args := words(t, line)
			got, want := here.do(args...), there.do(args...)
			if denied(got) != denied(want) || denied(want) && got != want {
				t.Errorf("%s: %s: %q, want %q", name, line, got, want)
			}
			if denied(want) {
				refused++
			} else {
				allowed++
			}
		}
		if allowed < 5 || refused < 10 && name != "all" {
			t.Errorf("%s: %d allowed, %d refused", name, allowed, refused)
		}
	}
}

// TestUsersListenAsInRedis: subscribing needs each channel, and a pattern as it is written; so
// it is in RESP2, where it takes another command then.
func TestUsersListenAsInRedis(t *testing.T) {
	p := usersPool(t, usersOf)
	real := redistest.Start(t)
	dial(t, real.Addr()).want("+OK\r\n", "ACL SETUSER listener "+usersOf["listener"])
	here, there := login(t, p.addr, "listener"), login(t, real.Addr(), "listener")
	for _, line := range []string{
		"SUBSCRIBE b", "SUBSCRIBE news:1 b", "PSUBSCRIBE news:1", "PSUBSCRIBE *", "PSUBSCRIBE news:*", "SUBSCRIBE abc", "SUBSCRIBE b",
		"SSUBSCRIBE b", "SSUBSCRIBE news:1", "UNSUBSCRIBE b", "SUNSUBSCRIBE x", "GET a",
	} {
		args := words(t, line)
		got, want := here.do(args...), there.do(args...)
		if denied(got) != denied(want) || denied(want) && got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestUsersOfOwnCommands: Redoubt's own commands have names as keys, and categories of their own;
// what FENCE.DO runs needs the right to it too.
func TestUsersOfOwnCommands(t *testing.T) {
	p := usersPool(t, map[string]string{
		"locker":   "on >pw ~orders:* +@lock +multi +exec",
		"reader":   "on >pw %R~* +@all",
		"guardian": "on >pw ~ledger +fence.do +set +get",
	})
	const noKey, noCommand = "-NOPERM this user has no permissions to access one of the keys", "-NOPERM this user has no permissions to run the '"
	for _, c := range []struct{ user, command, want string }{
		{"locker", "LOCK.ACQUIRE orders:1 1000", "*3"},
		{"locker", "LOCK.ACQUIRE other 1000", noKey},
		{"locker", "LOCK.ACQUIRE other 1000 BLOCK 10", noKey},
		{"locker", "SEM.ACQUIRE orders:2 1 1000", "*"},
		{"locker", "QUEUE.PUT orders:1 x", noCommand + "queue.put'"},
		{"locker", "LOCK.ACQUIRE", "-ERR wrong number"},
		{"reader", "LOCK.INFO orders:1", "*"},
		{"reader", "LOCK.LS", "*"},
		{"reader", "LOCK.ACQUIRE orders:3 1000", noKey},
		{"reader", "BF.ADD b x", noKey},
		{"reader", "BF.EXISTS b x", ":0"},
		{"guardian", "FENCE.DO ledger 1", "+OK"},
		{"guardian", "FENCE.DO ledger 1 SET ledger 2", "$2"},
		{"guardian", "FENCE.DO ledger 1 SET {ledger}2 2", noKey},
		{"guardian", "FENCE.DO other 1 SET ledger 2", noKey},
		{"guardian", "FENCE.DO ledger 1 DEL ledger", noCommand + "del'"},
		{"guardian", `FENCE.DO ledger 1 "SET secret" ledger`, noKey},
		{"guardian", "FENCE.DO ledger 1 NOSUCH ledger", "-ERR unknown command 'NOSUCH'"},
		{"guardian", "FENCE.DO ledger 1 GET ledger", "$1\r\n2"},
	} {
		if got := login(t, p.addr, c.user).do(words(t, c.command)...); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s: %q, want %q", c.user, c.command, got, c.want)
		}
	}
	w := login(t, p.addr, "locker")
	w.want("+OK\r\n", "MULTI")
	w.want("-NOPERM this user has no permissions to access one of the keys used as arguments\r\n", "LOCK.EXTEND other 1 1")
	w.want("-EXECABORT Transaction discarded because of previous errors.\r\n", "EXEC")
}

// TestUsersLogIn: users that are on and off, with several passwords, with none and with hashes. An
// unknown user can't log in. Clients that don't log in are the default user if it has no password.
func TestUsersLogIn(t *testing.T) {
	p := usersPool(t, map[string]string{
		"two":     "on >pw #2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b ~* +@all", // secret
		"off":     ">pw ~* +@all",
		"free":    "on nopass +ping",
		"default": "on nopass +ping +acl",
	})
	const wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
	w := dial(t, p.addr)
	w.want("+PONG\r\n", "PING")
	w.want("$7\r\ndefault\r\n", "ACL WHOAMI")
	w.want("-NOPERM this user has no permissions to run the 'get' command\r\n", "GET a")
	w.want(wrong, "AUTH off pw")
	w.want(wrong, "AUTH two other")
	w.want(wrong, "AUTH eve pw")
	w.want("+OK\r\n", "AUTH two secret")
	w.want("$-1\r\n", "GET a")
	w.want("+OK\r\n", "AUTH two pw")
	w.want("+OK\r\n", "AUTH free whatever")
	w.want("-NOPERM this user has no permissions to run the 'acl|whoami' command\r\n", "ACL WHOAMI")
	w.want("+RESET\r\n", "RESET")
	w.want("$7\r\ndefault\r\n", "ACL WHOAMI")
	w.want("-ERR unknown command 'ACL SAVE': redoubt does not support it, because its users are in its configuration\r\n", "ACL SAVE")
	w.want("-ERR Unknown category 'nosuch'\r\n", "ACL CAT nosuch")
}

// TestSetUsers: clients whose user has other rules, or is gone, are closed once they have their replies.
// The others go on. New clients get the new rules.
func TestSetUsers(t *testing.T) {
	p := usersPool(t, map[string]string{"same": "on >pw ~* +@all", "less": "on >pw ~* +@all", "gone": "on >pw ~* +@all"})
	same, less, gone := login(t, p.addr, "same"), login(t, p.addr, "less"), login(t, p.addr, "gone")
	stranger := dial(t, p.addr)
	if err := p.SetUsers(map[string]string{"less": "on >pw ~* +@nosuch"}, patience); err == nil || !strings.Contains(err.Error(), "+@nosuch") {
		t.Errorf("%v", err)
	}
	less.send("BLPOP", "l", "0") // for ever, and it is to be closed nevertheless
	eventually(t, "BLPOP waits", func() bool {
		return strings.Contains(p.nodes[0].CLI("INFO", "clients")+p.nodes[1].CLI("INFO", "clients"), "blocked_clients:1")
	})
	if err := p.SetUsers(map[string]string{"same": "on >pw ~* +@all", "less": "on >pw ~* +get"}, 2*patience); err != nil {
		t.Fatal(err)
	}
	gone.expectClosed()
	less.expectClosed()
	same.want("$-1\r\n", "GET a")
	stranger.want("-WRONGPASS invalid username-password pair or user is disabled.\r\n", "AUTH gone pw")
	stranger.want("+OK\r\n", "AUTH less pw")
	stranger.want("-NOPERM this user has no permissions to run the 'set' command\r\n", "SET a 1")

	for _, n := range p.nodes {
		n.Pause()
	}
	same.send("GET", "a") // has no reply, and is not waited for any longer
	if err := p.SetUsers(nil, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	same.expectClosed()
}

// TestSetUsersExposed: an address that others reach doesn't lose its password.
func TestSetUsersExposed(t *testing.T) {
	p := usersPool(t, map[string]string{"a": "on >pw ~* +@all"})
	l, err := p.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	servertest.ServeOn(t, p.Server, l)
	login(t, net.JoinHostPort("127.0.0.1", fmt.Sprint(l.Addr().(*net.TCPAddr).Port)), "a") // it is served
	for _, users := range []map[string]string{nil, {"default": "on nopass +ping"}, {"a": "on >pw ~* +@all", "free": "on nopass +ping"}} {
		if err := p.SetUsers(users, patience); !errors.Is(err, server.ErrExposed) {
			t.Errorf("%v: %v, want ErrExposed", users, err)
		}
	}
	if err := p.SetUsers(map[string]string{"default": "on >pw +ping"}, patience); err != nil {
		t.Error(err)
	}
}

// TestUsersRefused: rules that are wrong.
func TestUsersRefused(t *testing.T) {
	r := redistest.Start(t)
	pool, err := proxy.NewPool(proxy.PoolOptions{Servers: []proxy.PoolServer{{Server: ring.Server{Name: "a", Weight: 1}, Backend: &proxy.Redis{Addr: r.Addr()}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pool.Close() }()
	for _, c := range []struct {
		o    server.Options
		want string
	}{
		{server.Options{Pool: pool, Users: map[string]string{"a": "on hush"}}, `server: user "a": rule 2 is unknown; want one of on, off`},
		{server.Options{Pool: pool, Password: "x", Users: map[string]string{"default": "on"}}, `server: user "default" is both in Users and the user of Password: leave out one`},
	} {
		if _, err := server.New(c.o); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%v\nwant %s", err, c.want)
		}
	}
}
