package redoubt_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/snippets"
)

// shape are the headings that the page of a primitive has, in this order. Others may come in between.
var shape = []string{"The problem", "The wrong ways", "Doing it right", "Guarantees", "Limits", "Cost", "Operations"}

// chineseShape are these headings on the pages in Chinese.
var chineseShape = []string{"问题", "常见的错误做法", "正确做法", "保证", "限制", "开销", "运维"}

// primitivePages are the pages in docs/ that have the shape, with the languages in which they do it right.
var primitivePages = func() map[string][]string {
	pages := map[string][]string{"cache": {"go"}} // the caller's own function loads a value
	for _, page := range []string{"locks", "rate-limits", "queues", "stock", "bloom-filters", "expiring-hashes", "bitmaps", "visitors", "geo"} {
		pages[page] = []string{"go", "redis", "python", "js"}
	}
	return pages
}()

// TestReadmeIsShort: a reader sees the whole of README in a few screens. Pages of docs/ have the rest.
func TestReadmeIsShort(t *testing.T) {
	for _, name := range []string{"README.md", "README.zh-CN.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(string(text), "\n"); lines >= 120 {
			t.Errorf("%s has %d lines; want fewer than 120", name, lines)
		}
	}
}

var heading = regexp.MustCompile(`(?m)^## (.*)$`)

// headings returns the headings of a page that are among some.
func headings(text string, among []string) (found []string) {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		if slices.Contains(among, m[1]) {
			found = append(found, m[1])
		}
	}
	return found
}

// TestPrimitivePagesHaveOneShape checks the pages of the primitives, and that their pages in Chinese have the same
// sections.
func TestPrimitivePagesHaveOneShape(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for page, languages := range primitivePages {
		path := "docs/" + page + ".md"
		text := read(path)
		if found := headings(text, shape); !slices.Equal(found, shape) {
			t.Errorf("%s has the sections %q; want %q", path, found, shape)
		}
		all, _ := snippets.Parse(path, text) // another test reports its faults
		begin := strings.Count(text[:strings.Index(text, "\n## Doing it right")], "\n") + 1
		end := strings.Count(text[:strings.Index(text, "\n## Guarantees")], "\n") + 1
		for _, language := range languages {
			if !slices.ContainsFunc(all, func(s snippets.Snippet) bool { return s.Lang == language && s.Line > begin && s.Line < end }) {
				t.Errorf("%s has no snippet in %s under %q", path, language, "Doing it right")
			}
		}
		chinese := "docs/zh-CN/" + page + ".md"
		theirs := read(chinese)
		if a, b := strings.Count(theirs, "\n## "), strings.Count(text, "\n## "); a != b {
			t.Errorf("%s has %d sections; want the %d of %s", chinese, a, b, path)
		}
		if found := headings(theirs, chineseShape); !slices.Equal(found, chineseShape) {
			t.Errorf("%s has the sections %q; want %q", chinese, found, chineseShape)
		}
	}
}
