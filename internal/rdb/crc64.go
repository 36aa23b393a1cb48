package rdb

import "encoding/binary"

// The checksum is the CRC-64 called Jones: polynomial 0xad93d23594c935a9,
// reflected, beginning with 0 and without a final inversion, which is why
// hash/crc64, which inverts, can't be used.
const reflectedJones = 0x95ac9329ac4bc9b5

// crcTables hold in t[k][b] what the byte b does to the checksum when k zero
// bytes follow it, so that eight bytes can be taken at once.
var crcTables = func() (t [8][256]uint64) {
	for i := range t[0] {
		crc := uint64(i) //nolint:gosec // < 256
		for range 8 {
			if crc&1 != 0 {
				crc = crc>>1 ^ reflectedJones
			} else {
				crc >>= 1
			}
		}
		t[0][i] = crc
	}
	for k := 1; k < len(t); k++ {
		for i, crc := range t[k-1] {
			t[k][i] = t[0][byte(crc)] ^ crc>>8
		}
	}
	return t
}()

func checksum(b []byte) uint64 { return extend(0, b) }

func checksumWith(b []byte, work Work) (crc uint64) {
	const part = 64 << 10
	for ; len(b) > part; b = b[part:] {
		crc = extend(crc, b[:part])
		work.count(part)
	}
	return extend(crc, b)
}

// extend returns the checksum of what crc is that of, with b behind it.
func extend(crc uint64, b []byte) uint64 {
	t := &crcTables
	for ; len(b) >= 8; b = b[8:] {
		crc ^= binary.LittleEndian.Uint64(b)
		crc = t[7][byte(crc)] ^ t[6][byte(crc>>8)] ^ t[5][byte(crc>>16)] ^ t[4][byte(crc>>24)] ^
			t[3][byte(crc>>32)] ^ t[2][byte(crc>>40)] ^ t[1][byte(crc>>48)] ^ t[0][crc>>56]
	}
	for _, c := range b {
		crc = t[0][byte(crc)^c] ^ crc>>8
	}
	return crc
}
