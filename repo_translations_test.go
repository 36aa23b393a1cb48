package redoubt_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/snippets"
)

// translated is the first line of a page in another language: the page it was written from, and the
// hash that `git hash-object` gave it then.
var translated = regexp.MustCompile(`^<!-- source: (\S+\.md) ([0-9a-f]{12}) -->\n`)

// translations calls check with each page in Chinese and its source.
func translations(t *testing.T, check func(path, page, from, source string)) {
	t.Helper()
	pages := 0
	err := filepath.WalkDir("docs/zh-CN", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		pages++
		page, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		m := translated.FindSubmatch(page)
		if m == nil {
			t.Errorf("%s: the first line is not <!-- source: docs/NAME.md HASH -->", path)
			return nil
		}
		source, err := os.ReadFile(string(m[1]))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return nil
		}
		check(path, string(page), string(m[1]), string(source))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages == 0 {
		t.Error("there are no pages")
	}
}

// TestEveryPageIsTranslated checks that each page of docs/ has a page in Chinese at the same place.
func TestEveryPageIsTranslated(t *testing.T) {
	have := map[string]bool{}
	translations(t, func(path, _, from, _ string) {
		have[from] = true
		if want := "docs/zh-CN/" + strings.TrimPrefix(from, "docs/"); path != want {
			t.Errorf("%s is written from %s; want it at %s", path, from, want)
		}
	})
	err := filepath.WalkDir("docs", func(path string, e fs.DirEntry, err error) error {
		path = filepath.ToSlash(path)
		switch {
		case err != nil:
			return err
		case path == "docs/zh-CN":
			return fs.SkipDir
		case filepath.Ext(path) == ".md" && !have[path]:
			t.Errorf("%s has no page in Chinese", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestTranslationsHaveTheSnippets checks that each page in Chinese names its source, and has its snippets
// byte for byte: only the snippets of the source are run. Drawings and tables in fences of text may differ.
// `make translations` lists the pages whose source has changed.
func TestTranslationsHaveTheSnippets(t *testing.T) {
	translations(t, func(path, page, from, source string) {
		got, want := parsed(t, path, page), parsed(t, from, source)
		for i := range min(len(got), len(want)) {
			a, b := got[i], want[i]
			a.File, a.Line = b.File, b.Line
			if a != b {
				t.Errorf("%s differs from %s", got[i].Where(), want[i].Where())
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s has %d snippets; want the %d of %s", path, len(got), len(want), from)
		}
	})
}

func parsed(t *testing.T, file, text string) (found []snippets.Snippet) {
	t.Helper()
	all, faults := snippets.Parse(file, text)
	for _, f := range faults {
		t.Error(f)
	}
	for _, s := range all {
		if s.Lang != "text" {
			found = append(found, s)
		}
	}
	return found
}

// TestTranslationsHaveTheTables checks that each page in Chinese has the tables of its source: the same rows, and in
// each cell the same code, tests and numbers. So the tables that are generated in English, like the flags of the
// command line, stay true in Chinese.
func TestTranslationsHaveTheTables(t *testing.T) {
	translations(t, func(path, page, from, source string) {
		got, want := tableRows(page), tableRows(source)
		for i := range min(len(got), len(want)) {
			if !slices.EqualFunc(got[i].cells, want[i].cells, slices.Equal[[]string]) {
				t.Errorf("%s:%d: the row has %q; want %q of %s:%d", path, got[i].line, got[i].cells, want[i].cells, from, want[i].line)
				return // the next rows may belong to others
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s has %d rows of tables; want the %d of %s", path, len(got), len(want), from)
		}
	})
}

type tableRow struct {
	line  int
	cells [][]string // of each cell the code, the names of tests, the numbers, and a dash that is alone
}

var (
	cellFacts = regexp.MustCompile("`[^`]+`|\\b(?:Test|Fuzz)[A-Z]\\w*|[0-9]+|^ *[–-]+:? *$")
	linkTo    = regexp.MustCompile(`\]\([^)]*\)`)
)

// tableRows returns the rows of all tables of a page, in order.
func tableRows(text string) (rows []tableRow) {
	fenced := false
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if fenced || !strings.HasPrefix(line, "|") {
			continue
		}
		row := tableRow{line: i + 1}
		for cell := range strings.SplitSeq(strings.ReplaceAll(line, `\|`, " "), "|") {
			facts := cellFacts.FindAllString(linkTo.ReplaceAllString(cell, ""), -1)
			for j := range facts {
				facts[j] = strings.Trim(facts[j], " -:") // lines below headings have any length
			}
			slices.Sort(facts)
			row.cells = append(row.cells, slices.Compact(facts))
		}
		rows = append(rows, row)
	}
	return rows
}
