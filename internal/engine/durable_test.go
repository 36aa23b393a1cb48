package engine

import (
	"fmt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/rediscmd"
	"github.com/redoubt-go/redoubt/internal/stream"
	"github.com/redoubt-go/redoubt/internal/test/faultdisk"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// onDisk returns an engine that saves to disk.
func onDisk(t testing.TB, disk aof.FS, opts Options) *Engine {
	t.Helper()
	opts.fs, opts.reserve = disk, 2048
	return open(t, opts)
}

// unseen returns a key without the times at which consumers of its groups were seen: the log doesn't
// record them, as Redis' doesn't.
func unseen(it *item) *item {
	if it.val.kind() != kindStream {
		return it
	}
	s := asStream(it).Clone(func(int) {})
	s.EachGroup(func(g *stream.Group) bool {
		g.EachConsumer(func(c *stream.Consumer) bool { c.SeenTime = 0; return true })
		return true
	})
	out := &item{key: it.key, val: newStream(s)}
	out.val.expire = it.val.expire
	return out
}

// state describes every key of an engine that has no clients; it may be saving.
func state(e *Engine) map[string]string {
	keys := map[string]string{}
	for i := range e.shards {
		sh := &e.shards[i]
		sh.mu.Lock()
		for db, ks := range sh.dbs {
			if ks == nil {
				continue
			}
			ks.keys.each(func(it *item) bool {
				var parts []string
				dump(unseen(it), func(args [][]byte) {
					step := map[string]int{"SADD": 1, "HSET": 2, "ZADD": 2}[string(args[0])]
					if step == 0 {
						parts = append(parts, quote(args))
						return
					}
					for i := 2; i < len(args); i += step {
						if string(args[i]) == "-0" && step == 2 { // only large sorted sets know the difference
							args[i] = []byte("0")
						}
						parts = append(parts, quote(args[:1])+quote(args[i:i+step]))
					}
				})
				if it.val.kind() == kindHash {
					asHash(it).each(func(name string, f field) bool {
						parts = append(parts, fmt.Sprintf("%q until %d", name, f.expire))
						return true
					})
				}
				if it.val.kind() != kindList {
					slices.Sort(parts)
				}
				parts = append(parts, fmt.Sprint("until ", it.val.expire))
				keys[fmt.Sprintf("%d %q", db, it.key)] = strings.Join(parts, "\n")
				return true
			})
		}
		sh.mu.Unlock()
	}
	return keys
}

func sameState(t *testing.T, got, want map[string]string) {
	t.Helper()
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %.200q, want %.200q", k, got[k], v)
		}
	}
	for k, v := range got {
		if _, ok := want[k]; !ok {
			t.Errorf("%s is %.200q, want none", k, v)
		}
	}
}

// volatileTemplates give keys and fields that expire while the test runs.
var volatileTemplates = []string{
	"SET <k> <v> PX 40", "PEXPIRE <k> 30", "PEXPIRE <k> -1", "HPEXPIRE <k> 20 FIELDS 2 <m> <m>", "HPEXPIRE <k> 0 FIELDS 1 <m>", "HSET <k> <m> <v> <m> <v>",
	"HSETEX <k> PX 30 FIELDS 1 <m> <v>", "HSETEX <k> PXAT 1 FIELDS 1 <m> <v>", "HGETEX <k> PX 20 FIELDS 1 <m>", "HGETEX <k> PXAT 1 FIELDS 1 <m>", "HGETEX <k> PERSIST FIELDS 1 <m>", "HGETDEL <k> FIELDS 1 <m>", "HSETNX <k> <m> <v>",
	"HINCRBY <k> <m> 1", "HPERSIST <k> FIELDS 1 <m>", "APPEND <k> x", "GETEX <k> PX 10", "SADD <k> <m> <m> <m>", "SPOP <k>", "SPOP <k> 2", "SUNIONSTORE <k> <k> <k>", "SORT <k> BY nosort STORE <k>", "COPY <k> <k> DB 1 REPLACE", "MOVE <k> 1", "SWAPDB 0 1", "LPUSH <k> <m>", "SET <k> <v> PXAT 5",
	"INCRBYFLOAT <k> <f>", "HINCRBYFLOAT <k> <m> <f>", "ZINCRBY <k> <f> <m>", "ZADD <k> -0 <m>", "ZADD <k> inf <m>", "FLUSHDB",
}

