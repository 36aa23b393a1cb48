package aof

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// A compactor replaces the logs by a base. It reads them back from disk into a
// second store, so that it needs no lock of the first and stops no writer; it
// takes the memory of a second copy while it runs. A snapshot of the store
// itself was rejected: it would have to hold a shard for as long as its
// largest value takes.
type compactor struct {
	ctx    context.Context //nolint:containedctx // ends with the log, not with a call
	cancel context.CancelFunc
	wait   sync.WaitGroup
	gate   sync.Mutex // held to begin one, and to see to it that no other begins
	mu     sync.Mutex // held by the one that runs
	auto   atomic.Bool
	base   atomic.Int64 // bytes
	logs   atomic.Int64 // bytes in the logs behind the base
	sealed atomic.Int64 // of these, in logs that are finished
	extra  atomic.Int64 // how much more they may have after a failure
	err    atomic.Pointer[error]
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

// end stops what runs, and sees to it that nothing begins any more.
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

// Compacting says whether a compaction is running that nobody waits for.
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
	return err
}

func (l *Log) compact(ctx context.Context) error {
	c := &l.compactor
	done := make(chan error, 1)
	select {
	case l.rotate <- done:
	case <-l.done:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := <-done; err != nil {
		return err
	}
	d, err := list(l.fs)
	if err != nil {
		return err
	}
	if len(d.logs) < 2 {
		return &CorruptError{File: logName(d.base), Reason: "the file is missing"}
	}
	old := d.logs[:len(d.logs)-1] // but the one that is being written
	number := old[len(old)-1]
	tmp := baseName(number) + ".tmp"
	size, emitted, err := l.fold(ctx, d.base, old, tmp, number)
	if err == nil {
		err = l.check(ctx, tmp, number, emitted)
	}
	if err == nil {
		err = l.fs.Rename(tmp, baseName(number))
	}
	if err == nil {
		err = l.fs.Sync()
	}
	if err != nil {
		l.fs.Remove(tmp) //nolint:errcheck // it is removed when the log is opened
		return err
	}
	c.base.Store(size)
	c.logs.Add(-c.sealed.Load())
	if d.base > 0 {
		d.litter = append(d.litter, baseName(d.base))
	}
	for _, n := range old {
		d.litter = append(d.litter, logName(n))
	}
	for _, name := range d.litter {
		if name != tmp {
			if err := l.fs.Remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// check reads a new base back, before it takes the place of what can be read.
func (l *Log) check(ctx context.Context, tmp string, number uint64, emitted int64) error {
	_, err := l.readWhole(tmp, number, func(Record) error {
		emitted--
		return ctx.Err()
	})
	if err == nil && emitted != 0 {
		err = &CorruptError{File: tmp, Reason: fmt.Sprintf("%d records are missing", emitted)}
	}
	return err
}

// fold writes the base that stands for an older one and some logs.
func (l *Log) fold(ctx context.Context, base uint64, logs []uint64, tmp string, number uint64) (size, emitted int64, err error) {
	f, h, err := l.create(tmp, number)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	size = headerSize
	buf := make([]byte, headerSize)
	write := func(kind uint32) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		sealFrame(buf, h.seed(), kind, size, headerSize)
		_, err := f.WriteAt(buf, size)
		size += int64(len(buf))
		buf = buf[:headerSize]
		return err
	}
	each := func(record func(Record) error) error {
		checked := func(r Record) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return record(r)
		}
		if base > 0 {
			if _, err := l.readWhole(baseName(base), base, checked); err != nil {
				return err
			}
		}
		for _, n := range logs {
			if _, err := l.readWhole(logName(n), n, checked); err != nil {
				return err
			}
		}
		return nil
	}
	emit := func(db int, commands [][][]byte) error {
		emitted++
		buf = appendRecord(buf, db, commands)
		if len(buf) < worthWriting {
			return nil
		}
		return write(kindRecords)
	}
	if err := l.opts.Fold(each, emit); err != nil {
		return 0, 0, err
	}
	if len(buf) > headerSize {
		if err := write(kindRecords); err != nil {
			return 0, 0, err
		}
	}
	if err := write(kindSeal); err != nil {
		return 0, 0, err
	}
	return size, emitted, f.Sync()
}
