package redoubt_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// docs/promises.md is generated from the comments of tests. A test that holds a promise has a paragraph
// in its comment that begins with "Promise: ". Several tests may hold the same promise.

var updatePromises = flag.Bool("update-promises", false, "write docs/promises.md anew")

const promisesFile = "docs/promises.md"

func TestPromisesAreListed(t *testing.T) {
	got := promisesPage(sources(t, "_test.go"))
	if *updatePromises {
		if err := os.WriteFile(promisesFile, []byte(got), 0o644); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(promisesFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != got {
		t.Error(promisesFile + " is out of date: run `go test . -run TestPromisesAreListed -update-promises`")
	}
}

// promisesPage returns the page that lists the promises of all test files.
func promisesPage(files map[string]string) string {
	holders := map[string]map[string][]string{} // by directory, then by promise
	for path, text := range files {
		dir := filepath.ToSlash(filepath.Dir(path))
		for name, promises := range promisesOf(path, text) {
			for _, p := range promises {
				if holders[dir] == nil {
					holders[dir] = map[string][]string{}
				}
				holders[dir][p] = append(holders[dir][p], name)
			}
		}
	}
	var b strings.Builder
	b.WriteString("# Promises, and the tests that check them\n\n<!-- Generated from the comments of tests by `go test . -run TestPromisesAreListed -update-promises`. Do not edit. -->\n\n" +
		"Each test in these tables fails when its promise is broken. The package documentation explains the promises.\n")
	for _, dir := range sortedKeys(holders) {
		title := dir
		if dir == "." {
			title = "redoubt"
		}
		fmt.Fprintf(&b, "\n## %s\n\n| promise | tests |\n|---|---|\n", title)
		for _, p := range sortedKeys(holders[dir]) {
			slices.Sort(holders[dir][p])
			fmt.Fprintf(&b, "| %s | %s |\n", strings.ReplaceAll(p, "|", `\|`), strings.Join(holders[dir][p], ", "))
		}
	}
	return b.String()
}

// promisesOf returns the promises that each test of a file holds.
func promisesOf(path, text string) map[string][]string {
	if !strings.Contains(text, "Promise: ") {
		return nil
	}
	f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil // the compiler says why
	}
	found := map[string][]string{}
	for _, decl := range f.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Doc == nil || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Test") && !strings.HasPrefix(fn.Name.Name, "Fuzz") {
			continue
		}
		for paragraph := range strings.SplitSeq(fn.Doc.Text(), "\n\n") {
			if p, ok := strings.CutPrefix(strings.TrimSpace(paragraph), "Promise: "); ok && p != "" {
				p = strings.Join(strings.Fields(p), " ")
				found[fn.Name.Name] = append(found[fn.Name.Name], strings.ToUpper(p[:1])+p[1:])
			}
		}
	}
	return found
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func TestPromisesOfAFile(t *testing.T) {
	text := "package p\n\n// TestA does.\n//\n// Promise: one\n// thing.\n//\n// Promise: another.\nfunc TestA(t *testing.T) {}\n\n// Promise: of a helper.\nfunc help() {}\n"
	got := promisesPage(map[string]string{"a/b_test.go": text})
	want := "\n## a\n\n| promise | tests |\n|---|---|\n| Another. | TestA |\n| One thing. | TestA |\n"
	if !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want it to end with %q", got, want)
	}
}
