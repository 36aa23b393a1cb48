package engine

import (
	"fmt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/faultdisk"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// thorough says how many times something is repeated: ENGINE_FAULTS=full runs
// 1,000 power cuts and 200 kills a policy, and three times as many random
// commands.
func thorough(full, short int) int {
	if os.Getenv("ENGINE_FAULTS") == "full" {
		return full
	}
	return short
}

var policies = []aof.Policy{aof.EverySecond, aof.Always, aof.Never}

const writerCount = 4

// step is the n-th transaction of a writer: it sets two keys of different
// shards to n, appends n to a list and makes a key that expires.
func step(s *Session, writer, n int) string {
	run(s, "MULTI")
	run(s, fmt.Sprintf("SET a%d %d", writer, n))
	run(s, fmt.Sprintf("SET b%d %d", writer, n))
	run(s, fmt.Sprintf("RPUSH list%d %d", writer, n))
	run(s, fmt.Sprintf("SET volatile%d %d PX 20", writer, n))
	return run(s, "EXEC")
}

// progress returns the number of steps of a writer that are in the engine, and
// fails when they are not whole.
func progress(t *testing.T, e *Engine, writer int) int {
	t.Helper()
	s := e.Session()
	defer s.Close()
	_, parts := elements([]byte(run(s, fmt.Sprintf("MGET a%d b%d", writer, writer))))
	if string(parts[0]) != string(parts[1]) {
		t.Fatalf("half of a transaction is there: a%d is %q, b%d is %q", writer, parts[0], writer, parts[1])
	}
	n := 0
	if text := strings.Fields(string(parts[0])); len(text) == 2 {
		v, _ := resp.ParseInt([]byte(text[1]))
		n = int(v)
	}
	list := resp.AppendArray(nil, n)
	for i := range n {
		list = resp.AppendBulk(list, []byte(fmt.Sprint(i+1)))
	}
	want(t, s, fmt.Sprintf("LRANGE list%d 0 -1", writer), string(list))
	return n
}

// TestPowerCuts cuts the power at random operations of the disk while clients write and read,
// several times in the life of one directory, and opens it again. Under always everything is there
// that a client was told, under everysec every write answered more than two seconds before. A
// transaction is there whole or not at all, and no change is missing before one that is there.
//
// Promise: Confirmed changes survive a power cut, as far as the fsync policy says.
func TestPowerCuts(t *testing.T) {
	for _, policy := range policies {
		t.Run(policy.String(), func(t *testing.T) {
			t.Parallel()
			r, steps := randtest.Rand(t), randtest.Watch(t)
			cuts, lost := 0, 0
			for cuts < thorough(1000, 21) {
				at := cuts
				steps.Begin(func() string { return fmt.Sprint("three lives after ", at, " cuts") })
				synctest.Test(t, func(t *testing.T) {
					disk := faultdisk.New()
					for range 3 {
						disk.CutAfter(r.IntN(1200))
						lost += live(t, disk, policy, r.Uint64())
						disk = disk.Restart(r)
						cuts++
					}
				})
			}
			t.Logf("%d cuts, %d answered transactions lost", cuts, lost)
			if policy == aof.Never && lost == 0 {
				t.Error("nothing is ever lost without fsync: the cuts do not cut")
			}
		})
	}
}

// live runs an engine until the power is cut, and checks what is there after.
// It returns how many answered transactions are not.
func live(t *testing.T, disk *faultdisk.Disk, policy aof.Policy, seed uint64) (lost int) {
	opts := Options{fs: disk, reserve: 2048, Fsync: policy, CompactBytes: 30_000}
	e, err := Open(t.Context(), opts)
	if err != nil {
		return 0 // the power was cut meanwhile
	}
	var wg sync.WaitGroup
	var answered [writerCount][]time.Time // of each step
	var seen, before [writerCount]int
	for w := range writerCount {
		before[w] = progress(t, e, w)
		r := rand.New(rand.NewPCG(seed, uint64(w)))
		wg.Go(func() {
			s := e.Session()
			end := time.Now().Add(6 * time.Second)
			for n := before[w] + 1; time.Now().Before(end) && step(s, w, n)[0] == '*'; n++ {
				answered[w] = append(answered[w], time.Now())
				// Time is that of the bubble.
				await.Advance(time.Duration(r.IntN(40)) * time.Millisecond)
			}
		})
		wg.Go(func() {
			s := e.Session()
			for disk.WasCut().IsZero() {
				reply := run(s, fmt.Sprintf("LLEN list%d", w))
				if reply[0] != ':' || e.closed.Load() {
					return
				}
				v, _ := resp.ParseInt([]byte(reply[1 : len(reply)-2]))
				seen[w] = int(v)
				await.Advance(13 * time.Millisecond)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(7 * time.Second):
		disk.CutAfter(0)
	}
	e.Close() //nolint:errcheck // the power is cut
	<-done
	cut := disk.WasCut()
	if cut.IsZero() {
		cut = time.Now()
	}
	again := disk.Restart(rand.New(rand.NewPCG(seed, 5)))
	opts.fs = again
	e, err = Open(t.Context(), opts)
	if err != nil {
		t.Fatalf("after the cut: %v", err)
	}
	for w := range writerCount {
		got, must := progress(t, e, w), 0
		for i, at := range answered[w] {
			if policy == aof.Always || policy == aof.EverySecond && at.Before(cut.Add(-2*time.Second)) {
				must = before[w] + i + 1
			}
		}
		if policy == aof.Always {
			must = max(must, seen[w])
		}
		if got < must {
			t.Fatalf("writer %d: %d steps are there, %d must be", w, got, must)
		}
		// One more may be there than was answered.
		if most := before[w] + len(answered[w]); got > most+1 {
			t.Fatalf("writer %d: %d steps are there, %d were answered", w, got, most)
		} else if got < most {
			lost += most - got
		}
	}
	e.Close() //nolint:errcheck // nothing is written any more
	return lost
}
