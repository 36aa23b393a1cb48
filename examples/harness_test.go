package examples

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/await"
)

// These functions build and run the examples. A test of an example calls run, or start if the example
// serves, or if several of its processes work together.

// limit is how long an example may take to build, to end, or to print a line. It is for a machine under
// load: the examples take seconds.
const limit = 2 * time.Minute

// builds holds the build of each example, so that several tests share it.
var builds sync.Map

// buildDir holds the copies and the built programs. TestMain removes it.
var buildDir string

func TestMain(m *testing.M) {
	var err error
	if buildDir, err = os.MkdirTemp("", "examples-"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := os.RemoveAll(buildDir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// build copies the directory of an example into an empty module, builds it there, and returns the
// program. So an example that imports anything but public packages doesn't build. All copies share the
// build cache.
func build(t *testing.T, name string) (program string) {
	t.Helper()
	once, _ := builds.LoadOrStore(name, sync.OnceValues(func() (string, error) { return buildCopy(name) }))
	program, err := once.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func buildCopy(name string) (program string, err error) {
	dir := filepath.Join(buildDir, name)
	if err := os.CopyFS(dir, os.DirFS(name)); err != nil {
		return "", err
	}
	root, err := filepath.Abs("..")
	if err != nil {
		return "", err
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		return "", err
	}
	// The module is empty but for the versions, which `go mod tidy` would find too.
	text := strings.Replace(string(mod), "module github.com/redoubt-go/redoubt/examples\n", "module example.com/copied\n", 1)
	text = strings.Replace(text, "redoubt => ../\n", "redoubt => "+filepath.ToSlash(root)+"\n", 1)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o600); err != nil {
		return "", err
	}
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o600); err != nil {
		return "", err
	}
	program = filepath.Join(dir, "program")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	// Without the tables for debuggers the linker takes half as long.
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", program, ".")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the copy of %s in an empty module doesn't build: %w\n%s", name, err, out)
	}
	return program, nil
}

// command returns the command that runs an example. The end of ctx interrupts it: a killed example would
// leave the processes that it has started.
func command(ctx context.Context, t *testing.T, name string, args []string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, build(t, name), args...) //nolint:gosec // the example
	cmd.Dir = t.TempDir()
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// run runs an example to its end and returns what it printed. It fails the test unless the example exits
// with 0.
func run(t *testing.T, name string, args ...string) (stdout string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := command(ctx, t, name, args)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, &out, &errs)
	}
	return out.String()
}

// A process is a started example.
type process struct {
	name string
	cmd  *exec.Cmd
	pipe io.Closer     // its output
	done chan struct{} // closed when its output has ended
	mu   struct {
		sync.Mutex
		output strings.Builder
	}
}

// start starts an example. The end of the test interrupts it, and kills it if it does not end.
func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := &process{name: name, done: make(chan struct{})}
	p.cmd = command(t.Context(), t, name, args)
	r, w := io.Pipe()
	p.pipe, p.cmd.Stdout, p.cmd.Stderr = w, w, w
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		for lines := bufio.NewScanner(r); lines.Scan(); {
			p.mu.Lock()
			p.mu.output.WriteString(lines.Text() + "\n")
			p.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = p.cmd.Wait() // the context of the test has ended
		_ = w.Close()    // never fails
		<-p.done
		if t.Failed() {
			t.Logf("%s %q printed:\n%s", name, args, p.output())
		}
	})
	return p
}

// interrupt interrupts p, as Ctrl-C does, and waits until it has ended. It fails the test unless p exits
// with 0.
func (p *process) interrupt(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(limit, func() { _ = p.cmd.Process.Kill() }) // it may have ended
	defer late.Stop()
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%s, interrupted: %v\n%s", p.name, err, p.output())
	}
	_ = p.pipe.Close() // never fails
	<-p.done
}

// output returns the lines that p has printed so far, to stdout and stderr.
func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.output.String()
}

// find waits until p has printed something that matches, and returns the match and its groups.
func (p *process) find(t *testing.T, pattern string) (match []string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	await.Until(t, limit, p.name+" prints "+pattern, func() bool {
		match = re.FindStringSubmatch(p.output())
		return match != nil
	})
	return match
}

// matches fails the test unless the output of an example matches pattern.
func matches(t *testing.T, output, pattern string) {
	t.Helper()
	if !regexp.MustCompile(pattern).MatchString(output) {
		t.Errorf("printed\n%swant a match of %s", output, pattern)
	}
}

// Every example has a row in README.md and a test that runs it.
func TestExamplesAreListedAndTested(t *testing.T) {
	programs, err := filepath.Glob("*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range programs {
		name := filepath.Dir(f)
		if !bytes.Contains(readme, []byte("| ["+name+"]("+name+"/) |")) {
			t.Errorf("README.md has no row for %s: add `| [%[1]s](%[1]s/) | …`", name)
		}
		test, err := os.ReadFile(name + "_test.go")
		if err != nil || !bytes.Contains(test, []byte(`"`+name+`"`)) {
			t.Errorf("no test in %s_test.go runs the example: call run(t, %q) there", name, name)
		}
	}
}
