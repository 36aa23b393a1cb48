package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt/scan"
)

// A reportState is a report. Its JSON is what bigkeys prints.
type reportState struct {
	By       scan.Measure       `json:"by"`
	Found    int64              `json:"keys"`
	Measured int64              `json:"measured"`
	Weight   int64              `json:"weight"`
	Types    map[string]sumJSON `json:"types"`
	Biggest  []keyJSON          `json:"biggest"`
	Prefixes []prefixJSON       `json:"prefixes"`
}

type sumJSON struct {
	Keys   int64 `json:"keys"`
	Weight int64 `json:"weight"`
}

type keyJSON struct {
	Name   string `json:"key"`
	Type   string `json:"type"`
	Weight int64  `json:"weight"`
}

type prefixJSON struct {
	Name   string `json:"prefix"`
	Keys   int64  `json:"keys"`
	Weight int64  `json:"weight"`
	Over   int64  `json:"at_most_too_much"`
}

func reportStateOf(by scan.Measure, r scan.Report) reportState {
	s := reportState{By: by, Found: r.Found, Measured: r.Measured, Weight: r.Weight, Types: map[string]sumJSON{}, Biggest: []keyJSON{}, Prefixes: []prefixJSON{}}
	for name, sum := range r.Types {
		s.Types[name] = sumJSON(sum)
	}
	for _, k := range r.Keys {
		s.Biggest = append(s.Biggest, keyJSON(k))
	}
	for _, p := range r.Prefixes {
		s.Prefixes = append(s.Prefixes, prefixJSON(p))
	}
	return s
}

func newBigkeys() *cobra.Command {
	var f scanFlags
	var opts scan.ReportOptions
	var asJSON bool
	by := string(scan.Bytes)
	cmd := &cobra.Command{
		Use:   "bigkeys",
		Short: "Say which keys and prefixes take most, or are used most",
		Long: `Measure the keys that match, on all nodes of a cluster, and print the biggest, the
prefixes that take most, and how much each type does: by memory, by elements (for
strings: bytes), or with --by heat by how often they are used, which a server counts
that has an LFU maxmemory-policy. It keeps only the biggest, whatever the number of keys,
and changes nothing; counting elements counts as an access.

^C prints what was found by then, and --from reports on the rest.

Exit codes: 0 told; 64 wrong usage; 69 no server, or it went away, or counts no
accesses; 75 the cluster does not settle; 128+n ended by signal n.`,
		Example: `  redoubt bigkeys
  redoubt bigkeys --match 'session:*' --by elements --top 5
  redoubt bigkeys --by heat --depth 2 --sample 0.1 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.By = scan.Measure(by)
			if opts.Top == 0 || opts.Depth == 0 || opts.Sample == 0 {
				return usagef("top, depth and sample must be more than 0")
			}
			var r scan.Report
			return f.over(cmd, "measuring", func(ctx context.Context, s *scan.Scanner, all *scan.Iterator[string], p *scanProgress) (err error) {
				opts.Each = p.tell
				r, err = s.Report(ctx, all, opts)
				p.done()
				if err != nil && r.Found == 0 {
					return err
				}
				printed := error(nil)
				if asJSON {
					printed = printJSON(cmd.OutOrStdout(), reportStateOf(opts.By, r))
				} else {
					printed = printReport(cmd.OutOrStdout(), opts.By, r)
				}
				if err != nil {
					return err
				}
				return printed
			}, func() string { return keys(r.Found) + " gone over" })
		},
	}
	f.scanFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&by, "by", by, "compare by `measure`: bytes, elements or heat")
	flags.IntVar(&opts.Top, "top", 20, "print so many keys and prefixes")
	flags.Float64Var(&opts.Sample, "sample", 1, "measure this `part` of the keys, at random; the sums are then estimates")
	flags.IntVar(&opts.Depth, "depth", 1, "prefixes of up to so many parts")
	flags.StringVar(&opts.Separator, "separator", ":", "what ends each part of a prefix")
	flags.BoolVar(&asJSON, "json", false, "print a JSON object")
	complete(cmd, "by", string(scan.Bytes), string(scan.Elements), string(scan.Heat))
	onThisLine(flags, "by", "top", "sample", "depth", "separator", "json")
	return cmd
}

func printReport(w io.Writer, by scan.Measure, r scan.Report) error {
	amount := func(n int64) string {
		if by == scan.Bytes {
			return byteSize(n)
		}
		return fmt.Sprint(n)
	}
	share := func(n int64) string { return fmt.Sprintf("%.1f%%", 100*float64(n)/float64(max(1, r.Weight))) }
	about := ""
	if r.Measured < r.Found {
		about = fmt.Sprintf("; estimated from %d of them", r.Measured)
	}
	unit := map[scan.Measure]string{scan.Bytes: "", scan.Elements: " elements", scan.Heat: " accesses, lately"}[by]
	if _, err := fmt.Fprintf(w, "%s, %s%s%s\n", keys(r.Found), amount(r.Weight), unit, about); err != nil {
		return err
	}
	if r.Measured == 0 {
		return nil
	}
	name := map[scan.Measure]string{scan.Bytes: "SIZE", scan.Elements: "ELEMENTS", scan.Heat: "ACCESSES"}[by]
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(table, "\nTYPE\tKEYS\t%s\tSHARE\n", name)
	for _, kind := range slices.Sorted(maps.Keys(r.Types)) {
		_, _ = fmt.Fprintf(table, "%s\t%d\t%s\t%s\n", printable(kind), r.Types[kind].Keys, amount(r.Types[kind].Weight), share(r.Types[kind].Weight))
	}
	_ = table.Flush()
	if len(r.Prefixes) > 0 {
		_, _ = fmt.Fprintf(table, "\nPREFIX\tKEYS\t%s\tSHARE\n", name)
		for _, p := range r.Prefixes {
			_, _ = fmt.Fprintf(table, "%s\t%d\t%s\t%s\n", printable(p.Name), p.Keys, amount(p.Weight), share(p.Weight))
		}
		_ = table.Flush()
	}
	_, _ = fmt.Fprintf(table, "\nKEY\tTYPE\t%s\tSHARE\n", name)
	for _, k := range r.Keys {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", printable(k.Name), printable(k.Type), amount(k.Weight), share(k.Weight))
	}
	return table.Flush()
}

// byteSize is a number of bytes for people.
func byteSize(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d B", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	case n < 10<<30:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d GiB", n>>30)
}
