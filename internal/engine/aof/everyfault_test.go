package aof_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/faultdisk"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// everyFault lists how an operation can fail.
var everyFault = map[string]faultdisk.Fault{
	"EIO once":                    {Err: syscall.EIO},
	"EIO from then on":            {Err: syscall.EIO, Stays: true},
	"EIO once, after half of it":  {Err: syscall.EIO, Short: true},
	"full once, after half of it": {Err: syscall.ENOSPC, Short: true},
	"full from then on":           {Err: syscall.ENOSPC, Short: true, Stays: true},
	"EIO of a read":               {Err: syscall.EIO, Reads: true},
	"EIO of all reads":            {Err: syscall.EIO, Reads: true, Stays: true},
}

// A lived is what callers of a log were told.
type lived struct {
	confirmed int // of the records, all up to this one
	appended  int
	mu        sync.Mutex // of errs, which the log's goroutine adds to
	errs      []error
	killed    *faultdisk.Disk // what a kill before the last Close leaves, nil if it was never opened
}

func (v *lived) told(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err != nil {
		v.errs = append(v.errs, err)
	}
}

// live opens a log twice. Each time it appends, compacts, and appends.
func live(t *testing.T, disk *faultdisk.Disk) *lived {
	v := &lived{}
	opts := aof.Options{Fsync: aof.Always, Fold: keepLast(1 << 30), ReserveBytes: 512, Notice: func(err error) { v.told(err) }}
	for range 2 {
		l, numbers, _, err := tryOpen(disk, opts)
		if err != nil {
			v.told(err)
			return v
		}
		if len(numbers) < v.confirmed || !slices.Equal(numbers, upTo(len(numbers))) {
			t.Errorf("the second life begins with %v, %d were confirmed", numbers, v.confirmed)
		}
		v.appended = len(numbers)
		for part := range 3 {
			for range 3 {
				if l.Err() != nil {
					await.Advance(time.Second)
					continue // as the engine does
				}
				end := l.Append(0, number(v.appended))
				v.appended++
				if err := l.Wait(end); err == nil {
					v.confirmed = v.appended
				} else {
					v.told(err)
				}
			}
			if part == 0 {
				v.told(l.Compact(t.Context()))
			}
			await.Advance(2500 * time.Millisecond) // the manifest is synced, and the log tries again
		}
		v.killed = disk.Copy()
		v.told(l.Close())
	}
	return v
}

// TestEveryOperationFails counts the operations of a log that is opened, written, compacted, closed
// and opened again, and lets each of them fail in each way. Every confirmed record is there when the
// directory is opened again, after a kill and after a power cut. No record is half there, none is
// missing before another, and the failure was told.
//
// Promise: Whichever write, sync or rename fails, no confirmed record is lost, and the failure is told.
func TestEveryOperationFails(t *testing.T) {
	steps := randtest.Watch(t)
	for how, fault := range everyFault {
		t.Run(strings.ReplaceAll(how, " ", "-"), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 1))
			seen := map[string]bool{}
			for n := 0; ; n++ {
				steps.Begin(func() string { return fmt.Sprint(how, " at ", n) })
				disk := faultdisk.New()
				fault.After = n
				disk.FailAt(fault)
				var v *lived
				synctest.Test(t, func(t *testing.T) { v = live(t, disk) })
				failed := disk.Failed()
				if failed == "" {
					if n < 40 || v.confirmed != 18 || len(v.errs) > 0 {
						t.Errorf("without a fault: %d operations, %d confirmed, %v", n, v.confirmed, v.errs)
					}
					break
				}
				seen[failed] = true
				if len(v.errs) == 0 {
					t.Errorf("%d, %s: nobody was told", n, failed)
				}
				for _, err := range v.errs {
					if errors.Is(err, aof.ErrCorrupt) {
						t.Errorf("%d, %s: it is taken for damage: %v", n, failed, err)
					}
				}
				disk.FailAt(faultdisk.Fault{})
				after := append(disk.Restarts(), disk.Copy())
				if v.killed != nil {
					after = append(after, v.killed)
				}
				for range 3 {
					after = append(after, disk.Restart(r))
				}
				for _, again := range after {
					l, numbers, _, err := tryOpen(again, aof.Options{ReserveBytes: 512})
					if err != nil {
						t.Fatalf("%d, %s: it can't be opened: %v", n, failed, err)
					}
					if len(numbers) < v.confirmed || len(numbers) > v.appended || !slices.Equal(numbers, upTo(len(numbers))) {
						t.Fatalf("%d, %s: found %v, %d of %d were confirmed, callers were told %v", n, failed, numbers, v.confirmed, v.appended, v.errs)
					}
					l.Close() //nolint:errcheck // nothing was written
				}
			}
			t.Logf("%d kinds of operations", len(seen))
		})
	}
}
