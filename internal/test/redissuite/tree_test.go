package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTree(t *testing.T) {
	source := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(source, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("src/x.c", "source")
	write("tests/tmp/old", "left over")
	write("tests/unit/sort.tcl", "sort")
	write("tests/unit/type/list.tcl", "list")
	for _, c := range changes {
		write(c.file, "before\n"+c.from+"\nafter\n")
	}
	dir, err := tree(source)
	t.Cleanup(func() { os.RemoveAll(dir) }) //nolint:errcheck // of links
	if err != nil {
		t.Fatal(err)
	}
	read := func(dir, name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "none"
		}
		return string(b)
	}
	for name, want := range map[string]string{
		"src/x.c": "source", "tests/unit/sort.tcl": "sort", "tests/unit/type/list.tcl": "list", "tests/tmp/old": "none",
	} {
		if got := read(dir, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, c := range changes {
		if got := read(dir, c.file); got != "before\n"+c.to+"\nafter\n" {
			t.Errorf("%s is %q", c.file, got)
		}
		if got := read(source, c.file); !strings.Contains(got, c.from) {
			t.Errorf("the source of %s is %q", c.file, got)
		}
	}
	write(changes[0].file, "another version")
	other, err := tree(source)
	t.Cleanup(func() { os.RemoveAll(other) }) //nolint:errcheck // of links
	if err == nil {
		t.Error("a source without the text to change is accepted")
	}
}
