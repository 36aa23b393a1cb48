package engine

import "bytes"

// Slots is the number of hash slots of a Redis cluster.
const Slots = 16384

// crcTable is CRC16-XMODEM (polynomial 0x1021, initial value 0), the checksum
// of the Redis cluster specification.
var crcTable = func() (t [256]uint16) {
	for i := range t {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		t[i] = crc
	}
	return t
}()

// Slot returns the cluster slot of key. When key contains a {tag} that is not
// empty, only the tag counts, so that keys with one tag share a slot.
func Slot(key []byte) uint16 {
	var crc uint16
	for _, b := range key {
		if b == '{' {
			return crc16(tagOf(key)) % Slots
		}
		crc = crc<<8 ^ crcTable[byte(crc>>8)^b]
	}
	return crc % Slots
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
	for _, x := range b {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^x]
	}
	return crc
}
