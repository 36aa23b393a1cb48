package tests

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/redoubt-go/redoubt/internal/test/slow"
)

const rootModule = "github.com/redoubt-go/redoubt"

// released are the modules that a release tags, by their directories.
var released = map[string]string{
	".":                      rootModule,
	"lock/gocronlock":        rootModule + "/lock/gocronlock",
	"observe/otelobserve":    rootModule + "/observe/otelobserve",
	"observe/promobserve":    rootModule + "/observe/promobserve",
	"ratelimit/connectlimit": rootModule + "/ratelimit/connectlimit",
	"ratelimit/fiberlimit":   rootModule + "/ratelimit/fiberlimit",
	"ratelimit/grpclimit":    rootModule + "/ratelimit/grpclimit",
	"rueidisconn":            rootModule + "/rueidisconn",
	"valkeyconn":             rootModule + "/valkeyconn",
}

// TestReleasedModules publishes the tree in a module proxy of files. A program in an empty module gets the
// packages from there, and go install builds the binary. No module requires another by a version that
// doesn't exist, as grpclimit once did, and no package embeds files that a module leaves out, as those below a
// directory called vendor. The program in README builds with what README says to get.
//
// Promise: `go get` and `go install` work for every module of a release, in a program that requires no
// other module of Redoubt yet.
func TestReleasedModules(t *testing.T) {
	slow.Test(t, "the go command loads all modules into an empty cache: ten seconds of processor time")
	// With -n the go command loads every package and its embedded files, and compiles nothing: the other tests
	// compile the same files. `make release-check` compiles them here too.
	dry := []string{"-n"}
	if os.Getenv("RELEASE") == "full" {
		dry = nil
	}
	text, err := os.ReadFile("../VERSION")
	if err != nil {
		t.Fatal(err)
	}
	version := strings.TrimSpace(string(text))
	proxy, bin, cache := t.TempDir(), t.TempDir(), goEnv(t, "GOMODCACHE")
	for dir, path := range released {
		// The cache of modules is the proxy for all others. On a new machine it lacks some until they are tested.
		download := exec.CommandContext(t.Context(), "go", "mod", "download")
		download.Dir = filepath.Join("..", dir)
		if out, err := download.CombinedOutput(); err != nil {
			t.Fatalf("go mod download in %s: %v\n%s", dir, err, out)
		}
		publish(t, proxy, filepath.Join("..", dir), path, version)
	}
	// A module cache of its own: the next run publishes other content under the same version.
	env := append(os.Environ(), "GOPROXY=file://"+proxy+",file://"+filepath.Join(cache, "cache", "download"), "GOSUMDB=off", "GONOPROXY=none",
		"GOMODCACHE="+t.TempDir(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -modcacherw", "GOWORK=off", "GOBIN="+bin)
	run := func(dir, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
		return string(out)
	}

	using := func(pkg string) string {
		return fmt.Sprintf("package main\n\nimport _ %q\n\nfunc main() {}\n", rootModule+"/"+pkg)
	}
	readmeGet, readmeMain := fromReadme(t)
	for _, c := range []struct{ get, main string }{ // the others alone first
		{rootModule + "/lock/gocronlock@latest", using("lock/gocronlock")},
		{rootModule + "/ratelimit/connectlimit@latest", using("ratelimit/connectlimit")},
		{rootModule + "/ratelimit/fiberlimit@latest", using("ratelimit/fiberlimit")},
		{rootModule + "/ratelimit/grpclimit@latest", using("ratelimit/grpclimit")},
		{rootModule + "/observe/promobserve@latest", using("observe/promobserve")},
		{rootModule + "/observe/otelobserve@latest", using("observe/otelobserve")},
		{rootModule + "/rueidisconn@latest", using("rueidisconn")},
		{rootModule + "/valkeyconn@latest", using("valkeyconn")},
		{rootModule + "@latest", using("lock")},
		{readmeGet, readmeMain},
	} {
		app := t.TempDir()
		run(app, "go", "mod", "init", "example.com/app")
		if err := os.WriteFile(filepath.Join(app, "main.go"), []byte(c.main), 0o600); err != nil {
			t.Fatal(err)
		}
		run(app, "go", "get", c.get)
		run(app, "go", append([]string{"build"}, append(dry, "./...")...)...)
		if got := run(app, "go", "list", "-m", "-f", "{{.Version}}{{with .Replace}} replaced{{end}}", rootModule); strings.TrimSpace(got) != version {
			t.Errorf("after go get %s, %s is %q; want %s", c.get, rootModule, got, version)
		}
	}
	run(t.TempDir(), "go", append([]string{"install"}, append(dry, rootModule+"/cmd/redoubt@latest")...)...)
	if dry != nil {
		return
	}
	if got := run(".", filepath.Join(bin, "redoubt"), "--version"); !strings.HasPrefix(got, "redoubt "+version+"\n") {
		t.Errorf("redoubt --version prints %q; want version %s", got, version)
	}
}

// fromReadme returns what README gets by go get, and its program. The program builds only if it gets all that
// it imports.
func fromReadme(t *testing.T) (get, program string) {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(text), "\ngo get ")
	_, program, found := strings.Cut(after, "```go\n")
	if !ok || !found {
		t.Fatal("README has no line that begins with go get, and no Go program after it")
	}
	program, _, _ = strings.Cut(program, "```")
	return strings.Fields(after)[0], program
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// publish adds the files below dir to a module proxy of files, as version of the module path.
func publish(t *testing.T, proxy, dir, path, version string) {
	t.Helper()
	at := filepath.Join(proxy, filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(mod, []byte(rootModule+" v0.0.0")) {
		t.Errorf("%s/go.mod requires v0.0.0, which no proxy has: `make version` sets it", dir)
	}
	var content bytes.Buffer
	// Create refuses what a proxy would: bad file names, too large files. It leaves out other modules.
	if err := zip.Create(&content, module.Version{Path: path, Version: version}, filesBelow(t, dir)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"list": []byte(version + "\n"), version + ".mod": mod, version + ".zip": content.Bytes(),
		version + ".info": fmt.Appendf(nil, `{"Version":%q,"Time":"2026-01-02T03:04:05Z"}`, version),
	} {
		if err := os.WriteFile(filepath.Join(at, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// filesBelow lists the files that git has, or would add, below dir.
func filesBelow(t *testing.T, dir string) (files []zip.File) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git ls-files in %s: %v; the test needs a clone of the repository", dir, err)
	}
	for _, name := range strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 }) {
		f := file{dir, name}
		if info, err := f.Lstat(); err == nil && info.Mode().IsRegular() { // not deleted
			files = append(files, f)
		}
	}
	return files
}

// A file is a [zip.File] of a directory.
type file struct{ dir, name string }

func (f file) Path() string                 { return filepath.ToSlash(f.name) }
func (f file) Lstat() (os.FileInfo, error)  { return os.Lstat(filepath.Join(f.dir, f.name)) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(f.dir, f.name)) }
