package matrix

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

//go:generate go test -run TestDocs -update .

var update = flag.Bool("update", false, "write the tables into docs/compatibility.md")

const docsFile = "../../../docs/compatibility.md"

// columns are the headings of reaches.
var columns = []string{"the embedded engine", "`serve`, engine", "`serve`, Redis", "`serve`, Sentinel", "`serve`, pool of three", "`serve`, `cluster:` pool", "Redis", "Sentinel", "Cluster"}

// groups are the tables: several ways share one.
var groups = []struct {
	title string
	ways  []string
}{
	{"The Go library: `redoubt.Open` and `goredis.Open` by RESP3 and by RESP2, and `goredis.Wrap` of a program's own client", []string{libraryRESP3, libraryRESP2, libraryWrap}},
	{"The RESP commands, by RESP3 and by RESP2", []string{wireRESP3, wireRESP2}},
	{"The command line", []string{commandLine}},
}

// TestDocs holds the tables in docs/compatibility.md to what TestMatrix has found.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile(docsFile)
	must(t, err)
	section := regexp.MustCompile(`(?s)(<!-- matrix:[^>]*-->\n).*?(<!-- end -->)`)
	if !section.MatchString(string(text)) {
		t.Fatal("docs/compatibility.md has no section for the matrix")
	}
	want := section.ReplaceAllString(string(text), "${1}"+strings.ReplaceAll(tables(t, readFound(t)), "$", "$$")+"${2}")
	if *update {
		must(t, os.WriteFile(docsFile, []byte(want), 0o644)) //nolint:gosec // documentation is for everybody
		return
	}
	if want != string(text) {
		t.Error("docs/compatibility.md is out of date: run `go generate ./internal/test/matrix`")
	}
}

// tables writes what was found.
func tables(t *testing.T, found outcomes) string {
	t.Helper()
	var b strings.Builder
	var notes []string
	written := 0
	for _, g := range groups {
		fmt.Fprintf(&b, "**%s**\n\n| | %s |\n|---|%s\n", g.title, strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
		for _, p := range promises {
			row := make([]string, len(reaches))
			for i, on := range reaches {
				texts := cell(found, g.ways, on, p, &notes)
				if row[i] = texts[0]; len(texts) > 1 {
					t.Errorf("%s, %s: %q: these ways need tables of their own", on, p, texts)
				}
				for _, w := range g.ways {
					if found[w][on][p] != "" {
						written++
					}
				}
			}
			if strings.Trim(strings.Join(row, ""), "–") != "" {
				fmt.Fprintf(&b, "| %s | %s |\n", p, strings.Join(row, " | "))
			}
		}
		b.WriteString("\n")
	}
	for i, n := range notes {
		fmt.Fprintf(&b, "%d. ``%s``\n", i+1, n)
	}
	all := 0
	found.all(func(_, _, _, _ string) { all++ })
	if written != all {
		t.Errorf("%d of %d cells are in the tables: say in promises, reaches and groups where the others belong", written, all)
	}
	return b.String()
}

// cell writes one cell of several ways, once for each outcome.
func cell(found outcomes, ways []string, on, promise string, notes *[]string) (texts []string) {
	for _, w := range ways {
		if found[w][on] == nil {
			continue // this way doesn't go there
		}
		text := "–"
		switch outcome := found[w][on][promise]; {
		case outcome == held:
			text = "yes"
		case strings.HasPrefix(outcome, refused):
			note := strings.TrimPrefix(outcome, refused)
			i := slices.Index(*notes, note)
			if i < 0 {
				i, *notes = len(*notes), append(*notes, note)
			}
			text = fmt.Sprintf("no [%d]", i+1)
		}
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if texts == nil {
		texts = []string{"–"}
	}
	return texts
}
