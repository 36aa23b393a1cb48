package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rivo/uniseg"
)

// TestExamples: the help of every command has an example that begins as it is called.
func TestExamples(t *testing.T) {
	for cmd := range within(newRoot()) {
		if !strings.HasPrefix(cmd.Example, "  ") || !strings.Contains(cmd.Example, "redoubt") {
			t.Errorf("%s has the example %q", cmd.CommandPath(), cmd.Example)
		}
	}
}

// TestHelp: it is as wide as the terminal, and has colors only there.
func TestHelp(t *testing.T) {
	_, text, _ := runToEnd(t, nil, "lock", "--help")
	mustContain(t, "help", text, "\nUsage:\n  redoubt lock NAME [flags] -- COMMAND [ARGS…]\n  redoubt lock COMMAND\n",
		"\nAvailable Commands:\n  info ", "\nExamples:\n  redoubt lock deploy", "\nFlags:\n", "--semaphore N ", "\nGlobal Flags:\n", "--no-color")
	if strings.Contains(text, "\x1b") {
		t.Error("it has colors in a pipe")
	}
	for line := range strings.Lines(text) {
		if w := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); w > 80 && !strings.HasPrefix(line, "  redoubt") {
			t.Errorf("%d columns: %q", w, line)
		}
	}
	var b bytes.Buffer
	if s := styleOf(newRoot(), &b); s.colour {
		t.Error("a buffer has colors")
	}
	s := style{colour: true}
	if got := s.bold("a"); got != "\x1b[1ma\x1b[0m" || (style{}).bold("a") != "a" {
		t.Errorf("bold is %q", got)
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text, want string
		width      int
	}{
		{"one two three", "one two\nthree", 8},
		{"one\ntwo\n\nthree", "one two\n\nthree", 20},
		{"one:\n  keep   this\nafter", "one:\n  keep   this\nafter", 20},
		{"unbreakable word", "unbreakable\nword", 4},
		{"锁与限流 队列", "锁与限流\n队列", 12},
	} {
		if got := wrap(c.text, c.width); got != c.want {
			t.Errorf("wrap(%q, %d) = %q; want %q", c.text, c.width, got, c.want)
		}
	}
	for _, c := range []struct {
		text, want string
		width      int
	}{{"abc", "abc", 3}, {"abcd", "ab…", 3}, {"锁锁锁", "锁…", 4}, {"锁", "…", 1}, {"ab", "", 0}} {
		if got := cut(c.text, c.width); got != c.want {
			t.Errorf("cut(%q, %d) = %q; want %q", c.text, c.width, got, c.want)
		}
	}
}

// TestManPages: packages of a release install them, and completion.
func TestManPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	if code, out, stderr := runToEnd(t, nil, "man", dir); code != 0 || out != "" {
		t.Fatalf("exit %d, %q, %q", code, out, stderr)
	}
	for cmd := range within(newRoot()) {
		if cmd.Hidden {
			continue
		}
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
		text, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil {
			t.Error(err)
		}
		mustContain(t, name, string(text), ".SH EXAMPLE", ".SH OPTIONS")
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, out, stderr := runToEnd(t, nil, "completion", shell); code != 0 || !strings.Contains(out, "redoubt") {
			t.Errorf("completion %s: exit %d, %.80q, %q", shell, code, out, stderr)
		}
	}
	// The script for fish sets the variable.
	if _, out, _ := runToEnd(t, []string{"REDOUBT_ACTIVE_HELP=0"}, "__complete", "queue", "p"); !strings.Contains(out, "pause\t") || !strings.Contains(out, "put\t") {
		t.Errorf("queue p is completed by %q", out)
	}
}
