package main

import (
	"cmp"
	"context"
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
		Short: "Bring keys from redoubt serve to an RDB file or a Redis",
		Long: `Bring all keys of the redoubt serve on this machine, of --backend, or of the
directory of one that doesn't run (--dir path or --backend embedded:/path), to
TARGET.

TARGET is the path of an RDB file, which Redis 7.0 and later and Valkey load at
their start, a running server: redis://[user:password@]host[:port], rediss://…
or unix:///path, with /N behind the address for its database N, or the directory
embedded:/path of a redoubt serve that doesn't run. Values of all
types, and when keys expire, arrive as they are.

A hash whose fields expire is something that Redis before 7.4 doesn't know.
--rdb-version 12 writes a file that holds it, for Redis 7.4 and later.

An RDB file gets its name when it is whole: ^C leaves none. Keys that change
meanwhile are in it as they were at some moment.

Exit codes: 0 all is there, 64 wrong usage, 65 the target can't hold a key, or the
directory is damaged, 69 a server doesn't answer or the directory can't be used,
73 the file or keys are there already, 128+n ended by signal n, 1 anything else.`,
		Example: `  redoubt export dump.rdb
  redoubt export redis://10.0.0.5:6379
  redoubt export dump.rdb --dir ./data`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.take(args[0], version, cmd.Flags().Changed("backend") && f.backend != "", cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.flags(cmd.Flags(), "target", "taken from")
	cmd.Flags().IntVar(&version, "rdb-version", version, "`version` of the RDB file: 9 for Redis 5.0 to 6.2, 10 for 7.0, 11 for 7.2 and Valkey, 12 for Redis 7.4 and later")
	return cmd
}

// take exports.
func (f *moveFlags) take(target string, version int, given bool, stdout, stderr io.Writer) (err error) {
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
	to, shut, err := f.openTarget(ctx, target, version, stderr)
	if err != nil {
		return endedEarly(code(), err)
	}
	defer func() { err = errors.Join(err, shut()) }()
	from, err := f.openHome(ctx, stderr, given)
	if err != nil {
		return endedEarly(code(), err)
	}
	defer func() { err = errors.Join(err, from.close()) }()
	return f.move(ctx, code, from.Server, to, stdout, stderr)
}

func (f *moveFlags) openTarget(ctx context.Context, target string, version int, stderr io.Writer) (transfer.Target, func() error, error) {
	if dir, ok := embeddedPath(target); ok {
		if dir == "" {
			return nil, nil, usagef("TARGET is %w", errInMemory)
		}
		d, err := openDir(ctx, dir, stderr)
		if err != nil {
			return nil, nil, err
		}
		return d.Server, d.close, nil
	}
	path, err := filePath("TARGET", target)
	if err != nil {
		return nil, nil, err
	}
	if path == "" {
		raw, err := f.otherURL(target)
		if err != nil {
			return nil, nil, err
		}
		s, err := openRemote(ctx, "target", raw)
		if err != nil {
			return nil, nil, err
		}
		return s, func() error { s.Close(); return nil }, nil
	}
	file, err := transfer.CreateFile(path, version, f.replace)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, nil, failf(exitExists, "%s is there already; --replace overwrites it", path)
	case err != nil:
		return nil, nil, usagef("TARGET: %w", err)
	}
	return file, func() error { file.Close(); return nil }, nil
}
