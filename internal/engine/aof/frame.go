package aof

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

const (
	fileMagic  = "redoubtL"
	frameMagic = "RDf1"
	// Files of version 1 are the same, but had no manifest.
	version    = 2
	headerSize = 32 // of a file and of a frame

	kindRecords = 1
	kindSeal    = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrCorrupt is matched by every [CorruptError].
var ErrCorrupt = errors.New("aof: corrupt file")

// A CorruptError says that a file is missing, or differs from what was written to it. Nothing was
// changed on disk. [Repair] goes on without the lost records.
type CorruptError struct {
	File   string
	Offset int64 // of the first byte that can't be trusted
	Reason string
	Lost   int64 // bytes of the file that were on disk and can't be trusted
}

func (e *CorruptError) Error() string {
	text := fmt.Sprintf("%v %s at offset %d: %s", ErrCorrupt, e.File, e.Offset, e.Reason)
	if e.Lost > 0 {
		text += fmt.Sprintf("; %d bytes from there on were on disk", e.Lost)
	}
	return text
}

// Is reports whether target is [ErrCorrupt].
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

type fileHeader struct {
	number, id uint64
	version    uint32
}

func newHeader(number uint64) (fileHeader, error) {
	var b [8]byte
	_, err := rand.Read(b[:])
	return fileHeader{number, binary.LittleEndian.Uint64(b[:]), version}, err
}

func (h fileHeader) encode() []byte {
	b := make([]byte, headerSize)
	copy(b, fileMagic)
	le := binary.LittleEndian
	le.PutUint32(b[8:], h.version)
	le.PutUint64(b[16:], h.number)
	le.PutUint64(b[24:], h.id)
	le.PutUint32(b[12:], h.sum(b))
	return b
}

func (fileHeader) sum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:12], castagnoli), castagnoli, b[16:headerSize])
}

// decodeHeader returns the reason when b is no header.
func decodeHeader(b []byte, number uint64) (h fileHeader, reason string) {
	le := binary.LittleEndian
	switch {
	case len(b) < headerSize:
		return h, "the header is not whole"
	case string(b[:8]) != fileMagic:
		return h, "the file does not begin with " + fileMagic
	case le.Uint32(b[12:]) != h.sum(b):
		return h, "the checksum of the header is wrong"
	case le.Uint32(b[8:]) == 0 || le.Uint32(b[8:]) > version:
		return h, fmt.Sprintf("version %d is not known", le.Uint32(b[8:]))
	case le.Uint64(b[16:]) != number:
		return h, fmt.Sprintf("the file is number %d", le.Uint64(b[16:]))
	}
	return fileHeader{number, le.Uint64(b[24:]), le.Uint32(b[8:])}, ""
}

// seed is the checksum of the id, with which that of each frame begins, so
// that a frame of another file, in blocks used again, is not taken for one.
func (h fileHeader) seed() uint32 {
	return crc32.Checksum(binary.LittleEndian.AppendUint64(nil, h.id), castagnoli)
}

// A frame is the header of a frame.
type frame struct {
	length int64
	kind   uint32
	offset int64
	synced int64
}

func (f frame) end() int64 { return f.offset + headerSize + f.length }

// seal fills in the header of b, which is a frame with room for it.
func sealFrame(b []byte, seed, kind uint32, offset, synced int64) {
	le := binary.LittleEndian
	copy(b, frameMagic)
	le.PutUint32(b[8:], uint32(len(b)-headerSize))
	le.PutUint32(b[12:], kind)
	le.PutUint64(b[16:], uint64(offset))
	le.PutUint64(b[24:], uint64(synced))
	le.PutUint32(b[4:], crc32.Update(seed, castagnoli, b[8:]))
}

// A scanner reads the frames of a file.
type scanner struct {
	f    io.ReaderAt
	size int64
	seed uint32
	buf  []byte
}

// at reads the frame at offset. The payload is true until the next call. When
// there is no valid frame the reason says why.
func (s *scanner) at(offset int64) (fr frame, payload []byte, reason string, err error) {
	if s.size-offset < headerSize {
		return fr, nil, "the frame is not whole", nil
	}
	var head [headerSize]byte
	if _, err := s.f.ReadAt(head[:], offset); err != nil {
		return fr, nil, "", err
	}
	if fr, reason = s.decode(head[:], offset); reason != "" {
		return fr, nil, reason, nil
	}
	if int64(cap(s.buf)) < fr.length {
		s.buf = make([]byte, fr.length)
	}
	payload = s.buf[:fr.length]
	if fr.length > 0 { // a seal is its header
		if _, err := s.f.ReadAt(payload, offset+headerSize); err != nil {
			return fr, nil, "", err
		}
	}
	sum := crc32.Update(crc32.Update(s.seed, castagnoli, head[8:]), castagnoli, payload)
	if sum != binary.LittleEndian.Uint32(head[4:]) {
		return fr, nil, "the checksum is wrong", nil
	}
	return fr, payload, "", nil
}

func (s *scanner) decode(head []byte, offset int64) (fr frame, reason string) {
	le := binary.LittleEndian
	fr = frame{int64(le.Uint32(head[8:])), le.Uint32(head[12:]), int64(le.Uint64(head[16:])), int64(le.Uint64(head[24:]))}
	switch {
	case string(head[:4]) != frameMagic:
		return fr, "no frame begins here"
	case fr.offset != offset:
		return fr, "the frame is not in its place"
	case fr.end() > s.size:
		return fr, "the frame is not whole"
	case fr.kind != kindRecords && fr.kind != kindSeal:
		return fr, fmt.Sprintf("frames of kind %d are not known", fr.kind)
	}
	return fr, ""
}

// confirmed returns how many bytes of the file some valid frame behind offset
// knew to be on disk.
func (s *scanner) confirmed(offset int64) (known int64, err error) {
	const step = 1 << 20
	chunk := make([]byte, max(0, min(step+headerSize, s.size-offset)))
	for from := offset + 1; from+headerSize <= s.size; from += step {
		b := chunk[:min(int64(len(chunk)), s.size-from)]
		if _, err := s.f.ReadAt(b, from); err != nil {
			return 0, err
		}
		for i := 0; ; i++ {
			j := bytes.Index(b[i:], []byte(frameMagic))
			if j < 0 || i+j >= step || i+j+headerSize > len(b) {
				break
			}
			i += j
			at := from + int64(i)
			if fr, reason := s.decode(b[i:i+headerSize], at); reason != "" || fr.synced <= max(offset, known) {
				continue
			}
			if fr, _, reason, err := s.at(at); err != nil {
				return 0, err
			} else if reason == "" {
				known = fr.synced
			}
		}
	}
	return known, nil
}