// TestDurable runs random commands while time passes, and wants every key as
// it was when the engine is opened again, with compactions and without.
func TestDurable(t *testing.T) {
	for name, own := range templates {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, steps := newVocabulary(randtest.Rand(t)), randtest.Watch(t)
			clock, disk := newFakeClock(), faultdisk.New()
			for round := range 6 {
				e := onDisk(t, disk, Options{Clock: clock, Fsync: aof.Policy(round % 3)})
				s := e.Session()
				for i := range 400 {
					list := own
					switch n := v.r.IntN(6); {
					case n < 2 && name != "multi":
						list = volatileTemplates
					case n == 2 && name != "multi":
						list = general
					}
					tryStep(steps, s, v.fill(list[v.r.IntN(len(list))]))
					if i%3 == 0 {
						clock.advance(time.Duration(v.r.IntN(12)) * time.Millisecond)
					}
				}
				run(s, "DISCARD")
				if round%2 == 1 {
					if err := e.Compact(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				want := state(e)
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
				// Time stands still, so that nothing expires meanwhile.
				again, err := Open(t.Context(), Options{Clock: newFakeClock(), fs: disk, reserve: 2048})
				if err != nil {
					t.Fatal(err)
				}
				sameState(t, state(again), want)
				again.Close() //nolint:errcheck // nothing was written
			}
		})
	}
}

// TestExpiryWhileAway wants a key whose time passed while the engine was
// closed to be gone.
func TestExpiryWhileAway(t *testing.T) {
	clock, disk := newFakeClock(), faultdisk.New()
	e := onDisk(t, disk, Options{Clock: clock})
	run(e.Session(), "SET a 1 PX 100")
	run(e.Session(), "SET b 1 PX 1000")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	clock.advance(500 * time.Millisecond)
	e = onDisk(t, disk, Options{Clock: clock})
	want(t, e.Session(), "GET a", "$-1\r\n")
	want(t, e.Session(), "PTTL b", ":500\r\n")
	clock.advance(time.Second)
	if n := len(state(e)); n != 0 {
		t.Errorf("%d keys are left after their time", n)
	}
}

func TestOpenLocksItsDirectory(t *testing.T) {
	dir := t.TempDir()
	e := open(t, Options{Dir: dir})
	if _, err := Open(t.Context(), Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("the directory was opened twice: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, Options{Dir: dir})
}

// A slowFS is one whose syncs wait until they are let through.
type slowFS struct {
	aof.FS
	gate chan struct{}
}

type slowFile struct {
	aof.File
	gate chan struct{}
}

func (f slowFS) Create(name string) (aof.File, error) {
	file, err := f.FS.Create(name)
	return slowFile{file, f.gate}, err
}

func (f slowFile) Sync() error {
	<-f.gate
	return f.File.Sync()
}

// onSlowDisk returns an engine whose disk does not sync before the gate is
// closed.
func onSlowDisk(t *testing.T) (*Engine, slowFS) {
	slow := slowFS{faultdisk.New(), make(chan struct{})}
	opened := make(chan *Engine)
	go func() { opened <- onDisk(t, slow, Options{Fsync: aof.Always}) }()
	for {
		select {
		case slow.gate <- struct{}{}: // files are synced when they are made
		case e := <-opened:
			return e, slow
		}
	}
}

// TestAlwaysHoldsReplies stops fsync, and checks that the engine holds every reply that depends on
// an unsynced change, to any client, and no other reply.
//
// Promise: With fsync always no reply leaves before the changes that it depends on are on disk.
func TestAlwaysHoldsReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, slow := onSlowDisk(t)
		_, waiting := e.Session().Do(nil, split("BLPOP queue 0"))
		held := map[string]chan string{}
		start := func(line string) {
			reply := make(chan string, 1)
			held[line] = reply
			go func() { reply <- run(e.Session(), line) }()
			synctest.Wait()
		}
		for _, line := range []string{"SET k v", "GET k", "LPUSH queue x", "EXISTS other k", "DBSIZE", "SCAN 0 COUNT 1000"} {
			start(line)
			if len(held[line]) > 0 {
				t.Errorf("%s was answered before the write was synced", line)
			}
		}
		want(t, e.Session(), "GET other", "$-1\r\n")
		want(t, e.Session(), "PING", "+PONG\r\n")
		select {
		case <-waiting.Done():
			t.Error("BLPOP was answered before the write was synced")
		default:
		}
		s := e.Session()
		s.SyncLater()
		want(t, s, "SET k w", "+OK\r\n") // at once
		if s.Synced() {
			t.Error("Synced, before the write was")
		}
		synced := make(chan error, 1)
		go func() { synced <- s.Sync() }()
		synctest.Wait()
		if len(synced) > 0 {
			t.Error("Sync returned before the write was synced")
		}
		close(slow.gate)
		synctest.Wait()
		for line, reply := range map[string]string{"SET k v": "+OK\r\n", "GET k": "$1\r\nv\r\n", "LPUSH queue x": ":1\r\n"} {
			if got := <-held[line]; got != reply {
				t.Errorf("%s: got %q, want %q", line, got, reply)
			}
		}
		<-waiting.Done()
		if err := <-synced; err != nil {
			t.Error(err)
		}
		if want(t, s, "GET k", "$1\r\nw\r\n"); !s.Synced() {
			t.Error("not Synced, once it was")
		}
	})
}

