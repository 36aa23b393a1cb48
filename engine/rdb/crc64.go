package rdb

// The checksum is the CRC-64 called Jones: polynomial 0xad93d23594c935a9,
// reflected, beginning with 0 and without a final inversion, which is why
// hash/crc64, which inverts, can't be used.
const reflectedJones = 0x95ac9329ac4bc9b5

var crcTable = func() (t [256]uint64) {
	for i := range t {
		crc := uint64(i) //nolint:gosec // < 256
		for range 8 {
			if crc&1 != 0 {
				crc = crc>>1 ^ reflectedJones
			} else {
				crc >>= 1
			}
		}
		t[i] = crc
	}
	return t
}()

func checksum(b []byte) (crc uint64) {
	for _, c := range b {
		crc = crcTable[byte(crc)^c] ^ crc>>8
	}
	return crc
}
