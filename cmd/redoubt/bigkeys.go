package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt/scan"
)

// A reportState is the JSON form of a report.
type reportState struct {
	By       scan.Measure       `json:"by"`
	Found    int64              `json:"keys"`
	Measured int64              `json:"measured"`
	Weight   int64              `json:"weight"`
	Types    map[string]sumJSON `json:"types"`
	Biggest  []keyJSON          `json:"biggest"`
	Prefixes []prefixJSON       `json:"prefixes"`
	Bare     sumJSON            `json:"without_prefix"`
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
	Name     string `json:"prefix"`
	Keys     int64  `json:"keys"`
	Weight   int64  `json:"weight"`
	MaxError int64  `json:"at_most_too_much"`
}

func reportStateOf(by scan.Measure, r scan.Report) reportState {
	s := reportState{By: by, Found: r.Found, Measured: r.Measured, Weight: r.Weight, Types: map[string]sumJSON{}, Biggest: []keyJSON{}, Prefixes: []prefixJSON{}, Bare: sumJSON(r.Unprefixed)}
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
		Short: "Find the keys and prefixes that use the most memory, or are used most",
		Long: `Measure the keys that match, on all nodes of a cluster. Print the biggest keys, the
biggest prefixes, and the share of each type. --by bytes measures memory. --by
elements measures length: bytes of a string, elements of any other type. --by heat
measures accesses, on a server with an LFU maxmemory-policy. The memory it needs does
not grow with the number of keys. It changes nothing, but counting elements is an
access to the key.

^C prints the report so far and a token, and --from reports on the rest.

Exit codes: 0 printed; 64 wrong usage; 69 no server, the connection was lost, or the
server counts no accesses; 75 the cluster does not settle; 128+n ended by signal n.`,
		Example: `  redoubt bigkeys
  redoubt bigkeys --match 'session:*' --by elements --top 5
  redoubt bigkeys --by heat --depth 2 --sample 0.1 --json`,
		Args: noArguments,
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
			}, func() string { return keys(r.Found) + " measured" })
		},
	}
	f.scanFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&by, "by", by, "`measure` to compare by: bytes, elements or heat")
	flags.IntVar(&opts.Top, "top", 20, "number of keys and prefixes to print")
	flags.Float64Var(&opts.Sample, "sample", 1, "`fraction` of the keys to measure, at random; below 1 the sums are estimates")
	flags.IntVar(&opts.Depth, "depth", 1, "maximum number of parts of a prefix; a key counts for each of its prefixes")
	flags.StringVar(&opts.Separator, "separator", ":", "text that ends each part of a prefix")
	flags.BoolVar(&asJSON, "json", false, "print a JSON object")
	complete(cmd, "by", string(scan.Bytes), string(scan.Elements), string(scan.Heat))
	onThisLine(flags, "by", "top", "sample", "depth", "separator", "json")
	return cmd
}

// A reportTable prints the tables of a report, the biggest entry first.
type reportTable struct {
	*table
	by     scan.Measure
	whole  int64
	shares bool
}

func printReport(w io.Writer, by scan.Measure, r scan.Report) error {
	_, hasStrings := r.Types["string"]
	t := reportTable{newTable(w), by, max(1, r.Weight), by != scan.Elements || !hasStrings || len(r.Types) == 1}
	if _, err := fmt.Fprintln(w, reportTotal(by, r)); err != nil || r.Measured == 0 {
		return err
	}
	t.head("TYPE\tKEYS")
	for _, kind := range slices.SortedFunc(maps.Keys(r.Types), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Types[b].Weight, r.Types[a].Weight), cmp.Compare(a, b))
	}) {
		t.row(fmt.Sprintf("%s\t%d", printable(kind), r.Types[kind].Keys), r.Types[kind].Weight, 0)
	}
	_ = t.Flush()
	if len(r.Prefixes) > 0 {
		t.head("PREFIX\tKEYS")
		for _, p := range r.Prefixes {
			t.row(fmt.Sprintf("%s\t%d", printable(p.Name), p.Keys), p.Weight, p.MaxError)
		}
		if r.Unprefixed.Keys > 0 {
			t.row(fmt.Sprintf("(none)\t%d", r.Unprefixed.Keys), r.Unprefixed.Weight, 0)
		}
		_ = t.Flush()
	}
	t.head("KEY\tTYPE")
	for _, k := range r.Keys {
		t.row(printable(k.Name)+"\t"+printable(k.Type), k.Weight, 0)
	}
	return t.Flush()
}

func reportTotal(by scan.Measure, r scan.Report) string {
	total := keys(r.Found) + ", "
	switch by {
	case scan.Bytes:
		total += byteSize(r.Weight)
	case scan.Elements:
		total += fmt.Sprintf("%d elements", r.Weight-r.Types["string"].Weight)
		if s := r.Types["string"]; s.Keys > 0 {
			total += " and " + byteSize(s.Weight) + " of strings"
		}
	case scan.Heat:
		total += fmt.Sprintf("about %d accesses lately", r.Weight)
	}
	if r.Measured < r.Found {
		total += fmt.Sprintf("; estimated from %d of them", r.Measured)
	}
	return total
}

func (t *reportTable) head(first string) {
	_, _ = fmt.Fprint(t, "\n", first, "\t", map[scan.Measure]string{scan.Bytes: "SIZE", scan.Elements: "LENGTH", scan.Heat: "ACCESSES"}[t.by])
	if t.shares {
		_, _ = fmt.Fprint(t, "\tSHARE")
	}
	_, _ = fmt.Fprintln(t)
}

// row prints a line. weight may be too large by up to over.
func (t *reportTable) row(first string, weight, over int64) {
	amount := func(n int64) string {
		if t.by == scan.Bytes {
			return byteSize(n)
		}
		return strconv.FormatInt(n, 10)
	}
	_, _ = fmt.Fprint(t, first, "\t", amount(weight))
	if t.shares {
		_, _ = fmt.Fprintf(t, "\t%.1f%%", 100*float64(weight)/float64(t.whole))
	}
	if over > 0 {
		_, _ = fmt.Fprint(t, "\tat least ", amount(weight-over))
	}
	_, _ = fmt.Fprintln(t)
}
