package examples

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/programs"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// Programs in three languages take turns under one lock, on the engine and in front of a Redis. The example
// itself fails if two of them hold the lock at once.
func TestSamelock(t *testing.T) {
	modules, err := filepath.Abs("../tests/testdata/clients/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(modules, "ioredis")); err != nil {
		t.Fatalf("this test needs ioredis: make needed: %v", err)
	}
	t.Setenv("NODE_PATH", modules)
	python := programs.Python(t, "redis")
	for _, url := range []string{"embedded:", redistest.Start(t).URL()} {
		out := run(t, "samelock", "-python", python, "-url", url)
		for _, name := range []string{"go", "python", "node"} {
			if n := strings.Count(out, " "+name+"\n"); n != 5 {
				t.Errorf("%s: %d turns of %s, want 5:\n%s", url, n, name, out)
			}
		}
		matches(t, out, `15 turns, one at a time, with rising tokens\na late holder is refused: .*fence`)
	}
}
