// Package snippets reads the fenced snippets of the documents, for the tests that run them.
//
// The word behind a fence says what the snippet is. In docs/*.md, below it, and in README*.md every
// fence has one:
//
//	go        statements, or a whole file; compiled and run
//	python    run by redis-py's interpreter
//	js        a module, run by Node with ioredis
//	redis     commands after "> ", each with the reply that redis-cli prints
//	sh        run by sh
//	console   commands after "$ ", each with its output
//	yaml      a file of pools, which is parsed
//	text      not run: a drawing, a table, the arguments of a command
//
// Further words are a reason not to run it, for example
//
//	```sh norun: needs three machines
//
// A Go snippet is compiled all the same. Snippets use port 6380; a runner replaces it by the port of its
// server.
//
// A comment right above a fence prepares it. It is in the language of the fence, and readers of the
// page don't see it:
//
//	<!-- setup
//	order := "42"
//	-->
//
// A fence with the word output right below a snippet has what the snippet prints.
//
// The pages in docs/zh-CN have the snippets of the English ones, which a test of the repository compares. They are
// run once.
package snippets

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A Snippet is a fence of a document.
type Snippet struct {
	File   string // from the root of the repository
	Line   int    // of the first line of Text
	Lang   string
	NoRun  string // the reason
	Setup  string
	Text   string
	Output string
	// HasOutput says that Output is wanted, even if it is empty.
	HasOutput bool
}

// Where is the place of the snippet, for messages.
func (s Snippet) Where() string { return fmt.Sprintf("%s:%d", s.File, s.Line) }

// Port is the port in the documents, which a runner replaces by the port of its server.
const Port = "6380"

var languages = []string{"go", "python", "js", "redis", "sh", "console", "yaml", "json", "lua", "text"}

// noRunner are languages that nothing runs: a fence in them needs a reason.
var noRunner = []string{"json", "lua"}

// Of returns the snippets in one language of all documents below root, the root of the repository, in
// order. It fails tb for fences that don't say what they are.
func Of(tb testing.TB, root string, langs ...string) (found []Snippet) {
	tb.Helper()
	for _, file := range documents(tb, root) {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			tb.Fatal(err)
		}
		all, faults := Parse(file, string(text))
		for _, f := range faults {
			tb.Error(f)
		}
		for _, s := range all {
			if slices.Contains(langs, s.Lang) {
				found = append(found, s)
			}
		}
	}
	if len(found) == 0 {
		tb.Fatalf("no snippets in %q", langs)
	}
	return found
}

func documents(tb testing.TB, root string) (files []string) {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(root, "README*.md"))
	if err == nil {
		err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && d.Name() == "zh-CN" {
				return filepath.SkipDir
			}
			if filepath.Ext(path) == ".md" {
				files = append(files, path)
			}
			return err
		})
	}
	if err != nil {
		tb.Fatal(err)
	}
	for i := range files {
		if files[i], err = filepath.Rel(root, files[i]); err != nil {
			tb.Fatal(err)
		}
		files[i] = filepath.ToSlash(files[i])
	}
	return files
}

// Parse returns the snippets of a document, and what is wrong with its fences.
func Parse(file, text string) (found []Snippet, faults []string) {
	lines := strings.Split(text, "\n")
	setup, afterSnippet := "", false
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if line == "<!-- setup" {
			end := slices.Index(lines[i:], "-->")
			if end < 0 {
				return found, append(faults, fmt.Sprintf("%s:%d: the setup has no end: want a line with only -->", file, i+1))
			}
			setup = strings.Join(lines[i+1:i+end], "\n")
			i += end
			continue
		}
		info, fence := strings.CutPrefix(line, "```")
		if !fence {
			if strings.TrimSpace(line) != "" {
				if setup != "" {
					faults = append(faults, fmt.Sprintf("%s:%d: the setup above is not followed by a fence", file, i+1))
				}
				setup, afterSnippet = "", false
			}
			continue
		}
		end := slices.Index(lines[i+1:], "```")
		if end < 0 {
			return found, append(faults, fmt.Sprintf("%s:%d: the fence has no end", file, i+1))
		}
		lang, reason, _ := strings.Cut(info, " ")
		s := Snippet{File: file, Line: i + 2, Lang: lang, Setup: setup, Text: strings.Join(lines[i+1:i+1+end], "\n")}
		i, setup = i+1+end, ""
		if lang == "output" {
			if !afterSnippet {
				faults = append(faults, s.Where()+": output without a snippet right above it")
				continue
			}
			last := &found[len(found)-1]
			last.Output, last.HasOutput, afterSnippet = s.Text, true, false
			continue
		}
		noRun, told := strings.CutPrefix(reason, "norun: ")
		switch s.NoRun = noRun; {
		case !slices.Contains(languages, lang):
			faults = append(faults, fmt.Sprintf("%s: the fence is %q; want one of %q", s.Where(), lang, languages))
		case reason != "" && (!told || noRun == ""):
			faults = append(faults, fmt.Sprintf("%s: the fence says %q; want `norun: ` and a reason, or nothing", s.Where(), reason))
		case noRun == "" && slices.Contains(noRunner, lang):
			faults = append(faults, fmt.Sprintf("%s: nothing runs %s: write `norun: ` and a reason behind it", s.Where(), lang))
		default:
			found = append(found, s)
			afterSnippet = lang != "text"
		}
	}
	return found, faults
}

// WithPort returns the text of a snippet with another port in place of Port.
func WithPort(text string, port int) string {
	return strings.ReplaceAll(text, Port, fmt.Sprint(port))
}
