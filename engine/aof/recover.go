package aof

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func logName(n uint64) string  { return fmt.Sprintf("%010d.log", n) }
func baseName(n uint64) string { return fmt.Sprintf("%010d.base", n) }

// A listing is what a directory holds.
type listing struct {
	base   uint64   // the latest, 0 for none
	logs   []uint64 // those behind it, in order
	litter []string
}

func list(fs FS) (listing, error) {
	names, err := fs.List()
	if err != nil {
		return listing{}, err
	}
	var d listing
	numbers := map[string][]uint64{}
	for _, name := range names {
		stem, ending, _ := strings.Cut(name, ".")
		n, err := strconv.ParseUint(stem, 10, 64)
		switch {
		case ending == "tmp":
			d.litter = append(d.litter, name)
		case err == nil && (name == logName(n) || name == baseName(n)):
			numbers[ending] = append(numbers[ending], n)
		}
	}
	for _, n := range numbers["base"] {
		d.base = max(d.base, n)
	}
	for _, n := range numbers["base"] {
		if n < d.base {
			d.litter = append(d.litter, baseName(n))
		}
	}
	for _, n := range numbers["log"] {
		if n <= d.base {
			d.litter = append(d.litter, logName(n))
		} else {
			d.logs = append(d.logs, n)
		}
	}
	slices.Sort(d.logs)
	for i, n := range d.logs {
		if wanted := d.base + 1 + uint64(i); n != wanted {
			return d, &CorruptError{File: logName(wanted), Reason: "the file is missing"}
		}
	}
	return d, nil
}

// recover replays what the directory holds and opens the last log.
func (l *Log) recover(replay func(Record) error) (found Found, err error) {
	d, err := list(l.fs)
	if err != nil {
		return found, err
	}
	if err := l.dropUnused(&d); err != nil {
		return found, err
	}
	count := func(r Record) error {
		found.Records++
		return replay(r)
	}
	if d.base > 0 {
		n, err := l.readWhole(baseName(d.base), d.base, count)
		if err != nil {
			return found, err
		}
		l.compactor.base.Store(n)
		found.Bytes += n
	}
	for i, n := range d.logs {
		if i == len(d.logs)-1 {
			err = l.resume(n, count, &found)
		} else {
			var size int64
			size, err = l.readWhole(logName(n), n, count)
			l.compactor.grown(size)
			found.Bytes += size
		}
		if err != nil {
			return found, err
		}
	}
	if len(d.logs) == 0 {
		w := &l.w
		if w.file, w.header, err = l.create(logName(d.base+1), d.base+1); err != nil {
			return found, err
		}
		w.offset, w.synced = headerSize, headerSize
	}
	for _, name := range d.litter {
		if err := l.fs.Remove(name); err != nil {
			l.w.file.Close()
			return found, err
		}
	}
	if err := l.makeReserve(); err != nil {
		// The disk is full already: what is there can be read all the same.
		l.refuse(fmt.Errorf("aof: no room on disk: %w", err))
		l.w.noReserve = true
	}
	return found, nil
}

// dropUnused takes out a last log that was made but never used, because
// making it failed: then the one before it has no end and went on.
func (l *Log) dropUnused(d *listing) error {
	last := len(d.logs) - 1
	if last < 1 {
		return nil
	}
	f, _, size, err := l.openFile(logName(d.logs[last]), d.logs[last])
	if f == nil {
		return err
	}
	f.Close()
	if size > headerSize {
		return nil
	}
	before := d.logs[last-1]
	f, h, size, err := l.openFile(logName(before), before)
	if err != nil {
		if f != nil {
			f.Close()
		}
		return err
	}
	defer f.Close()
	s := &scanner{f: f, size: size, seed: h.seed()}
	fr, _, reason, err := s.at(max(headerSize, size-headerSize))
	if err == nil && (reason != "" || fr.kind != kindSeal) {
		d.litter = append(d.litter, logName(d.logs[last]))
		d.logs = d.logs[:last]
	}
	return err
}

