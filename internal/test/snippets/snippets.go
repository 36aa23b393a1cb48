// Package snippets reads the fenced snippets of the documents, for the tests that run them.
//
// The word behind a fence says what the snippet is. In docs/*.md, below it, and in README*.md every
// fence has one:
//
//	go        statements, or a whole file; compiled and run
//	python    run by redis-py's interpreter
//	js        a module, run by Node with ioredis
//	redis     commands after "> ", each with the reply that redis-cli prints; … stands for the rest of a string
//	lua       a script, run by EVAL without keys
//	sh        run by sh
//	bash      run by bash
//	console   commands after "$ ", each with its output; a line … stands for any lines
//	yaml      a file of pools, which is parsed
//	text      not run: a drawing, a table, the arguments of a command
//
// A second word says more:
//
//	go endless        runs until its context ends: the runner ends it once the output is there, or its setup does
//	yaml NAME.yml     a file of pools that later snippets in sh use by this name
//	yaml pool         some directives of a pool
//	yaml settings     a file for --config
//	yaml prometheus   a part of the configuration of Prometheus
//	yaml pod          a part of a pod of Kubernetes
//
// Or it is a reason not to run the snippet, for example
//
//	```sh norun: needs three machines
//
// A Go snippet is compiled all the same. If err is not nil at its end, it fails. Snippets use port 6380; a runner
// replaces it by the port of its server, and in an endless snippet by a free one. Files below /var/lib and /run are
// in a directory of the test.
//
// Snippets in sh, bash and console may use more servers, which the runner starts for each snippet and its
// setup:
//
//   - An address 10.N.N.N:PORT is an empty Redis, and a memcached if the port is 11211. So are
//     127.0.0.1:6379, 127.0.0.1:8081 and 127.0.0.1:8082.
//   - redis-cluster://ADDRESSES is a cluster, and each of the addresses a node.
//   - redis-sentinel://ADDRESSES/NAME are Sentinels and their master.
//   - A line with `redoubt serve` starts a server, which ends with the snippet. Its ports are free ones.
//   - :8080 and :9090 are the http address of the runner's server.
//   - The files of a snippet that begins to serve with --tls-cert-file are there.
//
// A comment right above a fence prepares it. It is in the language of the fence, and readers of the
// page don't see it:
//
//	<!-- setup
//	order := "42"
//	-->
//
// If the setup of a snippet in sh or console prints OLD=NEW, the snippet runs with NEW in place of OLD.
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
	Kind   string // the second word
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

var languages = []string{"go", "python", "js", "redis", "lua", "sh", "bash", "console", "yaml", "json", "text"}

// kinds are the second words of a language. In yaml it may also be the name of a file.
var kinds = map[string][]string{
	"go":   {"endless"},
	"yaml": {"pool", "settings", "prometheus", "pod"},
}

// IsFile tells whether the kind of a snippet in yaml is the name of its file.
func (s Snippet) IsFile() bool { return s.Lang == "yaml" && strings.HasSuffix(s.Kind, ".yml") }

// noRunner are languages that nothing runs: a fence in them needs a reason.
var noRunner = []string{"json"}

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
		lang, more, _ := strings.Cut(info, " ")
		s := Snippet{File: file, Line: i + 2, Lang: lang, Kind: more, Setup: setup, Text: strings.Join(lines[i+1:i+1+end], "\n")}
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
		if reason, told := strings.CutPrefix(more, "norun: "); told && reason != "" {
			s.Kind, s.NoRun = "", reason
		}
		switch {
		case !slices.Contains(languages, lang):
			faults = append(faults, fmt.Sprintf("%s: the fence is %q; want one of %q", s.Where(), lang, languages))
		case s.Kind != "" && !slices.Contains(kinds[lang], s.Kind) && !s.IsFile():
			faults = append(faults, fmt.Sprintf("%s: the fence says %q; want `norun: ` and a reason, one of the words %q, or nothing", s.Where(), more, kinds[lang]))
		case s.NoRun == "" && slices.Contains(noRunner, lang):
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
