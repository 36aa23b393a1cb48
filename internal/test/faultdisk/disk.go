// Package faultdisk is a disk in memory that loses what was not synced when
// the power is cut, that fills up, and that fails.
//
//	disk := faultdisk.New()
//	disk.CutAfter(100) // the power fails at the 100th operation
//	…
//	disk = disk.Restart(random) // what may be there when it is back
//
// Bytes that were written since the last sync of a file may be there or not, sector
// by sector, in any order; so may every Create, Rename and Remove since the
// last sync of the directory, whether or not the file was synced. It is an
// [aof.FS]. All methods may be called from any goroutine.
package faultdisk

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
)

// ErrPower is what every operation answers once the power is cut.
var ErrPower = errors.New("faultdisk: the power is cut")

const sector = 512

// A Disk is one directory.
type Disk struct {
	mu struct {
		sync.Mutex
		visible, durable map[string]*inode
		pending          []change // of the directory, since it was synced
		left             int      // operations before the power is cut, -1 for never
		room             int64    // bytes that may still be written, -1 for any
		limit            int64    // greatest size of a file, -1 for any
		writeErr         error
		syncErr          error
		syncs            int
		fault            Fault
		failed           string // the first operation that fault has failed
		locked           bool
		cut              time.Time
	}
}

type inode struct {
	data    []byte
	durable []byte
	pending []write
}

// A write is one of bytes, or a truncation when b is nil.
type write struct {
	at int64
	b  []byte
}

// A change sets names of the directory to files, or to none.
type change map[string]*inode

// New returns an empty disk.
func New() *Disk {
	d := &Disk{}
	d.mu.visible, d.mu.durable = map[string]*inode{}, map[string]*inode{}
	d.mu.left, d.mu.room, d.mu.limit = -1, -1, -1
	return d
}

// CutAfter cuts the power after n more operations that change something.
func (d *Disk) CutAfter(n int) {
	d.mu.Lock()
	d.mu.left = n
	d.mu.Unlock()
}

// WasCut returns when the first operation failed for want of power, the zero
// time when none did.
func (d *Disk) WasCut() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.cut
}

// SetRoom lets n more bytes be written; -1 lets any number.
func (d *Disk) SetRoom(n int64) {
	d.mu.Lock()
	d.mu.room = n
	d.mu.Unlock()
}

// LimitFiles lets no file grow beyond n bytes, as RLIMIT_FSIZE does; -1 lets
// them have any size.
func (d *Disk) LimitFiles(n int64) {
	d.mu.Lock()
	d.mu.limit = n
	d.mu.Unlock()
}

// Fail makes writes and syncs fail, where the error is not nil.
func (d *Disk) Fail(write, sync error) {
	d.mu.Lock()
	d.mu.writeErr, d.mu.syncErr = write, sync
	d.mu.Unlock()
}

// A Fault lets one operation fail: a write, a truncation, a sync, and a Create, Rename or Remove.
type Fault struct {
	After int   // how many operations succeed before
	Err   error // what the operation answers; nil: none fails
	Reads bool  // one of the reads fails, and no other operation
	Short bool  // a write that fails has written half of its bytes
	Stays bool  // all later operations fail too
}

// FailAt lets an operation fail. A sync that fails loses what it should have made durable, as on
// Linux: a later sync answers no error and does not bring it back.
func (d *Disk) FailAt(f Fault) {
	d.mu.Lock()
	d.mu.fault, d.mu.failed = f, ""
	d.mu.Unlock()
}

// Failed returns the first operation that FailAt made fail, as in "write manifest", or "".
func (d *Disk) Failed() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.failed
}

// fail returns the error of an operation, nil if it succeeds. d.mu is held.
func (d *Disk) fail(op, name string) error {
	f := &d.mu.fault
	if f.Err == nil || f.Reads != (op == "read") {
		return nil
	}
	if f.After--; f.After >= 0 || f.After < -1 && !f.Stays {
		return nil
	}
	if d.mu.failed == "" {
		d.mu.failed = op + " " + name
	}
	return f.Err
}

// Syncs returns how often a file was synced.
func (d *Disk) Syncs() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.syncs
}

