package rdb

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"time"
)

// A FileWriter writes an RDB file. It is not safe for concurrent use.
type FileWriter struct {
	out     *bufio.Writer
	crc     uint64
	version int
	db      int
	buf     []byte
}

// NewFileWriter writes the header of a file of the given version, 9 to [VersionFieldTTL]: see [Version].
// created is the time that the file gives as its creation.
func NewFileWriter(w io.Writer, version int, created time.Time) (*FileWriter, error) {
	if version < 9 || version > VersionFieldTTL {
		return nil, fmt.Errorf("rdb: files are written in version 9 to %d, not %d", VersionFieldTTL, version)
	}
	f := &FileWriter{out: bufio.NewWriterSize(w, 256<<10), version: version, db: -1}
	f.buf = fmt.Appendf(nil, "REDIS%04d", version)
	f.aux("redis-bits", "64")
	f.aux("ctime", strconv.FormatInt(created.Unix(), 10))
	return f, f.write()
}

func (f *FileWriter) aux(name, value string) {
	f.buf = appendString(appendString(append(f.buf, opAux), []byte(name)), []byte(value))
}

// StreamDB notes the database that a replication stream behind the file has selected. It comes in front of all keys.
func (f *FileWriter) StreamDB(db int) error {
	f.aux(streamDB, strconv.Itoa(db))
	return f.write()
}

// Write adds a key. All keys of a database should come together, and no key may
// come twice, or Redis refuses the file. For a value that the version of the file can't
// hold the error matches [ErrNewer], and nothing is written.
func (f *FileWriter) Write(e Entry) error {
	payload, err := Fit(e.Payload, f.version)
	if err != nil {
		return err
	}
	if e.DB != f.db {
		f.buf = appendLen(append(f.buf, opSelect), uint64(e.DB)) //nolint:gosec // not negative
		f.db = e.DB
	}
	if e.Deadline != 0 {
		f.buf = binary.LittleEndian.AppendUint64(append(f.buf, opExpireMS), uint64(e.Deadline)) //nolint:gosec // not negative
	}
	f.buf = appendString(append(f.buf, payload[0]), e.Key)
	f.buf = append(f.buf, payload[1:len(payload)-footer]...)
	return f.write()
}

// Library adds the code of a library of FUNCTION LOAD. Libraries come in front of all keys. In a file of a version
// below [Version] the error matches [ErrNewer], and nothing is written.
func (f *FileWriter) Library(code string) error {
	if f.version < Version {
		return fmt.Errorf("%w: libraries of functions", ErrNewer)
	}
	f.buf = appendString(append(f.buf, opFunction), []byte(code))
	return f.write()
}

// Close ends the file and flushes it. It doesn't close the underlying
// writer.
func (f *FileWriter) Close() error {
	f.buf = append(f.buf, opEnd)
	crc := extend(f.crc, f.buf)
	f.buf = binary.LittleEndian.AppendUint64(f.buf, crc)
	if err := f.write(); err != nil {
		return err
	}
	return f.out.Flush()
}

func (f *FileWriter) write() error {
	f.crc = extend(f.crc, f.buf)
	_, err := f.out.Write(f.buf)
	if f.buf = f.buf[:0]; cap(f.buf) > 1<<20 {
		f.buf = nil
	}
	return err
}
