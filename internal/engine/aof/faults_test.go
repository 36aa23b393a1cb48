package aof_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/faultdisk"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// TestDiskFull fills the disk. Admitted records are saved, no more are admitted, and the log goes
// on when there is room.
//
// Promise: A full or failing disk loses no confirmed record.
func TestDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultdisk.New()
		var notices []error
		l, _, _ := open(t, disk, aof.Options{Fsync: aof.Always, Notice: func(err error) { notices = append(notices, err) }})
		disk.SetRoom(5000)
		n := 0
		for ; l.Err() == nil; n++ {
			if n > 100 {
				t.Fatal("the disk is full and no error tells")
			}
			appendAll(t, l, n, n+1)
		}
		if !errors.Is(l.Err(), syscall.ENOSPC) || !strings.Contains(l.Err().Error(), "no space left") {
			t.Errorf("the error is %v", l.Err())
		}
		disk.SetRoom(1 << 30)
		await.Advance(2 * time.Second) // it tries again
		if err := l.Err(); err != nil {
			t.Fatalf("there is room again: %v", err)
		}
		appendAll(t, l, n, n+10)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l, numbers, _ := open(t, disk, aof.Options{})
		if !slices.Equal(numbers, upTo(n+10)) {
			t.Errorf("found %d records, want %d", len(numbers), n+10)
		}
		if len(notices) != 2 || !errors.Is(notices[0], syscall.ENOSPC) || notices[1] != nil {
			t.Errorf("the notices are %q, want one of the full disk and one of its end", notices)
		}
		l.Close() //nolint:errcheck // nothing was written
	})
}

// TestWriteError fails all writes. Waiting callers are told, and their records are written later.
//
// Promise: A full or failing disk loses no confirmed record.
func TestWriteError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultdisk.New()
		l, _, _ := open(t, disk, aof.Options{Fsync: aof.Always})
		appendAll(t, l, 0, 3)
		disk.Fail(syscall.EIO, nil)
		if err := l.Wait(l.Append(0, number(3))); !errors.Is(err, syscall.EIO) {
			t.Errorf("Wait returned %v, want EIO", err)
		}
		told := make(chan error, 1)
		end := l.Append(0, number(4))
		l.After(end, func(err error) { told <- err })
		if err := <-told; !errors.Is(err, syscall.EIO) {
			t.Errorf("After told %v, want EIO", err)
		}
		disk.Fail(nil, nil)
		await.Advance(2 * time.Second) // it tries again
		if err := l.Wait(end); err != nil || l.Err() != nil {
			t.Errorf("when the disk works again: %v, %v", err, l.Err())
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l, numbers, _ := open(t, disk, aof.Options{})
		if !slices.Equal(numbers, upTo(5)) {
			t.Errorf("found %v, want 0 to 4", numbers)
		}
		l.Close() //nolint:errcheck // nothing was written
	})
}

