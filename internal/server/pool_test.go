package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/servertest"
)

// A poolOf is a server in front of a pool, and the servers of that.
type poolOf struct {
	*server.Server

	addr  string
	pool  *proxy.Pool
	nodes []*redistest.Server
}

// startPool runs a server in front of a pool of n new redis-servers redis-1 …: two
// in the way of the usual tutorial, by fnv1a_64 and modula; for more the hash is md5,
// since the former has similar keys on one server.
func startPool(t *testing.T, n int, change ...func(o *proxy.PoolOptions)) *poolOf {
	t.Helper()
	p, opts := poolServers(t, n, change...)
	p.serve(t, opts)
	return p
}

// poolServers starts the servers of startPool.
func poolServers(t *testing.T, n int, change ...func(o *proxy.PoolOptions)) (*poolOf, proxy.PoolOptions) {
	t.Helper()
	p := &poolOf{}
	opts := proxy.PoolOptions{Name: "alpha", Hash: ring.FNV64a, Distribution: ring.Modula}
	if n > 2 {
		opts.Hash = ring.MD5
	}
	for i := range n {
		r := redistest.Start(t)
		name := fmt.Sprintf("redis-%d", i+1)
		p.nodes = append(p.nodes, r)
		opts.Servers = append(opts.Servers, proxy.PoolServer{
			Server: ring.Server{Name: name, Weight: 1}, Backend: &proxy.Redis{Addr: r.Addr(), Label: name},
		})
	}
	for _, f := range change {
		f(&opts)
	}
	return p, opts
}

func (p *poolOf) serve(t *testing.T, opts proxy.PoolOptions, change ...func(o *server.Options)) {
	t.Helper()
	var err error
	if p.pool, err = proxy.NewPool(opts); err != nil {
		t.Fatal(err)
	}
	o := server.Options{Pool: p.pool}
	for _, f := range change {
		f(&o)
	}
	if p.Server, err = server.New(o); err != nil {
		t.Fatal(err)
	}
	pool := p.pool // another may be served later
	t.Cleanup(func() { _ = pool.Close() })
	p.addr = servertest.Serve(t, p.Server)
}

// client returns a go-redis client of the pool, with its defaults.
func (p *poolOf) client(t *testing.T) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: p.addr, MaxRetries: -1, ReadTimeout: patience})
	clienttest.Watch(t, rdb)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// TestPoolTutorial: with the file of the usual tutorial the keys a and c are on
// redis-1, and b and d on redis-2.
//
// Promise: A pool answers the commands of a tutorial as one server does.
func TestPoolTutorial(t *testing.T) {
	p := startPool(t, 2)
	rdb := p.client(t)
	for _, k := range []string{"a", "b", "c", "d"} {
		if err := rdb.Set(t.Context(), k, "is "+k, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if v := rdb.Get(t.Context(), k).Val(); v != "is "+k {
			t.Errorf("%s is %q", k, v)
		}
	}
	for i, want := range []string{"a\nc", "b\nd"} {
		keys := strings.Split(want, "\n")
		if got := p.nodes[i].CLI("EXISTS", keys[0], keys[1]); got != "2" || p.nodes[i].CLI("DBSIZE") != "2" {
			t.Errorf("redis-%d has %s of %v, and %s in all", i+1, got, keys, p.nodes[i].CLI("DBSIZE"))
		}
	}
}

// TestPoolOrder: replies come in the order of the commands, whichever servers they
// go to, and each belongs to its key.
func TestPoolOrder(t *testing.T) { poolOrder(t, startPool(t, 3)) }

func poolOrder(t *testing.T, p *poolOf) {
	w := dial(t, p.addr)
	const n = 1000
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "SET k%d v%d\r\n", i, i) // inline, to have those too
		fmt.Fprintf(&all, "*2\r\n$3\r\nGET\r\n$%d\r\nk%d\r\n", len(fmt.Sprint(i))+1, i)
		if i%10 == 0 {
			all.WriteString("PING\r\n")
		}
	}
	w.write(all.String())
	for i := range n {
		w.expect("+OK\r\n")
		w.expect(bulk(fmt.Sprintf("v%d", i)))
		if i%10 == 0 {
			w.expect("+PONG\r\n")
		}
	}
	for i, r := range p.nodes {
		if r.CLI("DBSIZE") == "0" {
			t.Errorf("redis-%d has no keys", i+1)
		}
	}
}

