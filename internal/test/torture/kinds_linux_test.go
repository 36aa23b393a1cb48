package torture

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// network makes a fault of a proxy, which heals.
func network(name, of string, lasts time.Duration, act func(p *faultnet.Proxy, length time.Duration)) *kind {
	return &kind{name: name, of: of, lasts: lasts, begin: func(s *site, i int, length time.Duration) func() {
		p := map[string][]*faultnet.Proxy{aLink: s.links, aDirect: s.direct}[of][i]
		act(p, length)
		return func() {
			p.Heal()
			p.Delay(0)
			p.Accept()
		}
	}}
}

// networks are the faults of a network, on one way or the other.
func networks(of string) []*kind {
	twice := network("request twice", of, 0, func(p *faultnet.Proxy, _ time.Duration) {
		p.RepeatNextRequest("EVALSHA", "LOCK.ACQUIRE", "LOCK.RELEASE", "SEM.ACQUIRE", "SEM.RELEASE", "FENCE.DO", "STOCK.RESERVE", "STOCK.COMMIT",
			"STOCK.CANCEL", "LIMIT.TAKE", "QUEUE.PUT", "QUEUE.ACK", "TTLHASH.SET", "BF.ADD", "PFADD")
	})
	twice.doubles = true
	return []*kind{
		twice,
		network("blackhole to the server", of, 1500*time.Millisecond, func(p *faultnet.Proxy, _ time.Duration) { p.Blackhole(faultnet.ToServer) }),
		network("blackhole to the client", of, 1500*time.Millisecond, func(p *faultnet.Proxy, _ time.Duration) { p.Blackhole(faultnet.ToClient) }),
		network("delay", of, time.Second, func(p *faultnet.Proxy, length time.Duration) { p.Delay(length / 10) }),
		network("cut", of, 0, func(p *faultnet.Proxy, _ time.Duration) { p.Cut() }),
		network("refused connections", of, 700*time.Millisecond, func(p *faultnet.Proxy, _ time.Duration) {
			p.Refuse()
			p.Cut()
		}),
		network("lost reply", of, 0, func(p *faultnet.Proxy, _ time.Duration) { p.SwallowNextReply() }),
		network("lost reply of a script", of, 0, func(p *faultnet.Proxy, _ time.Duration) { p.SwallowNextReply("EVALSHA") }),
	}
}

// everywhere are the faults of workers, of the network before serve, and of serve.
var everywhere = slices.Concat(networks(aLink), []*kind{
	{name: "SIGSTOP", of: aWorker, lasts: 2 * time.Second, begin: func(s *site, i int, _ time.Duration) func() {
		p := s.crew.members[i].process
		must(s.t, redistest.Suspend(p))
		return func() { must(s.t, redistest.Resume(p)) }
	}},
	{name: "kill -9", of: aWorker, lasts: 500 * time.Millisecond, begin: func(s *site, i int, _ time.Duration) func() {
		s.crew.members[i].kill()
		return func() { s.crew.hire(i) }
	}},
	ending(onServe("kill -9", 500*time.Millisecond, func(s *serving) func() {
		s.kill()
		return s.startAgain
	})),
	onServe("SIGSTOP", 2*time.Second, func(s *serving) func() {
		must(s.t, redistest.Suspend(s.process()))
		return func() { must(s.t, redistest.Resume(s.process())) }
	}),
	ending(onServe("SIGTERM and restart", 200*time.Millisecond, func(s *serving) func() {
		s.terminate()
		return s.startAgain
	})),
	ending(onServe("SIGUSR2: a new process takes over", 0, func(s *serving) func() {
		s.handOver()
		return nil
	})),
})

// ending says that the process of serve ends by k.
func ending(k *kind) *kind {
	k.ends = true
	return k
}

// onServe makes a fault of serve, which does nothing while serve waits for the servers behind it to start.
func onServe(name string, lasts time.Duration, act func(s *serving) func()) *kind {
	return &kind{name: name, of: theServe, lasts: lasts, begin: func(s *site, _ int, _ time.Duration) func() {
		if !s.serve.serves() {
			return nil
		}
		return act(s.serve)
	}}
}

// onEngine are the faults of the embedded engine.
var onEngine = []*kind{
	onServe("SCRIPT FLUSH", 0, func(s *serving) func() {
		_ = s.command("SCRIPT", "FLUSH") // It may be slow.
		return nil
	}),
	onServe("CONFIG SET maxmemory 1", time.Second, func(s *serving) func() {
		_ = s.command("CONFIG", "SET", "maxmemory", "1")
		return func() {
			await.Until(s.t, recoverWithin, "CONFIG SET maxmemory 0", func() bool {
				err := s.command("CONFIG", "SET", "maxmemory", "0")
				return err == nil
			})
		}
	}),
	onServe("disk full", time.Second, func(s *serving) func() {
		return diskFull(s.t, s.process().Pid)
	}),
}

// command sends a command to serve, past all faults.
func (s *serving) command(args ...string) error {
	l := &line{addr: s.addr}
	defer l.close()
	_, err := l.do(context.Background(), 0, args...)
	return err
}

// diskFull lets no file of a process grow, and returns what lets them again.
func diskFull(t *testing.T, pid int) (end func()) {
	limit := func(n uint64) {
		var old unix.Rlimit
		if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &old); err != nil {
			t.Fatal(err)
		}
		if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: n, Max: old.Max}, nil); err != nil {
			t.Fatal(err)
		}
	}
	limit(0)
	return func() { limit(unix.RLIM_INFINITY) }
}

