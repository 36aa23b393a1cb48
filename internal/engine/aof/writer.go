package aof

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"syscall"
	"time"
)

const (
	// gatherFor is how long records gather before they are written, unless
	// the policy is Always.
	gatherFor = 5 * time.Millisecond
	syncEvery = time.Second
	// A full disk is tried after retryFirst, and then after twice as long each
	// time, since each try may fill it to the last byte.
	retryFirst = 500 * time.Millisecond
	retryMost  = 8 * time.Second
)

// A writer is the goroutine that writes a log. All of it is its own.
type writer struct {
	l      *Log
	file   File
	header fileHeader
	offset int64 // end of the last frame
	synced int64 // offset that is known to be on disk
	index  index
	marked int64 // the position of index' mark

	tail    []byte // a frame that is not written yet
	tailEnd uint64 // position behind it
	spare   []byte
	written uint64 // position behind the last written record

	gather, sync, settle, retry timer
	pause                       time.Duration   // before the next retry
	syncing                     chan syncResult // nil unless a sync is under way
	dead                        bool            // after a failed fsync
	noReserve                   bool
}

type syncResult struct {
	offset  int64
	written uint64
	err     error
}

// A timer is one that knows whether it is running.
type timer struct {
	t  *time.Timer
	on bool
}

func (t *timer) start(d time.Duration) {
	if !t.on {
		t.on = true
		t.t.Reset(d)
	}
}

func newTimer() timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return timer{t: t}
}

func newWriter(l *Log) writer {
	return writer{l: l, index: index{fs: l.fs}, gather: newTimer(), sync: newTimer(), settle: newTimer(), retry: newTimer(), pause: retryFirst}
}

func (w *writer) run() {
	l := w.l
	defer close(l.done)
	if w.noReserve {
		w.retryLater()
	}
	for {
		select {
		case <-l.wake:
			if l.opts.Fsync == Always {
				w.flush()
			} else {
				w.gather.start(gatherFor)
			}
		case <-l.full:
			w.flush()
		case <-w.gather.t.C:
			w.gather.on = false
			w.flush()
		case <-w.sync.t.C:
			w.sync.on = false
			w.startSync()
		case r := <-w.syncing:
			w.endSync(r) //nolint:errcheck // it tells the callers of Wait
		case <-w.settle.t.C:
			w.settle.on = false
			switch {
			case w.dead:
			case w.index.syncing != nil:
				w.settle.start(syncEvery) // that sync may have missed the latest mark
			default:
				w.index.syncLater()
			}
		case err := <-w.index.syncing:
			w.index.syncing = nil
			if err != nil {
				l.notice(fmt.Errorf("aof: can't sync the manifest: %w", err))
			}
		case <-w.retry.t.C:
			w.retry.on = false
			w.again()
		case f := <-l.calls:
			f()
		case <-l.stop:
			l.closeErr = w.close()
			return
		}
	}
}

// flush writes the pending records, and syncs them when the policy is Always.
func (w *writer) flush() {
	if w.l.stuck.Load() {
		return // again tries
	}
	w.drain()
}

// drain writes the records that were appended before it began, and no later ones: writers as fast
// as the disk would keep it from all other work.
func (w *writer) drain() {
	for end := w.l.End(); !w.dead && w.written < end && w.take(); {
		if err := w.write(); err != nil {
			if !w.dead { // else that error was reported already
				w.refuse(fmt.Errorf("aof: can't write the log: %w", err), true)
			}
			return
		}
		if w.l.opts.Fsync == Always {
			if err := w.syncNow(); err != nil {
				return
			}
		}
	}
	if w.dead {
		return
	}
	if w.l.backlog.Load() > 0 {
		signal(w.l.wake) // it came later, and Append signals for the first only
	}
	if w.l.opts.Fsync == EverySecond && w.syncing == nil && w.synced < w.offset {
		w.sync.start(syncEvery)
	}
	w.l.compactor.consider(w.l)
}

// take makes tail the next frame to write.
func (w *writer) take() bool {
	if w.tail != nil {
		return true
	}
	l := w.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.mu.before) > 0 {
		w.tail, w.tailEnd = l.mu.before[0].b, l.mu.before[0].end
		l.mu.before = slices.Delete(l.mu.before, 0, 1)
	} else if len(l.mu.pending) == headerSize {
		return false
	} else {
		w.tail, w.tailEnd = l.mu.pending, l.mu.end
		l.mu.pending, w.spare = w.spare, nil
		if l.mu.pending == nil {
			l.mu.pending = make([]byte, headerSize, 4096)
		}
	}
	l.backlog.Add(-int64(len(w.tail) - headerSize))
	l.changed.Broadcast()
	return true
}

