package rdb

import (
	"encoding/binary"
	"math"
	"strconv"
)

const footer = 2 + 8 // version and checksum

// A Work is called repeatedly by functions that read many bytes, with the number of bytes since the last
// call. It may panic to end the function. A nil Work counts nothing.
type Work func(bytes int)

func (w Work) count(bytes int) {
	if w != nil {
		w(bytes)
	}
}

// Payload appends v in the format of DUMP to dst: its type, its body, the version and the checksum.
// Collections are written element by element. Every Redis reads this form and converts it.
func Payload(dst []byte, v *Value) []byte { return PayloadWith(dst, v, nil) }

// PayloadWith is [Payload] for a caller that counts the work.
func PayloadWith(dst []byte, v *Value, work Work) []byte {
	from := len(dst)
	version := uint16(Version)
	switch v.Kind {
	case List:
		dst = appendStrings(append(dst, typeList), v.Elements, work)
	case Set:
		dst = appendStrings(append(dst, typeSet), v.Elements, work)
	case Zset:
		dst = appendLen(append(dst, typeZset2), uint64(len(v.Elements)))
		for i, m := range v.Elements {
			work.count(perElement + len(m))
			dst = appendString(dst, m)
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.Scores[i]))
		}
	case Hash:
		if v.Expires != nil {
			version = VersionFieldTTL
		}
		dst = appendHash(dst, v, work)
	case Stream:
		dst = appendStream(dst, v.Stream, 2, work)
	default:
		work.count(len(v.Str))
		dst = appendString(append(dst, typeString), v.Str)
	}
	dst = binary.LittleEndian.AppendUint16(dst, version)
	return binary.LittleEndian.AppendUint64(dst, checksumWith(dst[from:], work))
}

// appendHash writes the fields' deadlines as distances from the earliest.
func appendHash(dst []byte, v *Value, work Work) []byte {
	var earliest int64
	if v.Expires == nil {
		dst = append(dst, typeHash)
	} else {
		for _, at := range v.Expires {
			if at != 0 && (earliest == 0 || at < earliest) {
				earliest = at
			}
		}
		dst = binary.LittleEndian.AppendUint64(append(dst, typeHashTTL), uint64(earliest)) //nolint:gosec // not negative
	}
	dst = appendLen(dst, uint64(len(v.Elements)))
	for i, name := range v.Elements {
		work.count(2*perElement + len(name) + len(v.Values[i]))
		if v.Expires != nil {
			after := uint64(0)
			if at := v.Expires[i]; at != 0 {
				after = uint64(at-earliest) + 1 //nolint:gosec // earliest is the least
			}
			dst = appendLen(dst, after)
		}
		dst = appendString(appendString(dst, name), v.Values[i])
	}
	return dst
}

func appendStrings(dst []byte, all [][]byte, work Work) []byte {
	dst = appendLen(dst, uint64(len(all)))
	for _, s := range all {
		work.count(perElement + len(s))
		dst = appendString(dst, s)
	}
	return dst
}

// The first two bits of a length say how long the length is; 11 that a string
// is written in a form of its own, which the other six tell.
const (
	len6  = 0
	len14 = 1
	len32 = 0x80
	len64 = 0x81

	encInt8  = 0
	encInt16 = 1
	encInt32 = 2
	encLZF   = 3
)

func appendLen(dst []byte, n uint64) []byte {
	switch {
	case n < 1<<6:
		return append(dst, byte(n))
	case n < 1<<14:
		return append(dst, len14<<6|byte(n>>8), byte(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, len32), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, len64), n)
}

// appendString writes a string, a number of up to 32 bits as such.
func appendString(dst, s []byte) []byte {
	if len(s) > 0 && len(s) <= 11 {
		var buf [20]byte
		if n, err := strconv.ParseInt(string(s), 10, 32); err == nil && string(strconv.AppendInt(buf[:0], n, 10)) == string(s) {
			switch {
			case n == int64(int8(n)):
				return append(dst, 0xc0|encInt8, byte(n))
			case n == int64(int16(n)):
				return binary.LittleEndian.AppendUint16(append(dst, 0xc0|encInt16), uint16(n)) //nolint:gosec // two's complement
			default:
				return binary.LittleEndian.AppendUint32(append(dst, 0xc0|encInt32), uint32(n)) //nolint:gosec // two's complement
			}
		}
	}
	return append(appendLen(dst, uint64(len(s))), s...)
}