// TestPoolRefuses: what a pool can't do gets an error that says so, and the
// connection goes on.
func TestPoolRefuses(t *testing.T) {
	p := startPool(t, 2)
	w := dial(t, p.addr)
	for _, c := range []struct{ command, want string }{
		{"FOO a b", "ERR unknown command 'FOO', with args beginning with: 'a' 'b' "},
		{"GET", "ERR wrong number of arguments for 'get' command"},
		{"SINTER a b", "CROSSSLOT redoubt: the keys of SINTER belong to several servers of the pool; with a hash_tag"},
		{"RENAME a b", "CROSSSLOT redoubt: the keys of RENAME belong to several servers"},
		{"EVAL return 0", "ERR redoubt: EVAL has no key here that says to which server"},
		{"ZADD a", "ERR wrong number of arguments"},
		{"SELECT 1", "ERR redoubt: the pool uses database 0 alone"},
		{"SELECT x", "ERR invalid DB index"},
		{"CONFIG GET x", "ERR unknown command 'CONFIG': it is not supported through a pool"},
		{"CLIENT PAUSE 1", "ERR unknown command 'CLIENT PAUSE': it is not supported through a pool"},
		{"CLIENT TRACKING ON", "ERR redoubt: CLIENT TRACKING is not supported through a pool: a server tells of keys on the connection that reads them"},
		{"CLIENT NOSUCH", "ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP."},
		{"LOCK.ACQUIRE a 1000", "ERR redoubt: LOCK.ACQUIRE needs a pool with hash_tag"},
		{"MIGRATE h 1 a 0 1", "ERR unknown command 'MIGRATE': it is not supported through a pool"},
		{"RESTORE-ASKING a 0 x", "ERR unknown command 'RESTORE-ASKING': it is not supported through a pool"},
		{"XREAD BLOCK 0 STREAMS a b 0 0", "CROSSSLOT redoubt: the keys of XREAD belong to several servers"},
		{"BLPOP a b 0", "CROSSSLOT redoubt: the keys of BLPOP belong to several servers"},
		{"XREAD STREAMS a b 0 0", "CROSSSLOT redoubt: the keys of XREAD belong to several servers"},
		{"SORT a STORE b", "CROSSSLOT redoubt: the keys of SORT belong to several servers"},
	} {
		if got := w.do(strings.Fields(c.command)...); !strings.HasPrefix(got, "-"+c.want) {
			t.Errorf("%s: %q, want %q", c.command, got, c.want)
		}
	}
	w.want("+OK\r\n", "SELECT 0")
	w.want("*0\r\n", "SINTER a c")
	w.want("*-1\r\n", "XREAD STREAMS a c 0 0")
	w.want(":0\r\n", "SORT a STORE c")
	w.want("$1\r\na\r\n", "EVAL return(KEYS[1]) 1 a")
	if info := fmt.Sprint(w.value("INFO", "pool")); !strings.Contains(info, "ring_digest:"+p.pool.Digest()+"\r\n") {
		t.Errorf("INFO pool: %s", info)
	}
}

