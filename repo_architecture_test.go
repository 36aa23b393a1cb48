package redoubt_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ARCHITECTURE.md has a picture of the packages, which is generated from the imports, and names functions
// and files, which must exist.

var updatePicture = flag.Bool("update-picture", false, "draw the picture in ARCHITECTURE.md anew")

const (
	architectureFile = "ARCHITECTURE.md"
	pictureBegin     = "<!-- picture -->\n"
	pictureEnd       = "<!-- end of picture -->"
)

func TestPictureIsCurrent(t *testing.T) {
	text, err := os.ReadFile(architectureFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), pictureBegin)
	_, after, closed := strings.Cut(rest, pictureEnd)
	if !found || !closed {
		t.Fatalf("%s has no place for the picture: %q and %q", architectureFile, pictureBegin, pictureEnd)
	}
	want := before + pictureBegin + picture(ownImports(t)) + pictureEnd + after
	if *updatePicture {
		if err := os.WriteFile(architectureFile, []byte(want), 0o644); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("the picture in %s is out of date: run `go test . -run TestPictureIsCurrent -update-picture`", architectureFile)
	}
}

// ownImports returns the packages of this module that the binary or a user of the library builds, and
// the packages of this module that each imports. The packages below internal/wire are one room.
func ownImports(t *testing.T) map[string][]string {
	t.Helper()
	room := func(importPath string) (name string, drawn bool) {
		name = below(importPath)
		if under(name, "internal/wire") {
			name = "internal/wire/…"
		}
		return name, !under(name, "internal/test", "redoubttest", "engine/enginetest", "internal/command/docgen")
	}
	imports := map[string][]string{}
	for _, p := range list(t, "linux") {
		name, drawn := room(p.ImportPath)
		if p.Module == nil || p.Module.Path != module || !drawn {
			continue
		}
		all := imports[name]
		for _, i := range p.Imports {
			if !under(i, module) {
				continue
			}
			if to, drawn := room(i); drawn && to != name {
				all = append(all, to)
			}
		}
		slices.Sort(all)
		imports[name] = slices.Compact(all)
	}
	return imports
}

// picture draws packages on floors. A package stands one floor above the highest that it imports. Packages
// of one floor that import the same packages share a line.
func picture(imports map[string][]string) string {
	var floor func(name string) int
	floors := map[string]int{}
	floor = func(name string) int {
		if n, known := floors[name]; known {
			return n
		}
		n := 0
		for _, i := range imports[name] {
			n = max(n, floor(i)+1)
		}
		floors[name] = n
		return n
	}
	lines := map[int]map[string][]string{} // by floor, then by imports: packages
	for name, all := range imports {
		n := floor(name)
		if lines[n] == nil {
			lines[n] = map[string][]string{}
		}
		to := strings.Join(direct(imports, all), ", ")
		lines[n][to] = append(lines[n][to], roomName(name))
	}
	var b strings.Builder
	b.WriteString("Each package is drawn above all packages that it imports. The arrow lists its imports; an import that\n" +
		"another listed package already brings is omitted.\n\n```\n")
	for n := len(lines) - 1; n >= 0; n-- {
		var drawn []string
		for to, names := range lines[n] {
			slices.Sort(names)
			line := strings.Join(names, ", ")
			if to != "" {
				line += "\n        → " + to
			}
			drawn = append(drawn, line)
		}
		slices.Sort(drawn)
		for i, line := range drawn {
			label := "   "
			if i == 0 {
				label = fmt.Sprintf("%2d ", n)
			}
			for j, l := range strings.Split(line, "\n") {
				if j > 0 {
					label = "   "
				}
				b.WriteString(wrapped(label+"│ "+l, 110))
			}
		}
		if n > 0 {
			b.WriteString("───┼" + strings.Repeat("─", 70) + "\n")
		}
	}
	b.WriteString("```\n")
	return b.String()
}

// roomName is how the picture calls a package.
func roomName(name string) string {
	if name == "." {
		return "redoubt (root)"
	}
	return name
}

// direct returns the names of all but those packages that another of them imports.
func direct(imports map[string][]string, all []string) (names []string) {
	var reach func(from, to string) bool
	reach = func(from, to string) bool {
		return slices.ContainsFunc(imports[from], func(i string) bool { return i == to || reach(i, to) })
	}
	for _, to := range all {
		if !slices.ContainsFunc(all, func(other string) bool { return other != to && reach(other, to) }) {
			names = append(names, roomName(to))
		}
	}
	return names
}

// wrapped breaks a line of the picture after commas.
func wrapped(line string, width int) string {
	var b strings.Builder
	for len([]rune(line)) > width {
		at := strings.LastIndex(string([]rune(line)[:width]), ", ")
		if at < 0 {
			break
		}
		b.WriteString(line[:at+1] + "\n")
		line = "   │           " + line[at+2:]
	}
	return b.String() + line + "\n"
}

func TestPictureOfPackages(t *testing.T) {
	got := picture(map[string][]string{"cmd/a": {".", "lock", "x"}, "lock": {".", "x"}, "queue": {".", "x"}, ".": {}, "x": {}})
	want := "```\n 2 │ cmd/a\n   │         → lock\n───┼" + strings.Repeat("─", 70) +
		"\n 1 │ lock, queue\n   │         → redoubt (root), x\n───┼" + strings.Repeat("─", 70) +
		"\n 0 │ redoubt (root), x\n```\n"
	if !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant it to end with\n%s", got, want)
	}
}

