package engine

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/faultdisk"
)

// TestFailingDisk lets writes fail in other ways than for lack of room. The engine refuses them at
// once, keeps every answered write, and saves all of them when the disk works again, also when the
// process is killed then.
//
// Promise: A full or failing disk loses no confirmed change.
func TestFailingDisk(t *testing.T) {
	for _, policy := range policies {
		for _, failure := range []error{syscall.EIO, syscall.EDQUOT, syscall.EROFS} {
			t.Run(fmt.Sprint(policy, " ", failure), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					disk := faultdisk.New()
					e := onDisk(t, disk, Options{Fsync: policy})
					s := e.Session()
					n := 0
					incr := func() bool {
						reply := run(s, "INCR n")
						if reply[0] == ':' {
							n++
						} else if !strings.HasPrefix(reply, "-MISCONF ") || !strings.Contains(reply, failure.Error()) {
							t.Fatalf("INCR answered %q", reply)
						}
						return reply[0] == ':'
					}
					for range 50 {
						incr()
						await.Advance(time.Millisecond)
					}
					disk.Fail(failure, nil)
					failed := time.Now()
					for incr() {
						if await.Advance(time.Millisecond); time.Since(failed) > 2*time.Second {
							t.Fatalf("%d writes are answered, and none is saved", n)
						}
					}
					await.Advance(time.Minute)
					disk.Fail(nil, nil)
					await.Advance(20 * time.Second) // the log tries again
					if e.SaveErr() != nil || !incr() {
						t.Errorf("the disk works again: %v", e.SaveErr())
					}
					await.Advance(10 * time.Millisecond)
					killed := disk.Copy()
					if err := e.Close(); err != nil {
						t.Error(err)
					}
					again := onDisk(t, killed, Options{}).Session()
					reply := run(again, "GET n")
					var got int
					fmt.Sscanf(reply, "$%d\r\n%d", new(int), &got) //nolint:errcheck // it is compared
					// Under always one more may be there, which was answered with an error.
					if got != n && (policy != aof.Always || got != n+1) {
						t.Errorf("%d were answered, %d are there", n, got)
					}
				})
			})
		}
	}
}

// TestFailingSync lets an fsync fail under everysec. The engine refuses writes before a power cut
// can lose more than two seconds of them.
//
// Promise: A full or failing disk loses no confirmed change.
func TestFailingSync(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			disk := faultdisk.New()
			e := onDisk(t, disk, Options{})
			s := e.Session()
			var answered []time.Time
			began := time.Now()
			for len(answered) < 10_000 && run(s, "INCR n")[0] == ':' {
				answered = append(answered, time.Now())
				if await.Advance(7 * time.Millisecond); time.Since(began) > time.Duration(seed)*300*time.Millisecond {
					disk.Fail(nil, syscall.EIO)
				}
			}
			refused := time.Now()
			if e.SaveErr() == nil {
				t.Fatalf("%d writes are answered", len(answered))
			}
			after := disk.Restart(rand.New(rand.NewPCG(seed, 9)))
			e.Close() //nolint:errcheck // it can't be saved
			reply := run(onDisk(t, after, Options{}).Session(), "GET n")
			var got int
			fmt.Sscanf(reply, "$%d\r\n%d", new(int), &got) //nolint:errcheck // it is compared
			if got < len(answered) && refused.Sub(answered[got]) > 2*time.Second {
				t.Errorf("seed %d: what was answered %v before writes were refused is lost", seed, refused.Sub(answered[got]))
			}
		})
	}
}
