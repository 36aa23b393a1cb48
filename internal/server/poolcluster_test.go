package server_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// A clusterPool is a server in front of a cluster.
type clusterPool struct {
	*poolOf

	cluster *redistest.Cluster
}

// startCluster runs a server in front of a new cluster of three masters, which it knows by its first node.
func startCluster(t *testing.T, replicasEach int, change ...func(o *proxy.PoolOptions)) *clusterPool {
	t.Helper()
	c := redistest.StartCluster(t, 3, replicasEach)
	p := &clusterPool{poolOf: &poolOf{nodes: c.Nodes()}, cluster: c}
	opts := clusterOptions(c.Addrs()[0])
	for _, f := range change {
		f(&opts)
	}
	p.serve(t, opts)
	return p
}

func clusterOptions(seeds ...string) proxy.PoolOptions {
	return proxy.PoolOptions{Name: "alpha", Cluster: &proxy.Cluster{
		Seeds: seeds, Backend: func(addr string) proxy.Backend { return &proxy.Redis{Addr: addr} },
	}}
}

// at returns the node that has a key.
func (p *clusterPool) at(t *testing.T, key string) *redistest.Server {
	t.Helper()
	name := p.pool.Pick([]byte(key)).Name()
	for _, n := range p.nodes {
		if n.Addr() == name {
			return n
		}
	}
	t.Fatalf("%s is no node", name)
	return nil
}

// other returns a master that doesn't have a key.
func (p *clusterPool) other(t *testing.T, key string) *redistest.Server {
	t.Helper()
	if at := p.at(t, key); at != p.nodes[0] {
		return p.nodes[0]
	}
	return p.nodes[1]
}

// TestCluster: a cluster is used like one server, by clients that know nothing of it.
func TestCluster(t *testing.T) {
	p := startCluster(t, 0)
	fresh := func(t *testing.T) *clusterPool {
		t.Helper()
		p.client(t).FlushAll(t.Context())
		return p
	}
	t.Run("order", func(t *testing.T) { poolOrder(t, fresh(t).poolOf) })
	t.Run("fragments", func(t *testing.T) { poolFragments(t, fresh(t).poolOf) })
	t.Run("fragments in order", func(t *testing.T) { poolFragmentsInOrder(t, fresh(t).poolOf) })
	t.Run("everywhere", func(t *testing.T) { poolEverywhere(t, fresh(t).poolOf) })
	t.Run("extension", func(t *testing.T) { poolExtension(t, fresh(t).poolOf) })
	t.Run("waits", func(t *testing.T) { clusterWaits(t, fresh(t)) })
	t.Run("several slots", func(t *testing.T) { clusterSeveralSlots(t, fresh(t)) })
	t.Run("forged", func(t *testing.T) { clusterForged(t, fresh(t)) })
	t.Run("transactions", func(t *testing.T) { clusterTransactions(t, fresh(t)) })
	t.Run("listens", func(t *testing.T) { clusterListens(t, fresh(t)) })
	t.Run("waits in both protocols", func(t *testing.T) { fresh(t).waitsInBothProtocols(t) })
	t.Run("library", func(t *testing.T) { clusterLibrary(t, fresh(t)) })
	t.Run("a slot moves", func(t *testing.T) { clusterMoves(t, fresh(t)) })
	t.Run("effects in order", func(t *testing.T) { clusterOrder(t, fresh(t)) })
	t.Run("load", func(t *testing.T) { clusterLoad(t, fresh(t)) })
	t.Run("large", func(t *testing.T) { clusterLarge(t, fresh(t)) })
}

func clusterWaits(t *testing.T, p *clusterPool) {
	other := dial(t, p.addr)
	for i := range 3 {
		name := fmt.Sprintf("n%d", i)
		p.waits(t, other, p.at(t, name), name)
	}
	w := dial(t, p.addr)
	w.write("BLPOP a{k} b{k} 0\r\nPING\r\n")
	eventually(t, "it waits", func() bool { return strings.Contains(p.at(t, "{k}").CLI("INFO", "clients"), "blocked_clients:1") })
	other.want(":1\r\n", "RPUSH b{k} x")
	w.expect(array(bulk("b{k}"), bulk("x")))
	w.expect("+PONG\r\n")
}