// onRedis are the faults of a redis-server behind serve.
var onRedis = []*kind{
	onServer("kill -9", 700*time.Millisecond, func(r *redistest.Server) func() {
		r.Kill()
		return r.Restart
	}),
	onServer("SIGSTOP", 2*time.Second, func(r *redistest.Server) func() {
		r.Pause()
		return r.Resume
	}),
	onServer("SCRIPT FLUSH", 0, scriptFlush),
	onServer("CLIENT KILL of all", 0, clientKill),
	config("maxmemory", "1", "0", time.Second),
	config("min-replicas-to-write", "9", "0", time.Second),
	config("appendfsync", "always", "no", 2*time.Second),
}

// onDisk are the faults of the disk of a redis-server; a node of a cluster ends when it can't write its file.
var onDisk = []*kind{
	{name: "disk full", of: aServer, lasts: time.Second, begin: func(s *site, i int, _ time.Duration) func() {
		r, pid := s.servers[i], 0
		for line := range strings.Lines(r.CLI("INFO", "server")) {
			_, _ = fmt.Sscanf(line, "process_id:%d", &pid) // The other lines don't match.
		}
		end := diskFull(s.t, pid)
		return func() {
			end()
			await.Until(s.t, recoverWithin, "the log is written again", func() bool {
				return strings.Contains(r.CLI("INFO", "persistence"), "aof_last_write_status:ok")
			})
		}
	}},
}

// onClock are steps of the server's clock.
var onClock = []*kind{
	clockStep("clock 2 s forward", 2*time.Second),
	clockStep("clock 2 s back", -2*time.Second),
}

func clockStep(name string, by time.Duration) *kind {
	return &kind{name: name, of: theGroup, effects: effects{stepped: true, forward: max(0, by)}, begin: func(s *site, _ int, _ time.Duration) func() {
		s.clock.StepClock(s.t, by)
		return nil
	}}
}

// onCluster are the faults of a cluster.
var onCluster = []*kind{
	{name: "migration of a slot in use", of: theGroup, begin: func(s *site, i int, _ time.Duration) func() {
		key := s.crew.keyInUse(i)
		s.calm()
		from := s.cluster.Primary(key)
		for _, to := range s.primaries() {
			if to != from {
				s.cluster.Move(s.cluster.Slot(key), from, to, nil)
				break
			}
		}
		return nil
	}},
	{name: "kill -9 of a primary, and takeover", of: theGroup, lasts: time.Second, effects: effects{lossy: true}, begin: func(s *site, i int, _ time.Duration) func() {
		s.calm()
		primary := s.primaries()[i%3]
		id := primary.CLI("CLUSTER", "MYID")
		for _, replica := range s.servers {
			if strings.Contains(replica.CLI("CLUSTER", "NODES"), "myself,slave "+id) {
				primary.Kill()
				replica.CLI("CLUSTER", "FAILOVER", "TAKEOVER")
				return primary.Restart
			}
		}
		return nil // its replica follows another one since an earlier failover
	}},
}

// primaries returns the nodes of the cluster that have slots.
func (s *site) primaries() (all []*redistest.Server) {
	for _, n := range s.servers {
		if strings.HasPrefix(n.CLI("ROLE"), "master") {
			all = append(all, n)
		}
	}
	return all
}

// calm returns when no node of the cluster takes another for failing.
func (s *site) calm() {
	await.Until(s.t, recoverWithin, "the nodes of the cluster are well", func() bool {
		for _, n := range s.servers {
			if !strings.Contains(n.CLI("CLUSTER", "INFO"), "cluster_state:ok") || strings.Contains(n.CLI("CLUSTER", "NODES"), ",fail") {
				return false
			}
		}
		return len(s.primaries()) == 3
	})
}

// onSentinel are the faults of a master, its replica and their Sentinels. Any may make the replica the master, which
// lacks what it had not received.
var onSentinel = []*kind{
	lossy(onServer("kill -9", 3*time.Second, func(r *redistest.Server) func() {
		r.Kill()
		return r.Restart
	})),
	lossy(onServer("SIGSTOP", 3*time.Second, func(r *redistest.Server) func() {
		r.Pause()
		return r.Resume
	})),
	{name: "SENTINEL FAILOVER", of: theGroup, effects: effects{lossy: true}, begin: func(s *site, i int, _ time.Duration) func() {
		s.watched[i].CLI("SENTINEL", "FAILOVER", sentinelName) // Another one may be under way.
		return nil
	}},
	onServer("SCRIPT FLUSH", 0, scriptFlush),
	onServer("CLIENT KILL of all", 0, clientKill),
}

func lossy(k *kind) *kind {
	k.lossy = true
	return k
}

func scriptFlush(r *redistest.Server) func() {
	r.CLI("SCRIPT", "FLUSH")
	return nil
}

func clientKill(r *redistest.Server) func() {
	r.CLI("CLIENT", "KILL", "TYPE", "normal")
	r.CLI("CLIENT", "KILL", "TYPE", "pubsub")
	return nil
}

// onServer makes a fault of a redis-server.
func onServer(name string, lasts time.Duration, act func(r *redistest.Server) func()) *kind {
	return &kind{name: name, of: aServer, lasts: lasts, begin: func(s *site, i int, _ time.Duration) func() {
		return act(s.servers[i])
	}}
}

// config changes a setting for a while.
func config(setting, value, usual string, lasts time.Duration) *kind {
	return onServer("CONFIG SET "+setting+" "+value, lasts, func(r *redistest.Server) func() {
		r.CLI("CONFIG", "SET", setting, value)
		return func() { r.CLI("CONFIG", "SET", setting, usual) }
	})
}
