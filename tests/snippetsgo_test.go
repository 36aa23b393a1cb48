package tests

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	osexec "os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/ports"
	"github.com/redoubt-go/redoubt/internal/test/slow"
	"github.com/redoubt-go/redoubt/internal/test/snippets"
)

// TestGoSnippets compiles the Go snippets of docs/ and README into one program and runs them, except where
// the fence says norun. A snippet is a file, declarations, or statements. Statements have ctx and client,
// and import by themselves; they may return an error, and must not leave one in err. A line may begin with "…" in place
// of code, which also checks err. An unused variable is no error. Snippets of a page share a package. The test takes seconds because it links a program.
func TestGoSnippets(t *testing.T) {
	slow.Test(t, "it compiles each snippet in Go as a program: tens of seconds of processor time")
	t.Parallel()
	addr := serveEngine(t)
	all := snippets.Of(t, repository, "go")
	dir := t.TempDir()
	overlay := map[string]string{}
	add := func(name, text string) {
		generated, err := filepath.Abs(filepath.Join(programDir, name))
		if err != nil {
			t.Fatal(err)
		}
		overlay[generated] = filepath.Join(dir, name)
		writeFile(t, overlay[generated], text)
	}

	var imports, calls strings.Builder
	task := snippetTask{Port: portOf(t, addr)}
	page, pages, name := "", 0, ""
	data := t.TempDir()
	for i, s := range all {
		port := task.Port
		if s.Kind == "endless" {
			free, err := ports.Reserve()
			if err != nil {
				t.Fatal(err)
			}
			defer free.Release()
			port = free.Number
		}
		for _, text := range []*string{&s.Setup, &s.Text} {
			*text = snippets.WithPort(strings.ReplaceAll(*text, "/var/lib/", filepath.ToSlash(data)+"/"), port)
		}
		if s.File != page {
			page, pages = s.File, pages+1
			name = fmt.Sprintf("page%d", pages)
			fmt.Fprintf(&imports, "\t%q\n", programPath+"/"+name)
			fmt.Fprintf(&calls, "\tflush()\n\t%s.Begin()\n", name)
			add(name+"/begin.go", fmt.Sprintf("package %s\n\n// Begin makes the page used, even if nothing of it runs.\nfunc Begin() {}\n", name))
		}
		source, runs, err := goSource(s, name, i)
		if err != nil {
			t.Errorf("%s: %v", s.Where(), err)
			continue
		}
		add(fmt.Sprintf("%s/snippet%d.go", name, i), source)
		if runs && s.NoRun == "" {
			endAt := ""
			if s.Kind == "endless" {
				endAt = strings.TrimSpace(s.Output)
			}
			fmt.Fprintf(&calls, "\trun(%d, %s.Snippet%d, %q)\n", len(task.all), name, i, endAt)
			task.all = append(task.all, s)
		}
	}
	add("main.go", fmt.Sprintf(goMain, imports.String(), fmt.Sprintf("redis://127.0.0.1:%d", task.Port), calls.String()))
	text, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "overlay.json"), string(text))
	binary := filepath.Join(dir, "snippets.exe")
	build := osexec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, "./"+programDir) //nolint:gosec // ours
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	task.run(t, osexec.CommandContext(t.Context(), binary)) //nolint:gosec // ours
}

// The program exists in the build's overlay only.
const (
	programDir  = "snippetprogram"
	programPath = "github.com/redoubt-go/redoubt/tests/" + programDir
)

const goMain = `package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redoubt-go/redoubt"
	_ "github.com/redoubt-go/redoubt/engine"
	_ "github.com/redoubt-go/redoubt/goredis"
%s)

const url = %q

func main() {
%s}

func flush() {
	o, err := redis.ParseURL(url)
	if err == nil {
		err = redis.NewClient(o).FlushAll(context.Background()).Err()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// endOnce calls end as soon as os.Stdout has got a text. Until the returned function is called, it has a copy of all.
func endOnce(text string, end func()) (restore func()) {
	to := os.Stdout
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	os.Stdout = w
	done := make(chan struct{})
	go func() {
		defer close(done)
		printed, buf := "", make([]byte, 4096)
		for {
			n, err := r.Read(buf)
			_, _ = to.Write(buf[:n])
			if printed += string(buf[:n]); strings.TrimSpace(printed) == text {
				end()
			}
			if err != nil {
				return
			}
		}
	}()
	return func() {
		os.Stdout = to
		_ = w.Close()
		<-done
	}
}

func run(i int, snippet func(ctx context.Context, client *redoubt.Client) error, endAt string) {
	fmt.Printf("\x01%%d\n", i)
	defer func() {
		if p := recover(); p != nil {
			fmt.Printf("\x02panic: %%v\n%%s", p, debug.Stack())
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := redoubt.Open(ctx, url, redoubt.Options{})
	if err == nil && endAt != "" {
		restore := endOnce(endAt, cancel)
		err = snippet(ctx, client)
		restore()
		if errors.Is(err, context.Canceled) {
			err = nil
		}
	} else if err == nil {
		err = snippet(ctx, client)
	}
	if err != nil {
		fmt.Printf("\x02%%v", err)
	}
}
`

