package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/transfer"
	"github.com/redoubt-go/redoubt/scan"
)

// scanFlags are the flags of a command that scans keys.
type scanFlags struct {
	serverFlags

	query scan.Query
	count int
	quiet bool
}

func (f *scanFlags) scanFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.query.Match, "match", "", "only keys that match this glob `pattern`, as in KEYS")
	flags.StringVar(&f.query.Type, "type", "", "only keys of this `type`: string, list, set, zset, hash, stream, or the type of a module")
	flags.StringVar(&f.query.From, "from", "", "continue an interrupted run with the same pattern and type from the `token` that it printed")
	flags.IntVar(&f.count, "count", 1000, "about how many keys the server looks at in one step")
	flags.BoolVar(&f.quiet, "quiet", false, "print nothing but errors")
	onThisLine(flags, "match", "type", "from", "count")
	flags.StringVar(&f.backend, "backend", localServe, "`URL` of the server: redis, rediss, unix, redis-sentinel or redis-cluster; or embedded:/path, a directory that no other process is using")
	f.password.flags(flags, "password of the server, if the URL has none")
	f.prefix = "rd" // unused: keys are printed with their prefix
	complete(cmd, "type", "string", "list", "set", "zset", "hash", "stream")
}

// complete makes shells complete the values of a flag.
func complete(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // no such flag
	}
}

// over calls do with an iterator over the keys. If a signal or an error ends it early, the error says
// what was done, by done, and has the token to continue with.
func (f *scanFlags) over(cmd *cobra.Command, verb string, do func(ctx context.Context, s *scan.Scanner, keys *scan.Iterator[string], p *scanProgress) error, done func() string) error {
	if path, ok := embeddedPath(f.backend); ok && path == "" {
		return usagef("backend is %w", errInMemory)
	} else if ok {
		if err := sourceDir("backend", path); err != nil {
			return err
		}
	}
	if err := f.query.Validate(); err != nil {
		return fail(exitUsage, err)
	}
	if f.count < 1 || f.count > scan.MaxCount {
		return usagef("count is %d; want 1 to %d", f.count, scan.MaxCount)
	}
	return f.with(cmd.Context(), cmd.ErrOrStderr(), func(_ context.Context, client *redoubt.Client) error {
		s, err := scan.New(client, scan.Options{Count: f.count})
		if err != nil {
			return fail(exitUsage, err)
		}
		keys, err := s.Keys(f.query)
		if err != nil {
			return fail(exitUsage, err)
		}
		ctx, code, stop := untilInterrupted()
		defer stop()
		p := &scanProgress{newProgress(cmd.ErrOrStderr(), f.quiet, verb), keys}
		err = do(ctx, s, keys, p)
		p.done()
		if code() != 0 {
			return failf(code(), "interrupted: %s; to continue: --from %s", done(), keys.Token())
		}
		return f.failure(err, done(), keys)
	})
}

func (f *scanFlags) failure(err error, done string, keys *scan.Iterator[string]) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, scan.ErrInvalidToken), errors.Is(err, scan.ErrInvalidOption):
		return fail(exitUsage, err)
	case errors.Is(err, scan.ErrUnsettled):
		return failf(exitBusy, "%w; %s; to continue later: --from %s", err, done, keys.Token())
	case errors.Is(err, scan.ErrNoLFU), keys.Progress().Scanned == 0: // there is nothing to continue
		return fail(exitUnavailable, err)
	}
	return failf(exitUnavailable, "%w; %s; to continue: --from %s", err, done, keys.Token())
}

// A scanProgress shows the progress of a scan.
type scanProgress struct {
	*progress
	keys *scan.Iterator[string]
}

func (p *scanProgress) tell() {
	at := p.keys.Progress()
	p.update(transfer.Progress{Done: at.Scanned, Total: at.Total})
}

// hideOn hides the bar if the output goes to the same terminal.
func (p *scanProgress) hideOn(out io.Writer) {
	if isTerminal(out) {
		p.progress = &progress{}
	}
}

