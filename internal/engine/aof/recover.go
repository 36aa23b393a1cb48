package aof

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

func logName(n uint64) string  { return fmt.Sprintf("%010d.log", n) }
func baseName(n uint64) string { return fmt.Sprintf("%010d.base", n) }

// A listing is the content of a directory.
type listing struct {
	bases, logs []uint64 // in order
	tmp         []string
}

// last returns the greatest number, 0 when there is no file.
func (d listing) last() uint64 {
	return slices.Max(slices.Concat([]uint64{0}, d.bases, d.logs))
}

func list(dir FS) (d listing, err error) {
	names, err := dir.List()
	for _, name := range names {
		stem, ending, _ := strings.Cut(name, ".")
		n, notNumber := strconv.ParseUint(stem, 10, 64)
		switch {
		case strings.HasSuffix(name, ".tmp"):
			d.tmp = append(d.tmp, name)
		case notNumber != nil:
		case ending == "base" && name == baseName(n):
			d.bases = append(d.bases, n)
		case ending == "log" && name == logName(n):
			d.logs = append(d.logs, n)
		}
	}
	slices.Sort(d.bases)
	slices.Sort(d.logs)
	return d, err
}

// A survey says which files of a directory hold its data.
type survey struct {
	manifest
	synced int64 // bytes of the last log that are known to be on disk
	known  bool  // there is a manifest
	flaw   *CorruptError
	litter []string // leftovers of a crash
}

// surveyDir opens all files and reads none of them to its end.
func surveyDir(dir FS) (s survey, err error) {
	d, err := list(dir)
	if err != nil {
		return s, err
	}
	s.manifest, s.synced, err = readManifest(dir)
	s.known = err == nil
	if s.synced < 0 {
		s.synced = 0
		s.flaw = &CorruptError{File: manifestName, Offset: int64(len(s.body())), Reason: "the mark can't be read"}
	}
	if errors.Is(err, fs.ErrNotExist) {
		s.files, err = assume(dir, d)
	}
	if err != nil {
		return s, err
	}
	for _, e := range s.files {
		if err := s.present(dir, e); err != nil {
			return s, err
		}
	}
	s.litter = d.tmp
	for _, n := range d.bases {
		if n != s.base() {
			s.litter = append(s.litter, baseName(n))
		}
	}
	for _, n := range d.logs {
		if slices.ContainsFunc(s.files, func(e entry) bool { return !e.base && e.number == n }) {
			continue
		}
		if n > s.last() && s.known {
			// A log is named before its first frame is written.
			if size, err := sizeOf(dir, logName(n)); err != nil {
				return s, err
			} else if size > headerSize {
				return s, &CorruptError{File: logName(n), Reason: "it holds data, and the manifest does not name it", Lost: size}
			}
		}
		s.litter = append(s.litter, logName(n))
	}
	return s, nil
}

// least returns how long a file must be.
func (s survey) least(e entry) int64 {
	if !e.base && e.number == s.last() {
		return max(e.length, s.synced)
	}
	return e.length
}

// present returns an error when a file is missing, is not the one that the manifest names,
// or is too short.
func (s survey) present(dir FS, e entry) error {
	f, h, size, err := openFile(dir, e.name(), e.number)
	if f != nil {
		f.Close()
	}
	least := s.least(e)
	corrupt, isCorrupt := errors.AsType[*CorruptError](err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = &CorruptError{File: e.name(), Reason: "the file is missing", Lost: least}
	case isCorrupt && size < least:
		corrupt.Offset, corrupt.Reason, corrupt.Lost = size, "the file ends here", least-size
	case isCorrupt:
		corrupt.Lost = size
	case err == nil && h.id != e.id:
		err = &CorruptError{File: e.name(), Reason: "it is another file of that name", Lost: least}
	case err == nil && size < least:
		err = &CorruptError{File: e.name(), Offset: size, Reason: "the file ends here", Lost: least - size}
	}
	return err
}

// assume returns the files of a directory without a manifest. That is one of version 1, or
// a new one in which a crash left a log without a frame.
func assume(dir FS, d listing) (files []entry, err error) {
	files, err = inOrder(d)
	// A crash leaves logs that were made and never used. The torn tail is in front of them.
	used := len(files)
	for used > 0 && !files[used-1].base {
		size, err := sizeOf(dir, files[used-1].name())
		if err != nil {
			return nil, err
		}
		if size > headerSize {
			break
		}
		used--
	}
	files = files[:used]
	for i, e := range files {
		f, h, size, err := openFile(dir, e.name(), e.number)
		if f != nil {
			f.Close()
		}
		switch {
		case err != nil:
			return nil, err
		case h.version > 1:
			return nil, &CorruptError{File: manifestName, Reason: "the file is missing"}
		}
		last := i == used-1 && !e.base
		files[i].id, files[i].length, files[i].ends = h.id, size, !last
		if last {
			files[i].length = headerSize
		}
	}
	return files, err
}

// inOrder returns the latest base and the logs behind it, whose numbers must
// have no gap.
func inOrder(d listing) (files []entry, err error) {
	base := slices.Max(append([]uint64{0}, d.bases...))
	if base > 0 {
		files = append(files, entry{base: true, number: base})
	}
	wanted := base + 1
	for _, n := range d.logs {
		if n <= base {
			continue
		}
		if n != wanted {
			return files, &CorruptError{File: logName(wanted), Reason: "the file is missing"}
		}
		files = append(files, entry{number: n})
		wanted++
	}
	return files, nil
}

