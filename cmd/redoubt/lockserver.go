package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine/aof"
	"github.com/redoubt-go/redoubt/goredis"
)

// localServe is where commands look for a server when --backend names none.
const localServe = "redis://127.0.0.1:6380"

// serverFlags name the server on which locks are.
type serverFlags struct {
	backend  string
	prefix   string
	password secret
}

func (f *serverFlags) flags(flags *pflag.FlagSet) {
	flags.StringVar(&f.backend, "backend", localServe, "`URL` of the server, or embedded:/path: a directory that nobody else uses meanwhile")
	flags.StringVar(&f.prefix, "prefix", "rd", "beginning of every key; must be the same for all that share the lock")
	f.password.flags(flags, "password of the server, where the URL has none")
}

// outlasts is how long a server may be down before a command gives up: a restart or a
// usual failover is over by then.
const outlasts = 10 * time.Second

// connect returns a client and what closes it.
func (f *serverFlags) connect(ctx context.Context, password string, stderr io.Writer) (*redoubt.Client, func(), error) {
	conn, err := openServer(ctx, f.backend, password, stderr)
	if err != nil {
		return nil, nil, err
	}
	client, err := redoubt.New(conn, redoubt.Options{Prefix: f.prefix, DownAfter: outlasts})
	if err != nil {
		_ = conn.Close()
		return nil, nil, fail(exitUsage, err)
	}
	return client, func() {
		_ = client.Close()
		_ = conn.Close()
	}, nil
}

// with runs do with a client of the server.
func (f *serverFlags) with(ctx context.Context, stderr io.Writer, do func(ctx context.Context, client *redoubt.Client) error) error {
	password, err := f.password.read()
	if err != nil {
		return err
	}
	client, closeAll, err := f.connect(ctx, password, stderr)
	if err != nil {
		return err
	}
	defer closeAll()
	return do(ctx, client)
}

// A lockServer is where locks are.
type lockServer interface {
	redoubt.Conn
	Close() error
}

// openServer connects, or says plainly what is to be done.
func openServer(ctx context.Context, url, password string, stderr io.Writer) (lockServer, error) {
	if dir, ok := embeddedPath(url); ok {
		return openLockDir(ctx, dir, stderr)
	}
	conn, err := goredis.Open(ctx, withPassword(url, password))
	if err == nil {
		return conn, nil
	}
	if unreachable(err) {
		return nil, failf(exitUnavailable, "nothing answers at %s: start one with `redoubt serve`, or name a Redis with --backend redis://… (%w)", address(url), cause(err))
	}
	return nil, openFailure("server", url, err)
}

// openLockDir opens the engine of a directory. A lock that it confirmed is known
// after a power cut, so that no fencing token comes twice.
func openLockDir(ctx context.Context, dir string, stderr io.Writer) (lockServer, error) {
	if dir == "" {
		return nil, usagef("a lock on embedded: would exclude nobody: what is in memory is this process's alone. Start `redoubt serve`, or name a Redis with --backend redis://… or a directory with --backend embedded:/path")
	}
	log, err := newLog(stderr, "warn", "text")
	if err != nil {
		return nil, err
	}
	store := storage{dir: dir, fsync: fsync{Policy: aof.Always}}
	e, err := store.open(ctx, log)
	if errors.Is(err, aof.ErrLocked) {
		return nil, failf(exitUnavailable, "%w. Let `redoubt serve --dir %s` have it, and go through that by leaving out --backend, when more than one needs a lock at a time", err, dir)
	} else if err != nil {
		return nil, err
	}
	return e, nil
}
