package aof_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/test/faultdisk"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// TestFaultsDuringRepair ends a repair at each of its steps, by a kill and by a power cut, with
// each choice of the renames that survive it, and opens the directory before it is repaired again.
// Every file is there, under its name or as .damaged, and the second repair keeps as much as the
// first.
//
// Promise: A repair that is interrupted loses nothing: repeat it.
func TestFaultsDuringRepair(t *testing.T) {
	all := victims(t)
	v := all["everysec idle compacted"]
	const base, log = "0000000001.base", "0000000002.log"
	for _, c := range []struct {
		how    string
		damage func(copied)
	}{
		{"base deleted", func(c copied) { delete(c, base) }},
		{"base damaged", func(c copied) { c[base] = flipped(c[base], len(c[base])/2) }},
		{"log deleted", func(c copied) { delete(c, log) }},
		{"log damaged", func(c copied) { c[log] = flipped(c[log], 60) }},
		{"log of another", func(c copied) { c[log] = all["always closed compacted"].copied[log] }},
		{"a log that nothing names", func(c copied) { c["0000000009.log"] = c[log] }},
		{"manifest deleted", func(c copied) { delete(c, "manifest") }},
		{"manifest damaged", func(c copied) { c["manifest"] = c["manifest"][:9] }},
		{"manifest of before", func(c copied) { c["manifest"] = v.older[0]["manifest"] }},
		{"base damaged, of version 1", func(c copied) {
			c[base] = flipped(c[base], len(c[base])/2)
			old := asVersion1(c)
			clear(c)
			maps.Copy(c, old)
		}},
		{"manifest of before the last log", func(c copied) {
			disk := v.older[6].disk() // the last before the compaction
			l, _, _ := open(t, disk, aof.Options{})
			l.Close() //nolint:errcheck // it seals the log, and the rows below read that
			delete(c, base)
			maps.Copy(c, copyOf(disk))
		}},
	} {
		t.Run(strings.ReplaceAll(c.how, " ", "-"), func(t *testing.T) {
			r, steps := randtest.Rand(t), randtest.Watch(t)
			damaged := maps.Clone(v.copied)
			c.damage(damaged)
			whole := damaged.disk()
			report, err := aof.Repair(whole)
			if err != nil || report.Damage == nil {
				t.Fatalf("without a fault: %+v, %v", report, err)
			}
			want := upTo(int(report.Records))
			for cut, ended := 0, false; !ended; cut++ {
				steps.Begin(func() string { return "a repair that is cut off" })
				disk := damaged.disk()
				disk.CutAfter(cut)
				_, err := aof.Repair(disk)
				ended = err == nil
				after := append(disk.Restarts(), disk.Copy()) // the copy is what a kill leaves
				for range 2 {
					after = append(after, disk.Restart(r)) // these have parts of what was not synced
				}
				for _, disk := range after {
					goesOn(t, disk, damaged, want, cut)
				}
			}
		})
	}
}

func flipped(b []byte, at int) []byte {
	b = slices.Clone(b)
	b[at] ^= 1
	return b
}

// goesOn opens and repairs a directory after a repair that was ended.
func goesOn(t *testing.T, disk *faultdisk.Disk, damaged copied, want []int, cut int) {
	t.Helper()
	kept := func(when string) {
		for name, b := range damaged {
			if name != "reserve" && !bytes.Equal(disk.Bytes(name), b) && !bytes.Equal(disk.Bytes(name+".damaged"), b) {
				t.Fatalf("cut at %d: %s: %s is gone", cut, when, name)
			}
		}
	}
	kept("after the fault")
	before := copyOf(disk)
	l, numbers, _, err := tryOpen(disk, aof.Options{})
	switch {
	case err == nil:
		l.Close() //nolint:errcheck // nothing was written
	case !errors.Is(err, aof.ErrCorrupt) || !copyOf(disk).equal(before):
		t.Fatalf("cut at %d: opening failed with %v, or changed files", cut, err)
	}
	// Only a directory that has all that the repair keeps may open.
	if err == nil && !slices.Equal(numbers, want) {
		t.Fatalf("cut at %d: it opened with %v, want %d records", cut, numbers, len(want))
	}
	kept("after opening")
	if err == nil {
		return
	}
	if _, err := aof.Repair(disk); err != nil {
		t.Fatalf("cut at %d: the second repair: %v", cut, err)
	}
	kept("after the second repair")
	if _, numbers, _ := open(t, disk, aof.Options{}); !slices.Equal(numbers, want) {
		t.Fatalf("cut at %d: found %v, want %d records", cut, numbers, len(want))
	}
	kept("after opening at last")
}

