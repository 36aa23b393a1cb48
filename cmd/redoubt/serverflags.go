package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/engine/aof"
)

// localServe is where commands look for a server when --backend names none.
const localServe = "redis://127.0.0.1:6380"

// serverFlags name the server, and the keys there.
type serverFlags struct {
	backend  string
	prefix   string
	password secret
}

// flags adds the flags. things names what the command works on, like locks.
func (f *serverFlags) flags(flags *pflag.FlagSet, things string) {
	flags.StringVar(&f.backend, "backend", localServe, "`URL` of the server: redis, rediss, unix, redis-sentinel or redis-cluster; or embedded:/path, a directory that nobody else uses meanwhile")
	flags.StringVar(&f.prefix, "prefix", "rd", "beginning of every key; must be the same for all that share the "+things)
	f.password.flags(flags, "password of the server, where the URL has none")
}

// outlasts is how long a server may be down before a command gives up: a restart or a
// usual failover is over by then.
const outlasts = 10 * time.Second

// connect returns a client and what closes it.
func (f *serverFlags) connect(ctx context.Context, password string, stderr io.Writer) (*redoubt.Client, func(), error) {
	opts := redoubt.Options{Prefix: f.prefix, DownAfter: outlasts}
	if dir, ok := embeddedPath(f.backend); ok {
		return openOwnDir(ctx, dir, opts, stderr)
	}
	client, err := redoubt.Open(ctx, withPassword(f.backend, password), opts)
	switch {
	case err == nil:
		return client, func() { _ = client.Close() }, nil
	case unreachable(err):
		return nil, nil, failf(exitUnavailable, "nothing answers at %s: start one with `redoubt serve`, or name a Redis with --backend redis://… (%w)", address(f.backend), cause(err))
	}
	return nil, nil, openFailure("server", f.backend, err)
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

// openOwnDir opens the engine of a directory. A lock that it confirmed is known
// after a power cut, so that no fencing token comes twice.
func openOwnDir(ctx context.Context, dir string, opts redoubt.Options, stderr io.Writer) (*redoubt.Client, func(), error) {
	if dir == "" {
		return nil, nil, usagef("embedded: is the memory of this process alone, which nobody else sees and which is gone when it ends. Start `redoubt serve`, or name a Redis with --backend redis://… or a directory with --backend embedded:/path")
	}
	log, err := newLog(stderr, "warn", "text")
	if err != nil {
		return nil, nil, err
	}
	store := storage{dir: dir, fsync: fsync{Policy: aof.Always}}
	e, err := store.open(ctx, log)
	if errors.Is(err, aof.ErrLocked) {
		return nil, nil, failf(exitUnavailable, "%w. Let `redoubt serve --dir %s` have it, and go through that by leaving out --backend, when more than one process needs it at a time", err, dir)
	} else if err != nil {
		return nil, nil, err
	}
	client, err := redoubt.New(e, opts)
	if err != nil {
		return nil, nil, errors.Join(fail(exitUsage, err), e.Close())
	}
	return client, func() {
		_ = client.Close()
		_ = e.Close()
	}, nil
}

// serverFault is an error of the library with its exit code.
func serverFault(what string, err error) error {
	if errors.Is(err, redoubt.ErrInvalidName) || errors.Is(err, redoubt.ErrInvalidPattern) {
		return usagef("%s: %w", what, err)
	}
	if errors.Is(err, redoubt.ErrWrongType) { // the server is well
		return failf(exitData, "%s: its key holds something else: %w", what, err)
	}
	return failf(exitUnavailable, "%s: %w", what, err)
}

func oneName(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one NAME, not %d", len(args))
	}
	return nil
}
