package rdb

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
)

// A FileReader reads an RDB file key by key, in the memory of the largest value. It knows files of Redis
// up to 8.2 (version 12) and of Valkey up to 9 (80). It reads a newer file as long as that has no unknown
// part.
//
// It skips access times and frequencies, and the data that modules keep beside the keys. It is not safe for
// concurrent use.
type FileReader struct {
	in        *bufio.Reader
	offset    int64
	crc       uint64
	version   int // of the format
	valkey    bool
	db        int
	streamDB  int
	libraries []string
	buf       []byte // what was read since the last type
	err       error
}

// NewFileReader reads the header of a file. Its error is a [FileError], or the error of r.
func NewFileReader(r io.Reader) (*FileReader, error) {
	f := &FileReader{in: bufio.NewReaderSize(r, 256<<10)}
	magic := string(f.take(5))
	switch {
	case magic == "VALKE":
		magic += string(f.take(1))
		f.valkey = true
	case magic != "REDIS":
		f.fail("it doesn't begin with REDIS, so it is no RDB file")
	}
	digits := 4
	if f.valkey {
		digits = 3
	}
	n, err := strconv.ParseUint(string(f.take(uint64(digits))), 10, 16)
	if err != nil || n == 0 || f.valkey && magic != "VALKEY" {
		f.fail("it has no version, so it is no RDB file")
	}
	f.version = int(n) //nolint:gosec // below 65,536
	return f, f.err
}

// Version is the version of the format: 9 for Redis 5.0 to 6.2, 10 for 7.0, 11 for 7.2, 12 for 7.4 and
// later, from 80 on for Valkey 9.
func (f *FileReader) Version() int { return f.version }

// Libraries returns the code of the libraries of FUNCTION LOAD that came so far.
func (f *FileReader) Libraries() []string { return f.libraries }

// StreamDB returns the database that a replication stream behind the file has selected, 0 unless the part of the file
// read so far has another.
func (f *FileReader) StreamDB() int { return f.streamDB }

// Offset is how many bytes were read so far.
func (f *FileReader) Offset() int64 { return f.offset }

// Next returns the next key, whose memory is the caller's. At the end, when the
// checksum is right or the file has none, the error is io.EOF. Any other is a
// [FileError] or what reading returned, and stays. That the payload can be read is
// not checked: see [Check].
func (f *FileReader) Next() (Entry, error) {
	e := Entry{}
	for f.err == nil {
		f.crc = extend(f.crc, f.buf)
		f.buf = f.buf[:0]
		at := f.offset
		switch op := f.byte(); op {
		case opSelect:
			if n := f.length(); n > math.MaxInt32 {
				f.fail("the number of a database is out of range")
			} else {
				f.db = int(n) //nolint:gosec // below 2^31
			}
		case opExpireMS:
			e.Deadline = f.deadline(f.uint64(), 1)
		case opExpire:
			e.Deadline = f.deadline(uint64(binary.LittleEndian.Uint32(f.must(4))), 1000)
		case opIdle:
			f.length()
		case opFreq:
			f.byte()
		case opAux:
			f.aux()
		case opResize:
			f.lengths(2)
		case opSlotInfo:
			f.lengths(3)
		case opFunction:
			f.library()
		case opModuleAux:
			f.lengths(3)
			f.module()
		case opEnd:
			f.end()
		default:
			f.entry(&e, op, at)
			if f.err == nil {
				return e, nil
			}
		}
	}
	return Entry{}, f.err
}

// library reads a library of functions.
func (f *FileReader) library() {
	from := len(f.buf)
	f.string()
	if f.err != nil {
		return
	}
	r := reader{b: f.buf[from:], left: Largest}
	code := r.string()
	if r.bad {
		f.fail("a library of functions can't be read")
		return
	}
	f.libraries = append(f.libraries, string(code))
}

// aux reads something that the file says of itself.
func (f *FileReader) aux() {
	from := len(f.buf)
	f.pair()
	if f.err != nil {
		return
	}
	r := reader{b: f.buf[from:], left: Largest}
	if string(r.string()) != streamDB {
		return
	}
	if n, err := strconv.ParseUint(string(r.string()), 10, 31); err == nil && !r.bad {
		f.streamDB = int(n)
	}
}

// deadline turns a time of a file into Unix ms, never 0.
func (f *FileReader) deadline(n, unit uint64) int64 {
	if n > maxTime/unit {
		f.fail("a time to live is out of range")
		return 0
	}
	return max(1, int64(n*unit)) //nolint:gosec // below maxTime
}

// entry reads a key and its value, whose type is read already.
func (f *FileReader) entry(e *Entry, t byte, at int64) {
	f.string()
	if f.err != nil {
		return
	}
	r := reader{b: f.buf[1:], left: Largest}
	key := r.string()
	if r.bad {
		f.fail("a key is broken")
		return
	}
	e.DB, e.Key = f.db, slices.Clone(key)
	from := len(f.buf)
	f.value(t)
	if f.err != nil {
		return
	}
	if t == typeHashValkey && f.valkey {
		v, err := parseValkeyHash(f.buf[from:])
		if err != nil {
			f.offset = at
			f.fail(fmt.Sprintf("key %.100q: %s", key, errEntry(err)))
			return
		}
		e.Payload = Payload(nil, v)
		return
	}
	e.Payload = append(make([]byte, 0, 1+len(f.buf)-from+footer), t)
	e.Payload = stamp(append(e.Payload, f.buf[from:]...), since(t))
}

// end checks what follows the last key.
func (f *FileReader) end() {
	crc := extend(f.crc, f.buf)
	if f.version >= endVersion {
		// Redis writes 0 when it is told not to compute a checksum.
		if want := f.uint64(); f.err == nil && want != 0 && want != crc {
			f.fail(fmt.Sprintf("the checksum is %016x, not %016x as it says: the file is damaged", crc, want))
		}
	}
	if f.err == nil {
		f.err = io.EOF
	}
}

func (f *FileReader) fail(reason string) {
	if f.err == nil {
		f.err = &FileError{Offset: f.offset, Reason: reason}
	}
}

// take reads n bytes. On the word of a length alone no memory is taken.
func (f *FileReader) take(n uint64) []byte {
	from := len(f.buf)
	for n > 0 && f.err == nil {
		part := int(min(n, 1<<20)) //nolint:gosec // at most 2^20
		at := len(f.buf)
		f.buf = slices.Grow(f.buf, part)[:at+part]
		got, err := io.ReadFull(f.in, f.buf[at:])
		f.offset += int64(got)
		n -= uint64(part) //nolint:gosec // positive
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			f.fail("it ends too early: it was not written to its end, or was cut")
		case err != nil:
			f.err = err
		}
	}
	if f.err != nil {
		return nil
	}
	return f.buf[from:]
}

// must is take for a few bytes, zeros after a failure.
func (f *FileReader) must(n int) []byte {
	if b := f.take(uint64(n)); b != nil { //nolint:gosec // positive
		return b
	}
	return make([]byte, n)
}

func (f *FileReader) byte() byte { return f.must(1)[0] }

func (f *FileReader) uint64() uint64 { return binary.LittleEndian.Uint64(f.must(8)) }