func sizeOf(dir FS, name string) (int64, error) {
	f, err := dir.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.Size()
}

// recover replays the directory and opens the last log.
func (l *Log) recover(replay func(Record) error) (found Found, err error) {
	s, err := surveyDir(l.fs)
	if err != nil {
		return found, err
	}
	found.Flaw = s.flaw
	w := &l.w
	defer func() {
		if err != nil && w.file != nil {
			w.file.Close()
		}
	}()
	count := func(r Record) error {
		found.Records++
		return replay(r)
	}
	for _, e := range s.files {
		size := e.length
		switch {
		case e.base:
			err = readWhole(l.fs, e.name(), e, count)
			l.compactor.base.Store(size)
		case e.number != s.last():
			err = readWhole(l.fs, e.name(), e, count)
			l.compactor.grown(size)
		default:
			size, err = l.resume(e, s.least(e), count, &found)
			l.compactor.grown(size)
		}
		if err != nil {
			return found, err
		}
		found.Bytes += size
	}
	if err := l.take(s); err != nil {
		return found, err
	}
	for _, name := range s.litter {
		if name == logName(w.header.number) {
			continue // it was made anew
		}
		if err := l.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) { // a manifest.tmp was made anew
			return found, err
		}
	}
	if err := l.makeReserve(); err != nil {
		// The disk is full already, but the log can be read.
		l.refuse(fmt.Errorf("aof: no room on disk: %w", err))
		w.noReserve = true
	}
	return found, nil
}

// take makes the manifest name the files found, and makes a log when there is none.
func (l *Log) take(s survey) (err error) {
	w := &l.w
	if s.known {
		// A kill may have come between a rename and its sync. Later confirmations and removals of
		// files rely on this manifest.
		if err := l.fs.Sync(); err != nil {
			return err
		}
		f, err := l.fs.Open(manifestName)
		if err != nil {
			return err
		}
		w.index.open(s.manifest, f)
		w.marked = s.synced
		w.mark()
		return nil
	}
	if w.file == nil {
		n := s.last() + 1
		if w.file, w.header, err = create(l.fs, logName(n), n); err != nil {
			return err
		}
		w.offset, w.synced = headerSize, headerSize
		s.files = append(s.files, entry{number: n, id: w.header.id, length: headerSize})
	}
	return w.index.replace(s.files, w.synced)
}

// create makes a file with its header, so that it is there after a power cut.
func create(dir FS, name string, number uint64) (File, fileHeader, error) {
	h, err := newHeader(number)
	if err != nil {
		return nil, h, err
	}
	f, err := dir.Create(name)
	if err != nil {
		return nil, h, err
	}
	if _, err = f.WriteAt(h.encode(), 0); err == nil {
		if err = f.Sync(); err == nil {
			err = dir.Sync()
		}
	}
	if err != nil {
		f.Close()
		return nil, h, err
	}
	return f, h, nil
}

// openFile opens a file and reads its header. size is that of the file.
func openFile(dir FS, name string, number uint64) (f File, h fileHeader, size int64, err error) {
	if f, err = dir.Open(name); err != nil {
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

// readWhole replays a file that must be whole.
func readWhole(dir FS, name string, e entry, f func(Record) error) error {
	file, h, size, err := openFile(dir, name, e.number)
	if file != nil {
		defer file.Close()
	}
	if err != nil {
		return err
	}
	// The bytes behind the length are a frame that the disk had no room for.
	r, err := read(name, &scanner{f: file, size: min(size, e.length), seed: h.seed()}, f)
	switch {
	case err != nil:
		return err
	case r.reason == "" && (r.end < e.length || e.ends && !r.sealed):
		r.reason = "the end is missing"
	}
	if r.reason != "" {
		return &CorruptError{File: name, Offset: r.end, Reason: r.reason, Lost: e.length - r.end}
	}
	return nil
}

// readLast replays the last log, whose first least bytes must be whole. It returns the torn end,
// nil for none.
func readLast(file File, e entry, seed uint32, least int64, f func(Record) error) (end int64, torn *Torn, err error) {
	size, err := file.Size()
	if err != nil {
		return 0, nil, err
	}
	s := &scanner{f: file, size: size, seed: seed}
	r, err := read(e.name(), s, f)
	if r.reason == "" && r.end < least {
		r.reason = "the file ends here"
	}
	if err != nil || r.reason == "" {
		return r.end, nil, err
	}
	known, err := s.confirmed(r.end)
	if err != nil {
		return r.end, nil, err
	}
	if least = max(least, known); r.end < least {
		return r.end, nil, &CorruptError{File: e.name(), Offset: r.end, Reason: r.reason, Lost: least - r.end}
	}
	return r.end, &Torn{File: e.name(), Offset: r.end, Bytes: size - r.end, Reason: r.reason}, nil
}

// resume replays the last log, cuts off a torn tail, and goes on behind it.
func (l *Log) resume(e entry, least int64, f func(Record) error, found *Found) (end int64, err error) {
	w := &l.w
	if w.file, w.header, _, err = openFile(l.fs, e.name(), e.number); err != nil {
		return 0, err
	}
	end, found.Torn, err = readLast(w.file, e, w.header.seed(), least, f)
	if err == nil && found.Torn != nil {
		err = w.file.Truncate(end)
	}
	if err == nil {
		// Clients are about to see the replayed records, so these must survive from now on.
		err = w.file.Sync()
	}
	w.offset, w.synced = end, end
	return end, err
}
