package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt/scan"
)

func newDel() *cobra.Command {
	var f scanFlags
	var force, dryRun bool
	cmd := &cobra.Command{
		Use:   "del --match PATTERN --force",
		Short: "Delete the keys that match, or say how many there are",
		Long: `Delete the keys that match, by UNLINK in pipelines, of all nodes of a cluster. It asks
nothing: --force is required instead. --dry-run says how many there are, with some
of them, and deletes nothing. A key that gets another value between being found and
being deleted is deleted too.

^C says how far it was, and --from goes on there.

Exit codes: 0 deleted, also when there are none; 64 wrong usage; 69 no server, or it
went away; 75 the cluster does not settle; 128+n ended by signal n.`,
		Example: `  redoubt del --match 'tmp:*' --dry-run
  redoubt del --match 'tmp:*' --type hash --force`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case f.query.Match == "":
				return usagef("want the pattern of what is to be deleted with --match; '*' is every key")
			case dryRun && force:
				return usagef("both --dry-run and --force are given; leave out one of the two")
			case !dryRun && !force:
				return usagef("what is deleted is gone; if that is wanted, say --force, or see with --dry-run how much it is")
			}
			var total scan.Done
			var some []string
			past := map[bool]string{true: "found", false: "deleted"}[dryRun]
			said := func() string {
				return keys(map[bool]int64{true: total.Found, false: total.Changed}[dryRun]) + " " + past
			}
			verb := map[bool]string{true: "counting", false: "deleting"}[dryRun]
			return f.over(cmd, verb, func(ctx context.Context, s *scan.Scanner, all *scan.Iterator[string], p *scanProgress) error {
				var err error
				total, err = s.Delete(ctx, all, scan.Bulk{DryRun: dryRun, Each: func(page []string) {
					some = append(some, page[:min(len(page), 10-len(some))]...)
					p.tell()
				}})
				p.done()
				if err != nil || f.quiet {
					return err
				}
				if !dryRun {
					_, err := fmt.Fprintln(cmd.OutOrStdout(), said())
					return err
				}
				return printDryRun(cmd.OutOrStdout(), total.Found, some)
			}, said)
		},
	}
	f.scanFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&force, "force", false, "required: what is deleted is gone")
	flags.BoolVar(&dryRun, "dry-run", false, "say how many keys match, and delete nothing")
	onThisLine(flags, "force", "dry-run")
	return cmd
}

func printDryRun(w io.Writer, found int64, some []string) error {
	if _, err := fmt.Fprintf(w, "would delete %s\n", keys(found)); err != nil {
		return err
	}
	for _, key := range some {
		_, _ = fmt.Fprintf(w, "  %s\n", printable(key))
	}
	if more := found - int64(len(some)); more > 0 {
		_, _ = fmt.Fprintf(w, "  and %d more\n", more)
	}
	return nil
}
