package redoubt_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// This file holds the rules of the repository that can be computed. Each rule
// is a function that returns its findings, so that the tables below can prove
// that it finds something. repo_lua_test.go has the rules of scripts.

const (
	module    = "github.com/redoubt-go/redoubt"
	goredisV9 = "github.com/redis/go-redis/v9"
	otterV2   = "github.com/maypok86/otter/v2"
)

// mayImport says what the non-test files of each package may import besides
// the standard library. A path without a dot in its first element is a package
// of this module, "." the root. Packages under cmd/ and internal/ that are not
// listed may import anything that the compiler lets them.
var mayImport = map[string][]string{
	".":                         {"internal/pages", "internal/randid", "internal/scheme"},
	"internal/resp":             {},
	"internal/engine":           {".", "internal/engine/aof", "internal/glob", "internal/hyll", "internal/keyslot", "internal/lua", "internal/morton", "internal/randid", "internal/rdb", "internal/rediscmd", "internal/resp", "internal/sizeclass", "internal/stream"},
	"internal/engine/aof":       {},
	"internal/engine/native":    {".", "internal/engine"},
	"internal/calendar":         {},
	"internal/conn":             {"."},
	"internal/glob":             {},
	"internal/hyll":             {},
	"internal/keyslot":          {},
	"internal/morton":           {},
	"internal/lua":              {},
	"internal/pages":            {},
	"internal/randid":           {},
	"internal/rdb":              {"internal/resp", "internal/stream"},
	"internal/sizeclass":        {},
	"internal/stream":           {"internal/sizeclass"},
	"internal/rediscmd":         {"internal/resp"},
	"internal/scheme":           {},
	"internal/redisurl":         {"internal/scheme", goredisV9},
	"goredis":                   {".", "internal/conn", "internal/redisurl", "internal/scheme", goredisV9},
	"lock":                      {".", "internal/keyslot", "internal/pages", "internal/wire/listing", "internal/wire/lock"},
	"ratelimit":                 {".", "internal/randid", "internal/wire/ratelimit"},
	"fence":                     {".", "internal/wire/fence"},
	"stock":                     {".", "internal/pages", "internal/wire/stock"},
	"queue":                     {".", "internal/pages", "internal/randid", "internal/wire/queue"},
	"engine":                    {".", "internal/engine", "internal/engine/aof", "internal/engine/native"},
	"engine/enginetest":         {".", "engine"},
	"server":                    {".", "engine", "internal/engine", "internal/proxy", "internal/proxy/budget", "internal/scheme", "internal/server"},
	"bloom":                     {".", "internal/randid", "internal/wire/bloom"},
	"bitmap":                    {".", "internal/calendar", "internal/wire/bitmap"},
	"hll":                       {".", "internal/calendar", "internal/hyll", "internal/randid", "internal/wire/hll"},
	"ttlhash":                   {".", "internal/wire/ttlhash"},
	"geo":                       {".", "internal/randid", "internal/wire/geo", "internal/morton"},
	"scan":                      {".", "internal/keyslot", "internal/wire/scan"},
	"cache":                     {".", "internal/pages", "internal/wire/cache", otterV2},
	"redoubttest":               {".", "internal/test/await"},
	"ratelimit/policy":          {"ratelimit"},
	"ratelimit/httplimit":       {"ratelimit", "ratelimit/policy"},
	"internal/command":          {".", "fence", "geo", "internal/wire/bloom", "internal/wire/fence", "internal/wire/geo", "internal/wire/listing", "internal/wire/lock", "internal/wire/queue", "internal/wire/ratelimit", "internal/wire/stock", "internal/wire/ttlhash", "lock", "queue", "ratelimit", "internal/proxy/latency", "internal/resp", "stock", "ttlhash"},
	"internal/command/docgen":   {"internal/command"},
	"internal/proxy":            {".", "internal/resp", "internal/keyslot", "internal/rediscmd", "internal/scheme", "internal/socket", "internal/proxy/latency", "internal/proxy/outage", "internal/proxy/ring"},
	"internal/proxy/hotkeys":    {},
	"internal/proxy/latency":    {},
	"internal/proxy/outage":     {},
	"internal/proxy/budget":     {},
	"internal/proxy/memcached":  {"internal/socket", "internal/proxy/budget", "internal/proxy/hotkeys", "internal/proxy/latency", "internal/proxy/outage", "internal/proxy/ring"},
	"internal/proxy/ring":       {},
	"dashboard":                 {".", "internal/dashboard"},
	"internal/dashboard":        {".", "bloom", "internal/dashboard/assets", "internal/wire/bloom", "internal/wire/lock", "internal/wire/queue", "internal/wire/ratelimit", "internal/wire/stock", "lock"},
	"internal/metrics":          {"internal/command", "internal/dashboard", "internal/engine", "internal/proxy/budget", "internal/proxy/latency", "internal/server", "github.com/prometheus"},
	"internal/dashboard/served": {"internal/acl", "internal/command", "internal/dashboard", "internal/server"},
	"internal/handover":         {"internal/socket", "github.com/coreos/go-systemd"},
	"internal/poolhost":         {"internal/certs", "internal/command", "internal/dashboard", "internal/dashboard/served", "internal/metrics", "internal/poolfile", "internal/proxy", "internal/proxy/budget", "internal/proxy/hotkeys", "internal/proxy/latency", "internal/proxy/memcached", "internal/proxy/outage", "internal/proxy/ring", "internal/redisurl", "internal/resp", "internal/sentinel", "internal/server", "internal/socket", "github.com/prometheus", "github.com/spf13/pflag", "go.yaml.in/yaml"}, // pflag: by way of settings
	"internal/server":           {".", "internal/command", "internal/proxy", "internal/proxy/budget", "internal/proxy/hotkeys", "internal/proxy/latency", "internal/proxy/outage", "internal/proxy/ring", "internal/resp", "internal/acl", "internal/glob", "internal/keyslot", "internal/rediscmd", "internal/socket"},
}

