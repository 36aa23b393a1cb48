package faults

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// usualTTL is what [Deployment.TTL] begins with.
const usualTTL = 150 * time.Millisecond

// A Kind is a kind of deployment.
type Kind string

const (
	// Engine is one embedded engine, in a process of its own.
	Engine Kind = "engine"
	// Redis is one redis-server with a replica.
	Redis Kind = "redis"
	// Cluster is three primaries with a replica each, which don't take over by
	// themselves.
	Cluster Kind = "cluster"
)

// A Deployment is the servers that processes use. Acknowledged writes
// survive a kill.
type Deployment struct {
	Kind Kind
	// TTL is that of the leases in a history. Faults last about as long, and clients wait as long
	// for a reply. [Deployment.Rounds] makes it longer on a machine that is too slow for it.
	TTL time.Duration

	engine  *engineProcess
	servers []*redistest.Server    // the primaries first, the replicas in their order
	primary atomic.Pointer[string] // of Redis
	direct  redis.UniversalClient
}

// durable is enough for a process that is killed: what it wrote the kernel has.
var durable = []string{"--appendonly", "yes", "--appendfsync", "no"}

// Start starts servers that end with t.
func Start(t *testing.T, kind Kind) *Deployment {
	t.Helper()
	d := &Deployment{Kind: kind, TTL: usualTTL}
	switch kind {
	case Engine:
		d.engine = startEngine(t)
	case Redis:
		primary := redistest.Start(t, durable...)
		host, port, _ := net.SplitHostPort(primary.Addr())
		d.servers = []*redistest.Server{primary, redistest.Start(t, append(durable, "--replicaof", host, port)...)}
		addr := primary.Addr()
		d.primary.Store(&addr)
	case Cluster:
		d.servers = redistest.StartCluster(t, 3, 1, append(durable,
			"--cluster-require-full-coverage", "no")...).Nodes()
		for _, server := range d.servers {
			server.CLI("CONFIG", "SET", "cluster-replica-no-failover", "yes")
		}
	}
	d.direct = d.dial(t, 10*time.Second, func(ctx context.Context, addr string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	})
	t.Cleanup(func() { _ = d.direct.Close() })
	return d
}

// StepClock steps the clock of an [Engine].
func (d *Deployment) StepClock(t *testing.T, by time.Duration) {
	t.Helper()
	must(t, d.engine.step(by))
}

// Addrs are the addresses of the servers.
func (d *Deployment) Addrs() (addrs []string) {
	if d.engine != nil {
		return []string{d.engine.addr}
	}
	for _, s := range d.servers {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// Direct is a client past all faults.
func (d *Deployment) Direct() redis.UniversalClient { return d.direct }

// Texts runs a command on each primary, past all faults, and returns the texts
// that they answered together.
func (d *Deployment) Texts(t *testing.T, args ...any) (texts []string) {
	t.Helper()
	var mu sync.Mutex
	must(t, d.eachPrimary(t.Context(), func(rdb *redis.Client) error {
		reply, err := rdb.Do(t.Context(), args...).Result()
		mu.Lock()
		defer mu.Unlock()
		switch reply := reply.(type) {
		case string:
			texts = append(texts, reply)
		case []any:
			for _, text := range reply {
				texts = append(texts, text.(string))
			}
		}
		return err
	}))
	return texts
}

// eachPrimary calls f with each server that takes writes, without faults on its way.
func (d *Deployment) eachPrimary(ctx context.Context, f func(rdb *redis.Client) error) error {
	if c, ok := d.direct.(*redis.ClusterClient); ok {
		return c.ForEachMaster(ctx, func(_ context.Context, rdb *redis.Client) error { return f(rdb) })
	}
	return f(d.direct.(*redis.Client))
}

// dial returns a client whose connections dialer makes. On Redis they go to
// whatever is the primary when they are made.
func (d *Deployment) dial(t *testing.T, timeout time.Duration, dialer func(ctx context.Context, addr string) (net.Conn, error)) redis.UniversalClient {
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) {
		if primary := d.primary.Load(); primary != nil {
			addr = *primary
		}
		return dialer(ctx, addr)
	}
	var rdb redis.UniversalClient
	if d.Kind == Cluster {
		rdb = redis.NewClusterClient(&redis.ClusterOptions{Addrs: d.Addrs(), Dialer: dial, MaxRetries: -1, ReadTimeout: timeout})
	} else {
		rdb = redis.NewClient(&redis.Options{Addr: d.Addrs()[0], Dialer: dial, MaxRetries: -1, ReadTimeout: timeout})
	}
	clienttest.Watch(t, rdb)
	return rdb
}

// joining is what another process has to know to use a deployment.
type joining struct {
	Kind  Kind
	Addrs []string
}

// Invitation is for [Join], in another process.
func (d *Deployment) Invitation() string { return InvitationTo(d.Kind, d.Addrs()...) }

// InvitationTo is for [Join] to servers that are of no Deployment.
func InvitationTo(kind Kind, addrs ...string) string {
	text, err := json.Marshal(joining{kind, addrs})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Join returns a client of the deployment of an [Deployment.Invitation], whose
// primaries must be its first ones.
func Join(invitation string) (redis.UniversalClient, error) {
	var j joining
	if err := json.Unmarshal([]byte(invitation), &j); err != nil {
		return nil, err
	}
	if j.Kind == Cluster {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: j.Addrs, MaxRetries: -1}), nil
	}
	return redis.NewClient(&redis.Options{Addr: j.Addrs[0], MaxRetries: -1}), nil
}

