package engine

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
)

const (
	batchBytes    = 64 << 10
	batchCommands = 512
	// A larger command is repeated in place, so that the batches take little memory.
	mostBatched = 1 << 20
)

// A loader repeats the records of the log on several cores. Nobody sees the data before all is
// there, so only the order of the commands on each key matters. Each worker has the keys of some
// shards. A command without a key, or with several, waits until the workers have done all that came
// before, and then runs in the goroutine that reads the log.
type loader struct {
	e       *Engine
	repeat  func(aof.Record) error
	workers []loadWorker
	free    chan *loadBatch
	under   sync.WaitGroup // batches that the workers have
	ended   sync.WaitGroup // workers
	failure atomic.Pointer[error]
	keyBuf  []int
}

type loadWorker struct {
	in   chan *loadBatch
	next *loadBatch // gathers, nil when empty
	s    *Session
	out  []byte
}

// A loadBatch has copies of commands for one worker.
type loadBatch struct {
	bytes    []byte
	args     [][]byte
	commands []loadCommand
}

type loadCommand struct {
	db   int
	args [][]byte
	key  []byte
}

func newLoader(e *Engine, workers int) *loader {
	l := &loader{e: e, repeat: e.replayer(), workers: make([]loadWorker, workers), free: make(chan *loadBatch, 4*workers)}
	for i := range l.workers {
		w := &l.workers[i]
		w.in, w.s = make(chan *loadBatch, 2), e.unlisted()
		l.ended.Go(func() {
			for b := range w.in {
				l.run(w, b)
				l.under.Done()
			}
		})
	}
	return l
}

// add repeats a record, at once or later.
func (l *loader) add(r aof.Record) error {
	if l.failure.Load() != nil {
		return l.failed()
	}
	if len(l.workers) == 0 {
		return l.repeat(r)
	}
	for i, args := range r.Commands {
		if is(args[0], "select") || !l.give(r.DB, args) {
			// The commands before it are done now, and SELECT is for the commands behind it.
			if err := l.settle(); err != nil {
				return err
			}
			r.Commands = r.Commands[i:]
			return l.repeat(r)
		}
	}
	return nil
}

// give hands a command to the worker of its key. It reports false if the command has no key or
// several, or is too large.
func (l *loader) give(db int, args [][]byte) bool {
	cmd := find(args[0])
	if cmd != nil {
		cmd = cmd.resolve(args)
	}
	if cmd == nil || !cmd.Takes(len(args)) || cmd.flags&(flagNoLock|flagAllShards|flagEveryShard|flagScript) != 0 {
		return false
	}
	l.keyBuf = cmd.keys(l.keyBuf[:0], args)
	size := bytesOf(args)
	if len(l.keyBuf) != 1 || size > mostBatched {
		return false
	}
	w := &l.workers[shardOf(args[l.keyBuf[0]])%len(l.workers)]
	if b := w.next; b != nil && (len(b.commands) == batchCommands || len(b.bytes)+size > cap(b.bytes)) {
		l.send(w)
	}
	if w.next == nil {
		w.next = l.batch(size)
	}
	w.next.add(db, args, l.keyBuf[0])
	return true
}

func (l *loader) batch(size int) *loadBatch {
	if size <= batchBytes {
		select {
		case b := <-l.free:
			return b
		default:
		}
	}
	return &loadBatch{bytes: make([]byte, 0, max(batchBytes, size))}
}

func (b *loadBatch) add(db int, args [][]byte, key int) {
	first := len(b.args)
	for _, a := range args {
		from := len(b.bytes)
		b.bytes = append(b.bytes, a...)
		b.args = append(b.args, b.bytes[from:len(b.bytes):len(b.bytes)])
	}
	own := b.args[first:len(b.args):len(b.args)]
	b.commands = append(b.commands, loadCommand{db, own, own[key]})
}

func (l *loader) send(w *loadWorker) {
	l.under.Add(1)
	w.in <- w.next
	w.next = nil
}

// run repeats a batch.
func (l *loader) run(w *loadWorker, b *loadBatch) {
	var keys [prefetched][]byte
	for rest := b.commands; len(rest) > 0 && l.failure.Load() == nil; {
		n := min(len(rest), prefetched)
		for i, c := range rest[:n] {
			keys[i] = c.key
		}
		w.s.prefetch(rest[0].db, keys[:n])
		for _, c := range rest[:n] {
			var err error
			if w.out, err = w.s.repeat(w.out, c.db, c.args); err != nil {
				l.failure.CompareAndSwap(nil, &err)
				break
			}
		}
		rest = rest[n:]
	}
	clear(b.args)
	b.bytes, b.args, b.commands = b.bytes[:0], b.args[:0], b.commands[:0]
	if cap(b.bytes) == batchBytes {
		select {
		case l.free <- b:
		default:
		}
	}
}

// settle waits for the workers, and does what has not been sent to them: a log of many commands
// with several keys costs no switch between goroutines for each.
func (l *loader) settle() error {
	l.under.Wait()
	for i := range l.workers {
		if w := &l.workers[i]; w.next != nil {
			l.run(w, w.next)
			w.next = nil
		}
	}
	return l.failed()
}

func (l *loader) failed() error {
	if err := l.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// end waits until all is repeated, and ends the workers.
func (l *loader) end() error {
	err := l.settle()
	for i := range l.workers {
		close(l.workers[i].in)
	}
	l.ended.Wait()
	return err
}

// repeat runs a command of the log. An error reply means that the log does not belong to this state.
func (s *Session) repeat(out []byte, db int, args [][]byte) ([]byte, error) {
	s.db = db
	out, wait := s.Do(out[:0], args)
	if wait != nil || bytes.HasPrefix(out, []byte("-")) {
		return out, fmt.Errorf("engine: %s can't be repeated: %.100q", clip(args[0], 32), out)
	}
	if cap(out) > maxIdleReply {
		out = nil
	}
	return out, nil
}

// load reads the log with some workers. exact is false if one of them couldn't repeat a command: it
// was read some frames before the one that the error names.
func (e *Engine) load(ctx context.Context, fs aof.FS, workers int) (exact bool, err error) {
	e.startLoading()
	l := newLoader(e, workers)
	settings := aof.Options{Fsync: e.opts.Fsync, Fold: e.fold, CompactBytes: e.opts.CompactBytes, ReserveBytes: e.opts.reserve, Synced: e.opts.Synced, Notice: e.logNotice}
	log, found, err := aof.Open(fs, settings, func(r aof.Record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return l.add(r)
	})
	failed := l.end()
	if err == nil && failed != nil {
		log.Close() //nolint:errcheck // nothing was written
		err = failed
	}
	if err != nil {
		return failed == nil, err
	}
	e.log, e.found, e.strict = log, found, e.opts.Fsync == aof.Always
	e.endLoading()
	return true, nil
}