// write writes the tail. When that fails, it deletes the reserve and tries once more, so that no
// record is lost that was admitted before the disk filled up. When the file may not grow any more,
// it goes on in another one.
func (w *writer) write() error {
	if len(w.tail)-headerSize > math.MaxUint32 {
		return errors.New("a change of more than 4 GiB")
	}
	if err := w.linked(); err != nil {
		return err
	}
	err := w.put()
	for errors.Is(err, syscall.EFBIG) {
		if w.offset > headerSize {
			if err := w.another(); err != nil {
				return err
			}
		} else if !w.split() {
			return err
		}
		err = w.put()
	}
	if err != nil && !w.noReserve {
		w.noReserve = true
		w.l.fs.Remove(reserveName) //nolint:errcheck // the next write reports it
		if again := w.put(); again == nil {
			w.refuse(fmt.Errorf("aof: can't write the log: %w", err), false)
			err = nil
		}
	}
	if err != nil {
		return err
	}
	w.offset += int64(len(w.tail))
	w.l.compactor.grown(int64(len(w.tail)))
	w.written = w.tailEnd
	if cap(w.tail) <= 4*worthWriting {
		w.spare = w.tail[:headerSize]
	}
	w.tail = nil
	return nil
}

// split makes two frames of the tail; the next write takes the second. It reports false when there
// is only one record.
func (w *writer) split() bool {
	records := reader{b: w.tail[headerSize:]}
	for half := len(records.b) / 2; len(records.b) > half; {
		records.bytes(records.int())
	}
	rest := records.b
	if len(rest) == 0 {
		return false
	}
	l := w.l
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.before = slices.Insert(l.mu.before, 0, framed{append(make([]byte, headerSize), rest...), w.tailEnd})
	l.backlog.Add(int64(len(rest)))
	w.tail = w.tail[:len(w.tail)-len(rest)]
	w.tailEnd -= uint64(len(rest))
	return true
}

// put writes the tail at the end of the file.
func (w *writer) put() error {
	sealFrame(w.tail, w.header.seed(), kindRecords, w.offset, w.synced)
	_, err := w.file.WriteAt(w.tail, w.offset)
	return err
}

// linked returns an error when the file, or its directory, was removed.
func (w *writer) linked() error {
	if err := w.file.Linked(); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the file was removed, so that nothing would be there the next time; what is in memory can be read and exported: %w", err)
	}
	return nil
}

// refuse makes Err return err. stuck says that records which were appended before are not saved.
func (w *writer) refuse(err error, stuck bool) {
	w.l.refuse(err)
	if stuck {
		w.l.stuck.Store(true)
		w.l.tell(err)
	}
	if !w.dead {
		w.retryLater()
	}
}

func (w *writer) retryLater() {
	if !w.retry.on {
		w.retry.start(w.pause)
		w.pause = min(2*w.pause, retryMost)
	}
}

// again tries to write the records that could not be written, and to make the reserve again.
func (w *writer) again() {
	if w.dead {
		return
	}
	w.l.stuck.Store(false)
	if w.drain(); w.l.stuck.Load() || w.dead {
		return
	}
	if !w.mark() {
		return
	}
	if err := w.l.makeReserve(); err != nil {
		w.retryLater()
		return
	}
	w.noReserve, w.pause = false, retryFirst
	w.l.refuse(nil)
}

func (w *writer) syncNow() error {
	return w.endSync(syncResult{w.offset, w.written, w.timed(w.file)})
}

// timed syncs a file.
func (w *writer) timed(file File) error {
	began := time.Now()
	err := file.Sync()
	if w.l.opts.Synced != nil {
		w.l.opts.Synced(time.Since(began))
	}
	return err
}

// startSync syncs in a goroutine of its own, while the writer goes on.
func (w *writer) startSync() {
	if w.syncing != nil || w.dead || w.synced == w.offset {
		return
	}
	r, file, result := syncResult{w.offset, w.written, nil}, w.file, make(chan syncResult, 1)
	w.syncing = result
	go func() {
		r.err = w.timed(file)
		result <- r
	}()
}

func (w *writer) endSync(r syncResult) error {
	w.syncing = nil
	if r.err != nil {
		w.dead = true
		w.refuse(fmt.Errorf("aof: can't sync the log, and what is on disk is not known until it is opened again: %w", r.err), true)
		return r.err
	}
	w.synced = r.offset
	w.l.synced.Store(time.Now().UnixNano())
	w.mark()
	w.l.saved.Store(r.written)
	w.l.tell(nil)
	if w.synced < w.offset && w.l.opts.Fsync == EverySecond {
		w.sync.start(syncEvery)
	}
	return nil
}

