package aof

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// A Policy says when the log is synced to disk.
type Policy uint8

const (
	// EverySecond syncs once a second, the default: a power cut loses up to
	// two seconds.
	EverySecond Policy = iota
	// Always syncs before [Log.Wait] returns.
	Always
	// Never leaves it to the operating system.
	Never
)

var policyNames = [...]string{"everysec", "always", "never"}

// String returns the name that [ParsePolicy] reads.
func (p Policy) String() string { return policyNames[p] }

// ParsePolicy reads always, everysec or never, or no as Redis calls the last.
func ParsePolicy(s string) (Policy, error) {
	for p, name := range policyNames {
		if s == name {
			return Policy(p), nil
		}
	}
	if s == "no" {
		return Never, nil
	}
	return 0, fmt.Errorf("aof: fsync is always, everysec or never, not %q", s)
}

// ErrClosed says that the log is closed. It is the error of its engine too.
var ErrClosed = errors.New("engine: closed")

// Options configure a [Log].
type Options struct {
	// Fsync says when the log is synced. Defaults to EverySecond.
	Fsync Policy
	// Fold replaces records by fewer that have the same effect. Defaults to
	// none: the log is never compacted.
	Fold Fold
	// CompactBytes is how long the logs may grow before they are compacted,
	// in bytes; they may always grow as long as the base. Defaults to 64 MiB.
	CompactBytes int64
	// ReserveBytes is the size of the file that the log deletes when the disk is full. The file
	// must be as large as the records that are appended while a write is under way. Throttle keeps
	// these to 1 MiB, besides the records that callers append at that moment; a larger record waits
	// in memory for room. Defaults to 4 MiB.
	ReserveBytes int64
	// Synced gets the time of each fsync of the log. Defaults to none.
	Synced func(took time.Duration)
	// Notice gets news for an operator: the reason why records can't be written, once for each
	// reason; nil when they can be written again; and the failure of a compaction in the
	// background. It must not call the log. Defaults to none.
	Notice func(error)
}

// A Fold gets all records in order from each, and passes the records that replace them to emit.
type Fold func(each func(func(Record) error) error, emit func(db int, commands [][][]byte) error) error

// Found describes the directory as Open found it.
type Found struct {
	Records int64
	Bytes   int64
	Torn    *Torn // the part that was cut off, nil when the last log was whole
	// Flaw is damage that costs no record, nil for none: the mark of the manifest could not be read, and
	// was written anew. Only a missing end of the last log could go unseen until then.
	Flaw *CorruptError
}

// Torn is the tail of a log that was cut off.
type Torn struct {
	File   string
	Offset int64
	Bytes  int64
	Reason string
}

func (t *Torn) String() string {
	return fmt.Sprintf("cut %d bytes off %s at offset %d: %s", t.Bytes, t.File, t.Offset, t.Reason)
}

// A Log is an append-only log. Its methods are safe for concurrent use.
//
// Append only copies into memory. One goroutine, the writer, writes all pending records as one
// frame, so that concurrent callers of Wait share an fsync. Rejected: preallocating the file. It
// makes fsync a little cheaper, but then a tail of zeros and a lost tail look alike.
type Log struct {
	fs   FS
	opts Options
	lock io.Closer

	mu struct {
		sync.Mutex
		pending []byte   // a frame without its header filled in
		before  []framed // frames that are as long as they may be, to be written first
		end     uint64   // position behind the last record
		after   []waiter
	}
	changed *sync.Cond    // saved, stuck or backlog
	saved   atomic.Uint64 // the position up to which records are on disk, as far as the policy promises
	backlog atomic.Int64  // bytes in pending and before it
	synced  atomic.Int64  // when the last fsync ended, in ns since 1970; 0: none has
	refusal atomic.Pointer[error]
	stuck   atomic.Bool // pending can't be written

	mostFrame int // bytes

	wake     chan struct{}
	full     chan struct{} // pending is worth a write now
	calls    chan func()   // for the writer to run
	stop     chan struct{}
	done     chan struct{}
	closing  sync.Once
	closeErr error

	w         writer
	compactor compactor
}

// A framed is a frame and the position behind it.
type framed struct {
	b   []byte
	end uint64
}

type waiter struct {
	position uint64
	f        func(error)
}

const (
	lockName    = "lock"
	reserveName = "reserve"

	worthWriting = 256 << 10
	mostBacklog  = 1 << 20

	// mostFrame is far from the 4 GiB that a frame can be, since it is read back
	// in one piece. A record that is larger has a frame of its own.
	mostFrame = 64 << 20
)