// On a full disk writes are refused, reads are answered, and no answered write is lost. The engine
// goes on by itself when there is room.
//
// Promise: A full or failing disk loses no confirmed change.
func TestFullDisk(t *testing.T) {
	for _, policy := range []aof.Policy{aof.EverySecond, aof.Always, aof.Never} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := faultdisk.New()
				e := onDisk(t, disk, Options{Fsync: policy})
				s := e.Session()
				disk.SetRoom(4000)
				n := 0
				var reply string
				for {
					reply = run(s, fmt.Sprint("SET n ", n+1))
					if reply != "+OK\r\n" {
						break
					}
					if n++; n > 10_000 {
						t.Fatal("the disk is full and writes are answered")
					}
					await.Advance(time.Millisecond) // the log is written meanwhile
				}
				if !strings.HasPrefix(reply, "-MISCONF ") || !strings.Contains(reply, syscall.ENOSPC.Error()) {
					t.Errorf("SET answered %q", reply)
				}
				text := fmt.Sprint(n)
				want(t, s, "GET n", fmt.Sprintf("$%d\r\n%d\r\n", len(text), n))
				want(t, s, "MULTI", "+OK\r\n")
				if got := run(s, "DEL n"); !strings.HasPrefix(got, "-MISCONF ") {
					t.Errorf("DEL in a transaction answered %q", got)
				}
				if got := run(s, "EXEC"); !strings.HasPrefix(got, "-EXECABORT ") {
					t.Errorf("EXEC answered %q", got)
				}
				disk.SetRoom(1 << 20)
				await.Advance(2 * time.Second) // the log tries again
				want(t, s, "SET m 1", "+OK\r\n")
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
				s = onDisk(t, disk, Options{}).Session()
				want(t, s, "MGET n m", fmt.Sprintf("*2\r\n$%d\r\n%d\r\n$1\r\n1\r\n", len(text), n))
			})
		})
	}
}

// TestDiskFullsInABurst fills the disk as fast as it goes, and wants what was
// answered to be there although no room is ever made.
func TestDiskFullsInABurst(t *testing.T) {
	value := strings.Repeat("x", 1000)
	for _, policy := range policies {
		t.Run(policy.String(), func(t *testing.T) {
			disk := faultdisk.New()
			e, err := Open(t.Context(), Options{fs: disk, Fsync: policy})
			if err != nil {
				t.Fatal(err)
			}
			disk.SetRoom(3 << 20)
			var answered atomic.Int64
			var wg sync.WaitGroup
			for w := range writerCount {
				wg.Go(func() {
					s := e.Session()
					for n := 0; run(s, fmt.Sprintf("SET %d:%d %s", w, n, value)) == "+OK\r\n"; n++ {
						answered.Add(1)
					}
				})
			}
			wg.Wait()
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if n := int64(len(state(onDisk(t, disk, Options{})))); n < answered.Load() || answered.Load() < 2000 {
				t.Errorf("%d keys are there, %d were answered", n, answered.Load())
			}
		})
	}
}

