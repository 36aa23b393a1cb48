// Package keyslot tells which hash slot a key has, as the specification of Redis
// Cluster does.
package keyslot

import "bytes"

// Count is how many slots there are.
const Count = 16384

// tables are for CRC16-XMODEM (polynomial 0x1021, initial value 0), the checksum of the
// specification: [n] has what a byte makes of the checksum that n more bytes follow, so
// that eight bytes don't wait for each other.
var tables = func() (t [8][256]uint16) {
	for i := range t[0] {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		t[0][i] = crc
	}
	for n := 1; n < len(t); n++ {
		for i, crc := range t[n-1] {
			t[n][i] = crc<<8 ^ t[0][crc>>8]
		}
	}
	return t
}()

// Of returns the slot of key. When key contains a {tag} that is not empty, only the tag
// counts, so that keys with one tag share a slot.
func Of(key []byte) uint16 {
	if bytes.IndexByte(key, '{') >= 0 {
		key = tagOf(key)
	}
	return crc16(key) % Count
}

// tagOf returns what of a key with a brace counts for its slot.
func tagOf(key []byte) []byte {
	open := bytes.IndexByte(key, '{')
	if n := bytes.IndexByte(key[open+1:], '}'); n > 0 {
		return key[open+1 : open+1+n]
	}
	return key
}

func crc16(b []byte) (crc uint16) {
	t := &tables
	for ; len(b) >= 8; b = b[8:] {
		_ = b[7]
		crc = t[7][b[0]^byte(crc>>8)] ^ t[6][b[1]^byte(crc)] ^ t[5][b[2]] ^ t[4][b[3]] ^
			t[3][b[4]] ^ t[2][b[5]] ^ t[1][b[6]] ^ t[0][b[7]]
	}
	for _, x := range b {
		crc = crc<<8 ^ t[0][byte(crc>>8)^x]
	}
	return crc
}