// Open locks the directory, passes every record in it to replay, in order, and returns a log that
// goes on behind them. The error is a [CorruptError], which matches [ErrCorrupt], when a file is
// damaged; it matches [ErrLocked] when the directory is in use; otherwise it is the error of replay
// or of the disk.
func Open(fs FS, opts Options, replay func(Record) error) (*Log, Found, error) {
	lock, err := fs.Lock()
	if err != nil {
		return nil, Found{}, err
	}
	if opts.CompactBytes == 0 {
		opts.CompactBytes = 64 << 20
	}
	if opts.ReserveBytes == 0 {
		opts.ReserveBytes = 4 << 20
	}
	l := &Log{
		fs: fs, opts: opts, lock: lock,
		wake: make(chan struct{}, 1), full: make(chan struct{}, 1), calls: make(chan func()),
		stop: make(chan struct{}), done: make(chan struct{}), mostFrame: mostFrame,
	}
	l.changed = sync.NewCond(&l.mu)
	l.mu.pending = make([]byte, headerSize)
	l.w = newWriter(l)
	l.compactor.ctx, l.compactor.cancel = context.WithCancel(context.Background())
	found, err := l.recover(replay)
	if err != nil {
		lock.Close()
		return nil, found, err
	}
	go l.w.run()
	return l, found, nil
}

// Append adds a record and returns the position behind it. It copies the commands and never waits
// for the disk.
func (l *Log) Append(db int, commands [][][]byte) uint64 {
	l.mu.Lock()
	before := len(l.mu.pending)
	l.mu.pending = appendRecord(l.mu.pending, db, commands)
	n := len(l.mu.pending)
	if before > headerSize && n > l.mostFrame {
		next := make([]byte, headerSize, headerSize+n-before)
		l.mu.before = append(l.mu.before, framed{l.mu.pending[:before:before], l.mu.end})
		l.mu.pending = append(next, l.mu.pending[before:]...)
	}
	l.mu.end += uint64(n - before)
	end := l.mu.end
	l.backlog.Add(int64(n - before))
	l.mu.Unlock()
	if before == headerSize {
		signal(l.wake)
	} else if before < worthWriting && n >= worthWriting {
		signal(l.full)
	}
	return end
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// End returns the position behind the last record.
func (l *Log) End() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.end
}

// Saved reports whether all records before position are as safe as the policy makes them.
func (l *Log) Saved(position uint64) bool {
	return l.opts.Fsync != Always || l.saved.Load() >= position
}

// Wait returns when all records before position are on disk. It returns at once unless the policy
// is Always. An error says that they could not be written; they may still be written later.
func (l *Log) Wait(position uint64) error {
	if l.Saved(position) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.Saved(position) {
		if l.stuck.Load() {
			return l.Err()
		}
		l.changed.Wait()
	}
	return nil
}

// After is Wait without waiting: the writer calls f once, or After does so at once. f must be quick
// and must not call the log.
func (l *Log) After(position uint64, f func(error)) {
	if l.Saved(position) {
		f(nil)
		return
	}
	l.mu.Lock()
	var err error
	if !l.Saved(position) {
		if !l.stuck.Load() {
			l.mu.after = append(l.mu.after, waiter{position, f})
			l.mu.Unlock()
			return
		}
		err = l.Err()
	}
	l.mu.Unlock()
	f(err)
}

// Synced returns when the last fsync of the log ended, or the zero time before the first.
func (l *Log) Synced() time.Time {
	if at := l.synced.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Err returns why no record should be appended now: the disk is full or fails. The log keeps the
// records that were appended before, and writes them as soon as possible. After a failed fsync that
// is never: the state of the disk is unknown then, and the log must be opened again.
func (l *Log) Err() error {
	if p := l.refusal.Load(); p != nil {
		return *p
	}
	return nil
}

// refuse says why nothing should be appended now, nil when it may be again.
func (l *Log) refuse(err error) {
	before := l.Err()
	if err == nil {
		l.refusal.Store(nil)
	} else {
		l.refusal.Store(&err)
	}
	if (before == nil) != (err == nil) || err != nil && before.Error() != err.Error() {
		l.notice(err)
	}
}

func (l *Log) notice(err error) {
	if l.opts.Notice != nil {
		l.opts.Notice(err)
	}
}

// Throttles reports whether Throttle might wait.
func (l *Log) Throttles() bool { return l.backlog.Load() >= mostBacklog }

// Throttle waits while much was appended that the disk has not taken.
func (l *Log) Throttle() {
	if !l.Throttles() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.backlog.Load() >= mostBacklog && !l.stuck.Load() {
		l.changed.Wait()
	}
}

// tell wakes the callers of Wait, and calls the functions of After whose positions are saved, or
// all of them with err.
func (l *Log) tell(err error) {
	l.mu.Lock()
	saved := l.saved.Load()
	n := 0
	for n < len(l.mu.after) && (err != nil || l.mu.after[n].position <= saved) {
		n++
	}
	due := l.mu.after[:n:n]
	l.mu.after = l.mu.after[n:]
	l.changed.Broadcast()
	l.mu.Unlock()
	for _, w := range due {
		if w.position <= saved {
			w.f(nil)
		} else {
			w.f(err)
		}
	}
}

// inWriter runs f in the writer's goroutine, and waits for it.
func (l *Log) inWriter(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	select {
	case l.calls <- func() { done <- f() }:
		return <-done
	case <-l.done:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close writes and syncs all records, whatever the policy, and releases the directory. An error
// says that this failed. It may be called more than once.
func (l *Log) Close() error {
	l.closing.Do(func() {
		l.compactor.end()
		close(l.stop)
		<-l.done
		l.lock.Close()
	})
	return l.closeErr
}
