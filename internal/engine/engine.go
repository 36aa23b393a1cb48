package engine

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/lua"
)

const (
	shardCount = 256
	// databaseCount is how many databases SELECT can choose from.
	databaseCount = 16
	// cacheLine is how far apart things are that cores write at the same time.
	cacheLine = 64
)

// Options configure an [Engine]. The zero value is a store in memory that
// runs on the system's clock.
type Options struct {
	// Clock tells the time and fires timers. Defaults to the system's clock.
	Clock Clock
	// Journal gets every change, while the changed shards are still locked. Defaults to none.
	Journal Journal
	// Events gets every keyspace event, whatever notify-keyspace-events says, while the key's shard
	// is locked. Defaults to none.
	Events func(Event)
	// Dir is the directory that the engine saves changes in. Defaults to none: the data is lost
	// when the process ends.
	Dir string
	// Fsync says when changes are on disk. Defaults to aof.EverySecond. With aof.Always no reply
	// leaves before the changes that it depends on are on disk.
	Fsync aof.Policy
	// CompactBytes is how long the log may grow before it is rewritten, in
	// bytes; it may always double. Defaults to 64 MiB.
	CompactBytes int64
	// Natives are Go functions to run in place of scripts, by the scripts'
	// digests. A script that has one may use only keys that it declared.
	// Defaults to none: all scripts are run as Lua.
	Natives map[string]Native
	// ScriptTimeout is how long a script may run. A script that takes longer ends with an error;
	// what it has written stays. Defaults to a minute. Negative means no limit but SCRIPT KILL.
	ScriptTimeout time.Duration
	// ScriptSteps is how many steps a script may take, beside ScriptTimeout: calls, turns of loops
	// and similar work in libraries, to within a few thousand. Writes of a script before the
	// limit stay. Defaults to no limit.
	ScriptSteps int64
	// StrictKeys refuses scripts the use of keys that they did not declare, as a cluster does. By
	// default a script may use any key, as on Redis; a script whose text does not show that it
	// keeps to its KEYS then holds up all other commands while it runs.
	StrictKeys bool
	// Logger gets warnings for an operator: commands that panicked, with the stack, and trouble
	// with Dir. Defaults to nothing.
	Logger *slog.Logger

	// MaxMemory is how many bytes the keys may take with their values, as the engine counts them.
	// With GOMEMLIMIT set to twice as much the process keeps to that, or to a little more with Dir.
	// A command that needs more is refused with an OOM error, or evicts other keys, as
	// MaxMemoryPolicy says. Defaults to no limit.
	MaxMemory int64
	// MaxMemoryPolicy says which keys go when there are too many: noeviction,
	// allkeys-lru, allkeys-lfu, allkeys-random, and volatile-lru, volatile-lfu,
	// volatile-random, volatile-ttl for keys with a time to live only. Defaults
	// to noeviction: none.
	MaxMemoryPolicy string
	// Synced gets the time of each fsync of the log in Dir. Defaults to none.
	Synced func(took time.Duration)
	// ClientMemory returns how many bytes clients hold, and the limit of that, for INFO. Defaults
	// to none: INFO leaves both out.
	ClientMemory func() (held, limit int64)

	fs      aof.FS // in place of Dir
	reserve int64
}

// A Journal records changes, so that they can be repeated.
type Journal interface {
	// Append gets the commands that repeat a change: repeat all of them or none. It must copy the
	// commands that it keeps, and must not call the engine.
	Append(Effect)
}

// An Effect is the change of a command or of a transaction.
type Effect struct {
	DB       int
	Commands [][][]byte // deterministic: absolute times, no random choice
	Keys     [][]byte   // the keys that were written to
}

// An Event is something that happened to a key.
type Event struct {
	Class byte // as in notify-keyspace-events: g $ l s h z x e n m
	Name  string
	DB    int
	Key   []byte
}

