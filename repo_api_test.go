package redoubt_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// api.txt lists what people may use: every exported name of the public packages, with its type. A
// change of it is a change of what we promise, so it stands in a commit for all to see.

var updateAPI = flag.Bool("update-api", false, "write api.txt anew")

// publicPackages are the directories of the packages that people use. All other packages go below
// internal/.
var publicPackages = []string{
	".", "bitmap", "bloom", "cache", "engine", "fence", "geo", "goredis", "hll", "lock", "lock/gocronlock",
	"observe/otelobserve", "observe/promobserve", "queue", "engine/enginetest",
	"ratelimit", "ratelimit/connectlimit", "ratelimit/fiberlimit", "ratelimit/grpclimit", "ratelimit/httplimit", "ratelimit/policy",
	"redoubttest", "rueidisconn", "scan", "server", "stock", "ttlhash", "valkeyconn",
}

// sharedPackage is not for people, but released modules import it: what it exports may only grow.
const sharedPackage = "internal/conn"

func TestAPIIsAnnounced(t *testing.T) {
	var lines []string
	for _, dir := range append(slices.Clone(publicPackages), sharedPackage) {
		lines = append(lines, api(dir, parseDir(t, dir))...)
	}
	got := strings.Join(lines, "\n") + "\n"
	if *updateAPI {
		if err := os.WriteFile("api.txt", []byte(got), 0o644); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("api.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := difference(strings.Split(string(text), "\n"), strings.Split(got, "\n")); len(diff) > 0 {
		t.Errorf("the exported API is not what api.txt says:\n%s\n"+
			"If you mean to change it, run `go test . -run TestAPIIsAnnounced -update-api`, commit api.txt with the change, and say so in CHANGELOG.md",
			strings.Join(diff, "\n"))
	}
}

// difference returns the lines that are in one of both only.
func difference(old, now []string) (diff []string) {
	is := func(lines []string) map[string]bool {
		set := make(map[string]bool, len(lines))
		for _, l := range lines {
			set[l] = true
		}
		return set
	}
	inOld, inNow := is(old), is(now)
	for _, l := range old {
		if !inNow[l] {
			diff = append(diff, "- "+l)
		}
	}
	for _, l := range now {
		if !inOld[l] {
			diff = append(diff, "+ "+l)
		}
	}
	return diff
}

// parseDir parses the files of a package as they are built on Linux, without its tests.
func parseDir(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	linux := build.Default
	linux.GOOS, linux.GOARCH, linux.CgoEnabled = "linux", "amd64", false
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		if match, err := linux.MatchFile(dir, e.Name()); err != nil {
			t.Fatal(err)
		} else if !match {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path.Join(dir, e.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// api returns a line for each exported constant, variable, function, type, field and method, sorted.
func api(dir string, files []*ast.File) (lines []string) {
	p := &apiPackage{types: map[string]*ast.TypeSpec{}, methods: map[string][]*ast.FuncDecl{}}
	for _, f := range files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					of := baseName(d.Recv.List[0].Type)
					p.methods[of] = append(p.methods[of], d)
				} else if d.Name.IsExported() {
					p.add("func %s%s", d.Name.Name, signature(d.Type))
				}
			case *ast.GenDecl:
				p.values(d)
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok {
						p.types[s.Name.Name] = s
					}
				}
			}
		}
	}
	for name, s := range p.types {
		if ast.IsExported(name) {
			p.typ(s)
		}
	}
	slices.Sort(p.lines)
	for _, l := range slices.Compact(p.lines) {
		lines = append(lines, dir+": "+l)
	}
	return lines
}

type apiPackage struct {
	types   map[string]*ast.TypeSpec
	methods map[string][]*ast.FuncDecl // by the type that has them
	lines   []string
}

func (p *apiPackage) add(format string, args ...any) {
	p.lines = append(p.lines, fmt.Sprintf(format, args...))
}

// values adds constants and variables. The value of a constant counts as well.
func (p *apiPackage) values(d *ast.GenDecl) {
	if d.Tok != token.CONST && d.Tok != token.VAR {
		return
	}
	for _, s := range d.Specs {
		s := s.(*ast.ValueSpec)
		for i, name := range s.Names {
			if !name.IsExported() {
				continue
			}
			line := d.Tok.String() + " " + name.Name
			if s.Type != nil {
				line += " " + source(s.Type)
			}
			if d.Tok == token.CONST && i < len(s.Values) {
				line += " = " + source(s.Values[i])
			}
			p.add("%s", line)
		}
	}
}