// A Network is the way of one process to a deployment: a proxy before every
// server.
type Network struct {
	rdb     redis.UniversalClient
	proxies map[string]*faultnet.Proxy // by the address of the server
}

// Network returns a new way to d.
func (d *Deployment) Network(t *testing.T) *Network {
	t.Helper()
	n := &Network{proxies: map[string]*faultnet.Proxy{}}
	for _, addr := range d.Addrs() {
		n.proxies[addr] = faultnet.New(t, addr)
	}
	n.rdb = d.dial(t, d.TTL, func(ctx context.Context, addr string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", n.proxies[addr].Addr())
	})
	t.Cleanup(func() { _ = n.rdb.Close() })
	return n
}

// Client is a client whose connections go this way.
func (n *Network) Client() redis.UniversalClient { return n.rdb }

// Conn returns a Conn over a client of d, for a worker that f strikes.
func (d *Deployment) Conn(t *testing.T, rdb redis.UniversalClient, f Fault) redoubt.Conn {
	t.Helper()
	conn, err := goredis.Wrap(rdb)
	must(t, err)
	if f.steps != 0 && d.Kind != Engine {
		return stepped{conn}
	}
	return conn
}

// each calls f with every proxy.
func (n *Network) each(f func(p *faultnet.Proxy)) {
	for _, p := range n.proxies {
		f(p)
	}
}

func (n *Network) heal() {
	n.each(func(p *faultnet.Proxy) {
		p.Heal()
		p.Delay(0)
	})
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func upTo(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }

// network disturbs each network on its own: it acts, and heals a while later.
func network(act func(s *Site, p *faultnet.Proxy, rng *rand.Rand)) func(context.Context, *testing.T, *Site, *rand.Rand) {
	return func(ctx context.Context, _ *testing.T, s *Site, rng *rand.Rand) {
		var wg sync.WaitGroup
		for _, n := range s.Networks {
			rng := rand.New(rand.NewPCG(rng.Uint64(), 0))
			wg.Go(func() {
				defer n.heal()
				for ctx.Err() == nil {
					seed := rng.Uint64()
					n.each(func(p *faultnet.Proxy) { act(s, p, rand.New(rand.NewPCG(seed, 0))) })
					pause(ctx, upTo(rng, 2*s.TTL))
					n.heal()
					pause(ctx, upTo(rng, s.TTL))
				}
			})
		}
		wg.Wait()
	}
}
