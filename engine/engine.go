package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/engine"
	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/engine/native"
)

var (
	// ErrClosed is returned by calls on a closed [Engine].
	ErrClosed = engine.ErrClosed
	// ErrLocked is matched by the error of [Open] when another engine has the directory open, in
	// this process or in another one.
	ErrLocked = aof.ErrLocked
	// ErrCorrupt is matched by the error of [Open] when the directory is damaged. The error's text
	// names the file and the place.
	ErrCorrupt = aof.ErrCorrupt
)

// Fsync says when a change is on disk.
type Fsync uint8

const (
	// FsyncEverySecond syncs once a second: a power cut loses up to two seconds, a crash of the
	// process some milliseconds.
	FsyncEverySecond Fsync = iota
	// FsyncAlways syncs before the engine replies: a power cut loses nothing that a caller was told,
	// whether the caller wrote or only read it. Callers at the same time share one sync.
	FsyncAlways
	// FsyncNever leaves it to the operating system: a power cut loses whatever the system had not
	// written, a crash of the process some milliseconds.
	FsyncNever
)

var policies = map[Fsync]aof.Policy{FsyncEverySecond: aof.EverySecond, FsyncAlways: aof.Always, FsyncNever: aof.Never}

// Options configure an [Engine]. The zero value is a store in memory that runs on the system's clock.
type Options struct {
	// Clock tells the time and fires timers. Defaults to the system's clock.
	Clock Clock

	// Dir is the directory that the engine saves changes in; Open makes it if it is missing.
	// Defaults to none: the data is lost when the process ends.
	Dir string
	// Fsync says when a change is on disk. It needs Dir. Defaults to FsyncEverySecond.
	Fsync Fsync
	// CompactBytes is how long the log may grow before the engine compacts it, in bytes. The log may
	// always double. It needs Dir. Defaults to 64 MiB.
	CompactBytes int64

	// ScriptTimeout is how long a script may run. A script that takes longer ends with an error; what
	// it has written stays. Defaults to a minute. Negative means no limit: SCRIPT KILL ends a script
	// that has written nothing, Close every script.
	ScriptTimeout time.Duration
	// ScriptSteps is how many steps a script may take, beside ScriptTimeout: calls, turns of loops and
	// similar work in libraries, to within a few thousand. Defaults to no limit.
	ScriptSteps int64
	// StrictKeys refuses scripts the use of keys that they did not declare in KEYS, as a cluster does.
	// By default a script may use any key, as on Redis; a script whose text does not show that it
	// keeps to its KEYS then holds up all other commands while it runs.
	StrictKeys bool

	// MaxMemory is how many bytes the keys may take with their values, as the engine counts them. With
	// GOMEMLIMIT set to twice as much the process keeps to that, or to a little more with Dir. A
	// command that needs more is refused with an OOM error, or evicts other keys, as MaxMemoryPolicy
	// says. Defaults to no limit.
	MaxMemory int64
	// MaxMemoryPolicy says which keys are evicted: noeviction, allkeys-lru, allkeys-lfu,
	// allkeys-random; and volatile-lru, volatile-lfu, volatile-random, volatile-ttl for keys with a
	// time to live only. Defaults to noeviction.
	MaxMemoryPolicy string

	// Logger gets warnings for an operator: commands that panicked, with the stack, and trouble with
	// Dir. Defaults to nothing.
	Logger *slog.Logger
}

// check returns all faults of the options that package internal/engine does not look for.
func (o *Options) check() error {
	var errs []error
	if _, known := policies[o.Fsync]; !known {
		errs = append(errs, fmt.Errorf("engine: Fsync is %d; want FsyncEverySecond, FsyncAlways or FsyncNever", o.Fsync))
	}
	if o.CompactBytes < 0 {
		errs = append(errs, fmt.Errorf("engine: CompactBytes is %d; want at least 0", o.CompactBytes))
	}
	if o.Dir == "" && (o.Fsync != FsyncEverySecond || o.CompactBytes != 0) {
		errs = append(errs, errors.New("engine: Fsync or CompactBytes is set and Dir is empty: nothing is saved without a directory"))
	}
	return errors.Join(errs...)
}

// A Clock is where an engine takes the time from. Tests inject one that stands still until they
// move it: see package enginetest.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in a goroutine of its own once d has passed.
	AfterFunc(d time.Duration, f func()) Timer
}

// A Timer is a call that a [Clock] will make. Stop prevents the call, and reports whether it did.
type Timer = interface{ Stop() bool }

