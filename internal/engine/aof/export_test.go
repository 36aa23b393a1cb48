package aof

import "encoding/binary"

// LimitFrames makes frames shorter.
func (l *Log) LimitFrames(bytes int) { l.mostFrame = bytes }

// EachRecord is eachRecord for tests.
var EachRecord = eachRecord

// WithHeader returns a file with another number and version in its header.
func WithHeader(b []byte, number uint64, version uint32) []byte {
	h := fileHeader{number, binary.LittleEndian.Uint64(b[24:]), version}
	return append(h.encode(), b[headerSize:]...)
}