// TestFileSizeLimit limits the size of files. The log goes on in other files, refuses nothing and
// loses nothing.
//
// Promise: A limit on the size of a file loses no record; the log goes on in another file.
func TestFileSizeLimit(t *testing.T) {
	for _, policy := range []aof.Policy{aof.EverySecond, aof.Always, aof.Never} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := faultdisk.New()
				disk.LimitFiles(3000)
				opts := aof.Options{Fsync: policy, Fold: keepLast(5)}
				first, n := 0, 0
				for _, end := range []string{"killed", "closed", "compacted"} {
					l, numbers, _ := open(t, disk, opts)
					if !slices.Equal(numbers, upTo(n)) {
						t.Fatalf("before it is %s: found %v, want all of %d", end, numbers, n)
					}
					for until := n + 40; n < until; n++ {
						appendAll(t, l, n, n+1)
						if n%30 == 0 { // what has gathered meanwhile is more than a file may have
							await.Advance(10 * time.Millisecond)
						}
						if l.Err() != nil {
							t.Fatalf("record %d: %v", n, l.Err())
						}
					}
					await.Advance(10 * time.Millisecond)
					killed := copyOf(disk)
					if end == "compacted" {
						first = n - 5
						if err := l.Compact(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
					if err := l.Close(); err != nil {
						t.Fatal(err)
					}
					if end == "killed" {
						disk = killed.disk()
						disk.LimitFiles(3000)
					}
				}
				// A record that no file can hold waits, and is written when one can.
				l, numbers, _ := open(t, disk, aof.Options{Fsync: policy})
				if !slices.Equal(numbers, upTo(n)[first:]) {
					t.Errorf("found %v, want those from %d to %d", numbers, first, n)
				}
				end := l.Append(0, [][][]byte{{make([]byte, 4000)}})
				await.Advance(time.Second)
				if !errors.Is(l.Err(), syscall.EFBIG) {
					t.Errorf("a record that is too large: %v", l.Err())
				}
				disk.LimitFiles(-1)
				await.Advance(20 * time.Second)
				if err := errors.Join(l.Wait(end), l.Err(), l.Close()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestSyncError holds that after a failed fsync the log does not believe the
// next one that succeeds.
func TestSyncError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultdisk.New()
		l, _, _ := open(t, disk, aof.Options{Fsync: aof.Always})
		appendAll(t, l, 0, 3)
		disk.Fail(nil, syscall.EIO)
		end := l.Append(0, number(3))
		if err := l.Wait(end); !errors.Is(err, syscall.EIO) {
			t.Errorf("Wait returned %v, want EIO", err)
		}
		disk.Fail(nil, nil)
		await.Advance(time.Minute)
		if err := l.Wait(end); !errors.Is(err, syscall.EIO) {
			t.Errorf("later Wait returned %v, want EIO", err)
		}
		if err := l.Close(); err == nil {
			t.Error("Close reported nothing")
		}
	})
}

// TestPowerCut cuts the power at random operations while records are appended and compacted. The
// log begins with the confirmed records, without a gap.
//
// Promise: With Always every confirmed record survives a power cut.
//
// Promise: Records are lost from the end only.
func TestPowerCut(t *testing.T) {
	const rounds = 300
	for _, policy := range []aof.Policy{aof.EverySecond, aof.Always, aof.Never} {
		t.Run(policy.String(), func(t *testing.T) {
			r, steps := rand.New(rand.NewPCG(1, uint64(policy))), randtest.Watch(t)
			opts := aof.Options{Fsync: policy, Fold: keepLast(1 << 30), CompactBytes: 3000}
			for round := range rounds {
				steps.Begin(func() string { return fmt.Sprint("round ", round) })
				disk, written := faultdisk.New(), 0
				for range 3 { // cuts, one after the other, also while opening
					disk.CutAfter(r.IntN(60))
					l, numbers, _, err := tryOpen(disk, opts)
					if err == nil {
						confirmed := len(numbers)
						for range 30 {
							if l.Wait(l.Append(0, number(confirmed))) != nil {
								break
							}
							confirmed++
						}
						l.Close() //nolint:errcheck // the power is cut
						if policy == aof.Always {
							written = max(written, confirmed)
						}
					}
					disk = disk.Restart(r)
				}
				l, numbers, _, err := tryOpen(disk, opts)
				if err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
				if len(numbers) < written || !slices.Equal(numbers, upTo(len(numbers))) {
					t.Fatalf("round %d: found %v, %d were confirmed", round, numbers, written)
				}
				l.Close() //nolint:errcheck // nothing was written
			}
		})
	}
}

// TestReplayedIsSafe kills a process whose records are not synced, and wants
// what the next one has read back to survive a power cut, as somebody may have
// seen it.
func TestReplayedIsSafe(t *testing.T) {
	disk := faultdisk.New()
	l, _, _ := open(t, disk, aof.Options{Fsync: aof.Never})
	for i := range 2000 { // enough for the writer not to wait
		l.Append(0, number(i))
	}
	await.Until(t, 20*time.Second, "much is written", func() bool { return len(disk.Bytes("0000000001.log")) >= 1000 })
	disk.Kill()
	_, numbers, _ := open(t, disk, aof.Options{Fsync: aof.Always})
	for seed := range uint64(20) {
		_, again, _ := open(t, disk.Restart(rand.New(rand.NewPCG(1, seed))), aof.Options{})
		if len(again) < len(numbers) {
			t.Fatalf("%d of %d records that were read back are lost", len(numbers)-len(again), len(numbers))
		}
	}
}

// TestOpenedAfterAKillIsSafe kills a process at each step of a compaction. The next process sees
// renames that were not synced. The records that it confirms must survive a power cut all the same.
//
// Promise: With Always every confirmed record survives a power cut.
func TestOpenedAfterAKillIsSafe(t *testing.T) {
	opts := aof.Options{Fsync: aof.Always, Fold: keepLast(1 << 30)}
	for cut, ended := 0, false; !ended; cut++ {
		disk := faultdisk.New()
		l, _, _ := open(t, disk, opts)
		appendAll(t, l, 0, 5)
		disk.CutAfter(cut)
		ended = l.Compact(t.Context()) == nil
		disk.CutAfter(0)
		l.Close() //nolint:errcheck // it was killed
		disk.CutAfter(-1)
		l, _, _ = open(t, disk, opts)
		appendAll(t, l, 5, 8)
		for i, after := range disk.Restarts() {
			if _, numbers, _, err := tryOpen(after, opts); err != nil || !slices.Equal(numbers, upTo(8)) {
				t.Errorf("killed at %d, power cut %d: found %v, %v, want 0 to 7", cut, i, numbers, err)
			}
		}
		l.Close() //nolint:errcheck // the power is cut
	}
}

// A spoilingFS is one that changes a byte of each base.
type spoilingFS struct{ aof.FS }

type spoilingFile struct{ aof.File }

func (s spoilingFS) Create(name string) (aof.File, error) {
	f, err := s.FS.Create(name)
	if err != nil || !strings.Contains(name, ".base") {
		return f, err
	}
	return spoilingFile{f}, nil
}

func (f spoilingFile) WriteAt(b []byte, at int64) (int, error) {
	if at > 0 {
		b = slices.Clone(b)
		b[len(b)-1] ^= 1
	}
	return f.File.WriteAt(b, at)
}

// TestSpoiledBase wants a base that can't be read back to take nothing's place.
func TestSpoiledBase(t *testing.T) {
	disk := faultdisk.New()
	l, _, _ := open(t, spoilingFS{disk}, aof.Options{Fsync: aof.Always, Fold: keepLast(1 << 30)})
	appendAll(t, l, 0, 5)
	var corrupt *aof.CorruptError
	if err := l.Compact(t.Context()); !errors.As(err, &corrupt) || !strings.Contains(corrupt.File, ".base") {
		t.Errorf("Compact: %v, want a CorruptError of the base", err)
	}
	appendAll(t, l, 5, 9)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, numbers, _ := open(t, disk, aof.Options{})
	if !slices.Equal(numbers, upTo(9)) {
		t.Errorf("found %v, want 0 to 8", numbers)
	}
	l.Close() //nolint:errcheck // nothing was written
}

// TestFullDiskIsLeftAlone wants a disk that stays full not to be filled to the last
// byte again and again, and one that has room again to be used before long.
func TestFullDiskIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultdisk.New()
		fs := &refillingFS{FS: disk}
		l, _, _ := open(t, fs, aof.Options{Fsync: aof.Always})
		disk.SetRoom(5000)
		n := 0
		for ; l.Err() == nil; n++ {
			appendAll(t, l, n, n+1)
		}
		fs.made.Store(0)
		await.Advance(10 * time.Minute)
		if made := fs.made.Load(); made < 10 || made > 90 {
			t.Errorf("in ten minutes it was tried %d times to have a reserve", made)
		}
		disk.SetRoom(1 << 30)
		await.Advance(10 * time.Second)
		if err := l.Err(); err != nil {
			t.Errorf("there is room again: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// A refillingFS counts how often a reserve is made.
type refillingFS struct {
	aof.FS
	made atomic.Int64
}

func (c *refillingFS) Create(name string) (aof.File, error) {
	if name == "reserve" {
		c.made.Add(1)
	}
	return c.FS.Create(name)
}

// TestUnusedLog holds that a log which could not be made, when a compaction
// began, does no harm.
func TestUnusedLog(t *testing.T) {
	disk := faultdisk.New()
	opts := aof.Options{Fsync: aof.Always, Fold: keepLast(1 << 30)}
	l, _, _ := open(t, disk, opts)
	appendAll(t, l, 0, 5)
	disk.SetRoom(40) // enough for the end of the old log, not for a new one
	if err := l.Compact(t.Context()); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("compaction on a full disk: %v", err)
	}
	disk.SetRoom(-1)
	appendAll(t, l, 5, 9)
	disk.SetBytes("0000000002.log", nil) // as if Remove had not been synced
	disk = disk.Restart(rand.New(rand.NewPCG(1, 1)))
	l, numbers, _ := open(t, disk, opts)
	if !slices.Equal(numbers, upTo(9)) {
		t.Errorf("found %v, want 0 to 8", numbers)
	}
	if err := l.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, numbers, _ = open(t, disk, opts)
	if !slices.Equal(numbers, upTo(9)) {
		t.Errorf("after compaction found %v, want 0 to 8", numbers)
	}
}

// A gatedFS is one whose writes wait for a gate.
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
	return gatedFile{f, g.gate}, err
}

func (f gatedFile) WriteAt(b []byte, at int64) (int, error) {
	if at > 0 { // headers pass
		<-f.gate
	}
	return f.File.WriteAt(b, at)
}

// TestFramesAreBounded holds that what gathers while a write is stuck is written
// in frames that can be written, whole and in order.
func TestFramesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultdisk.New()
		fs := gatedFS{disk, make(chan struct{})}
		l, _, _ := open(t, fs, aof.Options{Fsync: aof.Always})
		l.LimitFrames(1000)
		large := [][][]byte{{[]byte("large"), make([]byte, 5000)}}
		l.Append(0, number(0))
		await.Advance(time.Second) // the first is stuck
		n := 1
		for ; n < 200; n++ {
			l.Append(0, number(n))
		}
		fs.gate <- struct{}{}
		await.Advance(time.Second) // the next is stuck, with others behind it
		l.Append(0, large)
		for end := n + 50; n < end; n++ {
			l.Append(0, number(n))
		}
		end := l.Append(0, number(n))
		told := make(chan error, 1)
		l.After(end, func(err error) { told <- err })
		close(fs.gate)
		if err := <-told; err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		log := disk.Bytes("0000000001.log")
		frames := bytes.Split(log, []byte("RDf1"))
		for i, f := range frames {
			if len(f) > 1100 && !bytes.Contains(f, []byte("large")) {
				t.Errorf("frame %d of %d has %d bytes", i, len(frames), len(f))
			}
		}
		var numbers []int
		l, _, err := aof.Open(disk, aof.Options{}, func(r aof.Record) error {
			if string(r.Commands[0][0]) != "large" {
				numbers = append(numbers, numberOf(r))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(numbers, upTo(n+1)) {
			t.Errorf("found %v", numbers)
		}
		l.Close() //nolint:errcheck // nothing was written
	})
}

// TestThrottle holds that no more gathers in memory, while a write is stuck,
// than the reserve can take.
func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := gatedFS{faultdisk.New(), make(chan struct{})}
		l, _, _ := open(t, fs, aof.Options{})
		const most = 3 << 20
		go func() {
			for l.End() < 2*most {
				l.Throttle()
				l.Append(0, number(5))
			}
		}()
		await.Advance(time.Second) // everything is stuck then
		if n := l.End(); n < 1<<20 || n > most {
			t.Errorf("%d bytes were appended while nothing was written", n)
		}
		close(fs.gate)
		await.Advance(time.Second)
		if n := l.End(); n < 2*most {
			t.Errorf("%d bytes were appended when writing went on", n)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
