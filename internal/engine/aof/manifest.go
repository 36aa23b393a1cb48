package aof

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"slices"
)

const (
	manifestName  = "manifest"
	manifestTitle = "redoubt manifest 1\n"
	// A mark is overwritten in place and not synced at once. It has a sector of
	// its own, which a disk writes whole or not at all.
	markSize = 512
)

// An entry is a file that the manifest names.
type entry struct {
	base   bool
	number uint64
	id     uint64
	// length is how long the file is. The last log is at least as long.
	length int64
	// ends says that the last frame must be a seal, because no manifest knew
	// the length.
	ends bool
}

func (e entry) name() string {
	if e.base {
		return baseName(e.number)
	}
	return logName(e.number)
}

// A manifest names the files that hold the data: a base or none, and logs in
// the order of their numbers. Its mark says how long the last one is at least.
type manifest struct {
	id    uint64 // random: the mark of another manifest does not match
	files []entry
}

func newManifest(files []entry) (manifest, error) {
	var b [8]byte
	_, err := rand.Read(b[:])
	return manifest{binary.LittleEndian.Uint64(b[:]), files}, err
}

// base returns the number of the base, 0 for none.
func (m manifest) base() uint64 {
	if len(m.files) > 0 && m.files[0].base {
		return m.files[0].number
	}
	return 0
}

// last returns the number of the last file, 0 for none.
func (m manifest) last() uint64 {
	if len(m.files) == 0 {
		return 0
	}
	return m.files[len(m.files)-1].number
}

// body returns all but the mark, filled up to whole sectors.
func (m manifest) body() []byte {
	b := fmt.Appendf(nil, "%sid %016x\n", manifestTitle, m.id)
	for _, e := range m.files {
		b = fmt.Appendf(b, "%s id %016x length %d\n", e.name(), e.id, e.length)
	}
	b = fmt.Appendf(b, "sum %08x\n", crc32.Checksum(b, castagnoli))
	return padded(b)
}

var blank = bytes.Repeat([]byte{'\n'}, markSize)

func padded(b []byte) []byte {
	return append(b, blank[:(markSize-len(b)%markSize)%markSize]...)
}

// mark returns the sector behind the body that says how much of the last log
// is on disk.
func (m manifest) mark(synced int64) []byte { return padded(m.appendMark(nil, synced)) }

func (m manifest) appendMark(b []byte, synced int64) []byte {
	from := len(b)
	b = fmt.Appendf(b, "synced %020d ", synced)
	var id [8]byte
	binary.LittleEndian.PutUint64(id[:], m.id)
	sum := crc32.Update(crc32.Checksum(id[:], castagnoli), castagnoli, b[from:])
	return fmt.Appendf(b, "%08x\n", sum)
}

// decodeManifest returns a manifest and the position of its mark, -1 when the mark can't be read.
func decodeManifest(b []byte) (m manifest, synced int64, reason string) {
	lines := bytes.SplitAfter(b, []byte("\n"))
	if len(lines) < 3 || string(lines[0]) != manifestTitle {
		return m, 0, fmt.Sprintf("the file does not begin with %q", manifestTitle)
	}
	fmt.Sscanf(string(lines[1]), "id %x\n", &m.id) //nolint:errcheck // what it reads is compared below
	for _, line := range lines[2:] {
		var e entry
		var kind string
		if n, _ := fmt.Sscanf(string(line), "%d.%s id %x length %d\n", &e.number, &kind, &e.id, &e.length); n < 4 {
			break
		}
		e.base = kind == "base"
		m.files = append(m.files, e)
	}
	body := m.body()
	if len(b) < len(body) || !bytes.Equal(b[:len(body)], body) {
		return manifest{}, 0, "it is not as it was written"
	}
	if i := slices.IndexFunc(m.files, func(e entry) bool { return !e.base }); i != 0 && (i != 1 || !m.files[0].base) {
		return manifest{}, 0, "it names no log"
	}
	b = b[len(body):]
	fmt.Sscanf(string(b[:min(len(b), markSize)]), "synced %d", &synced) //nolint:errcheck // what it reads is compared below
	if !bytes.Equal(b, m.mark(synced)) {
		synced = -1
	}
	return m, synced, ""
}

