package redoubt_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every link between documents leads to a file, and to a heading of it.
func TestLinksLeadSomewhere(t *testing.T) {
	for file, text := range sources(t, ".md") {
		if strings.Contains(file, "node_modules/") {
			continue
		}
		for _, fault := range brokenLinks(file, text) {
			t.Errorf("%s: %s", file, fault)
		}
	}
}

var (
	mdFence = regexp.MustCompile("(?ms)^```.*?^```$|`[^`\n]+`")
	mdLink  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

func brokenLinks(file, text string) (faults []string) {
	for _, m := range mdLink.FindAllStringSubmatch(mdFence.ReplaceAllString(text, ""), -1) {
		if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
			continue
		}
		path, anchor, _ := strings.Cut(m[1], "#")
		target := file
		if path != "" {
			target = filepath.Join(filepath.Dir(file), path)
		}
		to, err := os.Stat(target)
		if err != nil {
			faults = append(faults, "no file for the link "+m[1])
			continue
		}
		if anchor == "" || to.IsDir() || filepath.Ext(target) != ".md" {
			continue
		}
		if b, err := os.ReadFile(target); err != nil || !slices.Contains(anchors(string(b)), anchor) {
			faults = append(faults, "no heading for the link "+m[1])
		}
	}
	return faults
}

// anchors are GitHub's names of the headings.
func anchors(text string) (names []string) {
	text = regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(text, "")
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N}\s_-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

func TestBrokenLinksAreFound(t *testing.T) {
	text := "# A title: two\n[a](README.md) [b](no.md) [c](#a-title-two) [d](CONTRIBUTING.md#conventions) [e](CONTRIBUTING.md#nowhere) `[f](code.md)`\n```go\n[g](code.md)\n```\n"
	got := brokenLinks("ARCHITECTURE.md", strings.Replace(text, "[c](#a-title-two)", "", 1))
	want := []string{"no file for the link no.md", "no heading for the link CONTRIBUTING.md#nowhere"}
	if !slices.Equal(got, want) || !slices.Equal(anchors(text), []string{"a-title-two"}) {
		t.Errorf("found %q and the anchors %q; want %q", got, anchors(text), want)
	}
}
