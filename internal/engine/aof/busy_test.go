package aof_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/test/faultdisk"
)

// A fedFS has another record appended while one is written: its writers are as
// fast as the disk.
type fedFS struct {
	aof.FS
	feed atomic.Pointer[func()]
}

type fedFile struct {
	aof.File
	fs *fedFS
}

func (fs *fedFS) Create(name string) (aof.File, error) {
	f, err := fs.FS.Create(name)
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	return fedFile{f, fs}, nil
}

func (f fedFile) WriteAt(b []byte, off int64) (int, error) {
	if feed := f.fs.feed.Load(); feed != nil {
		(*feed)()
	}
	return f.File.WriteAt(b, off)
}

// Writers that never pause keep the log neither from being compacted nor from
// being closed.
func TestWritersNeverPause(t *testing.T) {
	for _, policy := range []aof.Policy{aof.EverySecond, aof.Always, aof.Never} {
		t.Run(policy.String(), func(t *testing.T) {
			fs := &fedFS{FS: faultdisk.New()}
			l, _, _ := open(t, fs, aof.Options{Fold: keepLast(10), Fsync: policy})
			n := 0 // the writer alone appends from here on
			feed := func() {
				l.Append(0, number(n))
				n++
			}
			feed()
			fs.feed.Store(&feed)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- errors.Join(l.Compact(ctx), l.Close()) }()
			select {
			case err := <-done:
				if err != nil {
					t.Error(err)
				}
			case <-ctx.Done():
				fs.feed.Store(nil)
				t.Errorf("neither compacted nor closed in time: %v", <-done)
			}
		})
	}
}
