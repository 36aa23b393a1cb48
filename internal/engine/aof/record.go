package aof

import (
	"encoding/binary"
	"errors"
)

var errRecord = errors.New("aof: not a record")

func uvarintLen(n int) int {
	size := 1
	for x := uint64(n); x >= 0x80; x >>= 7 {
		size++
	}
	return size
}

// recordLen returns the length of a record without its length.
func recordLen(db int, commands [][][]byte) int {
	n := uvarintLen(db) + uvarintLen(len(commands))
	for _, args := range commands {
		n += uvarintLen(len(args))
		for _, a := range args {
			n += uvarintLen(len(a)) + len(a)
		}
	}
	return n
}

func appendRecord(dst []byte, db int, commands [][][]byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(recordLen(db, commands)))
	dst = binary.AppendUvarint(dst, uint64(db))
	dst = binary.AppendUvarint(dst, uint64(len(commands)))
	for _, args := range commands {
		dst = binary.AppendUvarint(dst, uint64(len(args)))
		for _, a := range args {
			dst = binary.AppendUvarint(dst, uint64(len(a)))
			dst = append(dst, a...)
		}
	}
	return dst
}

// A Record is a set of changes that were committed together. Its memory is
// used again when the function that got it returns.
type Record struct {
	DB       int
	Commands [][][]byte
}

// A reader takes uvarints and bytes from the front of b. Nothing is allocated
// on the word of a length alone.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) int() int {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > uint64(1<<32) {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[size:]
	return int(n)
}

func (r *reader) bytes(n int) []byte {
	if n > len(r.b) {
		r.bad, r.b = true, nil
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

// eachRecord calls f for the records of a payload.
func eachRecord(payload []byte, f func(Record) error) error {
	all := reader{b: payload}
	var flat [][]byte // the arguments of all commands of a record
	var commands [][][]byte
	for len(all.b) > 0 {
		one := reader{b: all.bytes(all.int())}
		rec := Record{DB: one.int(), Commands: commands[:0]}
		flat = flat[:0]
		for n := one.int(); n > 0 && !one.bad; n-- {
			from := len(flat)
			for m := one.int(); m > 0 && !one.bad; m-- {
				flat = append(flat, one.bytes(one.int()))
			}
			rec.Commands = append(rec.Commands, flat[from:len(flat):len(flat)])
		}
		commands = rec.Commands
		if all.bad || one.bad || len(one.b) > 0 {
			return errRecord
		}
		if err := f(rec); err != nil {
			return err
		}
	}
	return nil
}