func newScan() *cobra.Command {
	var f scanFlags
	var limit int
	var null, asJSON bool
	cmd := &cobra.Command{
		Use:   "scan",
		Short: "Print the keys of a server or a cluster",
		Long: `Print the keys that match, one per line, with their prefix. On a cluster it scans all
nodes at the same time. It prints each key that exists during the whole scan exactly
once, even while slots move; a key that is created or deleted meanwhile may be
missing. The scan runs in small steps that don't block other clients. A key that is
not plain text is printed in quotes; with --null it is printed as it is.

If ^C or --limit ends the scan, it prints a token, and --from continues there. It
repeats a key only if keys were created or deleted meanwhile, and then at most one
step per node.

Exit codes: 0 all keys were printed, or --limit was reached; 64 wrong usage; 69 no
server, or the connection was lost; 75 the cluster does not settle; 128+n ended by
signal n.`,
		Example: `  redoubt scan --match 'session:*' --type hash
  redoubt scan --backend redis-cluster://10.0.0.5:6379 --match 'tmp:*' --null | xargs -0 -n 100 ./look.sh`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usagef("limit is %d; want at least 1, or 0: all", limit)
			}
			if limit > 0 && f.query.Match == "" && f.query.Type == "" && !cmd.Flags().Changed("count") {
				f.count = min(f.count, limit) // keys of a step beyond the limit would be fetched again
			}
			if null && asJSON {
				return usagef("both --null and --json are given; leave out one of the two")
			}
			n := printed{limit: limit, null: null, asJSON: asJSON}
			return f.over(cmd, "scanning", func(ctx context.Context, _ *scan.Scanner, all *scan.Iterator[string], p *scanProgress) error {
				p.hideOn(cmd.OutOrStdout())
				out := bufio.NewWriter(cmd.OutOrStdout())
				err := errors.Join(n.print(ctx, out, all, p), out.Flush())
				if err == nil && n.full() && !f.quiet {
					_, err = fmt.Fprintf(cmd.ErrOrStderr(), "redoubt: %s printed; to continue: --from %s\n", keys(n.keys), all.Token())
				}
				return err
			}, func() string { return keys(n.keys) + " printed" })
		},
	}
	f.scanFlags(cmd)
	flags := cmd.Flags()
	flags.IntVar(&limit, "limit", 0, "maximum number of keys to print; 0: all")
	flags.BoolVar(&null, "null", false, "print keys unquoted, each followed by a zero byte")
	onThisLine(flags, "limit", "null")
	jsonFlag(flags, &asJSON, "print a JSON object on each line, with the key or, if it is not UTF-8, key_base64")
	return cmd
}

// printed prints keys and counts them.
type printed struct {
	limit int // 0: none
	null  bool
	keys  int64

	asJSON bool
}

func (n *printed) full() bool { return n.limit > 0 && n.keys >= int64(n.limit) }

// print prints page by page, or with a limit key by key.
func (n *printed) print(ctx context.Context, out *bufio.Writer, all *scan.Iterator[string], p *scanProgress) error {
	if n.limit > 0 {
		return n.printSome(ctx, out, all, p)
	}
	for page, err := range all.Pages(ctx) {
		if err != nil {
			return err
		}
		for _, key := range page {
			if err := n.write(out, key); err != nil {
				return err
			}
		}
		if err := out.Flush(); err != nil {
			return err
		}
		p.tell()
	}
	return nil
}

func (n *printed) printSome(ctx context.Context, out *bufio.Writer, all *scan.Iterator[string], p *scanProgress) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for key, err := range all.All(ctx) {
		if n.full() {
			return nil // key is beyond the limit, or err is the cancellation below
		}
		if err != nil {
			return err
		}
		if err := errors.Join(n.write(out, key), out.Flush()); err != nil {
			return err
		}
		p.tell()
		if n.full() {
			cancel() // not break: the iterator must count this key as seen
		}
	}
	return nil
}

func (n *printed) write(out *bufio.Writer, key string) error {
	n.keys++
	if n.asJSON {
		line := map[string]any{"key": key}
		if !utf8.ValidString(key) {
			line = map[string]any{"key_base64": []byte(key)}
		}
		return printLine(out, line)
	}
	text := printable(key) + "\n"
	if n.null {
		text = key + "\x00"
	}
	_, err := out.WriteString(text)
	return err
}
