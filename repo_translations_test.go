package redoubt_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/snippets"
)

// translated is the first line of a page in another language: the page it was written from, and the
// hash that `git hash-object` gave it then.
var translated = regexp.MustCompile(`^<!-- source: (\S+\.md) ([0-9a-f]{12}) -->\n`)

// TestTranslationsHaveTheSnippets checks that each page in Chinese names its source, and has its snippets
// byte for byte: only the snippets of the source are run. Drawings and tables in fences of text may differ.
// `make translations` lists the pages whose source has changed.
func TestTranslationsHaveTheSnippets(t *testing.T) {
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
		got, want := parsed(t, path, page), parsed(t, string(m[1]), source)
		for i := range min(len(got), len(want)) {
			a, b := got[i], want[i]
			a.File, a.Line = b.File, b.Line
			if a != b {
				t.Errorf("%s differs from %s", got[i].Where(), want[i].Where())
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s has %d snippets; want the %d of %s", path, len(got), len(want), m[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages == 0 {
		t.Error("there are no pages")
	}
}

func parsed(t *testing.T, file string, text []byte) (found []snippets.Snippet) {
	t.Helper()
	all, faults := snippets.Parse(file, string(text))
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
