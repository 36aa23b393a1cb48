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
		Short: "Bring keys from an RDB file or a Redis to redoubt serve",
		Long: `Bring all keys of SOURCE to the redoubt serve on this machine, to --backend, or
into the directory of one that doesn't run: --dir path or --backend embedded:/path.

SOURCE is an RDB file of Redis (2.6 to 8.2) or Valkey, a running server:
redis://[user:password@]host[:port], rediss://… or unix:///path, or the directory
of a redoubt serve that doesn't run: embedded:/path. A server gives the keys of all
its databases, or of one with /N behind its address; it is only read from. Values of all types, and when keys expire, arrive as they are.

Before anything is written, the file is read to its end and its checksum
compared, and it is made sure that no key is there already. ^C ends the import
after the keys that are under way.

Exit codes: 0 all is there, 64 wrong usage, 65 the file is damaged or has what the
target can't hold, 69 a server doesn't answer or the directory can't be used, 73 keys
are there already, 128+n ended by signal n, 1 anything else.`,
		Example: `  redoubt import /var/lib/redis/dump.rdb
  redoubt import redis://10.0.0.5:6379
  redoubt import dump.rdb --dir ./data`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.bring(args[0], cmd.Flags().Changed("backend") && f.backend != "", cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.flags(cmd.Flags(), "source", "brought to")
	return cmd
}

// bring imports.
func (f *moveFlags) bring(source string, given bool, stdout, stderr io.Writer) (err error) {
	ctx, code, stop := untilInterrupted()
	defer stop()
	from, shut, err := f.openSource(ctx, source, stderr)
	if err != nil {
		return endedEarly(code(), err)
	}
	defer shut()
	to, err := f.openHome(ctx, stderr, given)
	if err != nil {
		return endedEarly(code(), err)
	}
	defer func() {
		if e := to.close(); e != nil && err == nil {
			err = failf(exitFault, "at the end not all was saved: %w", e)
		}
	}()
	return f.move(ctx, code, from, to.Server, stdout, stderr)
}

// endedEarly is the error of what a signal ended before it began.
func endedEarly(code int, err error) error {
	if code != 0 && errors.Is(err, context.Canceled) {
		return failf(code, "interrupted: nothing was done")
	}
	return err
}

func (f *moveFlags) openSource(ctx context.Context, source string, stderr io.Writer) (transfer.Source, func(), error) {
	if dir, ok := embeddedPath(source); ok {
		if dir == "" {
			return nil, nil, usagef("SOURCE is %w", errInMemory)
		}
		if err := sourceDir("SOURCE", dir); err != nil {
			return nil, nil, err
		}
		d, err := openDir(ctx, dir, stderr)
		if err != nil {
			return nil, nil, err
		}
		return d.Server, func() { _ = d.close() }, nil // nothing was written
	}
	path, err := filePath("SOURCE", source)
	if err != nil {
		return nil, nil, err
	}
	if path == "" {
		raw, err := f.otherURL(source)
		if err != nil {
			return nil, nil, err
		}
		s, err := openRemote(ctx, "source", raw)
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	}
	file, err := transfer.OpenFile(path)
	if err != nil {
		return nil, nil, usagef("SOURCE: %w", err)
	}
	return file, file.Close, nil
}
