package tests

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// A difference is one that docs/compatibility.md lists: a command that a door answers otherwise
// than redis-server does.
type difference struct {
	door, command string
	seen          bool
}

// readKnown reads the table of differences: doors, commands in backticks, and the reason.
func readKnown(t *testing.T) (known []*difference) {
	t.Helper()
	data, err := os.ReadFile("../docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	const head = "| Behind | These commands | Differ, because |\n"
	_, table, ok := strings.Cut(string(data), head)
	if !ok {
		t.Fatalf("docs/compatibility.md has no table that begins with %q", head)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	quoted := regexp.MustCompile("`[^`]+`")
	for _, row := range strings.Split(strings.TrimSpace(table), "\n")[1:] {
		cells := strings.Split(row, " | ")
		if len(cells) != 3 {
			t.Fatalf("docs/compatibility.md: a row has %d cells: %s", len(cells), row)
		}
		for door := range strings.SplitSeq(strings.TrimPrefix(cells[0], "| "), ", ") {
			for _, c := range quoted.FindAllString(cells[1], -1) {
				known = append(known, &difference{door: door, command: strings.Trim(c, "`")})
			}
		}
	}
	return known
}

// has says whether a step sends a command, given by its first words.
func (s *step) has(command string) bool {
	begins := func(words string) bool { return strings.HasPrefix(strings.ToUpper(words)+" ", command+" ") }
	switch s.Do {
	case "call", "pipeline":
	case "multi", "watch":
		if begins("MULTI") {
			return true
		}
	case "tracking":
		if begins("CLIENT TRACKING") {
			return true
		}
	default:
		if begins(s.Do) {
			return true
		}
	}
	for _, c := range s.Commands {
		if begins(strings.Join(c, " ")) {
			return true
		}
	}
	return false
}
