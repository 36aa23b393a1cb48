package main

import (
	"cmp"
	"errors"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt/internal/rdb"
	"github.com/redoubt-go/redoubt/internal/transfer"
)

func newExport() *cobra.Command {
	f := moveFlags{verb: "exporting", past: "exported", preposition: "to"}
	version := rdb.Version
	cmd := &cobra.Command{
		Use:   "export TARGET",
		Short: "Copy keys from redoubt serve to an RDB file or a Redis",
		Long: `Copy all keys to TARGET: from the redoubt serve on this machine, from --backend, or
from the directory of a redoubt serve that is not running (--dir PATH or --backend
embedded:/PATH).

TARGET is one of
  a file      path of an RDB file; Redis 7.0 and later and Valkey load it at their start
  a server    redis://[user:password@]host[:port][/db], rediss://… or unix:///path
  a directory embedded:/path of a redoubt serve that is not running
Values of all types and expiry times are copied unchanged.

Redis before 7.4 has no hashes with expiring fields. --rdb-version 12 writes a file
with them, for Redis 7.4 and later.

An RDB file appears under its name only when it is complete. A key that changes
meanwhile is copied with the value it has at some moment of the export.

Exit codes: 0 all keys were copied; 1 any other error; 64 wrong usage; 65 the target
can't store a key, or the directory is damaged; 69 a server does not answer, or the
directory can't be used; 73 the file or keys exist already; 128+n ended by signal n.`,
		Example: `  redoubt export dump.rdb
  redoubt export redis://10.0.0.5:6379
  redoubt export dump.rdb --dir ./data`,
		Args: one("TARGET"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.runExport(args[0], version, cmd.Flags().Changed("backend") && f.backend != "", cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.flags(cmd.Flags(), "target", "copied from")
	cmd.Flags().IntVar(&version, "rdb-version", version, "`version` of the RDB file: 9 for Redis 5.0 to 6.2, 10 for 7.0, 11 for 7.2 and Valkey, 12 for Redis 7.4 and later")
	return cmd
}

// runExport copies the keys of the backend to target.
func (f *moveFlags) runExport(target string, version int, given bool, stdout, stderr io.Writer) (err error) {
	if version < 9 || version > rdb.VersionFieldTTL {
		return usagef("rdb-version is %d; want 9 to %d", version, rdb.VersionFieldTTL)
	}
	if path, _ := embeddedPath(f.backend); f.dir != "" || path != "" {
		if err := sourceDir("dir", cmp.Or(f.dir, path)); err != nil {
			return err
		}
	}
	ctx, code, stop := untilInterrupted()
	defer stop()
	var to transfer.Target
	other, path, err := f.openOther(ctx, "TARGET", target, stderr)
	switch {
	case err != nil:
		return endedEarly(code(), err)
	case other != nil:
		defer func() { err = errors.Join(err, other.close()) }()
		to = other.Server
	default:
		file, err := transfer.CreateFile(path, version, f.replace)
		if errors.Is(err, fs.ErrExist) {
			return failf(exitExists, "%s exists already; --replace overwrites it", path)
		} else if err != nil {
			return usagef("TARGET: %w", err)
		}
		defer file.Close()
		to = file
	}
	from, err := f.openBackend(ctx, stderr, given)
	if err != nil {
		return endedEarly(code(), err)
	}
	defer func() { err = errors.Join(err, from.close()) }()
	return f.move(ctx, code, from.Server, to, stdout, stderr)
}
