package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/poolfile"
	"github.com/redoubt-go/redoubt/internal/test/snippets"
)

const repository = "../.."

// TestShellSnippets runs the snippets of docs/ and README in sh, in an empty directory for each page, with
// a server; package snippets says how they are written. Of snippets that can't be run, the names of commands
// and their flags are checked.
func TestShellSnippets(t *testing.T) {
	all := snippets.Of(t, repository, "sh", "console")
	for _, s := range all {
		for line := range strings.Lines(s.Text) {
			checkFlags(t, s.Where(), strings.TrimPrefix(line, "$ "))
		}
	}
	addr := startServe(t).addr
	path := filepath.Dir(binary) + string(os.PathListSeparator) + os.Getenv("PATH")
	page, dir := "", ""
	for _, s := range all {
		if s.NoRun != "" {
			continue
		}
		if page != s.File {
			page, dir = s.File, t.TempDir()
		}
		run := func(script string) string {
			cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", script) //nolint:gosec // ours
			cmd.Dir, cmd.Env = dir, environ("REDOUBT_BACKEND=redis://"+addr, "PATH="+path)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s: %s: %v\n%s", s.Where(), script, err, out)
			}
			return string(out)
		}
		run(s.Setup)
		if s.Lang == "sh" {
			run(s.Text)
			continue
		}
		for _, part := range strings.Split("\n"+s.Text, "\n$ ")[1:] {
			script, want, _ := strings.Cut(part, "\n")
			if got := run(script); shapeOf(got) != shapeOf(want) {
				t.Errorf("%s: %s\nprinted\n%s\nwant\n%s", s.Where(), script, got, want)
			}
		}
	}
}

// shapeOf makes outputs comparable: words with digits are times, counts and IDs.
func shapeOf(output string) string {
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(output)) {
		words := strings.Fields(line)
		for i, w := range words {
			if strings.ContainsAny(w, "0123456789") {
				words[i] = "#"
			}
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return strings.Join(lines, "\n")
}

var endOfCommand = regexp.MustCompile(`\s(#|--\s|\||&&|>|<|;).*`)

// checkFlags fails if a line that calls redoubt names a command or a flag that is not there.
func checkFlags(t *testing.T, where, line string) {
	t.Helper()
	at := regexp.MustCompile(`(^|\s)redoubt .*`).FindString(line)
	words := strings.Fields(endOfCommand.ReplaceAllString(at+" ", " "))
	if len(words) < 2 || words[1] == "completion" { // cobra adds it when a command runs
		return
	}
	cmd, args, err := newRoot().Find(words[1:])
	if err == nil && cmd.Name() == "redoubt" {
		t.Errorf("%s: %s: no such command", where, at)
		return
	}
	var flags []string
	for _, a := range args {
		if strings.HasPrefix(a, "-") && a != "-" {
			name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
			if cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil && name != "help" && name != "version" {
				flags = append(flags, a)
			}
		}
	}
	if err != nil || flags != nil {
		t.Errorf("%s: %s: %v, flags that are not there: %q", where, at, err, flags)
	}
}

// TestYAMLSnippets parses the files of pools in docs/ and README.
func TestYAMLSnippets(t *testing.T) {
	for _, s := range snippets.Of(t, repository, "yaml") {
		if s.NoRun == "" {
			if _, err := poolfile.Parse(s.File, []byte(s.Text)); err != nil {
				t.Errorf("%s: %v", s.Where(), err)
			}
		}
	}
}