// An Engine is a data store. Its methods are safe for concurrent use.
type Engine struct {
	shards       [shardCount]shard // at the beginning, where a cache line begins
	opts         Options
	clock        Clock
	started      time.Time
	runID        string // another one each time: cursors of SCAN don't outlive the process
	pubsub       pubsub
	config       config
	bounds       bounds
	memory       memory
	stats        stats
	errors       errorStats
	commandStats statsTable
	slow         slowLog
	latency      latencyMonitor
	clients      clients
	sweeper      sweeper
	migrations   migrations
	waker        threadWaker
	access       accessClock
	closed       atomic.Bool
	closing      sync.Once
	background   goroutines
	monitors     monitors
	tracking     tracking
	cache        scriptCache
	pausing      pausing
	scripts      scriptRuns
	functions    functions
	lua          *lua.Runtime
	callSessions sync.Pool // of *callSession, for calls without a session of their own
	hub          hub
	snapshots    snapshots
	replication  replication
	saves        saves
	fs           aof.FS                 // of the directory, nil without one
	master       atomic.Pointer[master] // nil: the engine is a master itself
	roles        sync.Mutex             // for changes of master
	log          *aof.Log               // nil without a directory
	strict       bool                   // no reply leaves before its changes are on disk
	loading      bool                   // the log is being read
	found        aof.Found
}

// A shard holds the keys of every 256th slot. No cache line has parts of two.
type shard struct {
	shardState
	_ [(cacheLine - unsafe.Sizeof(shardState{})%cacheLine) % cacheLine]byte
}

// A shardState begins with the cache line that commands write to.
type shardState struct {
	mu       shardLock
	watched  map[dbKey]map[*Session]watch
	blocked  map[dbKey][]*Wait
	counters counters
	dbs      [databaseCount]*keyspace                      // change them by setKeyspace
	shown    [databaseCount]atomic.Pointer[buckets[value]] // of dbs, as they were or are: for [Session.Prefetch]
	saved    uint64                                        // the position in the log behind the last change
	tracked  map[string]map[*tracker]struct{}              // by key, the clients that have read it: CLIENT TRACKING
}

// Each shard has counters, so that cores do not share them.
type counters struct{ commands, hits, misses, dirty int64 }

// A keyspace is one database's part in one shard.
type keyspace struct {
	keys     dict[value]
	expiring expiryHeap
	fields   deadlines[volatileHash]
	used     int64   // bytes that the keys take with their values
	spares   *spares // nil until a string was replaced
}

type dbKey struct {
	db  int
	key string
}

type stats struct {
	expired       atomic.Int64
	expiredFields atomic.Int64
	evicted       atomic.Int64
	connections   atomic.Int64
	blocked       atomic.Int64 // commands that wait now, also because of CLIENT PAUSE
	commands      atomic.Int64 // commands that no shard counts
	dirty         atomic.Int64 // changes by commands that lock several shards
	panics        atomic.Int64
}

// New is [Open] with context.Background().
func New(opts Options) (*Engine, error) { return Open(context.Background(), opts) }

