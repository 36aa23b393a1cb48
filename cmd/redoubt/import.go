package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt/internal/transfer"
)

func newImport() *cobra.Command {
	f := moveFlags{verb: "importing", past: "imported", preposition: "into"}
	cmd := &cobra.Command{
		Use:   "import SOURCE",
		Short: "Copy keys from an RDB file or a Redis to redoubt serve",
		Long: `Copy all keys of SOURCE to the redoubt serve on this machine, to --backend, or into the
directory of a redoubt serve that is not running (--dir PATH or --backend
embedded:/PATH).

SOURCE is one of
  a file      path of an RDB file of Redis 2.6 to 8.2 or Valkey
  a server    redis://[user:password@]host[:port][/db], rediss://… or unix:///path
  a directory embedded:/path of a redoubt serve that is not running
Without /db all databases of a server are copied. The import never writes to SOURCE.
Values of all types and expiry times are copied unchanged.

With --follow clients may write to SOURCE all the time: the target becomes its
replica, and the command ends when the replica has caught up. It may be run again to
see how far it is. --switch then moves the writes: SOURCE refuses them, the target
gets the rest, and takes writes. Either side is a redoubt serve on its engine, a
Redis or a Valkey. So a program leaves the engine in the same way:
  redoubt import redis://engine:6380 --follow --backend redis://new-redis:6379
The target connects to SOURCE by itself, at the address in the URL.

Before it writes, the import reads the whole file, verifies its checksum, and checks
that no key exists already. ^C ends the import after the keys in progress.

Exit codes: 0 all keys were copied; 1 any other error; 64 wrong usage; 65 the file is
damaged, or the target can't store a key; 69 a server does not answer, or the
directory can't be used; 73 keys exist already; 128+n ended by signal n.`,
		Example: `  redoubt import /var/lib/redis/dump.rdb
  redoubt import redis://10.0.0.5:6379
  redoubt import dump.rdb --dir ./data
  redoubt import redis://10.0.0.5:6379 --follow
  redoubt import redis://10.0.0.5:6379 --switch`,
		Args: one("SOURCE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch backend := cmd.Flags().Changed("backend") && f.backend != ""; {
			case f.followIt && f.cutOver:
				return usagef("both follow and switch are given; follow comes first, and switch once it has caught up")
			case f.followIt || f.cutOver:
				return f.runFollow(args[0], backend, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return f.runImport(args[0], cmd.Flags().Changed("backend") && f.backend != "", cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.flags(cmd.Flags(), "source", "copied to")
	cmd.Flags().BoolVar(&f.followIt, "follow", false, "make the target a replica of SOURCE, which gets all changes until --switch")
	cmd.Flags().BoolVar(&f.cutOver, "switch", false, "end --follow: SOURCE refuses writes, and the target takes them once it has all")
	return cmd
}

// runImport copies the keys of source to the backend.
func (f *moveFlags) runImport(source string, given bool, stdout, stderr io.Writer) (err error) {
	if dir, _ := embeddedPath(source); dir != "" {
		if err := sourceDir("SOURCE", dir); err != nil {
			return err
		}
	}
	ctx, code, stop := untilInterrupted()
	defer stop()
	var from transfer.Source
	other, path, err := f.openOther(ctx, "SOURCE", source, stderr)
	switch {
	case err != nil:
		return endedEarly(code(), err)
	case other != nil:
		defer func() { _ = other.close() }() // nothing was written
		from = other.Server
	default:
		file, err := transfer.OpenFile(path)
		if err != nil {
			return usagef("SOURCE: %w", err)
		}
		defer file.Close()
		from = file
	}
	to, err := f.openBackend(ctx, stderr, given)
	if err != nil {
		return endedEarly(code(), err)
	}
	defer func() {
		if e := to.close(); e != nil && err == nil {
			err = failf(exitFault, "not all data could be saved: %w", e)
		}
	}()
	return f.move(ctx, code, from, to.Server, stdout, stderr)
}

// endedEarly returns the error for a transfer that a signal ended before it began.
func endedEarly(code int, err error) error {
	if code != 0 && errors.Is(err, context.Canceled) {
		return failf(code, "interrupted: nothing was done")
	}
	return err
}
