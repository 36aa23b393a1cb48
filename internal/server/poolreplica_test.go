package server_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// withReplicas starts a pool of two servers with a replica each, which have "replica" in
// the keys a and b where their servers have "server". a is on the first, and b on the
// second.
func withReplicas(t *testing.T) (p *poolOf, replicas []*redistest.Server) {
	t.Helper()
	p = startPool(t, 2, func(o *proxy.PoolOptions) {
		for i, s := range o.Servers {
			host, port, err := net.SplitHostPort(s.Backend.(*proxy.Redis).Addr)
			if err != nil {
				t.Fatal(err)
			}
			r := redistest.Start(t, "--replicaof", host, port, "--replica-read-only", "no")
			replicas = append(replicas, r)
			o.Servers[i].Replicas = []proxy.Backend{&proxy.Redis{Addr: r.Addr(), Label: s.Name + " replica"}}
		}
	})
	for i, k := range []string{"a", "b"} {
		p.nodes[i].CLI("SET", k, "server")
		eventually(t, "it is replicated", func() bool { return replicas[i].CLI("GET", k) == "server" })
		replicas[i].CLI("SET", k, "replica")
	}
	return p, replicas
}

// TestPoolReplicas: what only reads goes to a replica, and everything else to the
// server, also for a client that wants it so.
func TestPoolReplicas(t *testing.T) {
	p, replicas := withReplicas(t)
	w := dial(t, p.addr)
	for _, k := range []string{"a", "b"} {
		eventually(t, "a replica answers", func() bool { return w.do("GET", k) == bulk("replica") })
	}
	fromReplicas := "*2\r\n" + bulk("replica") + bulk("replica")
	fromServers := "*2\r\n" + bulk("server") + bulk("server")
	w.want(fromReplicas, "MGET a b")
	w.want("*1\r\n"+bulk("replica"), "MGET a")
	w.want(bulk("plica"), "GETRANGE a 2 -1")
	w.want(bulk("server"), "EVAL return(redis.call('GET',KEYS[1])) 1 a")
	w.want("+OK\r\n", "MULTI")
	w.want("+QUEUED\r\n", "GET a")
	w.want("*1\r\n"+bulk("server"), "EXEC")
	w.want("+OK\r\n", "WATCH a")
	w.want(bulk("server"), "GET a")
	w.want("+OK\r\n", "UNWATCH")
	w.want(bulk("replica"), "GET a")
	w.want("+OK\r\n", "READWRITE")
	w.want(bulk("server"), "GET a")
	w.want(fromServers, "MGET a b")
	w.want("+OK\r\n", "READONLY")
	w.want(fromReplicas, "MGET a b")
	w.want("+OK\r\n", "READWRITE")
	w.want("+RESET\r\n", "RESET")
	w.want(fromReplicas, "MGET a b")
	w.want("+OK\r\n", "SET a new")
	if got := p.nodes[0].CLI("GET", "a"); got != "new" {
		t.Errorf("the server has %q", got)
	}
	eventually(t, "the new value", func() bool { return w.do("GET", "a") == bulk("new") })

	// Replies come in the order of the commands, whoever gives them.
	const n = 500
	var all []byte
	for i := range n {
		for _, command := range [][]string{{"SET", "c", "x"}, {"GET", "b"}, {"GET", "c"}, {"ECHO", fmt.Sprint(i)}} {
			all = resp.AppendCommand(all, command...)
		}
	}
	go w.writeQuietly(all)
	for i := range n {
		w.expect("+OK\r\n")
		w.expect(bulk("replica"))
		_ = w.read()
		w.expect(bulk(fmt.Sprint(i)))
	}

	if info := w.do("INFO", "servers"); !strings.Contains(info, "server1_replica0:name=redis-2 replica,up=true,connects=1,") {
		t.Errorf("INFO: %s", info)
	}
	// Without a replica that answers the server does.
	replicas[1].Kill()
	eventually(t, "the server answers", func() bool { return w.do("GET", "b") == bulk("server") })
	w.want(bulk("new"), "GET a")
	replicas[1].Restart()
	eventually(t, "its replica is asked again", func() bool {
		return strings.Contains(w.do("INFO", "servers"), "server1_replica0:name=redis-2 replica,up=true,")
	})
	w.want(bulk("server"), "GET b")
}

// TestPoolReplicaWithoutData: a replica that has not got its server's data, or is none, is
// not read.
func TestPoolReplicaWithoutData(t *testing.T) {
	for name, args := range map[string][]string{"no data": {"--replicaof", "127.0.0.1", "1"}, "no replica": nil} {
		t.Run(name, func(t *testing.T) {
			empty := redistest.Start(t, args...)
			p := startPool(t, 1, func(o *proxy.PoolOptions) {
				o.Servers[0].Replicas = []proxy.Backend{&proxy.Redis{Addr: empty.Addr()}}
			})
			w := dial(t, p.addr)
			w.want("+OK\r\n", "SET k v")
			eventually(t, "it is asked twice", func() bool {
				w.want(bulk("v"), "GET k")
				stats := empty.CLI("INFO", "commandstats")
				return strings.Contains(stats, "cmdstat_role:") && !strings.Contains(stats, "cmdstat_role:calls=1,")
			})
			w.want(bulk("v"), "GET k")
		})
	}
}

// TestPoolReplicaLosesServer: a replica that doesn't follow its server any more, or doesn't
// answer, is not read until it does.
func TestPoolReplicaLosesServer(t *testing.T) {
	slow.Test(t, "it waits for lost servers")
	p, replicas := withReplicas(t)
	w := dial(t, p.addr)
	reads := func(k, value string) {
		t.Helper()
		eventually(t, k+" is "+value, func() bool { return w.do("GET", k) == bulk(value) })
	}
	reads("a", "replica")
	host, port, _ := net.SplitHostPort(p.nodes[0].Addr())
	replicas[0].CLI("REPLICAOF", "127.0.0.1", "1")
	reads("a", "server")
	reads("b", "replica")
	if info := w.do("INFO", "servers"); !strings.Contains(info, "server0_replica0:name=redis-1 replica,up=false,") {
		t.Errorf("INFO: %s", info)
	}
	replicas[0].CLI("REPLICAOF", host, port)
	p.nodes[0].CLI("SET", "a", "later")
	eventually(t, "it is replicated", func() bool { return replicas[0].CLI("GET", "a") == "later" })
	replicas[0].CLI("SET", "a", "replica")
	reads("a", "replica")
	replicas[0].CLI("REPLICAOF", "NO", "ONE")
	reads("a", "later")

	replicas[1].Pause()
	eventually(t, "it is out", func() bool { return !p.pool.Nodes()[1].Replicas()[0].Up() })
	w.want(bulk("server"), "GET b")
	replicas[1].Resume()
	reads("b", "replica")
}

// TestPoolWithoutReplicas: what is about replicas is refused where there are none.
func TestPoolWithoutReplicas(t *testing.T) {
	p := startPool(t, 1)
	if got := dial(t, p.addr).do("READWRITE"); !strings.HasPrefix(got, "-ERR unknown command 'READWRITE'") {
		t.Errorf("%q", got)
	}
}
