package aof_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/test/faultdisk"
)

// number makes the n-th record of a test: its one argument is n, longer or
// shorter.
func number(n int) [][][]byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(n))
	return [][][]byte{{append(b, bytes.Repeat([]byte{'x'}, n*37%400)...)}}
}

// open returns a log and the numbers of the records that it held.
func open(t testing.TB, fs aof.FS, opts aof.Options) (*aof.Log, []int, aof.Found) {
	t.Helper()
	l, numbers, found, err := tryOpen(fs, opts)
	if err != nil {
		t.Fatal(err)
	}
	return l, numbers, found
}

func tryOpen(fs aof.FS, opts aof.Options) (*aof.Log, []int, aof.Found, error) {
	opts.ReserveBytes = 2048
	var numbers []int
	l, found, err := aof.Open(fs, opts, func(r aof.Record) error {
		numbers = append(numbers, numberOf(r))
		return nil
	})
	return l, numbers, found, err
}

func numberOf(r aof.Record) int {
	n := int(binary.LittleEndian.Uint64(r.Commands[0][0]))
	if !slices.EqualFunc(r.Commands, number(n), func(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }) {
		panic(fmt.Sprintf("record %d is not as it was", n))
	}
	return n
}

func upTo(n int) (numbers []int) {
	for i := range n {
		numbers = append(numbers, i)
	}
	return numbers
}