// Open returns an engine. With opts.Dir it has the data that was saved there, and saves changes:
// package [github.com/redoubt-go/redoubt/internal/engine/aof] says which changes survive a crash.
// Reading a large log takes about a second for each million changes. When ctx ends before that,
// Open gives up; later ctx has no effect.
//
// The error matches [aof.ErrLocked] when the directory is in use. It matches [aof.ErrCorrupt], and
// is an [aof.CorruptError], when the directory is damaged; [aof.Repair] keeps the changes before
// the damage. A torn end of the log, as a crash leaves it, is no error: see [Engine.Recovered].
func Open(ctx context.Context, opts Options) (*Engine, error) {
	if opts.ScriptSteps < 0 {
		return nil, fmt.Errorf("engine: %d script steps: want 0 for no limit, or more", opts.ScriptSteps)
	}
	if err := opts.checkMemory(); err != nil {
		return nil, err
	}
	e := create(opts)
	fs := opts.fs
	if fs == nil {
		if opts.Dir == "" {
			return e, nil
		}
		var err error
		if fs, err = aof.Dir(opts.Dir); err != nil {
			return nil, err
		}
	}
	e.fs = fs
	if exact, err := e.load(ctx, fs, runtime.GOMAXPROCS(0)); err != nil && !exact {
		// A command can't be repeated. In one goroutine the error names its frame.
		e.Close() //nolint:errcheck // it has no log
		e = create(opts)
		e.fs = fs
		if _, err := e.load(ctx, fs, 0); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	found := e.found
	e.tellDurability()
	if found.Flaw != nil && opts.Logger != nil {
		opts.Logger.Warn("damage in the directory that loses no change was mended", slog.Any("error", found.Flaw))
	}
	if t := found.Torn; t != nil && opts.Logger != nil {
		opts.Logger.Warn("the end of the log was torn, by a crash or a power cut, and was cut off",
			slog.String("file", t.File), slog.Int64("offset_bytes", t.Offset), slog.Int64("cut_bytes", t.Bytes), slog.String("reason", t.Reason))
	}
	return e, nil
}

// create returns an empty engine.
func create(opts Options) *Engine {
	e := &Engine{opts: opts, clock: opts.Clock, bounds: defaultBounds}
	if e.clock == nil {
		e.clock = systemClock{}
	}
	e.started = e.clock.Now()
	e.saves.last = e.started
	e.runID = newRunID()
	e.lua, _ = lua.NewRuntime(lua.Options{Steps: opts.ScriptSteps}) // Open has checked it
	e.commandStats.own = make([]atomic.Pointer[commandStats], len(bindings))
	e.config.init()
	e.applyTiming()
	e.initMemory()
	e.pubsub.init()
	e.clients.byID = map[int64]*Session{}
	e.scripts.over, e.scripts.shards = make(chan struct{}), &e.shards
	e.sweeper.init()
	e.migrations.life, e.migrations.end = context.WithCancel(context.Background())
	e.waker.init()
	e.replication.init()
	e.snapshots.turn = make(chan struct{}, 1)
	return e
}

// StopScripts stops all scripts, whatever they have written, every script that begins later, and
// DEBUG SLEEP. Clients get an error; what a script has written stays. A host that must end at once
// calls it before its clients have their replies, which is too early for Close.
func (e *Engine) StopScripts() { e.scripts.stopAll() }

// Close stops background work, and ends every blocked command and the connections of [Engine.Open].
// All changes are then on disk, whatever the policy, unless the error says otherwise. It may be
// called more than once: a later call returns nil, when the first has returned. The function given to
// [Engine.Subscribe] must not call it.
func (e *Engine) Close() (err error) {
	e.closing.Do(func() { err = e.close() })
	return err
}

// close locks each shard once, for good: a command that Close has overtaken on its way to a shard is
// refused, and the log gets every change that was made before.
func (e *Engine) close() error {
	e.closed.Store(true)
	e.migrations.close() // they hold shards
	e.StopScripts()      // for which a replica may wait
	e.roles.Lock()
	e.stopMaster()
	e.roles.Unlock()
	e.scripts.stopWatchdog()
	e.sweeper.stop()
	e.waker.end()
	e.memory.evictor.stop()
	for i := range e.shards {
		sh := &e.shards[i]
		sh.mu.Lock()
		blocked := sh.blocked
		sh.blocked = nil
		sh.mu.slow = engineClosed
		sh.mu.Unlock()
		for _, waits := range blocked {
			for _, w := range waits {
				w.finish(errorReply(closed))
			}
		}
	}
	e.replication.close()
	for _, s := range e.clients.list() {
		if kill := s.client.closer(); kill != nil {
			kill()
		}
	}
	e.background.wait()
	if e.log != nil {
		return e.log.Close()
	}
	return nil
}

// goroutines counts the goroutines that run commands or functions of callers.
type goroutines struct {
	mu   sync.Mutex
	over bool
	wg   sync.WaitGroup
}

// start runs f in a goroutine, unless wait was called: then it reports false.
func (g *goroutines) start(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return false
	}
	g.wg.Go(f)
	return true
}

// wait returns when all goroutines have ended, and lets no other start.
func (g *goroutines) wait() {
	g.mu.Lock()
	g.over = true
	g.mu.Unlock()
	g.wg.Wait()
}

func (sh *shard) keyspace(db int) *keyspace {
	ks := sh.dbs[db]
	if ks == nil {
		ks = &keyspace{}
		sh.setKeyspace(db, ks)
	}
	return ks
}

func (sh *shard) setKeyspace(db int, ks *keyspace) {
	sh.dbs[db] = ks
	if ks == nil {
		sh.shown[db].Store(nil)
	} else {
		ks.keys.show(&sh.shown[db])
	}
}

func (e *Engine) nowMS() int64 {
	if e.loading {
		return 1
	}
	return e.clock.Now().UnixMilli()
}

// String names the engine for logs.
func (e *Engine) String() string { return fmt.Sprintf("engine with %d shards", shardCount) }