// Restart cuts the power, if it is not, and returns what may be found when it
// is back.
func (d *Disk) Restart(r *rand.Rand) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	lost := fate{r: r, keep: []float64{0, 0.1, 0.5, 0.9, 1}[r.IntN(5)], garbage: r.IntN(3) == 0}
	return d.restart(func(int) bool { return lost.kept() }, lost.after)
}

// Restarts is Restart for every choice of the Creates, Renames and Removes that survive.
// Files have what was synced of them.
func (d *Disk) Restarts() (all []*Disk) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for choice := range 1 << len(d.mu.pending) {
		all = append(all, d.restart(
			func(i int) bool { return choice>>i&1 == 1 },
			func(n *inode) []byte { return slices.Clone(n.durable) }))
	}
	return all
}

// restart cuts the power and returns a disk with the changes of the directory that kept
// chooses and with what after leaves of each file. d.mu is held.
func (d *Disk) restart(kept func(i int) bool, after func(*inode) []byte) *Disk {
	d.mu.left = 0
	next := New()
	entries := maps.Clone(d.mu.durable)
	for i, c := range d.mu.pending {
		if kept(i) {
			c.apply(entries)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) { // in one order, so that a seed repeats it
		data := after(entries[name])
		next.mu.visible[name] = &inode{data: data, durable: slices.Clone(data)}
	}
	maps.Copy(next.mu.durable, next.mu.visible)
	return next
}

func (c change) apply(entries map[string]*inode) {
	for name, n := range c {
		if n == nil {
			delete(entries, name)
		} else {
			entries[name] = n
		}
	}
}

// A fate decides what survives a power cut.
type fate struct {
	r       *rand.Rand
	keep    float64
	garbage bool // what was not written is anything, not zeros
}

func (f fate) kept() bool { return f.r.Float64() < f.keep }

func (f fate) after(n *inode) []byte {
	data := slices.Clone(n.durable)
	for _, w := range n.pending {
		if w.b == nil {
			if f.kept() {
				data = resize(data, w.at)
			}
			continue
		}
		for from := w.at; from < w.at+int64(len(w.b)); {
			to := min((from/sector+1)*sector, w.at+int64(len(w.b)))
			if f.kept() {
				for old := int64(len(data)); f.garbage && old < from; old++ {
					data = append(data, byte(f.r.Uint32()))
				}
				data = resize(data, max(int64(len(data)), to))
				copy(data[from:to], w.b[from-w.at:])
			}
			from = to
		}
	}
	return data
}

func resize(b []byte, n int64) []byte {
	if n <= int64(len(b)) {
		return b[:n]
	}
	return append(b, make([]byte, n-int64(len(b)))...)
}

// spend counts an operation that changes something. d.mu is held.
func (d *Disk) spend() error {
	if d.mu.left == 0 {
		if d.mu.cut.IsZero() {
			d.mu.cut = time.Now()
		}
		return ErrPower
	}
	if d.mu.left > 0 {
		d.mu.left--
	}
	return nil
}

func (d *Disk) change(op, name string, c change) error {
	if err := d.spend(); err != nil {
		return err
	}
	if err := d.fail(op, name); err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	c.apply(d.mu.visible)
	d.mu.pending = append(d.mu.pending, c)
	return nil
}

// Create makes an empty file.
func (d *Disk) Create(name string) (aof.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := &inode{}
	if err := d.change("create", name, change{name: n}); err != nil {
		return nil, err
	}
	return &file{d, n, name}, nil
}

// Open opens a file.
func (d *Disk) Open(name string) (aof.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.mu.visible[name]
	if n == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &file{d, n, name}, nil
}

// Rename gives a file another name, at once or not at all.
func (d *Disk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.mu.visible[from]
	if n == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	return d.change("rename", from, change{from: nil, to: n})
}

// Remove deletes a file and gives back its room.
func (d *Disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.mu.visible[name]
	if n == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	err := d.change("remove", name, change{name: nil})
	if err == nil && d.mu.room >= 0 {
		d.mu.room += int64(len(n.data))
	}
	return err
}

// List returns the names of all files, in order.
func (d *Disk) List() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.mu.visible)), nil
}

