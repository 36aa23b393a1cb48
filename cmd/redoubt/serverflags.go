package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/engine/aof"
)

// localServe is the default of --backend.
const localServe = "redis://127.0.0.1:6380"

// serverFlags name the server and the prefix of its keys.
type serverFlags struct {
	backend  string
	prefix   string
	password secret
}

// flags adds the flags. things is the plural of the command's objects, like "locks".
func (f *serverFlags) flags(flags *pflag.FlagSet, things string) {
	flags.StringVar(&f.backend, "backend", localServe, "`URL` of the server: redis, rediss, unix, redis-sentinel or redis-cluster; or embedded:/path, a directory that no other process is using")
	flags.StringVar(&f.prefix, "prefix", "rd", "prefix of all keys; processes that share "+things+" must use the same")
	f.password.flags(flags, "password of the server, if the URL has none")
}

// outlasts is how long a server may be down before a command gives up. A restart or an ordinary failover
// takes less.
const outlasts = 10 * time.Second

// connect returns a client and a function that closes it.
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
		return nil, nil, failf(exitUnavailable, "no server answers at %s: start one with `redoubt serve`, or name a Redis with --backend redis://… (%w)", address(f.backend), cause(err))
	}
	return nil, nil, openFailure("server", f.backend, err)
}

// with calls do with a client of the server, and closes it.
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

// openOwnDir opens the engine of a directory. It syncs every write, so that a power cut can't repeat a
// fencing token.
func openOwnDir(ctx context.Context, dir string, opts redoubt.Options, stderr io.Writer) (*redoubt.Client, func(), error) {
	if dir == "" {
		return nil, nil, usagef("embedded: is the memory of this process alone: no other process sees it, and it is gone when this one ends. Start `redoubt serve`, or name a Redis with --backend redis://… or a directory with --backend embedded:/path")
	}
	log, err := newLog(stderr, "warn", "text")
	if err != nil {
		return nil, nil, err
	}
	store := storage{dir: dir, fsync: fsync{Policy: aof.Always}}
	e, err := store.open(ctx, log)
	if errors.Is(err, aof.ErrLocked) {
		return nil, nil, failf(exitUnavailable, "%w. If several processes need the data at a time, run `redoubt serve --dir %s` and leave out --backend", err, dir)
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

// serverFault adds the exit code to an error of the library.
func serverFault(what string, err error) error {
	if errors.Is(err, redoubt.ErrInvalidName) || errors.Is(err, redoubt.ErrInvalidPattern) {
		return usagef("%s: %w", what, err)
	}
	if errors.Is(err, redoubt.ErrWrongType) { // the server answers
		return failf(exitData, "%s: the key has another type: %w", what, err)
	}
	return failf(exitUnavailable, "%s: %w%s", what, err, nextStep(err))
}

// nextStep returns what helps against an error by which a server refuses us, as the end of its text.
func nextStep(err error) string {
	code := ""
	if reply, ok := errors.AsType[redoubt.ServerError](err); ok {
		code = reply.Code()
	} else if reply, ok := errors.AsType[redis.Error](err); ok { // while connecting
		code, _, _ = strings.Cut(reply.Error(), " ")
	}
	switch code {
	case "NOAUTH":
		return "; give the password by REDOUBT_PASSWORD or --password-file"
	case "WRONGPASS":
		return "; check the password in REDOUBT_PASSWORD, --password-file or the URL"
	case "NOPERM":
		return "; log in as a user with this right: --backend redis://user:password@host"
	}
	return ""
}
