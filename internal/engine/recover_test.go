package engine

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/faultdisk"
)

// broken returns an engine in which whatever happens to a key called boom
// panics, with shards locked, and what it logs.
func broken(t *testing.T, opts Options) (*Engine, *bytes.Buffer) {
	var log bytes.Buffer
	opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	opts.Events = func(ev Event) {
		if strings.HasPrefix(string(ev.Key), "boom") {
			panic("the event of " + string(ev.Key))
		}
	}
	return open(t, opts), &log
}

// unlocked fails when a shard is locked.
func unlocked(t testing.TB, e *Engine, after string) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for i := range e.shards {
		for !e.shards[i].mu.TryLock() { // what runs in the background may hold it for a moment
			if time.Now().After(deadline) {
				t.Fatalf("%s left shard %d locked", after, i)
			}
			runtime.Gosched()
		}
		e.shards[i].mu.Unlock()
	}
}

// TestPanicsAreErrors makes commands panic in every place in which they run. The client gets an
// error, the log has the stack, no lock stays held, and the engine goes on.
//
// Promise: No command and no script ends the process.
func TestPanicsAreErrors(t *testing.T) {
	const internal = "-ERR internal error: the event of boom"
	e, log := broken(t, Options{})
	for _, c := range []struct{ line, reply string }{
		{"SET boom v", internal},
		{"MSET a 1 boom v", internal},
		{"EVAL return{redis.pcall('set',KEYS[1],'v')} 1 boom", internal},
		{"EVAL return{redis.pcall('set','{boom}',1),redis.pcall('set',KEYS[1],'v')} 1 boom", internal},
		{"RENAME other boom", internal},
		{"COPY other boom", internal},
		{"SORT other STORE boom", internal},
	} {
		s := e.Session()
		run(s, "DEL other boom")
		run(s, "RPUSH other 2 1")
		log.Reset()
		if got := run(s, c.line); !strings.Contains(got, c.reply) {
			t.Errorf("%s: got %q", c.line, got)
		}
		unlocked(t, e, c.line)
		if !strings.Contains(log.String(), "recover_test.go") {
			t.Errorf("%s: no stack was logged: %s", c.line, log)
		}
		want(t, s, "SET fine v", "+OK\r\n")
		s.Close()
	}
	s := e.Session()
	for _, line := range []string{"MULTI", "SET a 2", "SET boom v", "SET b 3"} {
		run(s, line)
	}
	if got := run(s, "EXEC"); !strings.HasPrefix(got, "*3\r\n+OK\r\n"+internal) || !strings.HasSuffix(got, "+OK\r\n") {
		t.Errorf("EXEC: got %q", got)
	}
	unlocked(t, e, "EXEC")
	want(t, s, "MGET a b", "*2\r\n$1\r\n2\r\n$1\r\n3\r\n")
	// The blocked command panics, and not the one that serves it.
	_, wait := e.Session().Do(nil, split("BLMOVE from boom3 LEFT LEFT 0"))
	want(t, s, "RPUSH from x", ":1\r\n")
	if got := string(wait.Append(nil)); !strings.HasPrefix(got, internal) {
		t.Errorf("BLMOVE: got %q", got)
	}
	unlocked(t, e, "RPUSH")
	want(t, s, "SET fine v", "+OK\r\n")
}

// TestSweeperPanics wants the host to survive an expiry that panics, and what
// else expires to do so.
func TestSweeperPanics(t *testing.T) {
	clock := newFakeClock()
	e, _ := broken(t, Options{Clock: clock})
	s := e.Session()
	run(s, "SET boom v PX 10") // it is set, and then panics
	run(s, "PEXPIRE boom 10")
	run(s, "SET fine v PX 10")
	clock.advance(100 * time.Millisecond)
	unlocked(t, e, "the sweeper")
	want(t, s, "DBSIZE", ":0\r\n")
	if e.stats.panics.Load() == 0 {
		t.Error("nothing panicked")
	}
}

// TestPanicsAreSaved wants the log to tell what a command that panicked did.
func TestPanicsAreSaved(t *testing.T) {
	disk := faultdisk.New()
	e, _ := broken(t, Options{fs: disk, reserve: 2048})
	s := e.Session()
	run(s, "MSET a 1 boom v")
	run(s, "RPUSH boom2 x")
	want(t, s, "SET z 1", "+OK\r\n")
	before := state(e)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if after := state(onDisk(t, disk, Options{})); len(before) != 3 || !maps.Equal(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
}

func init() {
	addCommand("breaks", "del", func(c *call) {
		it := c.write(c.args[1])
		c.changed(c.args[1])
		it.val.become(&value{form: formList})
	})
}

// TestPanicsBehindCommands wants no lock to stay held when what follows a command panics,
// while the shards are still locked. The command leaves a broken value, and asking for its
// size panics.
func TestPanicsBehindCommands(t *testing.T) {
	for _, lines := range [][]string{{"BREAKS k"}, {"BREAKS k other"}, {"MULTI", "BREAKS k", "EXEC"}, {"EVAL return(redis.pcall('breaks',KEYS[1])) 1 k"}} {
		e, _ := broken(t, Options{})
		s := e.Session()
		run(s, "SET k v")
		for _, line := range lines {
			run(s, line)
		}
		if e.stats.panics.Load() == 0 {
			t.Errorf("%s: nothing panicked", lines)
		}
		unlocked(t, e, fmt.Sprint(lines))
		want(t, s, "SET fine v", "+OK\r\n")
	}
}
