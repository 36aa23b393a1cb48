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
	var force, dryRun, asJSON bool
	cmd := &cobra.Command{
		Use:   "del --match PATTERN --force",
		Short: "Delete the keys that match, or count them",
		Long: `Delete the keys that match, on all nodes of a cluster, by UNLINK in pipelines. There is
no prompt; pass --force. --dry-run counts the keys, prints some of them, and deletes
nothing. A key whose value changes just before its deletion is deleted, too.

If ^C ends it, it prints a token, and --from continues there.

Exit codes: 0 deleted, also if no key matches; 64 wrong usage; 69 no server, or the
connection was lost; 75 the cluster does not settle; 128+n ended by signal n.`,
		Example: `  redoubt del --match 'tmp:*' --dry-run
  redoubt del --match 'tmp:*' --type hash --force`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case f.query.Match == "":
				return usagef("want the pattern of the keys to delete with --match; '*' matches every key")
			case dryRun && force:
				return usagef("both --dry-run and --force are given; leave out one of the two")
			case !dryRun && !force:
				return usagef("this deletes keys for good; pass --force, or --dry-run to count them first")
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
				if asJSON {
					return printJSON(cmd.OutOrStdout(), map[string]any{"found": total.Found, "deleted": total.Changed, "dry_run": dryRun, "some": append([]string{}, some...)})
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
	flags.BoolVar(&force, "force", false, "required, because the keys are deleted for good")
	flags.BoolVar(&dryRun, "dry-run", false, "count the keys that match, and delete nothing")
	onThisLine(flags, "force", "dry-run")
	jsonFlag(flags, &asJSON, "print a JSON object")
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