func (p *apiPackage) typ(s *ast.TypeSpec) {
	name, parameters := s.Name.Name, ""
	if s.TypeParams != nil {
		parameters = "[" + fields(s.TypeParams) + "]"
	}
	switch t := s.Type.(type) {
	case *ast.StructType:
		p.add("type %s%s struct", name, parameters)
		p.fields(name, t)
	case *ast.InterfaceType:
		p.add("type %s%s interface", name, parameters)
		for _, m := range t.Methods.List {
			if len(m.Names) == 0 {
				p.add("type %s interface, %s", name, source(m.Type))
				continue
			}
			if f, ok := m.Type.(*ast.FuncType); ok {
				p.add("type %s interface, %s%s", name, m.Names[0].Name, signature(f))
			}
		}
	default:
		is := " "
		if s.Assign.IsValid() {
			is = " = "
		}
		p.add("type %s%s%s%s", name, parameters, is, source(s.Type))
	}
	p.methodsOf(name, name)
}

// fields adds the exported fields of a struct, including promoted fields of embedded types of this
// package, and their methods.
func (p *apiPackage) fields(of string, t *ast.StructType) {
	for _, f := range t.Fields.List {
		for _, n := range f.Names {
			if n.IsExported() {
				p.add("type %s struct, %s %s", of, n.Name, source(f.Type))
			}
		}
		if len(f.Names) > 0 {
			continue
		}
		embedded := baseName(f.Type)
		if ast.IsExported(embedded) {
			p.add("type %s struct, embedded %s", of, source(f.Type))
			continue
		}
		p.methodsOf(embedded, of)
		if s := p.types[embedded]; s != nil {
			if t, ok := s.Type.(*ast.StructType); ok {
				p.fields(of, t)
			}
		}
	}
}

func (p *apiPackage) methodsOf(name, as string) {
	for _, m := range p.methods[name] {
		if !m.Name.IsExported() {
			continue
		}
		star := ""
		if _, ok := m.Recv.List[0].Type.(*ast.StarExpr); ok {
			star = "*"
		}
		p.add("method (%s%s) %s%s", star, as, m.Name.Name, signature(m.Type))
	}
}

// baseName is the name of a type without its package, its pointer and its parameters.
func baseName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return baseName(e.X)
	case *ast.IndexExpr:
		return baseName(e.X)
	case *ast.IndexListExpr:
		return baseName(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func signature(t *ast.FuncType) string {
	s := ""
	if t.TypeParams != nil {
		s = "[" + fields(t.TypeParams) + "]"
	}
	s += "(" + fields(t.Params) + ")"
	switch {
	case t.Results == nil:
	case len(t.Results.List) == 1 && len(t.Results.List[0].Names) == 0:
		s += " " + fields(t.Results)
	default:
		s += " (" + fields(t.Results) + ")"
	}
	return s
}

func fields(l *ast.FieldList) string {
	var all []string
	for _, f := range l.List {
		var names []string
		for _, n := range f.Names {
			names = append(names, n.Name)
		}
		all = append(all, strings.TrimSpace(strings.Join(names, ", ")+" "+source(f.Type)))
	}
	return strings.Join(all, ", ")
}

// source returns an expression on one line.
func source(e ast.Expr) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, token.NewFileSet(), e); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func TestAPIListsWhatIsExported(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x

const A, b = 1 << 3, 2
const (
	C T = iota
	D
)
var E, f = 1, 2
type T int
type Alias = inner
type S[K comparable] struct {
	Field, Other map[K]func(a, b int) error
	hidden int
	inner
	*Public
}
type inner struct { FromInside string }
type Public struct{}
func (inner) Promoted() {}
func (s *S[K]) Method(x ...K) (n int, err error) { return 0, nil }
func (s *S[K]) own() {}
type I interface { M(int) string; other() }
func Func[V any](v V) {}
func unexported() {}
`, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	want := `x: const A = 1 << 3
x: const C T = iota
x: const D
x: func Func[V any](v V)
x: method (*S) Method(x ...K) (n int, err error)
x: method (S) Promoted()
x: type Alias = inner
x: type I interface
x: type I interface, M(int) string
x: type I interface, other()
x: type Public struct
x: type S struct, Field map[K]func(a, b int) error
x: type S struct, FromInside string
x: type S struct, Other map[K]func(a, b int) error
x: type S struct, embedded *Public
x: type S[K comparable] struct
x: type T int
x: var E`
	if got := strings.Join(api("x", []*ast.File{file}), "\n"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if got := difference([]string{"a", "b"}, []string{"b", "c"}); !slices.Equal(got, []string{"- a", "+ c"}) {
		t.Errorf("difference: %q", got)
	}
}
