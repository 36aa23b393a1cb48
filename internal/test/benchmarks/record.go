// Package benchmarks makes docs/benchmarks.md, its page in Chinese and its plots from the raw results of `make compare`.
// The program in bench/ measures and writes these results; this package needs none of the peers.
package benchmarks

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A Record is a measurement of one contender: a figure for each round. The records of one line of a table follow
// each other, ours first.
type Record struct {
	Suite     string
	Title     string
	Size      int // keys, shards or ms of the round trip, in suites where they grow; 0: none
	Callers   int // 0: it has none
	Contender string
	Unit      string    // of the rounds: more is better if it ends in /s, else less is
	Commands  float64   // commands on the server for each operation; 0: not counted
	Scripts   float64   // scripts for each operation
	P50, P99  float64   // of one operation, in µs; 0: not measured
	Rounds    []float64 // the figure of each round
}

// Median is the median of the rounds.
func (r Record) Median() float64 {
	vs := slices.Sorted(slices.Values(r.Rounds))
	return vs[len(vs)/2]
}

// spread returns the quartiles of figures: half of them lie between. Of three figures they are the least and the most.
func spread(vs []float64) (low, high float64) {
	vs = slices.Sorted(slices.Values(vs))
	n := len(vs) / 4
	return vs[n], vs[len(vs)-1-n]
}

// moreIsBetter tells rates from times and bytes.
func (r Record) moreIsBetter() bool { return strings.HasSuffix(r.Unit, "/s") }

// isOurs tells Redoubt's records from the peers' records.
func (r Record) isOurs() bool { return strings.HasPrefix(strings.ToLower(r.Contender), "redoubt") }

// Results are the records of a run.
type Results struct {
	Machine  string // with the date, and the versions of Go and of redis-server
	Versions string // of the peers
	Note     string // a remark about the run
	Records  []Record
}

var columns = []string{"suite", "title", "size", "callers", "contender", "unit", "commands", "scripts", "p50 us", "p99 us", "rounds"}

// Write writes the results as lines of fields with tabs between them.
func (r Results) Write(path string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# machine\t%s\n# versions\t%s\n# note\t%s\n%s\n", r.Machine, r.Versions, r.Note, strings.Join(columns, "\t"))
	number := func(f float64) string { return strconv.FormatFloat(f, 'g', 6, 64) }
	for _, c := range r.Records {
		rounds := make([]string, len(c.Rounds))
		for i, f := range c.Rounds {
			rounds[i] = number(f)
		}
		fields := []string{
			c.Suite, c.Title, strconv.Itoa(c.Size), strconv.Itoa(c.Callers), c.Contender, c.Unit,
			number(c.Commands), number(c.Scripts), number(c.P50), number(c.P99), strings.Join(rounds, " "),
		}
		for i, f := range fields {
			fields[i] = strings.NewReplacer("\t", " ", "\n", " ").Replace(f)
		}
		b.WriteString(strings.Join(fields, "\t") + "\n")
	}
	return os.WriteFile(path, []byte(b.String()), 0o644) //nolint:gosec // results are for everybody
}

// Read reads results that Write has written.
func Read(path string) (r Results, err error) {
	file, err := os.Open(path)
	if err != nil {
		return r, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		switch fields := strings.Split(line, "\t"); {
		case fields[0] == "# machine":
			r.Machine = strings.Join(fields[1:], " ")
		case fields[0] == "# versions":
			r.Versions = strings.Join(fields[1:], " ")
		case fields[0] == "# note":
			r.Note = strings.Join(fields[1:], " ")
		case line == strings.Join(columns, "\t"):
		default:
			c, err := parse(fields)
			if err != nil {
				return r, fmt.Errorf("%s:%d: %w", path, n, err)
			}
			r.Records = append(r.Records, c)
		}
	}
	return r, lines.Err()
}

func parse(fields []string) (c Record, err error) {
	if len(fields) != len(columns) {
		return c, fmt.Errorf("%d fields, want %d", len(fields), len(columns))
	}
	number := func(text string) float64 {
		f, e := strconv.ParseFloat(text, 64)
		if e != nil && err == nil {
			err = e
		}
		return f
	}
	c = Record{
		Suite: fields[0], Title: fields[1], Size: int(number(fields[2])), Callers: int(number(fields[3])),
		Contender: fields[4], Unit: fields[5], Commands: number(fields[6]), Scripts: number(fields[7]),
		P50: number(fields[8]), P99: number(fields[9]),
	}
	for text := range strings.FieldsSeq(fields[10]) {
		c.Rounds = append(c.Rounds, number(text))
	}
	if err == nil && len(c.Rounds) == 0 {
		err = fmt.Errorf("%s, %s: no rounds", c.Title, c.Contender)
	}
	return c, err
}

// A line is a line of a table: ours, our other ways, and the peers.
type line struct {
	ours       Record
	own, peers []Record
}

// linesOf puts the records of one measurement together.
func linesOf(records []Record) (lines []line) {
	at := map[string]int{}
	for _, r := range records {
		key := fmt.Sprint(r.Suite, "\t", r.Title, "\t", r.Size, "\t", r.Callers, "\t", r.Unit)
		i, known := at[key]
		switch {
		case !known:
			at[key] = len(lines)
			lines = append(lines, line{ours: r})
		case r.isOurs():
			lines[i].own = append(lines[i].own, r)
		default:
			lines[i].peers = append(lines[i].peers, r)
		}
	}
	return lines
}

// ratio compares the medians of ours and of a peer: above 1 ours is better.
func ratio(ours, peer Record) float64 { return better(ours, ours.Median(), peer.Median()) }

func better(r Record, ours, peer float64) float64 {
	if r.moreIsBetter() {
		return ours / peer
	}
	return peer / ours
}

// ratioSpread returns the quartiles of the ratios within a round.
func ratioSpread(ours, peer Record) (low, high float64) {
	ratios := make([]float64, min(len(ours.Rounds), len(peer.Rounds)))
	for i := range ratios {
		ratios[i] = better(ours, ours.Rounds[i], peer.Rounds[i])
	}
	return spread(ratios)
}

// isBehind is how the tables and the plots judge a ratio: 1.00 is even.
func isBehind(ratio float64) bool { return ratio < 0.995 }
