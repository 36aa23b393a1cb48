package engine

import (
	"bytes"
	"errors"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"log/slog"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/rdb"
	"github.com/redoubt-go/redoubt/internal/test/faultdisk"
)

// TestFarDeadlines wants that what RESTORE accepts can be written to a base and
// read again: fields that expire later than HPEXPIREAT may say are refused.
func TestFarDeadlines(t *testing.T) {
	disk := faultdisk.New()
	e := onDisk(t, disk, Options{})
	s := e.Session()
	for _, at := range []int64{mostFieldExpire - 1, mostFieldExpire, mostFieldExpire + 1, 1 << 59} {
		payload := rdb.Payload(nil, &rdb.Value{Kind: rdb.Hash, Elements: argv("f"), Values: argv("v"), Expires: []int64{at}})
		out, _ := s.Do(nil, [][]byte{[]byte("RESTORE"), strconv.AppendInt(nil, at, 10), []byte("0"), payload})
		if refused := bytes.HasPrefix(out, []byte("-ERR Bad data format")); refused != (at > mostFieldExpire) {
			t.Errorf("RESTORE of a field that expires at %d answers %q", at, out)
		}
	}
	want := state(e)
	if err := e.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	sameState(t, state(onDisk(t, disk, Options{})), want)
}

// TestCompactChecks wants a compaction to find out that what it writes can't be
// read back, before it deletes what can.
func TestCompactChecks(t *testing.T) {
	e := open(t, Options{})
	s := e.Session()
	run(s, "HSET h f v g w")
	run(s, "RPUSH l 1 2 3")
	run(s, "SET k v PX 1000000")
	dump := func() error { return e.dumpAll(func(int, [][][]byte) error { return nil }) }
	if err := dump(); err != nil {
		t.Fatal(err)
	}
	item := func(key string) *item { return e.shards[shardOf([]byte(key))].dbs[0].keys.get([]byte(key)) }
	asHash(item("h")).setExpire([]byte("f"), mostFieldExpire+1)
	if err := dump(); err == nil || !strings.Contains(err.Error(), "HPEXPIREAT can't be repeated") {
		t.Errorf("a deadline that no command takes: %v", err)
	}
	asHash(item("h")).setExpire([]byte("f"), 0)
	asList(item("l")).n++
	if err := dump(); err == nil || !strings.Contains(err.Error(), `key "l" is not the same`) {
		t.Errorf("an element that is lost: %v", err)
	}
}

// TestLargeEffects wants a script and a transaction that change too much at once
// to be stopped, so that what is to be logged of them fits into memory, and what
// they did until then to be there again.
func TestLargeEffects(t *testing.T) {
	disk := faultdisk.New()
	e := onDisk(t, disk, Options{})
	e.bounds.effects = 1 << 20
	s := e.Session()
	const script = "local v = string.rep('x', 1000) for i = 1, 1e5 do redis.call('SET', KEYS[1], v .. i) end"
	for name, do := range map[string]func() []byte{
		"script": func() []byte {
			out, _ := s.Do(nil, argv("EVAL", script, "1", "k"))
			return out
		},
		"transaction": func() []byte {
			run(s, "DEL list copy")
			run(s, "RPUSH list "+strings.Repeat("x", 200<<10))
			run(s, "MULTI")
			for range 20 {
				run(s, "SORT list ALPHA STORE copy")
			}
			out, _ := s.Do(nil, argv("EXEC"))
			return out
		},
	} {
		if out := do(); !bytes.Contains(out, []byte("changed more than 1048576 bytes at once")) {
			t.Errorf("%s: %.200q", name, out)
		}
	}
	want := state(e)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	sameState(t, state(onDisk(t, disk, Options{})), want)
}

// A gatedFS is one whose writes behind the header of a file wait for a gate.
type gatedFS struct {
	aof.FS
	gate chan struct{}
}

type gatedFile struct {
	aof.File
	gate chan struct{}
}

func (g gatedFS) Create(name string) (aof.File, error) {
	f, err := g.FS.Create(name)
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	return gatedFile{f, g.gate}, nil
}

