package engine

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

const (
	killDir   = "ENGINE_KILL_DIR"
	killFsync = "ENGINE_KILL_FSYNC"
)

// TestMain runs the child of TestKill instead of the tests when it is one.
func TestMain(m *testing.M) {
	if dir := os.Getenv(killDir); dir != "" {
		fmt.Fprintln(os.Stderr, writeUntilKilled(dir, os.Getenv(killFsync)))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeUntilKilled takes steps in an engine, says so for each that was
// answered, and returns only when something fails.
func writeUntilKilled(dir, fsync string) error {
	policy, err := aof.ParsePolicy(fsync)
	if err != nil {
		return err
	}
	e, err := Open(context.Background(), Options{Dir: dir, Fsync: policy, CompactBytes: 300_000})
	if err != nil {
		return err
	}
	failed := make(chan error)
	for w := range writerCount {
		go func() {
			s := e.Session()
			_, parts := elements([]byte(run(s, fmt.Sprintf("MGET a%d", w))))
			n := 0
			fmt.Sscanf(string(parts[0]), "$%d\r\n%d", new(int), &n) //nolint:errcheck // none at first
			pace := time.NewTicker(500 * time.Microsecond)          // keeps what has to be compared small
			for n++; ; n++ {
				if reply := step(s, w, n); reply[0] != '*' {
					failed <- fmt.Errorf("step %d: %s", n, reply)
				}
				if _, err := fmt.Fprintln(os.Stdout, w, n); err != nil {
					failed <- err
				}
				<-pace.C
			}
		}()
	}
	return <-failed
}

// TestKill kills a process at random moments while it writes, again and again in one directory,
// which always opens. Under always every answered write is there, under the other policies every
// write older than two seconds.
//
// Promise: Confirmed changes survive a crash of the process, as far as the fsync policy says.
func TestKill(t *testing.T) {
	for _, policy := range policies {
		t.Run(policy.String(), func(t *testing.T) {
			t.Parallel()
			r, watched := randtest.Rand(t), randtest.Watch(t)
			dir, lost, steps := "", 0, 0
			for round := range thorough(200, 10) {
				if round%20 == 0 {
					dir = t.TempDir()
				}
				life := time.Duration(r.IntN(120)) * time.Millisecond
				if round%10 == 9 {
					life += 2200 * time.Millisecond
				}
				watched.Begin(func() string { return fmt.Sprintf("kill %d, after %v in %s", round, life, dir) })
				l, s := kill(t, dir, policy, life)
				lost += l
				steps += s
			}
			t.Logf("%d steps answered, %d lost", steps, lost)
		})
	}
}

// kill runs a child for a while from its first answer on, and checks what it
// leaves behind.
func kill(t *testing.T, dir string, policy aof.Policy, life time.Duration) (lost, steps int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), killDir+"="+dir, killFsync+"="+policy.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var answered, old [writerCount]int
	times := [writerCount][]time.Time{}
	killed := make(chan time.Time, 1)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var w, n int
		if _, err := fmt.Sscan(lines.Text(), &w, &n); err != nil {
			t.Fatal(err)
		}
		if steps++; steps == 1 {
			time.AfterFunc(life, func() {
				killed <- time.Now()
				cmd.Process.Kill() //nolint:errcheck // it may have ended
			})
		}
		answered[w] = n
		times[w] = append(times[w], time.Now())
	}
	cmd.Wait() //nolint:errcheck // it was killed
	if steps == 0 {
		t.Fatal("the process did nothing")
	}
	at := <-killed
	for w := range writerCount {
		for i, said := range times[w] {
			if policy == aof.Always || said.Before(at.Add(-2*time.Second)) {
				old[w] = answered[w] - len(times[w]) + i + 1
			}
		}
	}
	e, err := Open(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatalf("after the kill: %v", err)
	}
	defer e.Close() //nolint:errcheck // nothing is written
	for w := range writerCount {
		got := progress(t, e, w)
		if got < old[w] {
			t.Fatalf("writer %d: %d steps are there, %d must be", w, got, old[w])
		}
		lost += max(0, answered[w]-got)
	}
	return lost, steps
}
