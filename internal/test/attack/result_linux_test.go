package attack

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// A result is what one attack on one topology came to.
type result struct {
	Attack   string
	On       topology
	Rounds   int
	Tries    int64
	Victims  int64 // commands
	Longest  time.Duration
	Measured time.Duration `json:",omitempty"` // what the attack itself measures
	PeakMiB  int64
	Held     bool
	Fault    string `json:",omitempty"`
}

func (s *result) add(r *round) {
	s.Tries += r.tries.Load()
	s.Victims += r.victims.commands
	s.Longest = max(s.Longest, r.victims.longest)
	s.Measured = max(s.Measured, time.Duration(r.slow.Load()))
	s.PeakMiB = max(s.PeakMiB, r.peak>>10)
}

func printTable(to io.Writer, seed uint64, results []result) {
	// A terminal that is gone hears nothing more.
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "attack\ton\trounds\ttries\tvictims' commands\tlongest wait\tmeasured\tpeak MiB\t")
	held := 0
	for _, s := range results {
		verdict := "FAILED"
		if s.Held {
			verdict = "held"
			held++
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%v\t%v\t%d\t%s\n", s.Attack, s.On, s.Rounds, s.Tries, s.Victims,
			s.Longest.Round(time.Millisecond), s.Measured.Round(time.Millisecond), s.PeakMiB, verdict)
	}
	_ = w.Flush()
	_, _ = fmt.Fprintf(to, "seed %d: %d of %d held\n", seed, held, len(results))
}

// A recording is the last run that was kept, by make attack RECORD=1.
type recording struct {
	Seed     uint64
	Duration time.Duration
	Only     string
	Day      string
	Commit   string
	Results  []result
}

const recordFile = "testdata/recorded.json"

func keep(t *testing.T, seed uint64, results []result) {
	t.Helper()
	commit, err := exec.CommandContext(t.Context(), "git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(recording{seed, *duration, *only, time.Now().UTC().Format(time.DateOnly), strings.TrimSpace(string(commit)), results}, "", "\t")
	if err == nil {
		err = os.WriteFile(recordFile, append(text, '\n'), 0o644) //nolint:gosec // It is a part of the documentation.
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Log("recorded; now run: go generate ./internal/test/attack")
}

// A progress tells how far the attacks are: by a bar on a terminal, elsewhere by a
// line for each.
type progress struct {
	bar *progressbar.ProgressBar
	all int
	n   int
}

func newProgress(all int) *progress {
	p := &progress{all: all}
	if *duration != 0 && term.IsTerminal(int(os.Stderr.Fd())) { //nolint:gosec // a file descriptor
		p.bar = progressbar.NewOptions(all, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionShowCount(),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(true))
	}
	return p
}

func (p *progress) begins(name string) {
	if p.bar != nil {
		p.bar.Describe(strings.TrimPrefix(name, "TestAttacks/"))
	}
}

func (p *progress) ended(s result) {
	p.n++
	switch verdict := map[bool]string{true: "held", false: "FAILED"}[s.Held]; {
	case p.bar != nil:
		_ = p.bar.Add(1) // A bar that can't be drawn stops nothing.
	case *duration != 0:
		fmt.Fprintf(os.Stderr, "%3d of %d  %-6s  %s/%s  %s\n", p.n, p.all, verdict, s.Attack, s.On, s.Fault)
	}
}

func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Finish() // as above
	}
}
