package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/redoubt-go/redoubt/internal/engine"
	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/rdb"
	"github.com/redoubt-go/redoubt/internal/scheme"
	"github.com/redoubt-go/redoubt/internal/transfer"
)

// moveFlags are the flags and words of import and export.
type moveFlags struct {
	backend, dir            string
	password                secret
	otherPassword           string // name of a file
	replace, skip, quiet    bool
	followIt, cutOver       bool // only of import
	asJSON                  bool
	verb, past, preposition string // importing, imported, into
}

func (f *moveFlags) flags(flags *pflag.FlagSet, other, what string) {
	flags.StringVar(&f.backend, "backend", "redis://127.0.0.1:6380", "`URL` of the server or directory that keys are "+what+": redoubt serve, Redis or embedded:/path")
	flags.StringVar(&f.dir, "dir", "", "`directory` that keys are "+what+", like --backend embedded:/path; no other process may be using it")
	f.password.flags(flags, "password of the server, if the URL has none")
	flags.StringVar(&f.otherPassword, other+"-password-file", "", "`file` with the password of "+strings.ToUpper(other)+", if its URL has none")
	flags.BoolVar(&f.replace, "replace", false, "overwrite existing keys, or an existing file; otherwise they are an error")
	flags.BoolVar(&f.skip, "skip-unsupported", false, "leave out and count keys that the target can't store; otherwise they are an error")
	flags.BoolVar(&f.quiet, "quiet", false, "print nothing but errors")
	jsonFlag(flags, &f.asJSON, "print a JSON object")
}

// A place is a server, or the engine of a directory, that keys are copied from or to.
type place struct {
	*transfer.Server
	close func() error
}

var errInMemory = errors.New("embedded:, which is the memory of another process; name its server, like redis://127.0.0.1:6380, or a directory, like embedded:/path")

// A namedEngine has its directory as its name.
type namedEngine struct {
	*engine.Engine
	dir string
}

func (e namedEngine) Name() string { return e.dir }

// openBackend opens the server or the directory that --backend or --dir names.
func (f *moveFlags) openBackend(ctx context.Context, stderr io.Writer, given bool) (*place, error) {
	path, embedded := embeddedPath(f.backend)
	switch {
	case embedded && path == "" && f.dir == "":
		return nil, usagef("backend is %w", errInMemory)
	case path != "" && f.dir != "" && path != f.dir:
		return nil, usagef("backend is %s, but dir is %s; leave out one of the two", f.backend, f.dir)
	case embedded:
		return openDir(ctx, cmp.Or(f.dir, path), stderr)
	}
	if f.dir == "" {
		password, err := f.password.read()
		if err != nil {
			return nil, err
		}
		s, err := openRemote(ctx, "server", withPassword(f.backend, password))
		if err != nil {
			return nil, err
		}
		return serverPlace(s), nil
	}
	if given {
		return nil, usagef("both backend and dir are given; leave out one of the two, or set it to nothing with --dir '' or --backend ''")
	}
	return openDir(ctx, f.dir, stderr)
}

// openOther opens the server or the directory that a SOURCE or TARGET names. For an RDB file it returns the
// file's path instead.
func (f *moveFlags) openOther(ctx context.Context, what, arg string, stderr io.Writer) (other *place, path string, err error) {
	if dir, ok := embeddedPath(arg); ok {
		if dir == "" {
			return nil, "", usagef("%s is %w", what, errInMemory)
		}
		other, err = openDir(ctx, dir, stderr)
		return other, "", err
	}
	if path, err = filePath(what, arg); err != nil || path != "" {
		return nil, path, err
	}
	password, err := (&secret{file: f.otherPassword}).read()
	if err != nil {
		return nil, "", err
	}
	s, err := openRemote(ctx, strings.ToLower(what), withPassword(arg, password))
	if err != nil {
		return nil, "", err
	}
	return serverPlace(s), "", nil
}

func serverPlace(s *transfer.Server) *place {
	return &place{s, func() error { s.Close(); return nil }}
}

// openDir opens the directory of an engine.
func openDir(ctx context.Context, dir string, stderr io.Writer) (*place, error) {
	log, err := newLog(stderr, "warn", "text")
	if err != nil {
		return nil, err
	}
	// No client waits for a write, and Close syncs. An import writes each key once, so that the log needs
	// no compaction.
	store := storage{dir: dir, fsync: fsync{Policy: aof.Never}, compact: math.MaxInt64}
	e, err := store.open(ctx, log)
	if errors.Is(err, aof.ErrLocked) {
		return nil, failf(exitUnavailable, "%w. To use that process, name its server, like redis://127.0.0.1:6380", err)
	} else if err != nil {
		return nil, err
	}
	s, err := transfer.NewServer(ctx, namedEngine{e, dir}, transfer.AnyDatabase)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return &place{s, func() error { s.Close(); return e.Close() }}, nil
}

// sourceDir refuses a missing directory: opening it would create it.
func sourceDir(what, dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return usagef("%s: %w", what, err)
	}
	return nil
}

// openRemote connects to the server that a URL names.
func openRemote(ctx context.Context, what, raw string) (*transfer.Server, error) {
	if _, err := moveDoor.Check(raw); err != nil {
		return nil, usagef("%s: %w", what, err)
	}
	redis, err := proxy.ParseURL(raw)
	if err != nil {
		return nil, usagef("%s: %w", what, err)
	}
	db := transfer.AnyDatabase
	if u, err := url.Parse(raw); err == nil && (u.Query().Get("db") != "" || u.Scheme != "unix" && strings.Trim(u.Path, "/") != "") {
		db = redis.DB
	}
	redis.DB = 0 // the transfer sends SELECT
	s, err := transfer.NewServer(ctx, redis, db)
	if err != nil && ctx.Err() == nil {
		if _, ok := errors.AsType[net.Error](err); ok || unreachable(err) {
			hint := ""
			if what == "server" {
				hint = "; start `redoubt serve`, or name another server with --backend, or with --dir the directory of one that is not running"
			}
			return nil, failf(exitUnavailable, "%s %s does not answer: %w%s", what, redis.Addr, err, hint)
		}
		return nil, failf(exitUnavailable, "%s %s refuses us: %w", what, redis.Addr, err)
	}
	return s, err
}

