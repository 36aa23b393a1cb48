package attack

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

//go:generate go test -run TestDocs -update .

var update = flag.Bool("update", false, "write the tables of attacks into docs/security.md")

const docsFile = "../../../docs/security.md"

// TestDocs holds the tables in docs/security.md to the table of attacks and to the
// recorded run.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(recordFile)
	if err != nil {
		t.Fatal(err)
	}
	var run recording
	if err := json.Unmarshal(kept, &run); err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for name, table := range map[string]string{"attacks": attackTable(), "recorded run": runTable(run)} {
		section := regexp.MustCompile(`(?s)(<!-- ` + name + `:[^>]*-->\n).*?(<!-- end -->)`)
		if !section.MatchString(want) {
			t.Errorf("docs/security.md has no section %q", name)
		}
		want = section.ReplaceAllString(want, "${1}"+strings.ReplaceAll(table, "$", "$$")+"${2}")
	}
	if *update {
		if err := os.WriteFile(docsFile, []byte(want), 0o644); err != nil { //nolint:gosec // documentation is for everybody
			t.Fatal(err)
		}
		return
	}
	if want != string(text) {
		t.Error("docs/security.md is out of date: run `go generate ./internal/test/attack`")
	}
}

func attackTable() string {
	var b strings.Builder
	b.WriteString("| Attack | On | Attempt | Requirement | Memory |\n|---|---|---|---|---:|\n")
	for _, a := range attacks {
		var on []string
		for _, o := range a.on {
			on = append(on, string(o))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %d MiB |\n", a.name, strings.Join(on, ", "), a.tries, a.holds, a.memory)
	}
	return b.String()
}

func runTable(run recording) string {
	if len(run.Results) == 0 {
		return "None yet.\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "On %s, revision %s: `make attack SEED=%d DURATION=%v ONLY='%s'`.\n\n", run.Day, run.Commit, run.Seed, run.Duration, run.Only)
	b.WriteString("| Attack | On | Rounds | Sent or done | Victims' commands | Longest wait | Peak of memory | |\n|---|---|---:|---:|---:|---:|---:|---|\n")
	for _, r := range run.Results {
		verdict := "held"
		if !r.Held {
			verdict = "**not held**"
		}
		if r.Measured > 0 {
			verdict += fmt.Sprintf("; the longest stop took %v", r.Measured.Round(time.Millisecond))
		}
		victims, longest := fmt.Sprint(r.Victims), r.Longest.Round(time.Millisecond).String()
		if r.Victims == 0 {
			victims, longest = "", ""
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %s | %s | %d MiB | %s |\n", r.Attack, r.On, r.Rounds, r.Tries, victims, longest, r.PeakMiB, verdict)
	}
	return b.String()
}