// Every function, type and file that ARCHITECTURE.md, CONTRIBUTING.md and decisions.md name exists.
func TestNamesInArchitectureExist(t *testing.T) {
	names := declared(t)
	files := trackedFiles(t)
	for _, doc := range []string{architectureFile, "CONTRIBUTING.md", "docs/decisions.md", "docs/zh-CN/decisions.md"} {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range missingNames(string(text), names, files) {
			t.Errorf("%s names %s, which doesn't exist: name what took its place", doc, name)
		}
	}
}

// server.session once had 182 methods. New methods belong to a type of their own, with its fields.
func TestSessionIsSmall(t *testing.T) {
	const most = 60
	method, n := regexp.MustCompile(`(?m)^func \(\w+ \*?session\) `), 0
	for file, text := range sources(t, ".go") {
		if path.Dir(file) == "internal/server" {
			n += len(method.FindAllString(text, -1))
		}
	}
	if n == 0 || n >= most {
		t.Errorf("internal/server.session has %d methods; want fewer than %d", n, most)
	}
}

var (
	codeSpan     = regexp.MustCompile("`([^`\n]+)`")
	qualified    = regexp.MustCompile(`^([a-z][a-z0-9_/]*)\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?)$`)
	namedFile    = regexp.MustCompile(`^[a-z0-9_./-]+\.(go|lua|txt|md|yml)$`)
	namedPackage = regexp.MustCompile(`^internal/[\w/]+$`)
	fenced       = regexp.MustCompile("(?s)```.*?```")
)

// missingNames returns the code spans of a document that look like a function, a file or an internal
// package and are none. names has the declarations of each directory, files all files and directories.
func missingNames(text string, names map[string]map[string]bool, files map[string]bool) (missing []string) {
	for _, m := range codeSpan.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		span := m[1]
		switch q := qualified.FindStringSubmatch(span); {
		case namedFile.MatchString(span), namedPackage.MatchString(span):
			if !files[span] {
				missing = append(missing, span)
			}
		case q != nil && q[1] != "time" && q[1] != "net": // the standard library
			found := false
			for dir, has := range names {
				found = found || (dir == q[1] || strings.HasSuffix(dir, "/"+q[1]) || dir == "." && q[1] == "redoubt") && has[q[2]]
			}
			if !found {
				missing = append(missing, span)
			}
		}
	}
	return missing
}

// declared returns, for each directory, the functions, types, variables and constants at the top of its
// non-test files, and methods and members as Type.Name.
func declared(t *testing.T) map[string]map[string]bool {
	t.Helper()
	all := map[string]map[string]bool{}
	for file, text := range sources(t, ".go") {
		f, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		dir := path.Dir(file)
		if all[dir] == nil {
			all[dir] = map[string]bool{}
		}
		for _, d := range f.Decls {
			declare(all[dir], d)
		}
	}
	return all
}

// declare adds the names that d declares.
func declare(names map[string]bool, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names[d.Name.Name] = true
			return
		}
		of := d.Recv.List[0].Type
		for {
			switch x := of.(type) {
			case *ast.StarExpr:
				of = x.X
			case *ast.IndexExpr:
				of = x.X
			case *ast.IndexListExpr:
				of = x.X
			case *ast.Ident:
				names[x.Name+"."+d.Name.Name] = true
				return
			default:
				return
			}
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names[n.Name] = true
				}
			case *ast.TypeSpec:
				names[s.Name.Name] = true
				var members *ast.FieldList
				switch x := s.Type.(type) {
				case *ast.StructType:
					members = x.Fields
				case *ast.InterfaceType:
					members = x.Methods
				default:
					continue
				}
				for _, m := range members.List {
					for _, n := range m.Names {
						names[s.Name.Name+"."+n.Name] = true
					}
				}
			}
		}
	}
}

// trackedFiles returns all files and directories of the repository, and the names of the files in its
// root.
func trackedFiles(t *testing.T) map[string]bool {
	t.Helper()
	files := map[string]bool{}
	for _, ending := range []string{".go", ".lua", ".txt", ".md", ".yml"} {
		for file := range sources(t, ending) {
			for ; file != "."; file = path.Dir(file) {
				files[file] = true
			}
		}
	}
	for _, file := range []string{".golangci.yml"} {
		if _, err := os.Stat(filepath.FromSlash(file)); err == nil {
			files[file] = true
		}
	}
	return files
}

func TestMissingNamesAreFound(t *testing.T) {
	names := map[string]map[string]bool{"lock": {"New": true, "Mutex.Acquire": true}, "internal/server": {"run": true}, ".": {"Open": true}}
	files := map[string]bool{"lock/doc.go": true, "internal/server": true}
	text := "`lock.New` `lock.Mutex.Acquire` `server.run` `redoubt.Open` `lock/doc.go` `internal/server` `time.Sleep` `--flag` `a b.c`" +
		"\n```\nlock.Gone\n```\n" +
		"`lock.Old` `lock.Mutex.Gone` `erver.run` `lock/gone.go` `internal/gone`"
	want := []string{"lock.Old", "lock.Mutex.Gone", "erver.run", "lock/gone.go", "internal/gone"}
	if got := missingNames(text, names, files); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
