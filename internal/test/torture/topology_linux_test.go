package torture

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/faults"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// A topology is a kind of deployment.
type topology struct {
	name  string
	start func(t *testing.T, s *site)
	kinds []*kind // the faults that can strike it
	long  bool    // left out of make test-all
}

// A site is a topology that runs.
type site struct {
	topology
	t       *testing.T
	binary  string
	servers []*redistest.Server // behind serve
	cluster *redistest.Cluster  // of the servers, if they are one
	watched []*redistest.Server // Sentinels of the servers
	clock   *faults.Deployment  // an engine behind serve whose clock can be stepped
	serve   *serving
	masters []string          // the URLs of independent servers, for locks on a majority of them
	library string            // the URL of the library's servers, if it doesn't use serve
	links   []*faultnet.Proxy // before serve: one for each worker
	direct  []*faultnet.Proxy // before the servers: the first is serve's, each other one is a worker's
	crew    *crew             // of the round
	rounds  int
}

// The doors of the workers of a round.
var doors = []string{byLibrary, byLibrary, byWire, byWire, byCommand}

// build starts a topology, which ends with t.
func (top topology) build(t *testing.T, binary string) *site {
	s := &site{topology: top, t: t, binary: binary}
	top.start(t, s)
	for range doors {
		s.links = append(s.links, faultnet.New(t, s.serve.addr))
	}
	return s
}

// url returns where a worker finds its door.
func (s *site) url(i int) string {
	switch {
	case doors[i] == byWire:
		return s.links[i].Addr()
	case doors[i] == byCommand || s.library == "":
		return "redis://" + s.links[i].Addr()
	case len(s.direct) > 0:
		return "redis://" + s.direct[1+i].Addr()
	default:
		return s.library
	}
}

// durable keeps what a killed process acknowledged: the kernel has it.
var durable = []string{"--appendonly", "yes", "--appendfsync", "no"}

var topologies = []topology{
	{name: "engine", start: func(t *testing.T, s *site) {
		dir := filepath.Join(t.TempDir(), "data")
		s.serve = serve(t, s.binary, func(addr string) []string {
			return []string{"--listen=" + addr, "--dir=" + dir, "--fsync=always"}
		})
	}, kinds: slices.Concat(everywhere, onEngine)},
	{name: "redis", start: func(t *testing.T, s *site) {
		s.servers = []*redistest.Server{redistest.Start(t, durable...)}
		for range 1 + len(doors) {
			s.direct = append(s.direct, faultnet.New(t, s.servers[0].Addr()))
		}
		s.library = s.servers[0].URL()
		s.serve = serve(t, s.binary, func(addr string) []string {
			return []string{"--listen=" + addr, "--backend=redis://" + s.direct[0].Addr()}
		})
	}, kinds: slices.Concat(everywhere, networks(aDirect), onRedis, onDisk)},
	{name: "pool", start: func(t *testing.T, s *site) {
		text := "p:\n  hash: fnv1a_64\n  distribution: ketama\n  hash_tag: \"{}\"\n  redis: true\n  servers:\n"
		for _, name := range []string{"a", "b", "c"} {
			server := redistest.Start(t, durable...)
			s.servers = append(s.servers, server)
			s.direct = append(s.direct, faultnet.New(t, server.Addr()))
			addr := s.direct[len(s.direct)-1].Addr()
			s.masters = append(s.masters, "redis://"+addr)
			text += "   - " + addr + ":1 " + name + "\n"
		}
		s.pools(text)
	}, kinds: slices.Concat(everywhere, networks(aDirect), onRedis, onDisk)},
	{name: "clock", start: func(t *testing.T, s *site) {
		s.clock = faults.Start(t, faults.Engine)
		s.library = "redis://" + s.clock.Addrs()[0]
		s.serve = serve(t, s.binary, func(addr string) []string {
			return []string{"--listen=" + addr, "--backend=" + s.library}
		})
	}, kinds: slices.Concat(everywhere, onClock), long: true},
	{name: "cluster", start: func(t *testing.T, s *site) {
		s.startCluster()
		s.library = "redis-cluster://" + strings.Join(s.cluster.Addrs(), ",")
		s.serve = serve(t, s.binary, func(addr string) []string {
			return []string{"--listen=" + addr, "--backend=" + s.library}
		})
	}, kinds: slices.Concat(everywhere, onRedis, onCluster), long: true},
	{name: "cluster-pool", start: func(_ *testing.T, s *site) {
		s.startCluster()
		text := "p:\n  redis: true\n  cluster:\n"
		for _, addr := range s.cluster.Addrs() {
			text += "   - " + addr + "\n"
		}
		s.pools(text)
	}, kinds: slices.Concat(everywhere, onRedis, onCluster), long: true},
	{name: "sentinel", start: func(t *testing.T, s *site) {
		master := redistest.Start(t, durable...)
		host, port, _ := net.SplitHostPort(master.Addr())
		replica := redistest.Start(t, append(durable, "--replicaof", host, port)...)
		s.servers = []*redistest.Server{master, replica}
		s.watched = redistest.StartSentinels(t, 3, []redistest.Watched{{Name: sentinelName, Master: master, Replicas: []*redistest.Server{replica}}})
		var addrs []string
		for _, sentinel := range s.watched {
			addrs = append(addrs, sentinel.Addr())
		}
		s.library = "redis-sentinel://" + strings.Join(addrs, ",") + "/" + sentinelName
		s.serve = serve(t, s.binary, func(addr string) []string {
			return []string{"--listen=" + addr, "--backend=" + s.library}
		})
	}, kinds: slices.Concat(everywhere, onSentinel), long: true},
}

const sentinelName = "main"

// startCluster starts three primaries with a replica each, which take over only when a fault makes them.
func (s *site) startCluster() {
	s.cluster = redistest.StartCluster(s.t, 3, 1, append(durable, "--cluster-require-full-coverage", "no")...)
	s.servers = s.cluster.Nodes()
	for _, server := range s.servers {
		server.CLI("CONFIG", "SET", "cluster-replica-no-failover", "yes")
	}
}

// pools starts serve in front of one pool.
func (s *site) pools(text string) {
	file := filepath.Join(s.t.TempDir(), "pools.yml")
	s.serve = serve(s.t, s.binary, func(addr string) []string {
		must(s.t, os.WriteFile(file, []byte(text+"  listen: "+addr+"\n"), 0o600))
		return []string{"--pools=" + file}
	})
}