// TestRepairReplacesNoKeptFile repairs a directory again and again. In between it puts back a
// copy, so that earlier repairs have kept files of the same names.
func TestRepairReplacesNoKeptFile(t *testing.T) {
	const log = "0000000001.log"
	whole := victims(t)["always closed"].copied
	disk := faultdisk.New()
	want := copied{}
	for i, ending := range []string{".damaged", ".2.damaged", ".3.damaged"} {
		whole[log] = flipped(whole[log], 60+i)
		for name, b := range whole {
			disk.SetBytes(name, b)
		}
		want[log+ending], want["manifest"+ending] = whole[log], whole["manifest"]
		if report, err := aof.Repair(disk); err != nil || report.Damage == nil {
			t.Fatalf("%+v, %v", report, err)
		}
		for name, b := range want {
			if !bytes.Equal(disk.Bytes(name), b) {
				t.Errorf("%s is not what was put aside", name)
			}
		}
		for _, name := range []string{"0000000002.base", "0000000003.log"} {
			if err := disk.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// asVersion1 gives files the headers of version 1, which had no manifest.
func asVersion1(c copied) copied {
	old := copied{}
	for name, b := range c {
		if name == "manifest" {
			continue
		}
		if len(b) >= 32 && (strings.HasSuffix(name, ".log") || strings.HasSuffix(name, ".base")) {
			b = aof.WithHeader(b, binary.LittleEndian.Uint64(b[16:]), 1)
		}
		old[name] = b
	}
	return old
}

// TestTornTailBeforeEmptyLogs opens directories of version 1 whose last log, or last two, are
// empty. The tail that a crash has torn is in the log before them.
func TestTornTailBeforeEmptyLogs(t *testing.T) {
	disk := faultdisk.New()
	l, _, _ := open(t, disk, aof.Options{Fsync: aof.Always})
	appendAll(t, l, 0, 5)
	old := asVersion1(copyOf(disk)) // as a kill leaves it
	l.Close()                       //nolint:errcheck // the copy is made
	const first, second, third, fourth = "0000000001.log", "0000000002.log", "0000000003.log", "0000000004.log"
	whole := old[first]
	header := func(number uint64) []byte { return aof.WithHeader(whole[:32], number, 1) }
	for _, c := range []struct {
		how    string
		change func(copied)
		want   int // -1: refused
	}{
		{"alone", func(c copied) {}, 5},
		{"torn", func(c copied) { c[first] = whole[:len(whole)-3] }, 4},
		{"torn, and an empty file", func(c copied) { c[first], c[second] = whole[:len(whole)-3], nil }, 4},
		{"torn, and half a header", func(c copied) { c[first], c[second] = whole[:len(whole)-3], header(2)[:20] }, 4},
		{"torn, and a header", func(c copied) { c[first], c[second] = whole[:len(whole)-3], header(2) }, 4},
		{"torn, and two headers", func(c copied) { c[first], c[second], c[third] = whole[:len(whole)-3], header(2), header(3) }, 4},
		{"damaged, and a header", func(c copied) { c[first], c[second] = flipped(whole, 70), header(2) }, -1},
		{"a log is missing behind empty ones", func(c copied) { c[first], c[second], c[fourth] = header(1), header(2), aof.WithHeader(whole, 4, 1) }, -1},
	} {
		changed := maps.Clone(old)
		c.change(changed)
		d := changed.disk()
		l, numbers, _, err := tryOpen(d, aof.Options{Fsync: aof.Always})
		if c.want < 0 {
			if !errors.Is(err, aof.ErrCorrupt) || !copyOf(d).equal(changed) {
				t.Errorf("%s: %v, want a CorruptError and no change", c.how, err)
			}
			continue
		}
		if err != nil || !slices.Equal(numbers, upTo(c.want)) {
			t.Errorf("%s: found %v, %v, want %d records", c.how, numbers, err, c.want)
			continue
		}
		appendAll(t, l, c.want, c.want+3)
		if err := l.Close(); err != nil {
			t.Errorf("%s: %v", c.how, err)
		}
		if _, numbers, _ := open(t, d, aof.Options{}); !slices.Equal(numbers, upTo(c.want+3)) {
			t.Errorf("%s: the second time: found %v", c.how, numbers)
		}
	}
}

// A handlesFS counts the files that are open, and can't sync the directory after some syncs.
type handlesFS struct {
	*faultdisk.Disk
	open, left atomic.Int64
}

type countedFile struct {
	aof.File
	fs     *handlesFS
	closed atomic.Bool
}

func (c *handlesFS) Create(name string) (aof.File, error) { return c.counted(c.Disk.Create(name)) }
func (c *handlesFS) Open(name string) (aof.File, error)   { return c.counted(c.Disk.Open(name)) }

func (c *handlesFS) counted(f aof.File, err error) (aof.File, error) {
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	return &countedFile{File: f, fs: c}, nil
}

func (c *handlesFS) Sync() error {
	if c.left.Add(-1) < 0 {
		return syscall.EIO
	}
	return c.Disk.Sync()
}

func (f *countedFile) Close() error {
	if !f.closed.Swap(true) {
		f.fs.open.Add(-1)
	}
	return f.File.Close()
}

// TestFilesAreClosedAfterErrors fails to sync the directory at each step of opening,
// compacting and repairing, and wants no file to stay open.
func TestFilesAreClosedAfterErrors(t *testing.T) {
	whole := victims(t)["always closed"].copied
	damaged := maps.Clone(whole)
	delete(damaged, "manifest")
	for what, do := range map[string]func(*handlesFS, int64) error{
		"opened": func(fs *handlesFS, n int64) error {
			fs.Disk = faultdisk.New()
			fs.left.Store(n)
			l, _, _, err := tryOpen(fs, aof.Options{})
			if err == nil {
				err = l.Close()
			}
			return err
		},
		"compacted": func(fs *handlesFS, n int64) error {
			fs.Disk = whole.disk()
			fs.left.Store(1 << 30)
			l, _, _ := open(t, fs, aof.Options{Fold: keepLast(1 << 30)})
			fs.left.Store(n)
			err := l.Compact(t.Context())
			l.Close() //nolint:errcheck // it may know why it can't be ended
			return err
		},
		"repaired": func(fs *handlesFS, n int64) error {
			fs.Disk = damaged.disk()
			fs.left.Store(n)
			_, err := aof.Repair(fs)
			return err
		},
	} {
		failed := int64(0)
		for {
			var fs handlesFS
			err := do(&fs, failed)
			if n := fs.open.Load(); n != 0 {
				t.Errorf("%s with %d syncs of the directory (%v): %d files are left open", what, failed, err, n)
			}
			if err == nil {
				break
			}
			if failed++; failed > 20 {
				t.Fatal(err)
			}
		}
		if failed < 2 {
			t.Errorf("%s: %d syncs of the directory", what, failed)
		}
	}
}
