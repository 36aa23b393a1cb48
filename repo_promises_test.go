package redoubt_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
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
	b.WriteString("# Promises, and the tests that check them\n\n[中文](zh-CN/promises.md)\n\n<!-- Generated from the comments of tests by `go test . -run TestPromisesAreListed -update-promises`. Do not edit. -->\n\n" +
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

// A package promises only what a test checks: the first clause of each bullet stands in the Promise of a test.
func TestPromisesOfPackagesAreHeld(t *testing.T) {
	faults, checked := unheldPromises(sources(t, "doc.go"), sources(t, "_test.go"))
	for _, f := range faults {
		t.Error(f)
	}
	if checked == 0 {
		t.Error("no bullets found in any doc.go")
	}
}

// unheldPromises counts the bullets in the sections "What is promised" and "Promises" of each doc.go. It
// returns a fault for a bullet if no test of the package or in tests/ has the bullet's first clause in a
// Promise.
func unheldPromises(docs, testFiles map[string]string) (faults []string, checked int) {
	held := map[string][]string{} // by directory
	for path, text := range testFiles {
		dir := filepath.ToSlash(filepath.Dir(path))
		for _, promises := range promisesOf(path, text) {
			for _, p := range promises {
				held[dir] = append(held[dir], plainText(p))
			}
		}
	}
	for _, path := range sortedKeys(docs) {
		dir := filepath.ToSlash(filepath.Dir(path))
		for _, bullet := range promisedBullets(path, docs[path]) {
			checked++
			clause := plainText(clauseEnd.Split(bullet, 2)[0])
			here := func(promise string) bool { return strings.Contains(promise, clause) }
			if clause == "" || !slices.ContainsFunc(held[dir], here) && !slices.ContainsFunc(held["tests"], here) {
				faults = append(faults, fmt.Sprintf("%s: no test in %s or tests says \"Promise: … %s …\" in its comment", path, dir, clause))
			}
		}
	}
	return faults, checked
}

var (
	clauseEnd    = regexp.MustCompile(`[.:;](\s|$)`)
	linkBrackets = strings.NewReplacer("[", "", "]", "")
)

// plainText returns text without the brackets of links, with single spaces, in lower case.
func plainText(text string) string {
	return strings.ToLower(strings.Join(strings.Fields(linkBrackets.Replace(text)), " "))
}

// promisedBullets returns the bullets in the sections of a package comment that promise something.
func promisedBullets(path, text string) (bullets []string) {
	f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		return nil // the compiler says why
	}
	inSection, inBullet := false, false
	for line := range strings.SplitSeq(f.Doc.Text(), "\n") {
		item, begins := strings.CutPrefix(line, "  - ")
		switch {
		case strings.HasPrefix(line, "# "):
			inSection, inBullet = line == "# What is promised" || line == "# Promises", false
		case inSection && begins:
			bullets, inBullet = append(bullets, item), true
		case inBullet && strings.HasPrefix(line, "    "):
			bullets[len(bullets)-1] += " " + strings.TrimSpace(line)
		default:
			inBullet = false
		}
	}
	return bullets
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

func TestUnheldPromises(t *testing.T) {
	testFiles := map[string]string{
		"a/a_test.go":     "package a\n\n// Promise: one thing\n// holds, and more.\n//\n// Promise: version 1.2 works.\nfunc TestA(t *testing.T) {}\n",
		"b/b_test.go":     "package b\n\n// Promise: another thing holds.\nfunc TestB(t *testing.T) {}\n",
		"tests/c_test.go": "package tests\n\n// Promise: all things together hold.\nfunc TestC(t *testing.T) {}\n",
	}
	for _, c := range []struct {
		bullet string
		held   bool
	}{
		{"One thing holds.", true},
		{"One [Thing]\n//     HOLDS: in two lines.", true},
		{"One thing holds; nobody says this.", true},
		{"One thing holds. Nor this.", true},
		{"One thing", true},
		{"All things together hold.", true},
		{"Version 1.2 works.", true},
		{"Version 1.3 works.", false},
		{"One thing always holds.", false},
		{"Another thing holds.", false}, // a test of another package says so
		{"One thing holds, and more, and still more.", false},
		{".", false},
	} {
		for _, section := range []string{"Promises", "What is promised", "What is not promised"} {
			doc := "// Package a is.\n//\n//   - Nobody holds this.\n//\n// # " + section + "\n//\n// While it runs:\n//\n//   - " + c.bullet +
				"\n//   - One thing holds.\n//\n// # Limits\n//\n//   - Nobody holds this.\npackage a\n"
			faults, checked := unheldPromises(map[string]string{"a/doc.go": doc}, testFiles)
			wantFaults, wantChecked := 0, 2
			if section == "What is not promised" {
				wantChecked = 0
			} else if !c.held {
				wantFaults = 1
			}
			if len(faults) != wantFaults || checked != wantChecked {
				t.Errorf("%s: %q: faults %q of %d bullets, want %d of %d", section, c.bullet, faults, checked, wantFaults, wantChecked)
			}
		}
	}
}