func appendAll(t testing.TB, l *aof.Log, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if err := l.Wait(l.Append(0, number(i))); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReopen(t *testing.T) {
	for _, policy := range []aof.Policy{aof.EverySecond, aof.Always, aof.Never} {
		t.Run(policy.String(), func(t *testing.T) {
			fs, err := aof.Dir(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for round := range 4 {
				l, numbers, found := open(t, fs, aof.Options{Fsync: policy})
				if !slices.Equal(numbers, upTo(round*50)) || found.Torn != nil {
					t.Fatalf("round %d: found %d records, %v", round, len(numbers), found.Torn)
				}
				appendAll(t, l, round*50, round*50+50)
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestLock(t *testing.T) {
	path := t.TempDir()
	fs, err := aof.Dir(path)
	if err != nil {
		t.Fatal(err)
	}
	l, _, _ := open(t, fs, aof.Options{})
	other, err := aof.Dir(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := tryOpen(other, aof.Options{}); !errors.Is(err, aof.ErrLocked) || !strings.Contains(err.Error(), path) {
		t.Fatalf("a directory in use: %v, want ErrLocked and the path", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again, _, _ := open(t, other, aof.Options{})
	again.Close() //nolint:errcheck // nothing was written
}

// image returns a log of n records, one a frame, which was not closed, where
// each frame ends, and a manifest as a power cut may leave it, which knows
// nothing of them.
func image(t *testing.T, n int) (b []byte, ends []int, manifest []byte) {
	disk := faultdisk.New()
	l, _, _ := open(t, disk, aof.Options{Fsync: aof.Always})
	manifest = disk.Bytes("manifest")
	for i := range n {
		appendAll(t, l, i, i+1)
		ends = append(ends, len(disk.Bytes("0000000001.log")))
	}
	return disk.Bytes("0000000001.log"), ends, manifest
}

// TestTornTail cuts a log off at every byte, and puts zeros or noise behind the cut. All whole
// records are there, and the rest is reported.
//
// Promise: Opening cuts off the torn end of a log and keeps every whole record.
//
// Promise: Records are lost from the end only.
//
// Promise: A record is there whole or not at all.
func TestTornTail(t *testing.T) {
	b, ends, manifest := image(t, 12)
	step := 1
	if testing.Short() {
		step = 5
	}
	for cut := 32; cut < len(b); cut += step { // the manifest is written when the header is on disk
		for name, tail := range map[string][]byte{"": nil, "zeros": make([]byte, 700), "noise": bytes.Repeat([]byte("RDf1noise"), 80)} {
			disk := faultdisk.New()
			torn := append(slices.Clone(b[:cut]), tail...)
			disk.SetBytes("manifest", manifest)
			disk.SetBytes("0000000001.log", torn)
			l, numbers, found := open(t, disk, aof.Options{Fsync: aof.Always})
			whole, end := 0, 32
			for whole < len(ends) && ends[whole] <= len(torn) && bytes.Equal(torn[:ends[whole]], b[:ends[whole]]) { // zeros may be right
				end = ends[whole]
				whole++
			}
			if !slices.Equal(numbers, upTo(whole)) {
				t.Fatalf("cut at %d %s: %d records, want %d", cut, name, len(numbers), whole)
			}
			if lost := len(torn) - end; lost > 0 {
				if found.Torn == nil || found.Torn.Offset != int64(end) || found.Torn.Bytes != int64(lost) || found.Torn.File != "0000000001.log" {
					t.Fatalf("cut at %d %s: reported %v, want %d bytes at %d", cut, name, found.Torn, lost, end)
				}
			} else if found.Torn != nil {
				t.Fatalf("cut at %d %s: reported %v, want nothing", cut, name, found.Torn)
			}
			appendAll(t, l, whole, whole+2)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			l, numbers, found = open(t, disk, aof.Options{})
			if !slices.Equal(numbers, upTo(whole+2)) || found.Torn != nil {
				t.Fatalf("cut at %d %s: after going on %d records, %v", cut, name, len(numbers), found.Torn)
			}
			l.Close() //nolint:errcheck // nothing was written
		}
	}
}

// TestCorruption changes every byte of a log whose frames were synced one by one. For all but the
// last frame, opening fails with an error that names the place.
//
// Promise: Damage of data that was on disk is an error, which names the place.
func TestCorruption(t *testing.T) {
	b, ends, manifest := image(t, 8)
	for at := range len(b) {
		disk := faultdisk.New()
		disk.SetBytes("manifest", manifest)
		bad := slices.Clone(b)
		bad[at] ^= 1 << (at % 8)
		disk.SetBytes("0000000001.log", bad)
		_, numbers, found, err := tryOpen(disk, aof.Options{})
		frame, start := 0, 0
		if at >= 32 {
			start = 32
			for ends[frame] <= at {
				start = ends[frame]
				frame++
			}
		}
		if at >= 32 && frame == len(ends)-1 { // nothing says that it was ever on disk
			if err != nil || len(numbers) != frame || found.Torn == nil {
				t.Fatalf("byte %d in the last frame: %d records, %v, %v", at, len(numbers), found.Torn, err)
			}
			continue
		}
		var corrupt *aof.CorruptError
		if !errors.As(err, &corrupt) || corrupt.File != "0000000001.log" || corrupt.Offset != int64(start) {
			t.Fatalf("byte %d: %v, want corruption at %d", at, err, start)
		}
		if !bytes.Equal(disk.Bytes("0000000001.log"), bad) {
			t.Fatalf("byte %d: the file was changed", at)
		}
	}
}

// TestClosedLogIsWhole holds that after Close even the last frame is known to
// have been on disk.
func TestClosedLogIsWhole(t *testing.T) {
	disk := faultdisk.New()
	l, _, _ := open(t, disk, aof.Options{Fsync: aof.Never})
	appendAll(t, l, 0, 3)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	b := disk.Bytes("0000000001.log")
	b[40] ^= 1
	disk.SetBytes("0000000001.log", b)
	var corrupt *aof.CorruptError
	if _, _, _, err := tryOpen(disk, aof.Options{}); !errors.As(err, &corrupt) {
		t.Fatalf("got %v, want corruption", err)
	}
}

func TestMissingFile(t *testing.T) {
	disk := faultdisk.New()
	b, _, _ := image(t, 3)
	disk.SetBytes("0000000002.log", b)
	var corrupt *aof.CorruptError
	if _, _, _, err := tryOpen(disk, aof.Options{}); !errors.As(err, &corrupt) || corrupt.File != "0000000001.log" {
		t.Fatalf("got %v, want that 0000000001.log is missing", err)
	}
}

// TestWaitersShareSyncs holds that many writers need fewer syncs than records.
//
// Promise: Concurrent callers share an fsync.
func TestWaitersShareSyncs(t *testing.T) {
	fs, err := aof.Dir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	counted := &countingFS{FS: fs}
	l, _, _ := open(t, counted, aof.Options{Fsync: aof.Always})
	counted.reset()
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 20 {
				if err := l.Wait(l.Append(0, number(1))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := counted.reset(); n == 0 || n > 64*20/4 {
		t.Errorf("%d syncs for %d records", n, 64*20)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

type countingFS struct {
	aof.FS
	mu sync.Mutex
	n  int
}

func (c *countingFS) reset() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.n
	c.n = 0
	return n
}

func (c *countingFS) Create(name string) (aof.File, error) {
	f, err := c.FS.Create(name)
	return &countingFile{f, c}, err
}

type countingFile struct {
	aof.File
	c *countingFS
}

func (f *countingFile) Sync() error {
	f.c.mu.Lock()
	f.c.n++
	f.c.mu.Unlock()
	return f.File.Sync()
}

// keepLast folds records into the last ones, as if those before were
// overwritten.
func keepLast(keep int) aof.Fold {
	return func(each func(func(aof.Record) error) error, emit func(int, [][][]byte) error) error {
		var numbers []int
		if err := each(func(r aof.Record) error { numbers = append(numbers, numberOf(r)); return nil }); err != nil {
			return err
		}
		for _, n := range numbers[max(0, len(numbers)-keep):] {
			if err := emit(0, number(n)); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestCompact(t *testing.T) {
	disk := faultdisk.New()
	opts := aof.Options{Fold: keepLast(10)}
	l, _, _ := open(t, disk, opts)
	next := 0
	for range 3 {
		appendAll(t, l, next, next+100)
		next += 100
		if err := l.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	appendAll(t, l, next, next+5)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	names, _ := disk.List()
	slices.Sort(names)
	if want := []string{"0000000003.base", "0000000004.log", "manifest", "reserve"}; !slices.Equal(names, want) {
		t.Errorf("files %q, want %q", names, want)
	}
	_, numbers, _ := open(t, disk, opts)
	if want := upTo(305)[290:]; !slices.Equal(numbers, want) {
		t.Errorf("found %v, want %v", numbers, want)
	}
}

// TestCompactsOnItsOwn waits for the log to be compacted while it is written.
func TestCompactsOnItsOwn(t *testing.T) {
	disk := faultdisk.New()
	opts := aof.Options{Fold: keepLast(10), CompactBytes: 20_000}
	l, _, _ := open(t, disk, opts)
	n := 0
	for deadline := time.Now().Add(20 * time.Second); ; n++ {
		l.Append(0, number(n))
		if base, _ := l.Size(); base > 0 && n > 1000 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it was not compacted")
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, numbers, _ := open(t, disk, opts)
	if want := upTo(n + 1)[n+1-len(numbers):]; !slices.Equal(numbers, want) || len(numbers) < 10 {
		t.Errorf("found %v, want the last of %d", numbers, n+1)
	}
}
