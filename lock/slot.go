package lock

import "strings"

// slot returns the hash slot of the keys of name, as in the specification of
// Redis Cluster: of what is between the first '{' and the next '}', here the name
// up to its first '}', CRC-16 with the polynomial 0x1021, modulo 16384.
func slot(name string) uint16 {
	tag, _, _ := strings.Cut(name, "}")
	var crc uint16
	for i := range len(tag) {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % 16384
}
