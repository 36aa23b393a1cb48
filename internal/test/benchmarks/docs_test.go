package benchmarks

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

//go:generate go test -run TestDocs -update .

var update = flag.Bool("update", false, "write the pages and the plots")

const root = "../../.."

// TestDocs holds docs/benchmarks.md, its page in Chinese and the plots to the newest results.
func TestDocs(t *testing.T) {
	file, err := Newest(root)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := Write(root, file); err != nil {
			t.Fatal(err)
		}
		return
	}
	files, err := Generate(file)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range files {
		if have, err := os.ReadFile(filepath.Join(root, path)); err != nil || string(have) != want {
			t.Errorf("%s is not that of %s (%v): run `go generate ./internal/test/benchmarks`", path, file, err)
		}
	}
	plots, err := filepath.Glob(filepath.Join(root, plotFolder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range plots {
		if _, ok := files[plotFolder+"/"+filepath.Base(p)]; !ok {
			t.Errorf("%s belongs to no suite: run `go generate ./internal/test/benchmarks`", p)
		}
	}
}

// results have a line that loses, one that wins because less of its unit is better, and a peer that did nothing.
var results = Results{Machine: "a machine", Versions: "a-peer@v1.2.3", Note: "a note", Records: []Record{
	{Suite: "locks", Title: "lock", Callers: 1, Contender: "redoubt/lock", Unit: "op/s", Commands: 2.5, P50: 80, Rounds: []float64{90, 110, 100}},
	{Suite: "locks", Title: "lock", Callers: 1, Contender: "a peer", Unit: "op/s", Rounds: []float64{180, 220, 200}},
	{Suite: "locks", Title: "lock", Callers: 1, Contender: "redoubt/lock, Fair", Unit: "op/s", Rounds: []float64{50, 50, 50}},
	{Suite: "locks", Title: "lock", Callers: 1, Contender: "another", Unit: "op/s", Rounds: []float64{0, 0, 0}},
	{Suite: "growth memory", Title: "a limit", Contender: "redoubt on Redis", Unit: "B", Rounds: []float64{72}},
	{Suite: "growth memory", Title: "a limit", Contender: "the peer", Unit: "B", Rounds: []float64{1440}},
	{Suite: "growth callers", Title: "limit", Callers: 1, Contender: "redoubt on Redis", Unit: "op/s", Rounds: []float64{10_000}},
	{Suite: "growth callers", Title: "limit", Callers: 1000, Contender: "redoubt on Redis", Unit: "op/s", Rounds: []float64{200_000}},
}}

// TestPage checks that a loss is shown as a loss, in both languages, and that all figures come from the file.
func TestPage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "compare.tsv")
	if err := results.Write(file); err != nil {
		t.Fatal(err)
	}
	files, err := Generate(file)
	if err != nil {
		t.Fatal(err)
	}
	page := files[pageFile]
	for _, want := range []string{
		": a note.**\n", "a machine", "a-peer@v1.2.3",
		"| operation | callers | redoubt/lock, op/s | redoubt/lock, Fair, op/s | to a peer | to another |\n",
		"| lock | 1 | 100 (90–110) | 50 | **0.50 behind** | it did none |\n",
		"| a limit | 72 | 20.0 |\n",
		"![Locks](images/benchmarks/locks.svg)",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "| [Locks](#locks)") {
		t.Errorf("the page of a run with a note counts its ratios:\n%s", page)
	}
	for _, want := range []string{"<!-- source: docs/benchmarks.md ", "**0.50 落后**", "](../images/benchmarks/locks.svg)"} {
		if !strings.Contains(files[chineseFile], want) {
			t.Errorf("the page in Chinese lacks %q", want)
		}
	}
	if n := strings.Count(files[plotFolder+"/locks.svg"], "<circle"); n != 1 {
		t.Errorf("the plot has %d dots; want 1, for the peer that did something", n)
	}
	if curve := files[plotFolder+"/growth-callers.svg"]; !strings.Contains(curve, `<polyline points="90.0,420.0 610.0,172.8"`) {
		t.Errorf("the curve does not go from 1 caller to 1,000:\n%s", curve)
	}
}

// TestCounts: the page of a full run counts the ratios of each suite, and how many are behind.
func TestCounts(t *testing.T) {
	full := results
	full.Note = ""
	file := filepath.Join(t.TempDir(), "compare.tsv")
	if err := full.Write(file); err != nil {
		t.Fatal(err)
	}
	files, err := Generate(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := "| [Locks](#locks) | 2 | 1 |\n"; !strings.Contains(files[pageFile], want) {
		t.Errorf("the page lacks %q:\n%s", want, files[pageFile])
	}
}

// TestResults checks that results are read as they were written, and that broken ones are refused.
func TestResults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "compare.tsv")
	if err := results.Write(file); err != nil {
		t.Fatal(err)
	}
	again, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if again.Machine != results.Machine || again.Versions != results.Versions || again.Note != results.Note || !slices.EqualFunc(again.Records, results.Records, func(a, b Record) bool {
		same := slices.Equal(a.Rounds, b.Rounds)
		a.Rounds, b.Rounds = nil, nil
		return same && a.Suite == b.Suite && a.Title == b.Title && a.Contender == b.Contender && a.Callers == b.Callers && a.Commands == b.Commands && a.P50 == b.P50
	}) {
		t.Errorf("read %+v", again)
	}
	for _, text := range []string{"too\tfew\n", "s\tt\t0\t1\tc\top/s\t0\t0\t0\t0\t\n", "s\tt\t0\tone\tc\top/s\t0\t0\t0\t0\t1\n", "no such suite\tt\t0\t1\tc\top/s\t0\t0\t0\t0\t1\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Generate(file); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}