// filePath returns the path of the file that a SOURCE or TARGET names, or "" for the URL of a server.
func filePath(what, s string) (string, error) {
	name, rest, ok := strings.Cut(s, "://")
	switch {
	case s == "":
		return "", usagef("%s is empty; want redis://…, rediss://…, unix:///path, embedded:/path, or the path of an RDB file", what)
	case !ok && mayBeURL(s):
		return "", usagef("%s looks like a URL without redis://; for a file of that name write ./ before it", what)
	case !ok:
		return s, nil
	case slices.Contains(scheme.Remote, strings.ToLower(name)):
		if _, err := moveDoor.Check(s); err != nil {
			return "", usagef("%s: %w", what, err)
		}
		return "", nil
	case name == "file":
		if host, path, _ := strings.Cut(rest, "/"); host == "" || host == "localhost" {
			return "/" + path, nil
		}
		return "", usagef("%s is a file on another machine; want file:///path", what)
	}
	return "", usagef("%s has the scheme %s; want redis, rediss, unix, embedded or file, or the path of an RDB file", what, shown(name))
}

// A movedState is the JSON form of an import or an export.
type movedState struct {
	From      string           `json:"from"`
	To        string           `json:"to"`
	Keys      int64            `json:"keys"`
	Gone      int64            `json:"gone"`      // expired or deleted meanwhile
	Skipped   map[string]int64 `json:"skipped"`   // by type: the target can't store them
	Libraries int64            `json:"libraries"` // of functions, copied
	Functions int64            `json:"functions"` // libraries of functions, not copied
	Took      int64            `json:"took_ms"`
}

// move runs the transfer and prints its result.
func (f *moveFlags) move(ctx context.Context, code func() int, from transfer.Source, to transfer.Target, stdout, stderr io.Writer) error {
	began := time.Now()
	p := newProgress(stderr, f.quiet, f.verb)
	result, err := transfer.Move(ctx, from, to, transfer.Options{Replace: f.replace, SkipUnsupported: f.skip, Progress: p.update})
	p.done()
	if err != nil {
		return f.failure(from, to, result, err, code())
	}
	if f.quiet {
		return nil
	}
	took := time.Since(began).Milliseconds()
	if f.asJSON {
		skipped := map[string]int64{}
		maps.Copy(skipped, result.Skipped)
		return printJSON(stdout, movedState{from.Name(), to.Name(), result.Keys, result.Expired + result.Gone, skipped, result.Libraries, result.Functions, took})
	}
	what := keys(result.Keys)
	if result.Libraries > 0 {
		what += " and " + transfer.List(nil, result.Libraries)
	}
	text := fmt.Sprintf("%s %s from %s %s %s in %s", f.past, what, from.Name(), f.preposition, to.Name(), rounded(took))
	if len(result.Skipped) > 0 || result.Functions > 0 {
		text += "; left out " + transfer.List(result.Skipped, result.Functions)
	}
	if n := result.Expired + result.Gone; n > 0 {
		text += fmt.Sprintf("; %s had expired or were deleted meanwhile", keys(n))
	}
	_, err = fmt.Fprintln(stdout, text)
	return err
}

// failure returns the error with its exit code: the cause, what was copied before it, and what helps.
func (f *moveFlags) failure(from transfer.Source, to transfer.Target, result transfer.Result, err error, signalled int) error {
	_, file := to.(*transfer.NewFile)
	done := "nothing was " + f.past
	if result.Keys > 0 && !file {
		done = fmt.Sprintf("%s were %s before that and remain", keys(result.Keys), f.past)
		if result.Keys == 1 {
			done = "1 key was " + f.past + " before that and remains"
		}
	}
	if result.Unknown > 0 {
		done += fmt.Sprintf(", and perhaps %s more", keys(result.Unknown))
	}
	taken, isTaken := errors.AsType[*transfer.TakenError](err)
	_, isUnsupported := errors.AsType[*transfer.UnsupportedError](err)
	_, isDamaged := errors.AsType[*rdb.FileError](err)
	switch {
	case signalled != 0:
		if result.Keys > 0 && !file {
			done += "; to continue, run it again with --replace"
		}
		return failf(signalled, "interrupted: %s", done)
	case isTaken:
		return failf(exitExists, "%s: %w; %s. --replace overwrites %s", to.Name(), taken, done, map[bool]string{true: "it", false: "them"}[taken.Count+int64(len(taken.Libraries)) == 1])
	case errors.Is(err, fs.ErrExist):
		return failf(exitExists, "%s exists already; --replace overwrites it", to.Name())
	case isUnsupported:
		hint := ""
		if file {
			hint = ", and --rdb-version 12 writes a file for Redis 7.4 and later, which can store hashes with expiring fields"
		}
		return failf(exitData, "%s: %w; %s. --skip-unsupported leaves such keys out%s", to.Name(), err, done, hint)
	case isDamaged:
		return failf(exitData, "%w; %s", err, done)
	case errors.Is(err, transfer.ErrPool):
		return failf(exitUnavailable, "%s: %w; %s. Name each server behind it instead", from.Name(), err, done)
	}
	return failf(exitFault, "from %s to %s: %w; %s", from.Name(), to.Name(), err, done)
}