// wireMayImport is what the packages below internal/wire may import: nothing of the primitives,
// which import them.
var wireMayImport = []string{".", "internal/calendar", "internal/luafile", "internal/randid", "internal/wire/listing"}

// heavy are the modules that must not reach a program which uses the library,
// by any path.
var heavy = []string{
	otterV2, // but for package cache
	"github.com/prometheus", "github.com/schollz", "github.com/spf13", "golang.org/x/term", "google.golang.org/grpc", "go.yaml.in/yaml",
}

// A listed is a package as go list describes it.
type listed struct {
	ImportPath, Name, Doc string
	Standard              bool
	Imports, Deps         []string
	Module                *struct{ Path string }
}

// path is the package's path below the module, "." for the root.
func (p listed) path() string { return below(p.ImportPath) }

func below(importPath string) string {
	if importPath == module {
		return "."
	}
	return strings.TrimPrefix(importPath, module+"/")
}

func TestImportsPointOneWay(t *testing.T) {
	for _, goos := range []string{"linux", "darwin", "windows"} {
		for _, f := range importFaults(list(t, goos)) {
			t.Errorf("GOOS=%s: %s", goos, f)
		}
	}
}

// importFaults returns every import that mayImport or heavy forbids.
func importFaults(packages []listed) (faults []string) {
	standard := map[string]bool{"C": true, "unsafe": true}
	for _, p := range packages {
		standard[p.ImportPath] = standard[p.ImportPath] || p.Standard
	}
	for _, p := range packages {
		allowed, known := mayImport[p.path()]
		if under(p.path(), "internal/wire") {
			allowed, known = wireMayImport, true
		}
		if p.Module == nil || p.Module.Path != module || under(p.path(), "cmd", "internal") && !known {
			continue
		}
		if !known {
			faults = append(faults, fmt.Sprintf("package %s is new: say in mayImport of repo_test.go what it may import", p.path()))
			continue
		}
		for _, i := range p.Imports {
			if ok := standard[i] || slices.ContainsFunc(allowed, func(a string) bool { return below(i) == a || under(i, a) }); !ok {
				faults = append(faults, fmt.Sprintf("package %s imports %s, and may import only %q and the standard library: "+
					"declare the small interface that is needed, or move the code to a package that may", p.path(), below(i), allowed))
			}
		}
		for _, d := range p.Deps {
			if under(d, heavy...) && !under(d, allowed...) {
				faults = append(faults, fmt.Sprintf("package %s depends on %s, which then every program that uses it would build: "+
					"only cmd/ and internal/ may", p.path(), d))
			}
		}
	}
	return faults
}

// under reports whether path is one of dirs or below one.
func under(path string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return path == d || strings.HasPrefix(path, d+"/") })
}

// list returns the packages of this module and all that they depend on.
func list(t *testing.T, goos string) (packages []listed) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Name,Doc,Standard,Imports,Deps,Module", "./...")
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

