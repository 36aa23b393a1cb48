package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/redoubt-go/redoubt/internal/engine"
	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/engine/native"
	"github.com/redoubt-go/redoubt/internal/proxy/budget"
	"github.com/redoubt-go/redoubt/internal/proxy/latency"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/settings"
)

// A storage has the flags of the engine in this process.
type storage struct {
	dir     string
	fsync   fsync
	compact int64 // engine.Options.CompactBytes

	maxMemory settings.Bytes
	evict     eviction
	fsyncs    *latency.Shared
	clients   *budget.Budget // memory of clients, for INFO memory; may be nil
}

// evictions are the names of Redis' maxmemory-policy.
var evictions = []string{
	"noeviction", "allkeys-lru", "allkeys-lfu", "allkeys-random",
	"volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl",
}

// An eviction is a flag's value: one of evictions.
type eviction string

// Set implements pflag.Value.
func (e *eviction) Set(s string) error {
	if !slices.Contains(evictions, s) {
		return fmt.Errorf("unknown policy %q; want %s", s, strings.Join(evictions, ", "))
	}
	*e = eviction(s)
	return nil
}

// String implements pflag.Value.
func (e *eviction) String() string { return string(*e) }

// Type implements pflag.Value: it names the value in help.
func (e *eviction) Type() string { return "policy" }

// An fsync is a flag's value.
type fsync struct {
	aof.Policy
	given bool
}

// Set implements pflag.Value.
func (f *fsync) Set(s string) error {
	p, err := aof.ParsePolicy(s)
	if err != nil {
		return fmt.Errorf("unknown policy %q; want always, everysec or never", s)
	}
	f.Policy, f.given = p, true
	return nil
}

// Type implements pflag.Value: it names the value in help.
func (f *fsync) Type() string { return "policy" }

func (s *storage) flags(flags *pflag.FlagSet) {
	flags.StringVar(&s.dir, "dir", "", "`directory` where the embedded back end saves its data, created if missing; without one the data is gone when the process ends")
	flags.Var(&s.fsync, "fsync", "when writes are synced to disk: always (before the reply), everysec (once a second) or never (when the system decides)")
	flags.Var(&s.maxMemory, "maxmemory", "maximum `size` of the keys and values of the embedded back end; 0: no limit; the process uses up to twice that plus 64MiB, and the memory of its clients")
	s.evict = "noeviction"
	flags.Var(&s.evict, "maxmemory-policy", "what to do above maxmemory: noeviction refuses writes; allkeys-lru, allkeys-lfu and allkeys-random evict any key, locks and limits too; volatile-lru, -lfu, -random and -ttl evict only keys with a time to live")
}

// settle takes the directory from an embedded:/path, and refuses settings that would have no effect,
// before the user relies on them.
func (s *storage) settle(backend string) error {
	path, embedded := embeddedPath(backend)
	if path != "" && s.dir == "" {
		s.dir = path
	}
	switch {
	case path != "" && s.dir != path:
		return usagef("backend is %s, but dir is %s; leave out one of the two", backend, s.dir)
	case s.dir != "" && !embedded:
		return usagef("dir is %s, but the back end is %s, which saves its data itself; dir is only for the embedded back end: leave out one of the two", s.dir, address(backend))
	case s.fsync.given && !embedded:
		return usagef("fsync is %s, but the back end is %s, which saves its data itself; set it there (appendfsync)", s.fsync, address(backend))
	case s.maxMemory > 0 && !embedded:
		return usagef("maxmemory is %s, but the back end is %s, which has its own limit; set it there", s.maxMemory.String(), address(backend))
	case s.evict != "" && s.evict != "noeviction" && s.maxMemory == 0:
		return usagef("maxmemory-policy is %s, but there is no limit; set one with --maxmemory", s.evict)
	case s.fsync.given && s.dir == "":
		return usagef("fsync is %s, but nothing is saved without a directory; name one with --backend embedded:/path or --dir", s.fsync)
	}
	return nil
}

// durability describes which data survives a crash.
func (s *storage) durability() string {
	if s.dir == "" {
		return "none: data is in memory and gone when this process ends"
	}
	left := map[aof.Policy]string{
		aof.Always:      "acknowledged writes survive a power cut",
		aof.EverySecond: "a power cut loses up to two seconds, a crash of this process some milliseconds",
		aof.Never:       "a power cut loses what the system had not written yet, a crash of this process some milliseconds",
	}
	return fmt.Sprintf("log in %s, fsync %s: %s", s.dir, s.fsync, left[s.fsync.Policy])
}

// open opens the engine and logs what it recovered from the directory.
func (s *storage) open(ctx context.Context, log *slog.Logger) (*engine.Engine, error) {
	began := time.Now()
	opts := engine.Options{
		Natives: native.All(), Dir: s.dir, Fsync: s.fsync.Policy, CompactBytes: s.compact,
		MaxMemory: int64(s.maxMemory), MaxMemoryPolicy: string(s.evict), Logger: log,
	}
	if s.fsyncs != nil {
		opts.Synced = func(took time.Duration) { s.fsyncs.Observe(took, 1) }
	}
	if s.clients != nil {
		opts.ClientMemory = func() (held, limit int64) {
			st := s.clients.Stats()
			return st.Used, st.Limit
		}
	}
	e, err := engine.Open(ctx, opts)
	if err != nil {
		return nil, s.failure(err)
	}
	if s.dir == "" {
		return e, nil
	}
	found := e.Recovered()
	log.Info("loaded", slog.String("dir", s.dir), slog.Int64("changes", found.Records),
		slog.Int64("size_bytes", found.Bytes), slog.Duration("took", time.Since(began).Round(time.Millisecond)))
	return e, nil
}

// failure adds to an error of Open what the user can do.
func (s *storage) failure(err error) error {
	if corrupt, ok := errors.AsType[*aof.CorruptError](err); ok {
		return failf(exitData, "dir %s is damaged; nothing was changed: %w. Restore a copy of the directory, or see "+
			"what `redoubt check %s` can recover", s.dir, corrupt, s.dir)
	}
	if errors.Is(err, aof.ErrLocked) {
		return failf(exitUnavailable, "dir %s: %w; only one process at a time can use a directory", s.dir, err)
	}
	return failf(exitUnavailable, "dir %s can't be used: %w", s.dir, err)
}

// openEmbedded opens an engine in this process as a back end.
func openEmbedded(ctx context.Context, s storage, prefix string, log *slog.Logger) (*backend, error) {
	s.fsyncs = new(latency.Shared)
	keeper := keepMemory(int64(s.maxMemory), s.clients)
	e, err := s.open(ctx, log)
	if err != nil {
		return nil, err
	}
	keeper.follow(e)
	b := &backend{
		name: embeddedName, raw: e.Group(), durability: s.durability(), inMemory: s.dir == "", saveErr: e.SaveErr, engine: e, fsyncs: s.fsyncs,
	}
	b.sessions = func(client net.Conn) server.Session { return e.SessionFor(client) }
	b.closers = append(b.closers, e.Close, keeper.close)
	b.hurry = e.StopScripts
	if err := b.connect(e, prefix); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}
