package engine

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/test/faultdisk"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// logOf writes commands to a log, each a record of its own.
func logOf(t *testing.T, commands [][][]byte) *faultdisk.Disk {
	t.Helper()
	disk := faultdisk.New()
	l, _, err := aof.Open(disk, aof.Options{ReserveBytes: 2048}, func(aof.Record) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range commands {
		l.Throttle()
		l.Append(0, [][][]byte{args})
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return disk
}

func linesOf(lines ...string) (commands [][][]byte) {
	for _, line := range lines {
		commands = append(commands, bytes.Fields([]byte(line)))
	}
	return commands
}

// loaded reads a log with some workers.
func loaded(t *testing.T, disk *faultdisk.Disk, workers int) (*Engine, error) {
	t.Helper()
	e := create(Options{reserve: 2048})
	t.Cleanup(func() { e.Close() }) //nolint:errcheck // nothing was written
	_, err := e.load(t.Context(), disk, workers)
	return e, err
}

// TestLoadOnSeveralCores loads random commands with one key, with several and with none, in one
// goroutine and in four. Both leave the same keys.
//
// Promise: The log is loaded on all cores, and each key is as if one had done it.
func TestLoadOnSeveralCores(t *testing.T) {
	r, steps := randtest.Rand(t), randtest.Watch(t)
	key := func() string { return fmt.Sprint("key", r.IntN(40)) }
	for round := range 10 {
		steps.Begin(func() string { return fmt.Sprint("round ", round) })
		var lines []string
		for i := range 4000 {
			line := []string{
				"APPEND s" + key() + " " + fmt.Sprint(i, ","), "INCR n" + key(), "RPUSH l" + key() + " " + fmt.Sprint(i),
				"APPEND s" + key() + " " + fmt.Sprint(i, ","), "RPUSH l" + key() + " " + fmt.Sprint(i), "HSET h" + key() + " f" + key() + " " + fmt.Sprint(i),
			}[r.IntN(6)]
			if i%50 == r.IntN(50) {
				line = []string{
					"COPY s" + key() + " c" + key() + " REPLACE", "LMOVE l" + key() + " l" + key() + " LEFT RIGHT", "DEL s" + key() + " l" + key(),
					"MSET s" + key() + " a s" + key() + " b", "SWAPDB 0 1", "SUNIONSTORE u" + key() + " u" + key() + " u" + key(),
				}[r.IntN(6)]
			}
			lines = append(lines, line)
		}
		commands := linesOf(lines...)
		commands = append(commands, [][]byte{[]byte("SET"), []byte("large"), make([]byte, mostBatched+1)}, [][]byte{[]byte("APPEND"), []byte("large"), []byte("end")})
		disk := logOf(t, commands)
		one, err := loaded(t, disk.Copy(), 0)
		if err != nil {
			t.Fatal(err)
		}
		four, err := loaded(t, disk.Copy(), 4)
		if err != nil {
			t.Fatal(err)
		}
		if sameState(t, state(four), state(one)); t.Failed() {
			return
		}
		if a, b := four.found, one.found; a != b || four.memory.used.Load() != one.memory.used.Load() {
			t.Errorf("found %+v and %d bytes, want %+v and %d", a, four.memory.used.Load(), b, one.memory.used.Load())
		}
	}
}

// TestLoadNamesTheFrame: a command that can't be repeated ends the load. The error names its frame,
// although workers repeat it later than it is read.
func TestLoadNamesTheFrame(t *testing.T) {
	lines := []string{"SET a 1", "LPUSH a 1"}
	for i := range 20_000 {
		lines = append(lines, fmt.Sprintf("SET key%d %d", i, i))
	}
	disk := logOf(t, linesOf(lines...))
	_, alone := loaded(t, disk.Copy(), 0)
	_, err := Open(t.Context(), Options{fs: disk, reserve: 2048})
	if err == nil || alone == nil || err.Error() != alone.Error() || !strings.Contains(err.Error(), "0000000001.log, frame at offset 32: engine: LPUSH can't be repeated") {
		t.Errorf("got  %v\nwant %v", err, alone)
	}
}

// TestReadOnlyDirectory opens a directory that can't be written to, a new one and one with data. The
// error says so, and nothing is changed.
//
// Promise: A read-only directory is an error of its own, not damage, and is not changed.
func TestReadOnlyDirectory(t *testing.T) {
	for _, disk := range []*faultdisk.Disk{faultdisk.New(), logOf(t, linesOf("SET a 1"))} {
		before, _ := disk.List()
		disk.FailAt(faultdisk.Fault{Err: syscall.EROFS, Stays: true})
		_, err := Open(t.Context(), Options{fs: disk, reserve: 2048})
		if !errors.Is(err, syscall.EROFS) || errors.Is(err, aof.ErrCorrupt) {
			t.Errorf("the error is %v", err)
		}
		if after, _ := disk.List(); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("there are %q, there were %q", after, before)
		}
	}
}

// TestClockGoesBack sets the clock back by an hour while an engine is open, and while it is closed.
// Expired keys stay away; everything else lives until its deadline, which was fixed when it
// was set. Writes go on, and are confirmed.
//
// Promise: When the clock goes back, no change is lost, and nothing that has expired comes back.
func TestClockGoesBack(t *testing.T) {
	clock, disk := newFakeClock(), faultdisk.New()
	opts := Options{Clock: clock, Fsync: aof.Always}
	e := onDisk(t, disk, opts)
	s := e.Session()
	run(s, "SET gone 1 PX 100")
	run(s, "SET kept 1 PX 1000")
	run(s, "HSETEX hash PX 100 FIELDS 1 gone 1")
	run(s, "HSET hash kept 1")
	clock.advance(500 * time.Millisecond)
	want(t, s, "EXISTS gone", ":0\r\n")
	want(t, s, "HLEN hash", ":1\r\n")
	clock.advance(-time.Hour)
	check := func(when string, ttl string) {
		want(t, s, "EXISTS gone", ":0\r\n")
		want(t, s, "HMGET hash gone kept", "*2\r\n$-1\r\n$1\r\n1\r\n")
		want(t, s, "PTTL kept", ttl)
		want(t, s, "SET "+when+" 1", "+OK\r\n")
	}
	check("open", ":3600500\r\n")
	if err := e.Compact(t.Context()); err != nil {
		t.Error(err)
	}
	check("compacted", ":3600500\r\n")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	clock.advance(-time.Hour)
	e = onDisk(t, disk, opts)
	s = e.Session()
	check("again", ":7200500\r\n")
	clock.advance(2*time.Hour + 600*time.Millisecond)
	want(t, s, "EXISTS kept open compacted again", ":3\r\n")
}
