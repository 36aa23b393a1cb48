// Package programs finds and builds the programs that tests run.
package programs

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Redoubt builds cmd/redoubt and returns its path, which is gone when tb ends. args are more
// arguments of go build, like -race.
func Redoubt(tb testing.TB, args ...string) (path string) {
	tb.Helper()
	path = filepath.Join(tb.TempDir(), "redoubt")
	const module = "github.com/redoubt-go/redoubt"
	// The module of the test may be another one, which does not require what the program needs.
	dir, err := exec.CommandContext(tb.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		tb.Fatalf("go list -m %s: %v", module, err)
	}
	args = append([]string{"build", "-o", path}, args...)
	cmd := exec.CommandContext(tb.Context(), "go", append(args, module+"/cmd/redoubt")...)
	cmd.Dir = strings.TrimSpace(string(dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return path
}

// Python returns an interpreter that has a module.
func Python(tb testing.TB, module string) (path string) {
	tb.Helper()
	for _, p := range []string{"python3", "/usr/bin/python3"} { // The first may have other modules than the system's.
		if exec.CommandContext(tb.Context(), p, "-c", "import "+module).Run() == nil {
			return p
		}
	}
	tb.Fatalf("these tests need python3 with %[1]s, which is not installed: apt-get install python3-%[1]s, dnf install python3-%[1]s, or pip install %[1]s", module)
	return ""
}