// readManifest returns the manifest of a directory, and its mark as decodeManifest does. The error matches
// fs.ErrNotExist when there is none.
func readManifest(dir FS) (m manifest, synced int64, err error) {
	f, err := dir.Open(manifestName)
	if err != nil {
		return m, 0, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return m, 0, err
	}
	b := make([]byte, min(size, 16<<20))
	if _, err := f.ReadAt(b, 0); err != nil && len(b) > 0 {
		return m, 0, err
	}
	m, synced, reason := decodeManifest(b)
	if reason != "" {
		return m, 0, &CorruptError{File: manifestName, Reason: reason}
	}
	return m, synced, nil
}

// An index is the manifest of an open log. It belongs to the writer.
type index struct {
	manifest
	fs      FS
	file    File  // nil before the first is written
	at      int64 // where the mark is
	buf     []byte
	syncing chan error
}

// errUnsynced says that either of two manifests may survive a power cut.
var errUnsynced = errors.New("the directory can't be synced")

// replace puts another manifest in the place of this one. synced is how much of the last
// log is on disk. After an error that matches errUnsynced either of them may be there;
// after any other error it is this one.
func (x *index) replace(files []entry, synced int64) error {
	m, err := newManifest(files)
	if err != nil {
		return err
	}
	const tmp = manifestName + ".tmp"
	if err := writeFile(x.fs, tmp, append(m.body(), m.mark(synced)...)); err != nil {
		x.fs.Remove(tmp) //nolint:errcheck // it is removed when the log is opened
		return err
	}
	x.close() // Windows renames nothing over an open file
	renamed := x.fs.Rename(tmp, manifestName)
	err = renamed
	if err == nil {
		err = x.fs.Sync()
	}
	f, opened := x.fs.Open(manifestName)
	switch {
	case renamed != nil && (opened == nil || x.file == nil):
		x.file = f // the manifest before, if there is one
		return renamed
	case err != nil || opened != nil:
		if opened == nil {
			f.Close() // x.file stays closed, so that no mark goes to either
		}
		return fmt.Errorf("%w: %w", errUnsynced, errors.Join(err, opened))
	}
	x.open(m, f)
	return nil
}

func (x *index) open(m manifest, f File) { x.manifest, x.file, x.at = m, f, int64(len(m.body())) }

func writeFile(dir FS, name string, b []byte) error {
	f, err := dir.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt(b, 0); err != nil {
		return err
	}
	return f.Sync()
}

// setMark writes how much of the last log is on disk. A kill doesn't undo that; a power cut
// may, until the next sync.
func (x *index) setMark(synced int64) error {
	x.buf = padded(x.appendMark(x.buf[:0], synced)) // all of the sector, in case a bit of it was flipped
	_, err := x.file.WriteAt(x.buf, x.at)
	return err
}

// sync makes the mark survive a power cut. If the file was removed, sync writes it anew.
func (x *index) sync(synced int64) error {
	if err := x.settled(); err != nil {
		return err
	}
	if errors.Is(x.file.Linked(), fs.ErrNotExist) {
		return x.replace(slices.Clone(x.files), synced)
	}
	return x.file.Sync()
}

// syncLater syncs in a goroutine of its own. The result comes from syncing.
func (x *index) syncLater() {
	result, f := make(chan error, 1), x.file
	x.syncing = result
	go func() { result <- f.Sync() }()
}

// settled waits for a sync that is under way.
func (x *index) settled() error {
	if x.syncing == nil {
		return nil
	}
	err := <-x.syncing
	x.syncing = nil
	return err
}

func (x *index) close() {
	x.settled() //nolint:errcheck // the next manifest is synced, or the log is closed
	if x.file != nil {
		x.file.Close()
	}
}