func TestImportFaultsAreFound(t *testing.T) {
	own := &struct{ Path string }{module}
	std := listed{ImportPath: "fmt", Standard: true}
	for want, p := range map[string]listed{
		"package . imports " + goredisV9:          {ImportPath: module, Imports: []string{goredisV9}},
		"package . imports lock":                  {ImportPath: module, Imports: []string{"fmt", module + "/lock"}},
		"package lock imports ratelimit":          {ImportPath: module + "/lock", Imports: []string{module, module + "/ratelimit"}},
		"package lock imports github.com/x/y":     {ImportPath: module + "/lock", Imports: []string{"github.com/x/y"}},
		"package internal/resp imports .":         {ImportPath: module + "/internal/resp", Imports: []string{module}},
		"package goredis imports lock":            {ImportPath: module + "/goredis", Imports: []string{goredisV9 + "/maintnotifications", module + "/lock"}},
		"package internal/server imports goredis": {ImportPath: module + "/internal/server", Imports: []string{module + "/goredis"}},
		"package internal/wire/lock imports":      {ImportPath: module + "/internal/wire/lock", Imports: []string{module, module + "/lock"}},
		"package util is new":                     {ImportPath: module + "/util"},
		"package lock depends on":                 {ImportPath: module + "/lock", Deps: []string{otterV2}},
		"package internal/server depends on":      {ImportPath: module + "/internal/server", Deps: []string{"github.com/prometheus/client_golang/prometheus"}},
	} {
		p.Module = own
		faults := importFaults([]listed{std, p})
		if len(faults) != 1 || !strings.HasPrefix(faults[0], want) {
			t.Errorf("%+v: found %q, want one that begins with %q", p, faults, want)
		}
	}
	if faults := importFaults([]listed{std, {ImportPath: module + "/cmd/redoubt", Module: own, Imports: []string{"github.com/spf13/cobra"}}}); faults != nil {
		t.Errorf("cmd/redoubt may import anything, found %q", faults)
	}
}

func TestPackagesAreDocumented(t *testing.T) {
	for _, p := range list(t, "linux") {
		if p.Module != nil && p.Module.Path == module {
			for _, f := range packageFaults(p) {
				t.Error(f)
			}
		}
	}
}

// packageFaults returns what is wrong with the name and the comment of a
// package.
func packageFaults(p listed) (faults []string) {
	if slices.Contains([]string{"util", "utils", "common", "base", "helper", "helpers", "misc"}, p.Name) {
		faults = append(faults, fmt.Sprintf("package %s: name it for what it does, or put its contents where they are used", p.path()))
	}
	want := "Package " + p.Name + " "
	if p.Name == "main" { // Go's way for a command: its name, as a sentence begins
		name := path.Base(p.ImportPath)
		want = strings.ToUpper(name[:1]) + name[1:] + " "
	}
	if !strings.HasPrefix(p.Doc, want) {
		faults = append(faults, fmt.Sprintf("package %s has the comment %q: begin it with %q and say what a reader gets", p.path(), p.Doc, want))
	}
	return faults
}

func TestPackageFaultsAreFound(t *testing.T) {
	for want, p := range map[string]listed{
		"":                         {ImportPath: module + "/lock", Name: "lock", Doc: "Package lock is …"},
		"begin it with":            {ImportPath: module + "/lock", Name: "lock"},
		"begin it with \"Package ": {ImportPath: module + "/lock", Name: "lock", Doc: "Locks."},
		"begin it with \"Redoubt ": {ImportPath: module + "/cmd/redoubt", Name: "main", Doc: "Package main …"},
		"name it for what it does": {ImportPath: module + "/util", Name: "util", Doc: "Package util …"},
	} {
		faults := strings.Join(packageFaults(p), "\n")
		if want == "" != (faults == "") || !strings.Contains(faults, want) {
			t.Errorf("%+v: found %q, want %q", p, faults, want)
		}
	}
}

// sources returns the files of the repository with the given ending, all
// modules included.
func sources(t *testing.T, ending string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ending):
			return nil
		}
		text, err := os.ReadFile(file)
		files[filepath.ToSlash(file)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no file ends in %s", ending)
	}
	return files
}

const maxLines = 900