// An Engine is a data store. Make it with [Open]. It is a redoubt.OpenConn and a redoubt.Subscriber.
// Its methods are safe for concurrent use.
type Engine struct {
	handle // package server finds the engine by it

	e *engine.Engine
}

type handle = engine.Handle

var (
	_ redoubt.OpenConn   = (*Engine)(nil)
	_ redoubt.Subscriber = (*Engine)(nil)
	_ redoubt.Pipeliner  = (*Engine)(nil)
	_ redoubt.InProcess  = (*Engine)(nil)
)

func init() {
	redoubt.Register(func(ctx context.Context, url string) (redoubt.OpenConn, error) {
		_, dir, _ := strings.Cut(url, ":")
		e, err := Open(ctx, Options{Dir: dir})
		if err != nil {
			return nil, err
		}
		return e, nil
	}, "embedded")
}

// Open returns an engine. With [Options.Dir] it has the data that was saved there, and saves changes.
// Reading a large log takes a while: about a second for each million changes. When ctx ends before
// that, Open gives up; later ctx has no effect.
//
// The error matches [ErrLocked] when the directory is in use, and [ErrCorrupt] when it is damaged; in
// both cases nothing was changed. A crash or a power cut can tear the end of the log. That is no error:
// Open cuts off the torn part, which nobody was promised, and tells the Logger.
func Open(ctx context.Context, opts Options) (*Engine, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	e, err := engine.Open(ctx, engine.Options{
		Clock: opts.Clock,
		Dir:   opts.Dir, Fsync: policies[opts.Fsync], CompactBytes: opts.CompactBytes,
		Natives: native.All(), ScriptTimeout: opts.ScriptTimeout, ScriptSteps: opts.ScriptSteps, StrictKeys: opts.StrictKeys,
		MaxMemory: opts.MaxMemory, MaxMemoryPolicy: opts.MaxMemoryPolicy,
		Logger: opts.Logger,
	})
	if err != nil {
		return nil, err
	}
	return &Engine{engine.NewHandle(e), e}, nil
}

// Do runs one command: see [redoubt.Conn]. A quick command runs in the caller's goroutine. A command
// that may take long, like a script or KEYS, runs in a goroutine of its own when ctx can end; it goes
// on when the caller leaves.
//
// Each call has a session of its own: MULTI, SELECT and SUBSCRIBE have no effect on later calls.
func (e *Engine) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply { return e.e.Do(ctx, cmd) }

// Pipeline runs commands one after the other: see [redoubt.Conn]. A command that waits, like BLPOP,
// holds up no other.
func (e *Engine) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	return e.e.Pipeline(ctx, cmds)
}

// Subscribe calls on for each message published to a channel until stop is called: see
// [redoubt.Subscriber]. One goroutine makes the calls of all subscriptions. When more than 64 MiB of
// messages wait for it, the engine drops them, and passes lost = true with the next one. No new call of
// on begins after stop has returned; one may be under way. None is under way after Close has returned,
// so on must not call Close.
func (e *Engine) Subscribe(ctx context.Context, channel string, sharded bool, on func(payload string, lost bool)) (stop func(), err error) {
	return e.e.Subscribe(ctx, channel, sharded, on)
}

// Pipelines reports true: concurrent callers need no merging, because their commands run at the same
// time.
func (e *Engine) Pipelines() bool { return e.e.Pipelines() }

// InProcess marks a Conn that can't lose an answer on the way: see [redoubt.InProcess].
func (e *Engine) InProcess() { e.e.InProcess() }

// Compact rewrites the log to the changes that still matter. The engine does so by itself as the log
// grows; see [Options.CompactBytes]. When ctx ends, or an error is returned, the log is as it was.
// Without Dir, Compact returns an error.
func (e *Engine) Compact(ctx context.Context) error { return e.e.Compact(ctx) }

// SaveErr returns why the engine can't save changes and therefore refuses them: the disk is full, or
// fails, or the engine is closed. It returns nil while changes are saved, and without Dir. A health
// check can ask it.
func (e *Engine) SaveErr() error { return e.e.SaveErr() }

// UsedMemory returns how many bytes the keys take with their values, as used_memory of INFO.
func (e *Engine) UsedMemory() int64 { return e.e.UsedMemory() }

// Close stops all scripts, ends blocked commands with an error, and saves all changes, whatever
// [Options.Fsync] says. An error says that some may not be on disk. Close waits until everything has
// stopped. A call that it overtakes makes no change and returns [ErrClosed]. Close may be called more than
// once; later calls wait for the first, and return nil.
func (e *Engine) Close() error { return e.e.Close() }