// mark writes the synced position to the manifest, before clients are told. It reports false when
// that fails.
func (w *writer) mark() bool {
	if w.marked == w.synced {
		return true
	}
	if err := w.index.setMark(w.synced); err != nil {
		w.refuse(fmt.Errorf("aof: can't write the manifest: %w", err), false)
		return false
	}
	w.marked = w.synced
	w.settle.start(syncEvery)
	return true
}

// syncAll syncs everything that is written.
func (w *writer) syncAll() error {
	if w.syncing != nil {
		if err := w.endSync(<-w.syncing); err != nil {
			return err
		}
	}
	return w.syncNow()
}

// finish seals the file and syncs it.
func (w *writer) finish() error {
	if w.dead {
		return w.l.Err()
	}
	w.l.stuck.Store(false)
	if w.drain(); w.l.stuck.Load() || w.dead {
		return w.l.Err()
	}
	if err := w.linked(); err != nil {
		return fmt.Errorf("aof: can't end the log: %w", err)
	}
	if err := w.syncAll(); err != nil {
		return err
	}
	b := make([]byte, headerSize)
	sealFrame(b, w.header.seed(), kindSeal, w.offset, w.synced)
	if _, err := w.file.WriteAt(b, w.offset); errors.Is(err, syscall.EFBIG) {
		return nil // the manifest says that it ends here
	} else if err != nil {
		return err
	}
	w.offset += headerSize
	return w.syncNow()
}

// next seals the log and begins another.
func (w *writer) next() error {
	if err := w.finish(); err != nil {
		return err
	}
	return w.begin()
}

// another begins another log behind one that may not grow any more.
func (w *writer) another() error {
	if err := w.syncAll(); err != nil {
		return err
	}
	return w.begin()
}

// begin goes on in another log. All of the log before is on disk. After an error the writer
// stays with that, and nothing names the other.
func (w *writer) begin() error {
	number := w.header.number + 1
	file, header, err := create(w.l.fs, logName(number), number)
	if err == nil {
		files := append(slices.Clone(w.index.files), entry{number: number, id: header.id, length: headerSize})
		files[len(files)-2].length = w.offset
		if err = w.name(files, headerSize); err == nil {
			w.file.Close()
			w.file, w.header, w.offset, w.synced = file, header, headerSize, headerSize
			return nil
		}
		file.Close()
	}
	if !w.dead {
		w.l.fs.Remove(logName(number)) //nolint:errcheck // without a frame it is removed when the log is opened
	}
	return err
}

// adopt makes a base stand for the files up to its number.
func (w *writer) adopt(base entry) error {
	if w.dead {
		return w.l.Err()
	}
	files := []entry{base}
	for _, e := range w.index.files {
		if !e.base && e.number > base.number {
			files = append(files, e)
		}
	}
	return w.name(files, w.synced)
}

// name makes the manifest name files. synced is how much of the last one is on disk.
func (w *writer) name(files []entry, synced int64) error {
	err := w.index.replace(files, synced)
	switch {
	case err == nil:
		w.marked = synced
	case errors.Is(err, errUnsynced):
		w.dead = true
		w.refuse(fmt.Errorf("aof: what is on disk is not known until the log is opened again: %w", err), true)
	}
	return err
}

func (w *writer) close() error {
	err := w.finish()
	if err == nil {
		if err = w.index.sync(w.synced); err != nil {
			err = fmt.Errorf("aof: can't sync the manifest: %w", err)
		}
	}
	w.index.close()
	w.file.Close()
	closed := ErrClosed
	w.l.refusal.Store(&closed)
	w.l.stuck.Store(true)
	w.l.tell(ErrClosed)
	return err
}

// makeReserve writes the file that is given up when the disk is full.
func (l *Log) makeReserve() error {
	f, err := l.fs.Open(reserveName)
	if err == nil {
		size, err := f.Size()
		f.Close()
		if err == nil && size == l.opts.ReserveBytes {
			return nil
		}
	}
	if f, err = l.fs.Create(reserveName); err != nil {
		return err
	}
	b := make([]byte, l.opts.ReserveBytes)
	if _, err = rand.Read(b); err == nil { // zeros take no room on some file systems
		if _, err = f.WriteAt(b, 0); err == nil || errors.Is(err, syscall.EFBIG) { // then it is as large as a file may be
			err = f.Sync()
		}
	}
	f.Close()
	if err != nil {
		l.fs.Remove(reserveName) //nolint:errcheck // the first error tells
	}
	return err
}