// Keys need one slot, not only one node.
func clusterSeveralSlots(t *testing.T, p *clusterPool) {
	w := dial(t, p.addr)
	a, b := "a", ""
	for i := 0; b == ""; i++ { // on the node of a
		if k := fmt.Sprintf("k%d", i); p.pool.Pick([]byte(k)) == p.pool.Pick([]byte(a)) {
			b = k
		}
	}
	for _, command := range []string{"SINTER", "RENAME", "EVAL return(1) 2", "WATCH", "LMOVE"} {
		args := append(strings.Fields(command), a, b)
		if command == "LMOVE" {
			args = append(args, "LEFT", "LEFT")
		}
		if got, want := w.do(args...), "-CROSSSLOT redoubt: the keys of "+args[0]+" have several slots of the cluster: put the same text between { and } into all of them\r\n"; got != want {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
	w.want("+OK\r\n", "MSET {t}a 1 {t}b 2")
	w.want("+OK\r\n", "RENAME {t}a {t}c")
	w.want(array(bulk("1"), bulk("2")), "EVAL return{redis.call('get',KEYS[1]),redis.call('get',KEYS[2])} 2 {t}c {t}b")
	w.want("-ERR redoubt: the pool uses database 0 alone: see redis_db in its configuration, or the URL of --backend\r\n", "SELECT 1")
}

func clusterTransactions(t *testing.T, p *clusterPool) {
	w, other := dial(t, p.addr), dial(t, p.addr)
	w.want("+OK\r\n", "MULTI")
	w.want("+QUEUED\r\n", "SET a{t} 1")
	w.want("+QUEUED\r\n", "INCR a{t}")
	w.want("+QUEUED\r\n", "GET b{t}")
	w.want("*3\r\n+OK\r\n:2\r\n$-1\r\n", "EXEC")
	w.want("+OK\r\n", "MULTI")
	w.want("+QUEUED\r\n", "SET a{t} 1")
	if got := w.do("SET", "b", "1"); !strings.HasPrefix(got, "-CROSSSLOT redoubt: the keys of SET have another slot of the cluster") {
		t.Errorf("another slot: %q", got)
	}
	w.want("-EXECABORT Transaction discarded because of previous errors.\r\n", "EXEC")
	for _, changes := range []bool{false, true} {
		w.want("+OK\r\n", "WATCH a{t}")
		if changes {
			other.want("+OK\r\n", "SET a{t} 5")
		}
		w.want("+OK\r\n", "MULTI")
		w.want("+QUEUED\r\n", "SET a{t} 9")
		want := "*1\r\n+OK\r\n"
		if changes {
			want = "*-1\r\n"
		}
		w.want(want, "EXEC")
	}
	if n := p.Stats().Dedicated; n != 0 {
		t.Errorf("%d connections of clients' own", n)
	}
}

// The nodes tell each other what is published: it comes once.
func clusterListens(t *testing.T, p *clusterPool) {
	w, other := dial(t, p.addr), dial(t, p.addr)
	if got := w.do("HELLO", "3"); !strings.Contains(got, "proto") {
		t.Fatal(got)
	}
	push := func(elements ...string) string { return ">" + array(elements...)[1:] }
	w.send("SUBSCRIBE", "a", "b", "c")
	for i, ch := range []string{"a", "b", "c"} {
		w.expect(push(bulk("subscribe"), bulk(ch), fmt.Sprintf(":%d\r\n", i+1)))
	}
	w.send("PSUBSCRIBE", "p*")
	w.expect(push(bulk("psubscribe"), bulk("p*"), ":4\r\n"))
	w.send("SSUBSCRIBE", "s1", "s2", "s3")
	for i, ch := range []string{"s1", "s2", "s3"} {
		w.expect(push(bulk("ssubscribe"), bulk(ch), fmt.Sprintf(":%d\r\n", i+1)))
	}
	for _, ch := range []string{"a", "b", "c"} {
		other.do("PUBLISH", ch, "to-"+ch)
		w.expect(push(bulk("message"), bulk(ch), bulk("to-"+ch)))
	}
	for _, ch := range []string{"p1", "p2", "p3"} {
		p.nodes[ch[1]-'1'].CLI("PUBLISH", ch, "x") // whichever node it comes from
		w.expect(push(bulk("pmessage"), bulk("p*"), bulk(ch), bulk("x")))
	}
	for _, ch := range []string{"s1", "s2", "s3"} {
		other.want(":1\r\n", "SPUBLISH "+ch+" x")
		w.expect(push(bulk("smessage"), bulk(ch), bulk("x")))
	}
	other.want(":1\r\n", "PUBSUB NUMPAT")
	other.want(array(bulk("a"), ":1\r\n", bulk("b"), ":1\r\n"), "PUBSUB NUMSUB a b")
	w.send("SUBSCRIBE", "__keyspace@0__:k")
	w.expect(push(bulk("subscribe"), bulk("__keyspace@0__:k"), ":5\r\n"))
	for _, n := range p.nodes {
		n.CLI("CONFIG", "SET", "notify-keyspace-events", "K$")
	}
	other.want("+OK\r\n", "SET k 1")
	w.expect(push(bulk("message"), bulk("__keyspace@0__:k"), bulk("set")))

	// A node that loses the slot of a shard channel says no more: its client is closed.
	quiet := dial(t, p.addr)
	quiet.send("SUBSCRIBE", "s1")
	quiet.expect(array(bulk("subscribe"), bulk("s1"), ":1\r\n"))
	p.cluster.Move(p.cluster.Slot("s1"), p.at(t, "s1"), p.other(t, "s1"), nil)
	again := dial(t, p.addr)
	again.send("SSUBSCRIBE", "s1") // the pool may not know yet
	again.expect(array(bulk("ssubscribe"), bulk("s1"), ":1\r\n"))
	other.want(":1\r\n", "SPUBLISH s1 y")
	again.expect(array(bulk("smessage"), bulk("s1"), bulk("y")))
	w.expectClosed()
	other.do("PUBLISH", "s1", "z")
	quiet.expect(array(bulk("message"), bulk("s1"), bulk("z")))
}

// clusterMoves: commands are answered as ever while a slot moves.
func clusterMoves(t *testing.T, p *clusterPool) {
	w := dial(t, p.addr)
	ids := 0
	all := func(key string) {
		t.Helper()
		w.want("+OK\r\n", "SET {"+key+"}new 1")
		w.want(bulk("v"), "GET {"+key+"}old")
		w.want("$-1\r\n", "GET {"+key+"}none")
		w.want(array(bulk("1")), "MGET {"+key+"}new")
		w.want("+OK\r\n", "MULTI")
		w.want("+QUEUED\r\n", "INCR {"+key+"}new")
		w.want("*1\r\n:2\r\n", "EXEC")
		w.want("+OK\r\n", "WATCH {"+key+"}new")
		w.want("+OK\r\n", "MULTI")
		w.want("+QUEUED\r\n", "INCR {"+key+"}new")
		w.want("*1\r\n:3\r\n", "EXEC")
		w.want(":4\r\n", "EVAL return(redis.call('incr',KEYS[1])) 1 {"+key+"}new")
		w.want(":1\r\n", "RPUSH {"+key+"}list x")
		w.want(array(bulk("{"+key+"}list"), bulk("x")), "BLPOP {"+key+"}list 1")
		w.want("*-1\r\n", "BLPOP {"+key+"}nothing 0.01")
		w.want(":1\r\n", "DEL {"+key+"}new")
		ids++
		id := fmt.Sprint("me", ids)
		if got := w.do("LOCK.ACQUIRE", "{"+key+"}l", "60000", "ID", id); !strings.HasPrefix(got, "*3\r\n"+bulk(id)) {
			t.Errorf("LOCK.ACQUIRE: %q", got)
		}
		w.want(":1\r\n", "LOCK.RELEASE {"+key+"}l "+id)
	}
	w.want("+OK\r\n", "SET {x}old v")
	slot, from, to := p.cluster.Slot("{x}"), p.at(t, "{x}"), p.other(t, "{x}")
	waiting, watching, listening := dial(t, p.addr), dial(t, p.addr), dial(t, p.addr)
	waiting.write("BLPOP {x}q 0\r\n")
	eventually(t, "it waits", func() bool { return strings.Contains(from.CLI("INFO", "clients"), "blocked_clients:1") })
	watching.want("+OK\r\n", "WATCH {x}old")
	watching.want("+OK\r\n", "MULTI")
	watching.want("+QUEUED\r\n", "SET {x}old w")
	listening.send("SUBSCRIBE", "{x}c")
	listening.expect(array(bulk("subscribe"), bulk("{x}c"), ":1\r\n"))
	if got := w.do("LOCK.ACQUIRE", "{x}", "600000", "ID", "holder"); !strings.HasPrefix(got, "*3\r\n") {
		t.Fatalf("LOCK.ACQUIRE: %q", got)
	}
	queued := dial(t, p.addr)
	queued.send("LOCK.ACQUIRE", "{x}", "600000", "BLOCK", "0", "ID", "next")
	eventually(t, "it waits", func() bool { return strings.Contains(w.do("LOCK.INFO", "{x}"), bulk("waiters")+":1\r\n") })
	times := 0
	p.cluster.Move(slot, from, to, func() {
		times++
		all("x")
	})
	all("x")
	if times < 2 {
		t.Errorf("it has been asked %d times while it moved", times)
	}
	watching.want("*-1\r\n", "EXEC") // as if somebody had changed it
	w.want(":1\r\n", "RPUSH {x}q late")
	waiting.expect(array(bulk("{x}q"), bulk("late")))
	w.want(":1\r\n", "LOCK.RELEASE {x} holder")
	if got := queued.read(); !strings.HasPrefix(got, "*3\r\n"+bulk("next")) {
		t.Errorf("LOCK.ACQUIRE BLOCK: %q", got)
	}
	w.do("PUBLISH", "{x}c", "x")
	listening.expect(array(bulk("message"), bulk("{x}c"), bulk("x")))
	eventually(t, "the table is the new one", func() bool { return p.pool.Pick([]byte("{x}")).Name() == to.Addr() })
	all("x")
}

// clusterOrder: what a client sends without waiting is done in its order on each key, while
// the key's slot moves, and the pool comes to know of it.
func clusterOrder(t *testing.T, p *clusterPool) {
	const clients = 4
	slot, stop := p.cluster.Slot("{o}"), make(chan struct{})
	var wg sync.WaitGroup
	pushed := make([]int, clients)
	for i := range clients {
		wg.Go(func() {
			w := dial(t, p.addr)
			key := fmt.Sprintf("{o}%d", i)
			for n := 0; ; {
				select {
				case <-stop:
					pushed[i] = n
					return
				default:
				}
				var raw []byte
				for j := range 20 {
					raw = resp.AppendCommand(raw, "RPUSH", key, fmt.Sprint(n+j))
				}
				w.writeQuietly(raw[:len(raw)/2]) // which reaches it while the first are under way
				w.writeQuietly(raw[len(raw)/2:])
				for range 20 {
					n++
					if got, err := w.next(); err != nil || got != fmt.Sprintf(":%d\r\n", n) {
						t.Errorf("RPUSH %s %d: %q, %v", key, n, got, err)
						pushed[i] = n
						return
					}
				}
			}
		})
	}
	before := p.pool.Changes()
	for range 10 {
		from := p.cluster.Primary("{o}")
		to := p.nodes[0]
		if to == from {
			to = p.nodes[1]
		}
		p.cluster.Move(slot, from, to, nil)
		eventually(t, "the pool knows", func() bool { return p.pool.Pick([]byte("{o}")).Name() == to.Addr() || t.Failed() })
	}
	close(stop)
	wg.Wait()
	if p.pool.Changes() < before+10 {
		t.Errorf("%d changes", p.pool.Changes()-before)
	}
	w := dial(t, p.addr)
	for i, n := range pushed {
		list, _ := w.value("LRANGE", fmt.Sprintf("{o}%d", i), "0", "-1").([]any)
		if len(list) != n || n == 0 {
			t.Errorf("%d of %d are there", len(list), n)
		}
		for at, v := range list {
			if v != fmt.Sprint(at) {
				t.Fatalf("element %d is %v", at, v)
			}
		}
	}
}

// clusterLoad: while slots move under load, every client has its replies in order, each value
// is that of its key and none is lost, and no error is seen.
func clusterLoad(t *testing.T, p *clusterPool) {
	const porters = 8
	l := startPorters(t, p.poolOf, porters)
	defer l.end()
	rng := rand.New(rand.NewPCG(l.seed, 99))
	moves := 0
	for most := proxyFaults(100_000); l.seen.Load() < most && !t.Failed() || moves < 20; {
		key := sharedKey(rng.IntN(porterKeys))
		if rng.IntN(2) == 0 {
			key = fmt.Sprintf("porter%d:%d", rng.IntN(porters), rng.IntN(4*porterKeys))
		}
		from := p.cluster.Primary(key)
		to := p.nodes[rng.IntN(3)]
		if to == from {
			continue
		}
		p.cluster.Move(p.cluster.Slot(key), from, to, func() {
			now := l.seen.Load()
			eventually(t, "the load goes on", func() bool { return l.seen.Load() > now+100 || t.Failed() })
		})
		moves++
	}
	l.end()
	t.Logf("seed %d: %d replies, %d moves", l.seed, l.seen.Load(), moves)
	eventually(t, "nobody has a connection of their own", func() bool { return p.Stats().Dedicated == 0 })
}

// TestClusterFailover: a master that is killed costs its own keys, until its replica has
// taken its place.
func TestClusterFailover(t *testing.T) {
	p := startCluster(t, 1)
	w := dial(t, p.addr)
	keys := make([]string, 3) // one on each master
	for i := 0; keys[0] == "" || keys[1] == "" || keys[2] == ""; i++ {
		k := fmt.Sprintf("k%d", i)
		for at, n := range p.nodes[:3] {
			if n == p.at(t, k) {
				keys[at] = k
			}
		}
	}
	for _, k := range keys {
		w.want("+OK\r\n", "SET "+k+" v")
	}
	eventually(t, "the replica has it", func() bool { return p.nodes[3].CLI("DBSIZE") == "1" })
	listens := dial(t, p.addr)
	listens.send("SUBSCRIBE", keys[1])
	listens.expect(array(bulk("subscribe"), bulk(keys[1]), ":1\r\n"))
	p.nodes[0].Kill()
	during := dial(t, p.addr) // any node will do
	during.send("SUBSCRIBE", keys[0])
	during.expect(array(bulk("subscribe"), bulk(keys[0]), ":1\r\n"))
	failed := 0
	eventually(t, "the replica has taken over", func() bool {
		for _, k := range keys[1:] {
			w.send("GET", k)
			if got := w.read(); got != bulk("v") && !strings.HasPrefix(got, "-CLUSTERDOWN ") {
				t.Fatalf("GET %s: %q", k, got)
			}
		}
		w.send("SET", keys[0], "v2")
		got := w.read()
		if strings.HasPrefix(got, "-MOVED") || strings.HasPrefix(got, "-ASK") {
			t.Fatalf("SET: %q", got)
		}
		if got != "+OK\r\n" {
			failed++
		}
		return got == "+OK\r\n"
	})
	if failed == 0 {
		t.Error("nothing has failed")
	}
	w.want(bulk("v2"), "GET "+keys[0])
	eventually(t, "the nodes are known", func() bool { return w.do("DBSIZE") == ":3\r\n" })
	w.do("PUBLISH", keys[1], "x")
	listens.expect(array(bulk("message"), bulk(keys[1]), bulk("x")))
	w.do("PUBLISH", keys[0], "y")
	during.expect(array(bulk("message"), bulk(keys[0]), bulk("y")))
}

// TestClusterSilentMaster: a client that waits for a silent master gets an error once the
// replica has taken over. Its next command goes to the new master.
func TestClusterSilentMaster(t *testing.T) {
	slow.Test(t, "the nodes of a cluster take seconds to replace a silent master")
	p := startCluster(t, 1, func(o *proxy.PoolOptions) { o.Timeout = 300 * time.Millisecond })
	key := ""
	for i := 0; key == ""; i++ {
		if k := fmt.Sprintf("k%d", i); p.at(t, k) == p.nodes[0] {
			key = k
		}
	}
	w, blocked := dial(t, p.addr), dial(t, p.addr)
	w.want("+OK\r\n", "SET "+key+" v")
	blocked.write("BLPOP {" + key + "}q 0\r\n")
	eventually(t, "it waits", func() bool { return strings.Contains(p.nodes[0].CLI("INFO", "clients"), "blocked_clients:1") })
	eventually(t, "the replica has it", func() bool { return p.nodes[3].CLI("DBSIZE") == "1" })
	p.nodes[0].Pause()
	defer p.nodes[0].Resume()
	if got := w.do("GET", key); !strings.Contains(got, " within 300ms") {
		t.Errorf("GET: %q", got)
	}
	blocked.expect("-ERR redoubt: connection to back end " + p.nodes[0].Addr() + " lost before the reply: the command may have run\r\n")
	w.want(bulk("v"), "GET "+key)
}

// TestClusterUnknown: without a node that answers, what goes to all of them is refused, and
// once there is one all is well.
func TestClusterUnknown(t *testing.T) {
	c := redistest.StartCluster(t, 1, 0)
	c.Nodes()[0].Pause()
	var told atomic.Int64
	opts := clusterOptions(c.Addrs()[0])
	opts.Timeout = 100 * time.Millisecond
	opts.Cluster.OnChange = func(_ []string, err error) {
		if err != nil {
			told.Add(1)
		}
	}
	p := &poolOf{}
	p.serve(t, opts)
	w := dial(t, p.addr)
	if got := w.do("DBSIZE"); !strings.HasPrefix(got, "-CLUSTERDOWN redoubt: no node") {
		t.Errorf("DBSIZE: %q", got)
	}
	if n := told.Load(); n != 1 {
		t.Errorf("told %d times", n)
	}
	c.Nodes()[0].Resume()
	eventually(t, "it answers", func() bool { return w.do("SET", "k", "v") == "+OK\r\n" && w.do("DBSIZE") == ":1\r\n" })
}
