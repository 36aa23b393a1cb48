package snippets_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/snippets"
)

func TestParse(t *testing.T) {
	text := strings.Join([]string{
		"# Title", "", "<!-- setup", "x := 1", "-->", "```go", "fmt.Println(x)", "```", "", "```output", "1", "```",
		"prose", "```sh norun: needs a printer", "lpr", "```", "```text", "a -> b", "```",
		"```yaml f.yml", "a:", "```", "```go endless", "for {}", "```",
	}, "\n")
	got, faults := snippets.Parse("f.md", text)
	want := []snippets.Snippet{
		{File: "f.md", Line: 7, Lang: "go", Setup: "x := 1", Text: "fmt.Println(x)", Output: "1", HasOutput: true},
		{File: "f.md", Line: 15, Lang: "sh", NoRun: "needs a printer", Text: "lpr"},
		{File: "f.md", Line: 18, Lang: "text", Text: "a -> b"},
		{File: "f.md", Line: 21, Lang: "yaml", Kind: "f.yml", Text: "a:"},
		{File: "f.md", Line: 24, Lang: "go", Kind: "endless", Text: "for {}"},
	}
	if !reflect.DeepEqual(got, want) || faults != nil {
		t.Errorf("got %+v, faults %q; want %+v", got, faults, want)
	}
}

func TestFaultsAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"```\nx\n```":                                "the fence is",
		"```ruby\nx\n```":                            "the fence is",
		"```sh later\nx\n```":                        "want `norun: `",
		"```sh norun:\nx\n```":                       "want `norun: `",
		"```go pool\nx\n```":                         "one of",
		"```sh f.yml\nx\n```":                        "want `norun: `",
		"```json\nx\n```":                            "nothing runs json",
		"```go\nx":                                   "has no end",
		"<!-- setup\nx":                              "has no end",
		"<!-- setup\nx\n-->\nprose":                  "not followed by a fence",
		"prose\n```output\nx\n```":                   "output without a snippet",
		"```go\nx\n```\nprose\n```output\n```":       "output without a snippet",
		"```text\nx\n```\n```output\nx\n```\n":       "output without a snippet",
		"```go\n```\n```output\n```\n```output\n```": "output without a snippet",
	} {
		if _, faults := snippets.Parse("f.md", text); len(faults) != 1 || !strings.Contains(faults[0], want) {
			t.Errorf("%q: faults %q; want one with %q", text, faults, want)
		}
	}
}
