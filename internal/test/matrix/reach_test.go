package matrix

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/ports"
	"github.com/redoubt-go/redoubt/internal/test/programs"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// A reach is what is reached.
type reach struct {
	name string
	// engine is set for the one in the process; url, of redoubt.Open, for all others.
	engine *engine.Engine
	url    string
	// serve says that `redoubt serve` answers at the url.
	serve bool
	// The options of go-redis for the same; one of them is set unless engine is.
	one      *redis.Options
	sentinel *redis.FailoverOptions
	cluster  *redis.ClusterOptions
}

const (
	onEngine      = "the embedded engine"
	onServeEngine = "serve on the engine"
	onServeRedis  = "serve on one Redis"
	onServeSent   = "serve on Sentinel"
	onServePool   = "serve on a pool of three"
	onServeClust  = "serve on a cluster pool"
	onRedis       = "Redis"
	onSentinel    = "Sentinel"
	onCluster     = "Cluster"
)

// reaches are all that is reached, in the order of the table.
var reaches = []string{onEngine, onServeEngine, onServeRedis, onServeSent, onServePool, onServeClust, onRedis, onSentinel, onCluster}

// startAll starts what is reached, in the order of reaches: ten redis-servers, a Sentinel, and
// three processes of redoubt serve, which all cells share.
func startAll(t *testing.T) []*reach {
	t.Helper()
	var (
		one, master, replica *redistest.Server
		three                [3]*redistest.Server
		cluster              *redistest.Cluster
	)
	binary = programs.Redoubt(t)
	one, master = redistest.Start(t), redistest.Start(t)
	host, port, err := net.SplitHostPort(master.Addr())
	must(t, err)
	replica = redistest.Start(t, "--replicaof", host, port)
	for i := range three {
		three[i] = redistest.Start(t)
	}
	cluster = redistest.StartCluster(t, 3, 0)
	sentinel := redistest.StartSentinels(t, 1, []redistest.Watched{{Name: "orders", Master: master, Replicas: []*redistest.Server{replica}}})[0]
	// Nobody is taken for down because the machine is busy.
	sentinel.CLI("SENTINEL", "SET", "orders", "down-after-milliseconds", "60000")
	for _, n := range cluster.Nodes() {
		n.CLI("CONFIG", "SET", "cluster-node-timeout", "60000")
	}

	e, err := engine.Open(t.Context(), engine.Options{})
	must(t, err)
	t.Cleanup(func() { _ = e.Close() })

	const pool = "%s:\n  listen: %s\n  redis: true\n"
	const hashed = "  hash: md5\n  distribution: ketama\n  hash_tag: \"{}\"\n  servers:\n"
	var (
		ownEngine, onOne                    = freeAddr(t), freeAddr(t)
		poolSentinel, poolThree, poolOfNode = freeAddr(t), freeAddr(t), freeAddr(t)
		file                                = filepath.Join(t.TempDir(), "pools.yml")
		conf                                strings.Builder
	)
	fmt.Fprintf(&conf, pool+hashed+"   - %s:1 orders\n  sentinels:\n   - %s\n", "sentinel", poolSentinel, master.Addr(), sentinel.Addr())
	fmt.Fprintf(&conf, pool+hashed, "three", poolThree)
	for i, s := range three {
		fmt.Fprintf(&conf, "   - %s:1 redis-%d\n", s.Addr(), i+1)
	}
	fmt.Fprintf(&conf, pool+"  cluster:\n", "cluster", poolOfNode)
	for _, addr := range cluster.Addrs() {
		fmt.Fprintf(&conf, "   - %s\n", addr)
	}
	must(t, os.WriteFile(file, []byte(conf.String()), 0o600))
	serve(t, []string{ownEngine}, "--listen="+ownEngine)
	serve(t, []string{onOne}, "--listen="+onOne, "--backend="+one.URL())
	serve(t, []string{poolSentinel, poolThree, poolOfNode}, "--pools="+file)

	single := func(name, addr string, serve bool) *reach {
		return &reach{name: name, url: "redis://" + addr, serve: serve, one: &redis.Options{Addr: addr}}
	}
	return []*reach{
		{name: onEngine, engine: e},
		single(onServeEngine, ownEngine, true),
		single(onServeRedis, onOne, true),
		single(onServeSent, poolSentinel, true),
		single(onServePool, poolThree, true),
		single(onServeClust, poolOfNode, true),
		single(onRedis, one.Addr(), false),
		{
			name: onSentinel, url: "redis-sentinel://" + sentinel.Addr() + "/orders",
			sentinel: &redis.FailoverOptions{MasterName: "orders", SentinelAddrs: []string{sentinel.Addr()}},
		},
		{
			name: onCluster, url: "redis-cluster://" + strings.Join(cluster.Addrs(), ","),
			cluster: &redis.ClusterOptions{Addrs: cluster.Addrs()},
		},
	}
}

// freeAddr returns an address that is free until the test ends.
func freeAddr(t *testing.T) string {
	t.Helper()
	p, err := ports.Reserve()
	must(t, err)
	t.Cleanup(p.Release)
	return ports.Addr(p.Number)
}

// serve runs `redoubt serve` until the test ends, and returns once it answers at addrs.
func serve(t *testing.T, addrs []string, args ...string) {
	t.Helper()
	cmd, log := exec.CommandContext(context.Background(), binary, append([]string{"serve", "--http="}, args...)...), &await.Buffer{}
	cmd.Env, cmd.Stderr, cmd.SysProcAttr = environ(), log, redistest.Owned()
	must(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // How it ended is in its ProcessState.
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("redoubt serve %s said\n%s", strings.Join(args, " "), log)
		}
	})
	for _, addr := range addrs {
		c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
		await.Soon(t, "redoubt serve answers: "+strings.Join(args, " "), func() bool {
			select {
			case <-ended:
				t.Fatalf("redoubt serve %s ended: %s", strings.Join(args, " "), log)
			default:
			}
			return c.Ping(t.Context()).Err() == nil
		})
		_ = c.Close()
	}
}

// environ is the test's environment without settings of redoubt.
func environ() (env []string) {
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "REDOUBT_") {
			env = append(env, e)
		}
	}
	return env
}
