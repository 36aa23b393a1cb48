package aof

import (
	"errors"
	"io/fs"
	"slices"
)

// A Report says how much of a directory can be read.
type Report struct {
	Records int64 // before the damage, or all
	Bytes   int64 // of these
	Torn    *Torn // what opening cuts off after a crash, nil for nothing
	// Damage is the first damage in the order of reading, nil for none. Nothing
	// behind it can be used, because it builds on what is lost.
	Damage *CorruptError
	Behind []string // the files behind the damaged one
	Lost   int64    // bytes from the damage on, as far as they are known
}

// Check reads a directory and changes nothing. The error matches [ErrLocked]
// when the directory is in use.
func Check(dir FS) (Report, error) {
	lock, err := dir.Lock()
	if err != nil {
		return Report{}, err
	}
	defer lock.Close()
	r, _, err := examine(dir, func(Record) error { return nil })
	return r, err
}

// Repair makes a damaged directory one that opens: it keeps what [Check] can read before
// the damage. The files that were there get the ending .damaged. A directory without damage
// is left alone. It needs room for what it keeps. After an error, or a crash, call it
// again: what Check could read is still there.
func Repair(dir FS) (Report, error) {
	lock, err := dir.Lock()
	if err != nil {
		return Report{}, err
	}
	defer lock.Close()
	d, err := list(dir)
	if err != nil {
		return Report{}, err
	}
	named, _, _ := readManifest(dir) // examine says what is wrong with it
	number := max(d.last(), named.last()) + 1
	tmp := logName(number) + ".tmp"
	f, h, err := create(dir, tmp, number)
	if err != nil {
		return Report{}, err
	}
	defer f.Close()
	w := newFrames(f, h)
	r, s, err := examine(dir, func(r Record) error { return w.add(r.DB, r.Commands) })
	if err == nil && r.Damage != nil {
		if err = w.flush(); err == nil {
			err = f.Sync()
		}
	}
	if err != nil || r.Damage == nil {
		return r, errors.Join(err, dir.Remove(tmp))
	}
	if err := dir.Rename(tmp, logName(number)); err != nil {
		return r, err
	}
	if err := dir.Sync(); err != nil {
		return r, err
	}
	x := index{fs: dir}
	if err := x.replace([]entry{{number: number, id: h.id, length: w.size}}, w.size); err != nil {
		return r, err
	}
	defer x.close()
	for _, e := range slices.Concat(d.entries(), s.files) {
		if err := dir.Rename(e.name(), e.name()+".damaged"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return r, err
		}
	}
	return r, dir.Sync()
}

// examine gives f what can be read before the first damage.
func examine(dir FS, f func(Record) error) (r Report, s survey, err error) {
	s, err = surveyDir(dir)
	if err != nil && !errors.As(err, &r.Damage) {
		return r, s, err
	}
	if r.Damage != nil {
		// A manifest that is gone, or older than the files, is of no use.
		named := slices.ContainsFunc(s.files, func(e entry) bool { return e.name() == r.Damage.File })
		all, err := surveyed(dir)
		gap, ok := errors.AsType[*CorruptError](err)
		if err != nil && !ok {
			return r, s, err
		}
		if !named || all.base() > s.base() {
			s = all
			if ok {
				r.Damage = gap
			}
		}
	}
	for i, e := range s.files {
		end, torn, err := readEntry(dir, e, s, func(rec Record) error {
			r.Records++
			return f(rec)
		})
		r.Bytes += end
		r.Torn = torn
		damage, ok := errors.AsType[*CorruptError](err)
		if err != nil && !ok {
			return r, s, err
		}
		if ok {
			r.Damage, r.Torn = damage, nil
			r.Lost = damage.Lost
			for _, e := range s.files[i+1:] {
				r.Behind = append(r.Behind, e.name())
				size, _ := sizeOf(dir, e.name()) // it may be missing too
				r.Lost += max(size, s.least(e))
			}
			break
		}
	}
	return r, s, nil
}

// surveyed surveys a directory by the names and sizes of its files alone.
func surveyed(dir FS) (s survey, err error) {
	d, err := list(dir)
	if err != nil {
		return s, err
	}
	s.files, err = inOrder(d)
	for i := range s.files {
		e := &s.files[i]
		size, err := sizeOf(dir, e.name())
		if err != nil {
			return s, err
		}
		if e.ends = e.base || i < len(s.files)-1; e.ends {
			e.length = size
		}
	}
	return s, err
}

// entries returns all files.
func (d listing) entries() (all []entry) {
	for _, n := range d.bases {
		all = append(all, entry{base: true, number: n})
	}
	for _, n := range d.logs {
		all = append(all, entry{number: n})
	}
	return all
}

// readEntry replays what can be read of a file.
func readEntry(dir FS, e entry, s survey, f func(Record) error) (end int64, torn *Torn, err error) {
	file, h, size, err := openFile(dir, e.name(), e.number)
	if file != nil {
		defer file.Close()
	}
	corrupt, ok := errors.AsType[*CorruptError](err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil, &CorruptError{File: e.name(), Reason: "the file is missing", Lost: s.least(e)}
	case ok:
		corrupt.Lost = max(size, s.least(e))
		return 0, nil, corrupt
	case err != nil:
		return 0, nil, err
	case e.id != 0 && e.id != h.id:
		return 0, nil, &CorruptError{File: e.name(), Reason: "it is another file of that name", Lost: s.least(e)}
	case !e.base && e.number == s.last():
		return readLast(file, e, h.seed(), s.least(e), f)
	}
	if err = readWhole(dir, e.name(), e, f); errors.As(err, &corrupt) {
		return corrupt.Offset, nil, err
	}
	return e.length, nil, err
}
