package aof

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// A compactor replaces the logs by a base. It reads them from disk into a second store, so it needs
// no lock of the first store and stops no writer. It takes the memory of a second copy while it
// runs, or of a part if its Fold reads the records several times. Rejected: a snapshot of the store
// itself, which would have to lock a shard for as long as its largest value takes.
type compactor struct {
	ctx    context.Context //nolint:containedctx // ends with the log, not with a call
	cancel context.CancelFunc
	wait   sync.WaitGroup
	gate   sync.Mutex // held to begin one, and to see to it that no other begins
	mu     sync.Mutex // held by the one that runs
	auto   atomic.Bool
	base   atomic.Int64 // bytes
	logs   atomic.Int64 // bytes in the logs behind the base
	extra  atomic.Int64 // how much more they may have after a failure
	err    atomic.Pointer[error]
	done   atomic.Int64 // compactions since the log was opened
}

func (c *compactor) grown(n int64) { c.logs.Add(n) }

// consider starts a compaction when it is time for one.
func (c *compactor) consider(l *Log) {
	most := max(l.opts.CompactBytes, c.base.Load())
	if c.logs.Load() >= most+c.extra.Load() && l.Err() == nil {
		c.start(l, most/4)
	}
}

// start compacts in a goroutine of its own, unless one does already. After a
// failure the logs may grow by more before it is tried again.
func (c *compactor) start(l *Log, more int64) bool {
	c.gate.Lock()
	defer c.gate.Unlock()
	if l.opts.Fold == nil || c.ctx.Err() != nil || c.auto.Swap(true) {
		return false
	}
	c.wait.Go(func() {
		defer c.auto.Store(false)
		if err := l.Compact(c.ctx); err != nil {
			c.extra.Add(more)
			if !errors.Is(err, ErrClosed) {
				l.notice(fmt.Errorf("aof: the log was not compacted: %w", err))
			}
		} else {
			c.extra.Store(0)
		}
	})
	return true
}

// end stops a compaction that runs, and prevents later ones.
func (c *compactor) end() {
	c.gate.Lock()
	c.cancel()
	c.gate.Unlock()
	c.wait.Wait()
}

// StartCompaction begins a compaction and does not wait for it. It reports
// false when one is running that was begun so.
func (l *Log) StartCompaction() bool { return l.compactor.start(l, 0) }

// Size returns the bytes of the base and of the logs behind it.
func (l *Log) Size() (base, logs int64) { return l.compactor.base.Load(), l.compactor.logs.Load() }

// CompactErr returns why the last compaction failed, nil when it did not.
func (l *Log) CompactErr() error {
	if p := l.compactor.err.Load(); p != nil {
		return *p
	}
	return nil
}

// Compactions returns how many compactions have succeeded since the log was opened.
func (l *Log) Compactions() int64 { return l.compactor.done.Load() }

// Compacting reports whether a compaction of the background is running.
func (l *Log) Compacting() bool { return l.compactor.auto.Load() }

// Compact replaces base and logs by a new base. Appending goes on meanwhile.
// It is done on its own as the logs grow; only one runs at a time. When it
// fails, or ctx ends, everything is as it was. Close ends it with [ErrClosed].
func (l *Log) Compact(ctx context.Context) error {
	if l.opts.Fold == nil {
		return errors.New("aof: the log has no fold")
	}
	c := &l.compactor
	c.gate.Lock()
	if c.ctx.Err() != nil {
		c.gate.Unlock()
		return ErrClosed
	}
	c.wait.Add(1)
	c.gate.Unlock()
	defer c.wait.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	c.mu.Lock()
	defer c.mu.Unlock()
	err := l.compact(ctx)
	if err != nil && c.ctx.Err() != nil {
		err = ErrClosed
	}
	c.err.Store(&err)
	if err == nil {
		c.done.Add(1)
	}
	return err
}

func (l *Log) compact(ctx context.Context) error {
	c := &l.compactor
	var old []entry  // all but the log that is being written
	var logged int64 // bytes in the logs of these
	err := l.inWriter(ctx, func() error {
		err := l.w.next()
		old, logged = slices.Clone(l.w.index.files[:len(l.w.index.files)-1]), c.logs.Load()
		return err
	})
	if err != nil {
		return err
	}
	base := entry{base: true, number: old[len(old)-1].number, ends: true}
	tmp := base.name() + ".tmp"
	emitted, err := l.fold(ctx, old, tmp, &base)
	if err == nil {
		err = l.check(ctx, tmp, base, emitted)
	}
	if err == nil {
		err = l.fs.Rename(tmp, base.name())
	}
	if err == nil {
		err = l.fs.Sync()
	}
	if err == nil {
		err = l.inWriter(ctx, func() error { return l.w.adopt(base) })
	}
	if err != nil {
		if !errors.Is(err, errUnsynced) {
			l.fs.Remove(tmp)         //nolint:errcheck // both are removed when the log is opened,
			l.fs.Remove(base.name()) //nolint:errcheck // since nothing names them
		}
		return err
	}
	c.base.Store(base.length)
	c.logs.Add(-logged)
	for _, e := range old {
		if err := l.fs.Remove(e.name()); err != nil {
			return err
		}
	}
	return nil
}

// check reads a new base back, before it replaces the logs.
func (l *Log) check(ctx context.Context, tmp string, base entry, emitted int64) error {
	err := readWhole(l.fs, tmp, base, func(Record) error {
		emitted--
		return ctx.Err()
	})
	if err == nil && emitted != 0 {
		err = &CorruptError{File: tmp, Reason: fmt.Sprintf("%d records are missing", emitted)}
	}
	return err
}

// fold writes the base that replaces old files, and fills in its entry.
func (l *Log) fold(ctx context.Context, old []entry, tmp string, base *entry) (emitted int64, err error) {
	f, h, err := create(l.fs, tmp, base.number)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	w := newFrames(f, h)
	each := func(record func(Record) error) error {
		checked := func(r Record) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return record(r)
		}
		for _, e := range old {
			if err := readWhole(l.fs, e.name(), e, checked); err != nil {
				return err
			}
		}
		return nil
	}
	emit := func(db int, commands [][][]byte) error {
		emitted++
		if err := ctx.Err(); err != nil {
			return err
		}
		return w.add(db, commands)
	}
	if err := l.opts.Fold(each, emit); err != nil {
		return 0, err
	}
	err = w.seal()
	base.id, base.length = h.id, w.size
	return emitted, err
}

// frames writes the frames of a file that no client waits for.
type frames struct {
	f    File
	seed uint32
	size int64
	buf  []byte
}

func newFrames(f File, h fileHeader) *frames {
	return &frames{f: f, seed: h.seed(), size: headerSize, buf: make([]byte, headerSize)}
}

func (w *frames) add(db int, commands [][][]byte) error {
	w.buf = appendRecord(w.buf, db, commands)
	if len(w.buf) < worthWriting {
		return nil
	}
	return w.put(kindRecords)
}

// seal ends the file and syncs it.
func (w *frames) seal() error {
	if len(w.buf) > headerSize {
		if err := w.put(kindRecords); err != nil {
			return err
		}
	}
	if err := w.put(kindSeal); err != nil {
		return err
	}
	return w.f.Sync()
}

func (w *frames) put(kind uint32) error {
	sealFrame(w.buf, w.seed, kind, w.size, headerSize)
	_, err := w.f.WriteAt(w.buf, w.size)
	w.size += int64(len(w.buf))
	w.buf = w.buf[:headerSize]
	return err
}
