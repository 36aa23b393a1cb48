package faults

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// A Site is what a fault strikes.
type Site struct {
	*Deployment

	Networks  []*Network    // of the workers in this process
	Processes []*os.Process // that work on their own, only for the [Fault.Stops]

	// Prefix and Tags are parts of the keys in use: "<prefix>:{<tag>}:…".
	Prefix string
	Tags   []string
	// Take and Give are the scripts that take what there is and give it back.
	Take, Give []*redoubt.Script
	// Flushing is called around a FLUSHALL.
	Flushing func(flush func())
}

// A Fault is something that happens while others work.
type Fault struct {
	Name string
	// Loses says that the fault takes from the server what it acknowledged, or
	// its time: nothing that rests on them is promised then.
	Loses bool
	// Stops says that it needs Processes.
	Stops bool
	// Strike makes it happen, maybe again and again, until ctx ends, and heals it.
	// It is called by the test's own goroutine.
	Strike func(ctx context.Context, t *testing.T, s *Site, rng *rand.Rand)

	quick bool          // it strikes in make test too
	on    []Kind        // where it can happen; everywhere if empty
	slow  bool          // on a cluster, whose nodes take seconds to come back
	steps time.Duration // of the server's clock
}

// Round is how long a fault needs; more when the TTL of d is more than the usual.
func (f Fault) Round(d *Deployment) time.Duration {
	slower := int(d.TTL / usualTTL)
	if f.slow && d.Kind == Cluster {
		return 4 * time.Second * time.Duration(slower)
	}
	return 800 * time.Millisecond * time.Duration(slower)
}

// Steps is how far the fault steps the server's clock.
func (f Fault) Steps() time.Duration { return f.steps }

// All is every fault.
var All = []Fault{
	{Name: "a bad network", quick: true, Strike: network(func(s *Site, p *faultnet.Proxy, rng *rand.Rand) {
		switch rng.IntN(6) {
		case 0:
			p.Delay(upTo(rng, s.TTL/4))
		case 1:
			p.Cut()
		case 2:
			p.Blackhole(faultnet.ToClient)
		case 3:
			p.Blackhole(faultnet.ToServer)
		case 4:
			p.SwallowNextReply("EVALSHA")
		}
	})},
	{Name: "blackhole to the server", Strike: network(func(_ *Site, p *faultnet.Proxy, _ *rand.Rand) { p.Blackhole(faultnet.ToServer) })},
	{Name: "blackhole to the client", Strike: network(func(_ *Site, p *faultnet.Proxy, _ *rand.Rand) { p.Blackhole(faultnet.ToClient) })},
	{Name: "lost acquire replies", Strike: network(func(s *Site, p *faultnet.Proxy, _ *rand.Rand) { swallow(p, s.Take) })},
	{Name: "lost release replies", Strike: network(func(s *Site, p *faultnet.Proxy, _ *rand.Rand) { swallow(p, s.Give) })},
	// So slow that whoever is impatient leaves in the middle.
	{Name: "cancelled acquires", Strike: network(func(s *Site, p *faultnet.Proxy, rng *rand.Rand) { p.Delay(s.TTL/20 + upTo(rng, s.TTL/10)) })},
	{Name: "SIGSTOP", Stops: true, Strike: stop},
	{Name: "SCRIPT FLUSH", Strike: scriptFlush},
	{Name: "kill -9 and restart", quick: true, slow: true, Strike: kill},
	{Name: "slot migration", on: []Kind{Cluster}, Strike: migrate},
	{Name: "a dead shard", on: []Kind{Cluster}, slow: true, Strike: deadShard},
	{Name: "FLUSHALL", Loses: true, Strike: flushAll},
	{Name: "clock step back", steps: -5 * time.Second, Strike: stepClock(-5 * time.Second)},
	{Name: "clock step forward", steps: 5 * time.Second, Loses: true, Strike: stepClock(5 * time.Second)},
	{Name: "failover", on: []Kind{Redis, Cluster}, slow: true, Loses: true, Strike: failover},
}