func TestFilesCanBeReadInOneGo(t *testing.T) {
	for _, ending := range []string{".go", ".lua"} {
		for path, text := range sources(t, ending) {
			if f := lengthFault(path, text); f != "" {
				t.Error(f)
			}
		}
	}
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

func lengthFault(path, text string) string {
	if lines := strings.Count(text, "\n"); lines > maxLines && !generated.MatchString(text) {
		return fmt.Sprintf("%s has %d lines, the limit is %d: one idea a file; split it", path, lines, maxLines)
	}
	return ""
}

func TestLengthFaultIsFound(t *testing.T) {
	for text, want := range map[string]bool{
		strings.Repeat("\n", maxLines):                                            false,
		strings.Repeat("\n", maxLines+1):                                          true,
		"// Code generated by x. DO NOT EDIT.\n" + strings.Repeat("\n", maxLines): false,
	} {
		if got := lengthFault("x.go", text); (got != "") != want {
			t.Errorf("%d lines: found %q, want a finding: %v", strings.Count(text, "\n"), got, want)
		}
	}
}

func TestTestsCanBeRepeated(t *testing.T) {
	for path, text := range sources(t, "_test.go") {
		for _, f := range waitFaults(t, path, text) {
			t.Error(f)
		}
	}
}

// waitFaults returns all calls of time.Sleep. It also returns calls of Skip, and of functions of
// math/rand that nothing can repeat, unless a comment on their line or directly above explains them.
func waitFaults(t *testing.T, path, text string) (faults []string) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	line := func(p token.Pos) int { return fset.Position(p).Line }
	randImported := strings.Contains(text, `"math/rand/v2"`)
	explained := map[int]bool{}
	for _, c := range file.Comments {
		for _, at := range []int{line(c.Pos()), line(c.End()) + 1} {
			explained[at] = true
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		of, _ := selector.X.(*ast.Ident)
		at := fmt.Sprintf("%s:%d", path, line(call.Pos()))
		switch name := selector.Sel.Name; {
		case name == "Sleep" && of != nil && of.Name == "time":
			faults = append(faults, at+": time.Sleep in a test: wait for what is to happen, by a channel or by internal/test/await, "+
				"or move the clock of a bubble of testing/synctest, by await.Advance")
		case !explained[line(call.Pos())] && of != nil && of.Name == "rand" && randImported && !strings.HasPrefix(name, "New"):
			faults = append(faults, at+": a choice that nothing can repeat: take it from randtest.Rand, which prints its seed")
		case !explained[line(call.Pos())] && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, name) && of != nil && slices.Contains([]string{"t", "b", "tb", "f"}, of.Name):
			faults = append(faults, at+": a skipped test proves nothing: let it fail and say what it needs. "+
				"Where it can't be run at all, say why in a comment on the line or above it")
		}
		return true
	})
	return faults
}

func TestWaitFaultsAreFound(t *testing.T) {
	for body, want := range map[string]int{
		"time.Sleep(1)":                                                  1,
		"t.Skip()":                                                       1,
		"if x { tb.Skipf(`%d`, 1) }":                                     1,
		"b.SkipNow(); time.Sleep(1)":                                     2,
		"// Reason: above.\nt.SkipNow()":                                 0,
		"await.Advance(1)":                                               0,
		"time.Sleep(1) // on the line":                                   1,
		"// Reason: too far away.\n\nt.SkipNow()":                        1,
		"scanner.Skip(); clock.Sleep(1)":                                 0,
		"rand.IntN(4); rand.New(rand.NewPCG(1, 2)); r.IntN(4)":           1,
		"// Which process comes first is not ours to say.\nrand.IntN(4)": 0,
	} {
		if got := waitFaults(t, "x_test.go", "package x\n\nimport \"math/rand/v2\"\n\nfunc f() {\n"+body+"\n}\n"); len(got) != want {
			t.Errorf("%q: found %q, want %d", body, got, want)
		}
	}
}

// Every test that the README, docs/promises.md and the package documents name as the holder of a
// promise is there.
func TestGuaranteesAreHeldByTests(t *testing.T) {
	// A package's doc.go names tests of that package, the others any.
	tests := map[string]map[string]bool{"README.md": {}}
	for path, text := range sources(t, "_test.go") {
		doc := filepath.Join(filepath.Dir(path), "doc.go")
		if tests[doc] == nil {
			tests[doc] = map[string]bool{}
		}
		for _, m := range regexp.MustCompile(`(?m)^func ((Test|Fuzz)\w+)\(`).FindAllStringSubmatch(text, -1) {
			tests[doc][m[1]] = true
			tests["README.md"][m[1]] = true
		}
	}
	tests["bench/README.md"] = tests["README.md"]
	tests["docs/promises.md"] = tests["README.md"]
	tests["docs/zh-CN/promises.md"] = tests["README.md"]
	tests["redoubttest/doc.go"] = tests["README.md"] // it shows how another package uses it
	docs := sources(t, "README.md")
	maps.Copy(docs, sources(t, "doc.go"))
	maps.Copy(docs, sources(t, "promises.md"))
	for path, text := range docs {
		for _, name := range missingTests(text, tests[path]) {
			t.Errorf("%s names the test %s, which is not there: write it, or name the one that holds the promise", path, name)
		}
	}
}

func missingTests(text string, tests map[string]bool) (missing []string) {
	for _, name := range regexp.MustCompile(`\b(Test|Fuzz)[A-Z]\w+`).FindAllString(text, -1) {
		if !tests[name] {
			missing = append(missing, name)
		}
	}
	return missing
}

func TestMissingTestIsFound(t *testing.T) {
	got := missingTests("held by `TestA1`, [TestB2]", map[string]bool{"TestB2": true})
	if !slices.Equal(got, []string{"TestA1"}) {
		t.Errorf("found %q, want TestA1", got)
	}
}
