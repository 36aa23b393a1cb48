package aof_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/faultdisk"
)

// TestMovedDirectory moves a directory away under an open log, opens another in
// its place, and wants each to keep to its own.
func TestMovedDirectory(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // an open directory can't be moved there
	}
	path := filepath.Join(t.TempDir(), "data")
	moved := path + ".old"
	opts := aof.Options{Fsync: aof.Always, Fold: keepLast(1000)}
	openAt := func(path string) (*aof.Log, []int) {
		fs, err := aof.Dir(path)
		if err != nil {
			t.Fatal(err)
		}
		l, numbers, _ := open(t, fs, opts)
		return l, numbers
	}
	first, _ := openAt(path)
	appendAll(t, first, 0, 5)
	if err := os.Rename(path, moved); err != nil {
		t.Fatal(err)
	}
	second, _ := openAt(path)
	appendAll(t, second, 100, 105)
	for _, l := range []*aof.Log{second, first, second} {
		if err := l.Compact(t.Context()); err != nil {
			t.Error(err)
		}
	}
	appendAll(t, first, 5, 10)
	appendAll(t, second, 105, 110)
	for _, l := range []*aof.Log{first, second} {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	for path, want := range map[string][]int{moved: upTo(10), path: upTo(110)[100:]} {
		l, numbers := openAt(path)
		if !slices.Equal(numbers, want) {
			t.Errorf("%s holds %v, want %v", filepath.Base(path), numbers, want)
		}
		l.Close() //nolint:errcheck // nothing was written
	}
}

// TestRemovedDirectory removes the directory, or the file, under an open log, and
// wants writes to be refused and nobody to be told that they were saved.
func TestRemovedDirectory(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // what is open can't be removed there
	}
	for _, policy := range []aof.Policy{aof.EverySecond, aof.Always, aof.Never} {
		for name, remove := range map[string]func(path string) error{
			"directory": os.RemoveAll,
			"file":      func(path string) error { return os.Remove(filepath.Join(path, "0000000001.log")) },
			"replaced": func(path string) error {
				log := filepath.Join(path, "0000000001.log")
				return errors.Join(os.Rename(log, log+".old"), os.WriteFile(log, nil, 0o600))
			},
		} {
			t.Run(policy.String()+"/"+name, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "data")
				disk, err := aof.Dir(path)
				if err != nil {
					t.Fatal(err)
				}
				l, _, _ := open(t, disk, aof.Options{Fsync: policy})
				appendAll(t, l, 0, 5)
				if err := remove(path); err != nil {
					t.Fatal(err)
				}
				err = l.Wait(l.Append(0, number(5)))
				if policy == aof.Always && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("a write was confirmed: %v", err)
				}
				await.Until(t, 20*time.Second, "writes are refused", func() bool { return l.Err() != nil })
				if err := l.Close(); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("Close: %v", err)
				}
			})
		}
	}
}

// TestForeignFiles wants a compaction to say that files are not as it left them,
// and nothing worse.
func TestForeignFiles(t *testing.T) {
	disk := faultdisk.New()
	l, _, _ := open(t, disk, aof.Options{Fold: keepLast(10)})
	appendAll(t, l, 0, 5)
	if err := disk.Rename("0000000001.log", "0000000001.base"); err != nil {
		t.Fatal(err)
	}
	if err := l.Compact(t.Context()); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "0000000001.log") {
		t.Errorf("Compact returned %v", err)
	}
	l.Close() //nolint:errcheck // what it says is not of interest
}

// TestCloseEndsCompact closes a log under a compaction that somebody waits for:
// it must have ended before the directory is given up.
func TestCloseEndsCompact(t *testing.T) {
	began := make(chan struct{})
	fold := func(each func(func(aof.Record) error) error, _ func(int, [][][]byte) error) error {
		close(began)
		for {
			if err := each(func(aof.Record) error { return nil }); err != nil {
				return err
			}
		}
	}
	disk := faultdisk.New()
	l, _, _ := open(t, disk, aof.Options{Fold: fold})
	appendAll(t, l, 0, 5)
	ended := make(chan error, 1)
	go func() { ended <- l.Compact(t.Context()) }()
	<-began
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, aof.ErrClosed) {
			t.Errorf("Compact returned %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the log is closed, and Compact goes on")
	}
	if err := l.Compact(t.Context()); !errors.Is(err, aof.ErrClosed) {
		t.Errorf("Compact of a closed log returned %v", err)
	}
}