// Each runs a test for every fault on every kind of deployment, in parallel to
// other tests. Under -short it runs it for the faults that are quick.
func Each(t *testing.T, run func(t *testing.T, d *Deployment, f Fault)) {
	t.Parallel()
	for _, kind := range []Kind{Cluster, Redis, Engine} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			d := Start(t, kind)
			for _, f := range All {
				if (len(f.on) == 0 || slices.Contains(f.on, kind)) && (f.quick || !testing.Short()) {
					t.Run(strings.ReplaceAll(f.Name, " ", "_"), func(t *testing.T) { run(t, d, f) })
				}
			}
			if testing.Short() {
				t.Run("other_faults", func(t *testing.T) { slow.Test(t, "each fault strikes for seconds") })
			}
		})
	}
}

func swallow(p *faultnet.Proxy, scripts []*redoubt.Script) {
	for _, s := range scripts {
		p.SwallowNextReply("EVALSHA " + s.Digest())
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stop stops each process for longer than its leases last.
func stop(ctx context.Context, t *testing.T, s *Site, rng *rand.Rand) {
	for ctx.Err() == nil {
		pause(ctx, upTo(rng, s.TTL))
		p := s.Processes[rng.IntN(len(s.Processes))]
		must(t, redistest.Suspend(p))
		pause(ctx, s.TTL+upTo(rng, s.TTL))
		must(t, redistest.Resume(p))
	}
}

func scriptFlush(ctx context.Context, t *testing.T, s *Site, rng *rand.Rand) {
	for ctx.Err() == nil {
		err := s.eachPrimary(ctx, func(rdb *redis.Client) error { return rdb.ScriptFlush(ctx).Err() })
		if ctx.Err() == nil {
			must(t, err)
		}
		pause(ctx, upTo(rng, s.TTL/10))
	}
}

func kill(ctx context.Context, t *testing.T, s *Site, rng *rand.Rand) {
	for first := true; ctx.Err() == nil; first = false {
		pause(ctx, s.TTL+upTo(rng, s.TTL))
		switch {
		case s.Kind == Engine:
			s.engine.kill()
			pause(ctx, upTo(rng, s.TTL))
			must(t, s.engine.start())
		case first || s.Kind == Redis:
			server := s.owner(t, rng)
			server.Kill()
			pause(ctx, upTo(rng, s.TTL))
			server.Restart()
		}
	}
}

func deadShard(ctx context.Context, t *testing.T, s *Site, rng *rand.Rand) {
	pause(ctx, s.TTL+upTo(rng, s.TTL))
	server := s.owner(t, rng)
	server.Pause()
	// Longer than the others take to notice, and then time to go on.
	pause(ctx, s.rest(ctx)-500*time.Millisecond)
	server.Resume()
	<-ctx.Done()
}

// rest is how long ctx lasts.
func (s *Site) rest(ctx context.Context) time.Duration {
	end, _ := ctx.Deadline()
	return time.Until(end)
}

func flushAll(ctx context.Context, t *testing.T, s *Site, rng *rand.Rand) {
	for ctx.Err() == nil {
		pause(ctx, s.TTL+upTo(rng, s.TTL))
		s.Flushing(func() {
			must(t, s.eachPrimary(context.WithoutCancel(ctx), func(rdb *redis.Client) error {
				return rdb.FlushAll(context.WithoutCancel(ctx)).Err()
			}))
		})
	}
}

func stepClock(d time.Duration) func(context.Context, *testing.T, *Site, *rand.Rand) {
	return func(ctx context.Context, t *testing.T, s *Site, rng *rand.Rand) {
		for range 2 {
			pause(ctx, s.TTL+upTo(rng, s.TTL))
			if s.Kind == Engine {
				must(t, s.engine.step(d))
				continue
			}
			for _, tag := range s.Tags {
				key := s.Prefix + ":{" + tag + "}:step"
				must(t, s.direct.IncrBy(t.Context(), key, int64(d.Seconds())).Err())
			}
		}
		<-ctx.Done()
	}
}