// Sync makes the directory durable.
func (d *Disk) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.spend(); err != nil {
		return err
	}
	if err := d.fail("sync", "."); err != nil {
		return err
	}
	for _, c := range d.mu.pending {
		c.apply(d.mu.durable)
	}
	d.mu.pending = nil
	return nil
}

// Lock takes the disk.
func (d *Disk) Lock() (io.Closer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.locked {
		return nil, aof.ErrLocked
	}
	d.mu.locked = true
	return unlock{d}, nil
}

type unlock struct{ d *Disk }

func (u unlock) Close() error {
	u.d.mu.Lock()
	u.d.mu.locked = false
	u.d.mu.Unlock()
	return nil
}

// Kill ends the process that has the disk, and nothing else: what it wrote is
// there for the next one, synced or not, until the power is cut.
func (d *Disk) Kill() {
	d.mu.Lock()
	d.mu.locked = false
	d.mu.Unlock()
}

// Copy returns a disk with the files as they are now, which a process that is
// killed leaves to the next.
func (d *Disk) Copy() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := New()
	for name, n := range d.mu.visible {
		next.mu.visible[name] = &inode{data: slices.Clone(n.data), durable: slices.Clone(n.data)}
	}
	maps.Copy(next.mu.durable, next.mu.visible)
	return next
}

// Bytes returns a copy of a file, nil when there is none.
func (d *Disk) Bytes(name string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.mu.visible[name]; n != nil {
		return slices.Clone(n.data)
	}
	return nil
}

// SetBytes makes a durable file.
func (d *Disk) SetBytes(name string, b []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := &inode{data: slices.Clone(b), durable: slices.Clone(b)}
	d.mu.visible[name], d.mu.durable[name] = n, n
}

type file struct {
	d    *Disk
	n    *inode
	name string
}

func (f *file) Linked() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.d.mu.visible[f.name] != f.n {
		return &fs.PathError{Op: "find", Path: f.name, Err: fs.ErrNotExist}
	}
	return nil
}

func (f *file) ReadAt(b []byte, at int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.fail("read", f.name); err != nil {
		return 0, err
	}
	if at >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.n.data[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(b []byte, at int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.spend(); err != nil {
		return 0, err
	}
	if f.d.mu.writeErr != nil {
		return 0, f.d.mu.writeErr
	}
	full := f.d.fail("write", f.name)
	if full != nil {
		half := 0
		if f.d.mu.fault.Short {
			half = len(b) / 2
		}
		b = b[:half]
	}
	if limit := f.d.mu.limit; limit >= 0 && at+int64(len(b)) > limit {
		full = syscall.EFBIG
		b = b[:max(0, limit-at)]
	}
	if more := at + int64(len(b)) - int64(len(f.n.data)); f.d.mu.room >= 0 && more > 0 {
		if more > f.d.mu.room {
			full = syscall.ENOSPC
			b = b[:max(0, int64(len(b))-(more-f.d.mu.room))]
		}
		f.d.mu.room -= min(more, f.d.mu.room)
	}
	f.n.data = resize(f.n.data, max(int64(len(f.n.data)), at+int64(len(b))))
	copy(f.n.data[at:], b)
	f.n.pending = append(f.n.pending, write{at, slices.Clone(b)})
	return len(b), full
}

func (f *file) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.spend(); err != nil {
		return err
	}
	if err := f.d.fail("truncate", f.name); err != nil {
		return err
	}
	f.n.data = resize(f.n.data, size)
	f.n.pending = append(f.n.pending, write{at: size})
	return nil
}

func (f *file) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.spend(); err != nil {
		return err
	}
	if f.d.mu.syncErr != nil {
		return f.d.mu.syncErr
	}
	if err := f.d.fail("sync", f.name); err != nil {
		f.n.pending = nil
		return err
	}
	for _, w := range f.n.pending {
		if w.b == nil {
			f.n.durable = resize(f.n.durable, w.at)
			continue
		}
		f.n.durable = resize(f.n.durable, max(int64(len(f.n.durable)), w.at+int64(len(w.b))))
		copy(f.n.durable[w.at:], w.b)
	}
	f.n.pending = nil
	f.d.mu.syncs++
	return nil
}

func (f *file) Close() error { return nil }

func (f *file) Size() (int64, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	return int64(len(f.n.data)), nil
}
