package rdb

import (
	"encoding/binary"
	"fmt"
)

// The parts of a value are read only to find its end; Parse takes it apart.

// value reads a value of type t.
func (f *FileReader) value(t byte) {
	switch t {
	case typeString, typeHashZipmap, typeListZiplist, typeSetIntset, typeZsetZiplist, typeHashZiplist,
		typeHashListpack, typeZsetListpack, typeSetListpack:
		f.string()
	case typeList, typeSet, typeListQuicklist:
		f.times(func() { f.string() })
	case typeZset:
		f.times(func() {
			f.string()
			if n := f.byte(); n < 253 {
				f.take(uint64(n))
			}
		})
	case typeHash:
		f.times(func() { f.pair() })
	case typeZset2:
		f.times(func() { f.string(); f.take(8) })
	case typeListQuicklist2:
		f.times(func() { f.length(); f.string() })
	case typeHashTTL:
		f.take(8)
		f.times(func() { f.length(); f.pair() })
	case typeHashListpackEx:
		f.take(8)
		f.string()
	case typeModule2:
		f.length()
		f.module()
	case typeStreamListpacks:
		f.stream(1)
	case typeStreamListpacks2:
		f.stream(2)
	case typeStreamListpacks3:
		f.stream(3)
	default:
		if t == typeHashValkey && f.valkey {
			f.times(func() { f.pair(); f.take(8) })
			return
		}
		f.fail(fmt.Sprintf("type %d is unknown; versions of Redis up to 8.2 and Valkey up to 9.0 are known, this file's is %d", t, f.version))
	}
}

// times reads a number and calls part so often.
func (f *FileReader) times(part func()) {
	for n := f.length(); n > 0 && f.err == nil; n-- {
		part()
	}
}

// length reads a length.
func (f *FileReader) length() uint64 {
	n, special := f.lengthOr()
	if special {
		f.fail("a length is broken")
		return 0
	}
	return n
}

func (f *FileReader) lengths(n int) {
	for range n {
		f.length()
	}
}

// lengthOr reads a length, or with special the form of a string.
func (f *FileReader) lengthOr() (n uint64, special bool) {
	switch b := f.byte(); {
	case b>>6 == len6:
		return uint64(b), false
	case b>>6 == len14:
		return uint64(b&0x3f)<<8 | uint64(f.byte()), false
	case b>>6 == 3:
		return uint64(b & 0x3f), true
	case b == len32:
		return uint64(binary.BigEndian.Uint32(f.must(4))), false
	case b == len64:
		return binary.BigEndian.Uint64(f.must(8)), false
	}
	f.fail("a length is broken")
	return 0, false
}

func (f *FileReader) string() {
	n, special := f.lengthOr()
	if !special {
		f.take(n)
		return
	}
	switch n {
	case encInt8:
		f.take(1)
	case encInt16:
		f.take(2)
	case encInt32:
		f.take(4)
	case encLZF:
		packed := f.length()
		f.length()
		f.take(packed)
	default:
		f.fail("a string is broken")
	}
}

func (f *FileReader) pair() {
	f.string()
	f.string()
}

// module reads what a module has written, which tells its own structure.
func (f *FileReader) module() {
	const end, signed, unsigned, float, double, text = 0, 1, 2, 3, 4, 5
	for f.err == nil {
		switch f.length() {
		case end:
			return
		case signed, unsigned:
			f.length()
		case float:
			f.take(4)
		case double:
			f.take(8)
		case text:
			f.string()
		default:
			f.fail("the value of a module is broken")
		}
	}
}

// stream reads a stream in its first, second or third form.
func (f *FileReader) stream(form int) {
	const id, ms = 16, 8
	f.times(func() { f.pair() })
	f.lengths(3) // entries, and the last id in two parts
	if form >= 2 {
		f.lengths(5)
	}
	f.times(func() { // groups
		f.string()
		f.lengths(2)
		if form >= 2 {
			f.length()
		}
		f.times(func() { // pending
			f.take(id + ms)
			f.length()
		})
		f.times(func() { // consumers
			f.string()
			f.take(ms)
			if form >= 3 {
				f.take(ms)
			}
			f.times(func() { f.take(id) })
		})
	})
}