// TestPoolCloses: a server of a pool that is killed costs its own keys alone, and
// is used again when it is back.
func TestPoolCloses(t *testing.T) {
	p := startPool(t, 2)
	rdb := p.client(t)
	for _, k := range []string{"a", "b"} {
		if err := rdb.Set(t.Context(), k, k, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	p.nodes[1].Kill()
	eventually(t, "the loss is known", func() bool {
		err := rdb.Get(t.Context(), "b").Err()
		return err != nil && strings.Contains(err.Error(), "back end redis-2 is unreachable")
	})
	if v, err := rdb.Get(t.Context(), "a").Result(); v != "a" {
		t.Errorf("a is %q, %v", v, err)
	}
	p.nodes[1].Restart()
	eventually(t, "it is back", func() bool { return rdb.Set(t.Context(), "b", "new", 0).Err() == nil })
}

// TestPoolRunID: INFO server of a pool has a run_id that changes when one of its servers is
// another process, so that a scan knows that its cursor has come to mean nothing.
func TestPoolRunID(t *testing.T) {
	p := startPool(t, 2)
	w := dial(t, p.addr)
	runID := func() string {
		_, after, _ := strings.Cut(fmt.Sprint(w.value("INFO", "Server")), "run_id:")
		id, _, _ := strings.Cut(after, "\r\n")
		return id
	}
	first := runID()
	if len(first) != 40 || runID() != first {
		t.Errorf("run_id %q, then %q", first, runID())
	}
	if got := w.do("HELLO", "3"); got == "" {
		t.Error("no HELLO")
	}
	if id := runID(); id != first {
		t.Errorf("in RESP3 run_id %q; want %q", id, first)
	}
	p.nodes[1].Kill()
	eventually(t, "the loss is known", func() bool {
		return strings.Contains(w.do("INFO", "server"), "back end redis-2 is unreachable")
	})
	p.nodes[1].Restart()
	eventually(t, "it is back", func() bool { return runID() != "" })
	if id := runID(); id == first {
		t.Error("another process has the run_id of the one before")
	}
}

// TestPoolExtension: extension commands run on the server that has their keys, where
// the tag is {}, and are refused with the reason otherwise.
func TestPoolExtension(t *testing.T) {
	braces := func(o *proxy.PoolOptions) { o.Tag = "{}" }
	poolExtension(t, startPool(t, 3, braces))
	ejecting := dial(t, startPool(t, 2, braces, func(o *proxy.PoolOptions) { o.Eject = true }).addr)
	if got := ejecting.do("LOCK.ACQUIRE", "n", "60000"); !strings.Contains(got, "LOCK.ACQUIRE is refused where auto_eject_hosts is true") {
		t.Errorf("with ejection: %q", got)
	}
	if got := fmt.Sprint(ejecting.value("CL.THROTTLE", "n", "5", "10", "60", "1")); !strings.HasPrefix(got, "[0 6 5 ") {
		t.Errorf("CL.THROTTLE with ejection: %s", got)
	}
	plain := dial(t, startPool(t, 2).addr)
	for _, command := range []string{"CL.THROTTLE n 5 10 60 1", "EVAL return(1) 2 a c"} {
		if got := plain.do(strings.Fields(command)...); !strings.Contains(got, `needs a pool with hash_tag: "{}"`) {
			t.Errorf("%s without a tag: %q", command, got)
		}
	}
}

func poolExtension(t *testing.T, p *poolOf) {
	w := dial(t, p.addr)
	for i := range 20 {
		name := fmt.Sprintf("n%d", i)
		if got := fmt.Sprint(w.value("CL.THROTTLE", name, "5", "10", "60", "1")); !strings.HasPrefix(got, "[0 6 5 ") {
			t.Errorf("CL.THROTTLE %s: %s", name, got)
		}
		if got := fmt.Sprint(w.value("LOCK.ACQUIRE", name, "60000")); !strings.HasSuffix(got, " 60000]") {
			t.Errorf("LOCK.ACQUIRE %s: %s", name, got)
		}
		w.want("*-1\r\n", "LOCK.ACQUIRE "+name+" 60000")
		w.want(":1\r\n", "BF.ADD bloom-"+name+" x")
	}
	for i, r := range p.nodes {
		if r.CLI("DBSIZE") == "0" {
			t.Errorf("redis-%d has no keys", i+1)
		}
	}
	w.want(array(":1\r\n", bulk("{u}b")), "EVAL return{#KEYS[1]-2,KEYS[2]} 2 {u} {u}b")
}

// TestPoolSlowLog: the slow log of a pool is that of its servers, the latest first.
func TestPoolSlowLog(t *testing.T) {
	p := startPool(t, 2)
	rdb := p.client(t)
	for _, n := range p.nodes {
		n.CLI("CONFIG", "SET", "slowlog-log-slower-than", "0")
	}
	for _, k := range []string{"a", "b"} { // on redis-1, and redis-2
		if err := rdb.Set(t.Context(), k, "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range p.nodes {
		n.CLI("CONFIG", "SET", "slowlog-log-slower-than", "-1")
	}
	logs, err := rdb.SlowLogGet(t.Context(), -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i, l := range logs {
		seen[strings.Join(l.Args, " ")] = true
		if i > 0 && l.Time.After(logs[i-1].Time) {
			t.Errorf("entry %d is later than the one before", i)
		}
	}
	if !seen["set a v"] || !seen["set b v"] {
		t.Errorf("%v lacks one of the two", seen)
	}
	if n := rdb.Do(t.Context(), "SLOWLOG", "LEN").Val(); n != int64(len(logs)) {
		t.Errorf("SLOWLOG LEN is %v, want %d", n, len(logs))
	}
	if one, err := rdb.SlowLogGet(t.Context(), 1).Result(); err != nil || len(one) != 1 || one[0].Time != logs[0].Time {
		t.Errorf("SLOWLOG GET 1: %v, %v", one, err)
	}
	if v, err := rdb.Do(t.Context(), "SLOWLOG", "RESET").Result(); v != "OK" || err != nil {
		t.Errorf("SLOWLOG RESET: %v, %v", v, err)
	}
	if n := rdb.Do(t.Context(), "SLOWLOG", "LEN").Val(); n != int64(0) {
		t.Errorf("then SLOWLOG LEN is %v", n)
	}
	if err := rdb.Do(t.Context(), "SLOWLOG", "GET", "-2").Err(); err == nil || !strings.Contains(err.Error(), "count should be") {
		t.Errorf("SLOWLOG GET -2: %v", err)
	}
}
