package aof

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// A Report says how much of a directory can be read.
type Report struct {
	Records int64         // before the damage, or all
	Bytes   int64         // of these
	Torn    *Torn         // the end that opening cuts off after a crash, nil for none
	Flaw    *CorruptError // as in [Found]
	// Damage is the first damage in the order of reading, nil for none. No record behind it can be
	// used, because later changes build on the lost ones.
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

// Repair makes a damaged directory one that opens: it keeps the records before the damage, as
// [Check] counts them. The old files get the ending .damaged, or .2.damaged and so on when an
// earlier repair kept one of that name. Repair leaves a directory without damage alone. It needs
// room for the records that it keeps. After an error, or a crash, call it again: every file, and
// every record that Check could read, is still there.
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
	named, _, _ := readManifest(dir) // examine reports its faults
	base := entry{base: true, number: max(d.last(), named.last()) + 1}
	tmp := base.name() + ".tmp"
	r, s, err := salvage(dir, tmp, &base)
	if err != nil || r.Damage == nil {
		return r, errors.Join(err, dir.Remove(tmp))
	}
	return r, settle(dir, base, slices.Concat(d.entries(), s.files))
}

// salvage writes the readable records of a directory to a base, and fills in its entry.
func salvage(dir FS, tmp string, base *entry) (r Report, s survey, err error) {
	f, h, err := create(dir, tmp, base.number)
	if err != nil {
		return r, s, err
	}
	defer f.Close()
	w := newFrames(f, h)
	r, s, err = examine(dir, func(r Record) error { return w.add(r.DB, r.Commands) })
	if err == nil && r.Damage != nil {
		err = w.seal()
	}
	base.id, base.length = h.id, w.size
	return r, s, err
}

// settle makes a salvaged base the only data of a directory, and keeps the old files aside.
// A power cut keeps any of the renames since the last sync and loses the others, so each step
// is synced before the next. Once the base has its name, [Repair] reads it instead of the
// files before it. The manifest goes next: opening refuses a base of this version without a
// manifest, whichever of the other files are still there. Keeping the old manifest to the end
// was rejected: when the files that it names were still there and the others were aside
// already, the directory opened without the records of those, and opening removed the base.
func settle(dir FS, base entry, old []entry) error {
	if err := dir.Rename(base.name()+".tmp", base.name()); err != nil {
		return err
	}
	if err := dir.Sync(); err != nil {
		return err
	}
	number := base.number + 1
	log, h, err := create(dir, logName(number), number)
	if err != nil {
		return err
	}
	log.Close()
	if err := aside(dir, manifestName); err != nil {
		return err
	}
	var names []string
	for _, e := range old {
		names = append(names, e.name())
	}
	if err := aside(dir, names...); err != nil {
		return err
	}
	x := index{fs: dir}
	defer x.close()
	return x.replace([]entry{base, {number: number, id: h.id, length: headerSize}}, headerSize)
}

// aside renames files, so that their names end in .damaged. It replaces no file that an earlier
// repair kept. It skips a missing file.
func aside(dir FS, names ...string) error {
	taken, err := dir.List()
	if err != nil {
		return err
	}
	for _, name := range names {
		to := name + ".damaged"
		for n := 2; slices.Contains(taken, to); n++ {
			to = fmt.Sprintf("%s.%d.damaged", name, n)
		}
		if err := dir.Rename(name, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return dir.Sync()
}

// examine passes the records before the first damage to f.
func examine(dir FS, f func(Record) error) (r Report, s survey, err error) {
	s, err = surveyDir(dir)
	r.Flaw = s.flaw
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

// readEntry replays the readable records of a file.
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
