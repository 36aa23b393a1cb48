package randtest_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// child runs TestStepThatHangs in a process of its own, in a mode that makes it end
// badly, and returns what the process prints.
func child(t *testing.T, mode string, args ...string) (cmd *exec.Cmd, out *output) {
	t.Helper()
	out = &output{}
	cmd = exec.Command(os.Args[0], append([]string{"-test.run", "^TestStepThatHangs$"}, args...)...)
	cmd.Env = append(os.Environ(), "RANDTEST="+mode, "SEED=42", "GOTRACEBACK=single")
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // unless it has ended
	return cmd, out
}

// An output is what a child has printed so far.
type output struct {
	mu   sync.Mutex
	text []byte
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, b...)
	return len(b), nil
}

func (o *output) has(text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Contains(o.text, []byte(text))
}

// wants waits for the end of the child, which must fail, and for texts in its output.
func wants(t *testing.T, cmd *exec.Cmd, out *output, texts ...string) {
	t.Helper()
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) {
		t.Errorf("it ended with %v", err)
	}
	for _, text := range texts {
		if !out.has(text) {
			t.Errorf("no %q in:\n%s", text, out.text)
		}
	}
}

// hang is a step that never ends. The name of the function has to be in the stacks.
func hang() {
	_, _ = os.Stderr.WriteString("hanging\n")
	select {}
}

// TestStepThatHangs wants a step that exceeds its limit, a binary that -timeout ends,
// one that SIGQUIT ends, and a test that panics to show the seed, and all but the last
// of them the step and the stacks.
func TestStepThatHangs(t *testing.T) {
	limit := time.Minute
	switch os.Getenv("RANDTEST") {
	case "limit":
		limit = 2 * time.Second // the step before it has so long on a busy machine
		fallthrough
	case "timeout", "quit":
		r, steps := randtest.Rand(t), randtest.WatchWithin(t, limit)
		first := r.Uint64()
		if again := randtest.Rand(t).Uint64(); again != first {
			t.Fatalf("one seed gave %d and %d", first, again)
		}
		steps.Begin(func() string { return "one that ends" })
		steps.Begin(func() string { return "SRANDMEMBER s 1152921504606846976" })
		hang()
	case "panic":
		randtest.Rand(t)
		panic("as a fault would")
	case "unwatched":
		randtest.Rand(t)
		return
	case "command":
		randtest.Rand(t)
		randtest.Command(t, func() string { return "GET k" })
		hang()
	}
	t.Parallel()
	const name, step = "TestStepThatHangs: SEED=42", "SRANDMEMBER s 1152921504606846976"
	t.Run("limit", func(t *testing.T) {
		t.Parallel()
		cmd, out := child(t, "limit")
		wants(t, cmd, out, name, "one step took more than 2s: step 2, ", step+"\n\t"+name, "randtest_test.hang")
	})
	t.Run("timeout", func(t *testing.T) {
		t.Parallel()
		cmd, out := child(t, "timeout", "-test.timeout", "4s") // it has to come to the step by then
		wants(t, cmd, out, name, step, "randtest_test.hang", "test timed out")
	})
	t.Run("quit", func(t *testing.T) {
		t.Parallel()
		cmd, out := child(t, "quit")
		await.Soon(t, "the test hangs", func() bool { return out.has("hanging") })
		if err := cmd.Process.Signal(syscall.SIGQUIT); err != nil {
			t.Fatal(err)
		}
		wants(t, cmd, out, name, step, "randtest_test.hang", "SIGQUIT")
	})
	t.Run("unwatched", func(t *testing.T) {
		t.Parallel()
		cmd, out := child(t, "unwatched")
		wants(t, cmd, out, name, "no step of this random test is watched")
	})
	t.Run("command", func(t *testing.T) {
		t.Parallel()
		cmd, out := child(t, "command", "-test.timeout", "4s")
		wants(t, cmd, out, name, "TestStepThatHangs: step 1, for", "GET k", "test timed out")
	})
	t.Run("panic", func(t *testing.T) {
		t.Parallel()
		cmd, out := child(t, "panic")
		wants(t, cmd, out, name, "as a fault would")
	})
}

// TestStepsThatAreQuick wants a test to pass that takes longer than the limit of one
// step, also where the clock is that of a bubble.
func TestStepsThatAreQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps := randtest.Watch(t)
		for range 5 {
			steps.Begin(func() string { return "one of many" })
			await.Advance(2 * randtest.Limit)
		}
		steps.End()
		await.Advance(2 * randtest.Limit)
	})
}

// BenchmarkBegin holds a step to well under a microsecond: models do 100,000s of them.
func BenchmarkBegin(b *testing.B) {
	steps, args := randtest.Watch(b), []string{"GET", "k"}
	b.ReportAllocs()
	for b.Loop() {
		steps.Begin(func() string { return args[0] })
	}
}

// BenchmarkCommand is the same for commands.
func BenchmarkCommand(b *testing.B) {
	args := []string{"GET", "k"}
	b.ReportAllocs()
	for b.Loop() {
		randtest.Command(b, func() string { return args[0] })()
	}
}