// create makes a file with its header, so that it is there after a power cut.
func (l *Log) create(name string, number uint64) (File, fileHeader, error) {
	h, err := newHeader(number)
	if err != nil {
		return nil, h, err
	}
	f, err := l.fs.Create(name)
	if err != nil {
		return nil, h, err
	}
	if _, err = f.WriteAt(h.encode(), 0); err == nil {
		if err = f.Sync(); err == nil {
			err = l.fs.Sync()
		}
	}
	if err != nil {
		f.Close()
		return nil, h, err
	}
	return f, h, nil
}

// openFile opens a file and reads its header. size is that of the file.
func (l *Log) openFile(name string, number uint64) (f File, h fileHeader, size int64, err error) {
	if f, err = l.fs.Open(name); err != nil {
		return nil, h, 0, err
	}
	size, err = f.Size()
	b := make([]byte, min(size, headerSize))
	if err == nil && size > 0 {
		_, err = f.ReadAt(b, 0)
	}
	if err != nil {
		f.Close()
		return nil, h, 0, err
	}
	h, reason := decodeHeader(b, number)
	if reason != "" {
		return f, h, size, &CorruptError{File: name, Reason: reason}
	}
	return f, h, size, nil
}

// A reading is how far a file could be read.
type reading struct {
	end    int64 // of the last valid frame
	sealed bool  // the last frame is a seal
	reason string
}

func read(name string, s *scanner, f func(Record) error) (r reading, err error) {
	r.end = headerSize
	for r.end < s.size {
		fr, payload, reason, err := s.at(r.end)
		if err != nil || reason != "" {
			r.reason = reason
			return r, err
		}
		if err := eachRecord(payload, f); err != nil {
			return r, fmt.Errorf("%s, frame at offset %d: %w", name, r.end, err)
		}
		r.end, r.sealed = fr.end(), fr.kind == kindSeal
	}
	return r, nil
}

// readWhole replays a file that must be whole, and returns its size.
func (l *Log) readWhole(name string, number uint64, f func(Record) error) (int64, error) {
	file, h, size, err := l.openFile(name, number)
	if file != nil {
		defer file.Close()
	}
	if err != nil {
		return 0, err
	}
	r, err := read(name, &scanner{f: file, size: size, seed: h.seed()}, f)
	switch {
	case err != nil:
		return 0, err
	case r.reason != "":
		return 0, &CorruptError{File: name, Offset: r.end, Reason: r.reason}
	case !r.sealed:
		return 0, &CorruptError{File: name, Offset: r.end, Reason: "the end is missing"}
	}
	return size, nil
}

// resume replays the last log, cuts off a torn tail, and goes on behind it.
func (l *Log) resume(number uint64, f func(Record) error, found *Found) error {
	name := logName(number)
	file, h, size, err := l.openFile(name, number)
	w := &l.w
	if err != nil {
		if file == nil {
			return err
		}
		file.Close()
		if size > headerSize {
			return err // the header was synced before the first frame was written
		}
		if size > 0 {
			found.Torn = &Torn{File: name, Bytes: size, Reason: "the header is not whole"}
		}
		w.file, w.header, err = l.create(name, number)
		w.offset, w.synced = headerSize, headerSize
		return err
	}
	s := &scanner{f: file, size: size, seed: h.seed()}
	r, err := read(name, s, f)
	if err == nil && r.reason != "" {
		var corrupt bool
		if corrupt, err = s.confirmed(r.end); corrupt {
			err = &CorruptError{File: name, Offset: r.end, Reason: r.reason}
		} else if err == nil {
			found.Torn = &Torn{File: name, Offset: r.end, Bytes: size - r.end, Reason: r.reason}
			err = file.Truncate(r.end)
		}
	}
	if err == nil {
		// What is replayed is about to be seen: it must survive from now on.
		err = file.Sync()
	}
	if err != nil {
		file.Close()
		return err
	}
	w.file, w.header, w.offset, w.synced = file, h, r.end, r.end
	l.compactor.grown(r.end)
	found.Bytes += r.end
	return nil
}