// goImports are the packages that statements use without importing them.
var goImports = []string{
	"bytes", "context", "database/sql", "encoding/json", "errors", "fmt", "io", "iter", "log", "log/slog", "math/rand/v2",
	"net", "net/http", "os", "os/signal", "strconv", "strings", "sync", "sync/atomic", "time",
	"github.com/redis/go-redis/v9", "go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/trace",
	ours, ours + "/bitmap", ours + "/bloom", ours + "/cache", ours + "/dashboard", ours + "/engine", ours + "/fence", ours + "/geo",
	ours + "/goredis", ours + "/hll", ours + "/lock", ours + "/queue", ours + "/ratelimit", ours + "/ratelimit/httplimit",
	ours + "/ratelimit/policy", ours + "/scan", ours + "/server", ours + "/stock", ours + "/ttlhash",
}

const ours = "github.com/redoubt-go/redoubt"

func packageName(importPath string) string {
	base := path.Base(importPath)
	if strings.HasPrefix(base, "v") && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(importPath))
	}
	return strings.TrimPrefix(base, "go-")
}

const checkErr = "if err != nil { return err }; "

// errBefore finds an err that the statements have declared.
var errBefore = regexp.MustCompile(`(?m)^[^\t].*\berr\b.*:=`)

// goSource makes a file of package pkg with a function SnippetN, if there is something to run.
func goSource(s snippets.Snippet, pkg string, n int) (source string, runs bool, err error) {
	setup := s.Setup
	text := strings.ReplaceAll(s.Text, "{ … }", "{ }")
	lines := strings.Split(text, "\n")
	checked := slices.Clone(lines)
	for i := range lines {
		if rest, left := strings.CutPrefix(strings.TrimSpace(lines[i]), "…"); left {
			if strings.HasPrefix(lines[i], "…") && errBefore.MatchString(strings.Join(lines[:i], "\n")) {
				checked[i] = checkErr + rest
			} else {
				checked[i] = rest
			}
			lines[i] = rest // a comment, or nothing
		}
	}
	text = strings.Join(lines, "\n")
	place := fmt.Sprintf("//line %s\n", s.Where())
	head := fmt.Sprintf("package %s\n\nimport (\n\t\"context\"\n\n\t%q\n", pkg, ours)
	function := fmt.Sprintf("func Snippet%d(ctx context.Context, client *redoubt.Client) error {\n", n)

	fset := token.NewFileSet()
	if f, err := parser.ParseFile(fset, "", text, 0); err == nil { // a whole file
		text = text[:f.Name.Pos()-1] + pkg + text[f.Name.End()-1:]
		if f.Scope.Lookup("main") == nil {
			return place + text, false, nil
		}
		text = strings.Replace(text, "func main()", fmt.Sprintf("func main%d()", n), 1)
		return place + text + fmt.Sprintf("\nfunc Snippet%d(context.Context, *redoubt.Client) error {\n\tmain%d()\n\treturn nil\n}\n", n, n), true, nil
	}
	if f, err := parser.ParseFile(fset, "", "package p\n"+text, 0); err == nil { // declarations
		return head + importsOf(f) + ")\n\n" + setup + "\n" + place + text + "\n\nvar _ context.Context\nvar _ redoubt.Client\n", false, nil
	}
	text = strings.Join(checked, "\n")
	// Statements: twice, because the variables must be known to be used.
	var f *ast.File
	used := [2]string{}
	for range 2 {
		source = function + setup + "\n{\n" + place + text + "\n" + used[1] + "\n}\n" + used[0] + "\nreturn nil\n}\n"
		if f, err = parser.ParseFile(fset, "", "package p\n"+source, 0); err != nil {
			return "", false, err
		}
		body := f.Decls[0].(*ast.FuncDecl).Body.List
		block := slices.IndexFunc(body, func(s ast.Stmt) bool { _, ok := s.(*ast.BlockStmt); return ok })
		used = [2]string{uses(body), uses(body[block].(*ast.BlockStmt).List)}
	}
	return head + importsOf(f) + ")\n\n" + source, true, nil
}

// uses makes statements that use each variable that the statements declare, and return err if it is one.
func uses(list []ast.Stmt) string {
	var b strings.Builder
	use := func(e ast.Expr) {
		if id, ok := e.(*ast.Ident); ok && id.Name == "err" {
			b.WriteString(checkErr)
		} else if ok && id.Name != "_" {
			b.WriteString("_ = " + id.Name + "; ")
		}
	}
	for _, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				for _, e := range s.Lhs {
					use(e)
				}
			}
		case *ast.DeclStmt:
			if d := s.Decl.(*ast.GenDecl); d.Tok == token.VAR {
				for _, spec := range d.Specs {
					for _, id := range spec.(*ast.ValueSpec).Names {
						use(id)
					}
				}
			}
		}
	}
	return b.String()
}

// importsOf lists the packages that a file uses and does not import.
func importsOf(f *ast.File) string {
	var b strings.Builder
	for _, p := range goImports {
		used := slices.ContainsFunc(f.Unresolved, func(id *ast.Ident) bool { return id.Name == packageName(p) })
		if used && p != "context" && p != ours {
			fmt.Fprintf(&b, "\t%q\n", p)
		}
	}
	return b.String()
}