func (f gatedFile) WriteAt(b []byte, at int64) (int, error) {
	if at > 0 {
		<-f.gate
	}
	return f.File.WriteAt(b, at)
}

// TestOnlyWritersWaitForTheDisk: while the disk is behind what was written, reads
// are answered and writes wait, until it has caught up.
func TestOnlyWritersWaitForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := gatedFS{faultdisk.New(), make(chan struct{})}
		e := onDisk(t, fs, Options{})
		s := e.Session()
		run(s, "SET k v")
		await.Advance(time.Second) // this write is stuck
		large := strings.Repeat("x", 2<<20)
		run(s, "SET large "+large)
		for _, c := range [][2]string{
			{"PING", "+PONG\r\n"}, {"GET k", "$1\r\nv\r\n"}, {"STRLEN large", ":2097152\r\n"}, {"EVAL_RO return{} 0", "*0\r\n"},
			{"MULTI", "+OK\r\n"}, {"GET k", "+QUEUED\r\n"}, {"EXEC", "*1\r\n$1\r\nv\r\n"},
		} {
			want(t, s, c[0], c[1])
		}
		waiting := []string{"DEL none", "EVAL redis.call('SET','a','b') 0", "EXEC"}
		done := make(chan string, len(waiting))
		for _, cmd := range waiting {
			go func() {
				s := e.Session()
				defer s.Close()
				if cmd == "EXEC" {
					run(s, "MULTI")
					run(s, "SET b c")
				}
				run(s, cmd)
				done <- cmd
			}()
		}
		synctest.Wait()
		select {
		case cmd := <-done:
			t.Errorf("%s did not wait", cmd)
		default:
		}
		close(fs.gate)
		for range waiting {
			<-done
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestExpiryOnABrokenDisk wants reads of keys whose time passed to go on when
// nothing can be saved any more.
func TestExpiryOnABrokenDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultdisk.New()
		var said bytes.Buffer
		e, err := Open(t.Context(), Options{Fsync: aof.Always, fs: disk, reserve: 2048, Logger: slog.New(slog.NewTextHandler(&said, nil))})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close() //nolint:errcheck // it can't save what is not saved
		s := e.Session()
		run(s, "SET {k}1 v")
		run(s, "SET {k}2 v PX 1000")
		run(s, "HSET {k}3 a 1 b 1")
		run(s, "HPEXPIRE {k}3 1000 FIELDS 1 a")
		disk.Fail(nil, syscall.EIO)
		if got := run(s, "SET {other} v"); !strings.HasPrefix(got, "-MISCONF") {
			t.Errorf("a write answers %q", got)
		}
		await.Advance(2 * time.Second)
		for cmd, want := range map[string]string{"GET {k}1": "$1\r\nv\r\n", "GET {k}2": "$-1\r\n", "HGET {k}3 a": "$-1\r\n", "HGET {k}3 b": "$1\r\n1\r\n"} {
			if got := run(s, cmd); got != want {
				t.Errorf("%s answers %q, want %q", cmd, got, want)
			}
		}
		if err := e.SaveErr(); !errors.Is(err, syscall.EIO) {
			t.Errorf("SaveErr is %v", err)
		}
		if text := said.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "can't sync the log") {
			t.Errorf("the engine said %q", text)
		}
	})
}

// TestExecOnABrokenDisk wants a transaction that writes to be refused as a whole,
// also when a command before the write needs every shard.
func TestExecOnABrokenDisk(t *testing.T) {
	disk := faultdisk.New()
	e, err := Open(t.Context(), Options{Fsync: aof.Always, fs: disk, reserve: 2048})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close() //nolint:errcheck // it can't save what is not saved
	s, other := e.Session(), e.Session()
	run(s, "MULTI")
	run(s, "KEYS *")
	run(s, "SET k v")
	disk.Fail(nil, syscall.EIO)
	run(other, "SET other v")
	if got := run(s, "EXEC"); !strings.HasPrefix(got, "-EXECABORT ") {
		t.Errorf("EXEC answers %q", got)
	}
	if got := run(other, "GET k"); got != "$-1\r\n" {
		t.Errorf("GET k answers %q", got)
	}
}