// TestBrokenDisk wants a write that could not be saved, and what saw it, to be
// answered with an error under fsync always.
func TestBrokenDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultdisk.New()
		e := onDisk(t, disk, Options{Fsync: aof.Always})
		s := e.Session()
		want(t, s, "SET k 1", "+OK\r\n")
		want(t, s, "SET other 1", "+OK\r\n")
		_, waiting := e.Session().Do(nil, split("BLPOP queue 0"))
		disk.Fail(syscall.EIO, nil)
		for _, line := range []string{"SET k 2", "GET k", "SET other 2"} {
			if got := run(s, line); !strings.HasPrefix(got, "-MISCONF ") {
				t.Errorf("%s answered %q", line, got)
			}
		}
		want(t, s, "GET other", "$1\r\n1\r\n")
		if !waiting.Cancel() {
			t.Error("BLPOP was answered")
		}
		disk.Fail(nil, nil)
		await.Advance(2 * time.Second) // the log tries again
		want(t, s, "GET k", "$1\r\n2\r\n")
		want(t, s, "SET k 3", "+OK\r\n")
	})
}

// addCommand adds a test's own command. It has the arity, keys and flags of another.
func addCommand(name, like string, handler func(*call)) {
	r := *rediscmd.Lookup(like)
	r.Name = name
	b := binding{handler: handler}
	commands[name] = b.bind(r)
}

func init() {
	addCommand("panics", "persist", func(c *call) {
		c.setString(c.args[1], []byte("half done"))
		panic("on purpose")
	})
}

// TestPanicIsLogged holds that a change which a panic left behind is in the
// log, as what comes after it builds on it.
func TestPanicIsLogged(t *testing.T) {
	disk := faultdisk.New()
	e := onDisk(t, disk, Options{})
	s := e.Session()
	for _, line := range []string{"LPUSH a x", "PANICS a", "APPEND a !", "MULTI", "PANICS b", "APPEND b !", "EXEC"} {
		run(s, line)
	}
	before := state(e)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	again := onDisk(t, disk, Options{})
	sameState(t, state(again), before)
	want(t, again.Session(), "MGET a b", "*2\r\n$10\r\nhalf done!\r\n$10\r\nhalf done!\r\n")
}

// TestInfoTellsOfTheLog wants INFO and CONFIG to tell what is true, and
// BGREWRITEAOF to compact.
func TestInfoTellsOfTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultdisk.New()
		e := onDisk(t, disk, Options{Fsync: aof.Always})
		s := e.Session()
		has := func(lines ...string) {
			t.Helper()
			info := run(s, "INFO persistence")
			for _, l := range lines {
				if !strings.Contains(info, l+"\r\n") {
					t.Errorf("INFO has no %q: %q", l, info)
				}
			}
		}
		has("aof_rewrites:0", "aof_last_sync_age_ms:-1")
		run(s, "SET k v")
		has("aof_last_sync_age_ms:0")
		<-time.After(3 * time.Second) // of the bubble
		has("aof_last_sync_age_ms:3000")
		has("aof_enabled:1", "aof_fsync:always", "aof_base_size:0", "aof_last_write_status:ok", "aof_torn_bytes:0")
		want(t, s, "CONFIG GET appendfsync", "*2\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n")
		want(t, s, "BGREWRITEAOF", "+Background append only file rewriting started\r\n")
		synctest.Wait()
		if base, _ := e.log.Size(); base == 0 {
			t.Error("nothing was compacted")
		}
		has("aof_rewrite_in_progress:0", "aof_last_bgrewrite_status:ok", "aof_rewrites:1", "aof_last_sync_age_ms:0")
		disk.Fail(syscall.EIO, nil)
		run(s, "SET k w")
		has("aof_last_write_status:err")
		disk.Fail(nil, nil)
	})
	want(t, open(t, Options{}).Session(), "BGREWRITEAOF", "-ERR nothing is saved by this engine: it has no directory\r\n")
}
