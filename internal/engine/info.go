package engine

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/redoubt-go/redoubt/internal/randid"
)

// eachShard calls f with every shard locked in turn.
func (e *Engine) eachShard(c *call, f func(*shard)) {
	for i := range e.shards {
		sh := &e.shards[i]
		if c != nil && c.held.has(i) {
			f(sh)
			continue
		}
		func() {
			sh.mu.Lock()
			defer sh.mu.Unlock()
			f(sh)
		}()
	}
}

// infoSections are in the order of Redis. INFO shows a named section only if the client asks for it, or for
// all.
var infoSections = []struct {
	name  string
	f     func(*Engine, *call, *strings.Builder)
	named bool
}{
	{"server", (*Engine).infoServer, false},
	{"clients", (*Engine).infoClients, false},
	{"memory", (*Engine).infoMemory, false},
	{"persistence", (*Engine).infoPersistence, false},
	{"stats", (*Engine).infoStats, false},
	{"replication", (*Engine).infoReplication, false},
	{"cpu", (*Engine).infoCPU, false},
	{"commandstats", (*Engine).infoCommands, true},
	{"errorstats", (*Engine).infoErrors, false},
	{"latencystats", (*Engine).infoLatencies, true},
	{"cluster", func(_ *Engine, _ *call, b *strings.Builder) { b.WriteString("cluster_enabled:0\r\n") }, false},
	{"keyspace", (*Engine).infoKeyspace, false},
}

func cmdInfo(c *call) {
	wanted := func(name string, named bool) bool { //nolint:revive // as in the table
		if len(c.args) == 1 {
			return !named
		}
		for _, a := range c.args[1:] {
			if is(a, name) || is(a, "all") || is(a, "everything") || !named && is(a, "default") {
				return true
			}
		}
		return false
	}
	var b strings.Builder
	for _, s := range infoSections {
		if !wanted(s.name, s.named) {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		title := strings.ToUpper(s.name[:1]) + s.name[1:]
		if s.name == "cpu" {
			title = "CPU"
		}
		fmt.Fprintf(&b, "# %s\r\n", title)
		s.f(c.e, c, &b)
	}
	c.verbatim(b.String())
}

// redisVersion is the version of Redis that the engine imitates.
const redisVersion = "7.0.15"

func (e *Engine) infoServer(_ *call, b *strings.Builder) {
	up := int64(e.clock.Now().Sub(e.started).Seconds())
	fmt.Fprintf(b, "redis_version:%s\r\nredis_mode:standalone\r\nredoubt_engine:1\r\nos:%s %s\r\narch_bits:64\r\ngo_version:%s\r\nprocess_id:%d\r\nrun_id:%s\r\nuptime_in_seconds:%d\r\nuptime_in_days:%d\r\n",
		redisVersion, runtime.GOOS, runtime.GOARCH, runtime.Version(), os.Getpid(), e.runID, up, up/86400)
}

// newRunID returns the name of a server in INFO: 40 hexadecimal digits.
func newRunID() string { return randid.Hex(20) }

func (e *Engine) infoClients(c *call, b *strings.Builder) {
	e.clients.mu.Lock()
	connected := e.clients.n
	e.clients.mu.Unlock()
	fmt.Fprintf(b, "connected_clients:%d\r\ntracking_clients:%d\r\nblocked_clients:%d\r\n", connected, e.tracking.n.Load(), e.stats.blocked.Load())
	if e.opts.ClientMemory != nil {
		held, limit := e.opts.ClientMemory()
		fmt.Fprintf(b, "mem_clients_normal:%d\r\nmaxmemory_clients:%d\r\n", held, limit)
	}
}

func (e *Engine) infoPersistence(c *call, b *strings.Builder) {
	dirty := e.stats.dirty.Load()
	e.eachShard(c, func(sh *shard) { dirty += sh.counters.dirty })
	loading := 0
	if m := e.master.Load(); m != nil && m.loading.Load() {
		loading = 1
	}
	fmt.Fprintf(b, "loading:%d\r\n", loading)
	e.saves.info(b, dirty)
	e.infoLog(b)
}

func (e *Engine) infoStats(c *call, b *strings.Builder) {
	n := counters{commands: e.stats.commands.Load()}
	e.eachShard(c, func(sh *shard) {
		n.commands += sh.counters.commands
		n.hits += sh.counters.hits
		n.misses += sh.counters.misses
	})
	e.pubsub.mu.RLock()
	channels, patterns := len(e.pubsub.channels), len(e.pubsub.patterns)
	e.pubsub.mu.RUnlock()
	fmt.Fprintf(b, "total_connections_received:%d\r\ntotal_commands_processed:%d\r\nsync_full:%d\r\nsync_partial_ok:%d\r\nsync_partial_err:%d\r\nexpired_keys:%d\r\nexpired_subkeys:%d\r\nevicted_keys:%d\r\nkeyspace_hits:%d\r\nkeyspace_misses:%d\r\npubsub_channels:%d\r\npubsub_patterns:%d\r\nmigrate_cached_sockets:%d\r\ntotal_error_replies:%d\r\n",
		e.stats.connections.Load(), n.commands, e.replication.full.Load(), e.replication.ok.Load(), e.replication.miss.Load(), e.stats.expired.Load(), e.stats.expiredFields.Load(), e.stats.evicted.Load(), n.hits, n.misses, channels, patterns, e.migrations.len(), e.errors.total.Load())
	e.infoTracking(c, b)
}

func (e *Engine) infoReplication(_ *call, b *strings.Builder) {
	if m := e.master.Load(); m != nil {
		m.info(b)
		return
	}
	b.WriteString("role:master\r\n")
	e.replication.info(b, e.clock.Now())
}

func (e *Engine) infoKeyspace(c *call, b *strings.Builder) {
	var keys, expires [databaseCount]int
	e.eachShard(c, func(sh *shard) {
		for db, ks := range sh.dbs {
			if ks != nil {
				keys[db] += ks.keys.len()
				expires[db] += ks.expiring.len()
			}
		}
	})
	for db := range keys {
		if keys[db] > 0 {
			fmt.Fprintf(b, "db%d:keys=%d,expires=%d,avg_ttl=0\r\n", db, keys[db], expires[db])
		}
	}
}

func cmdMemoryDoctor(c *call)      { c.verbatim("Nothing to report.") }
func cmdMemoryMallocStats(c *call) { c.verbatim("Stats not supported for the current allocator") }

// cmdMemoryPurge collects garbage and returns memory to the system. allocator_allocated is then the
// memory in use.
func cmdMemoryPurge(c *call) {
	debug.FreeOSMemory()
	c.ok()
}
