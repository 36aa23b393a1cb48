package bloom

import (
	"encoding/binary"
)

// Murmur64A is Austin Appleby's MurmurHash64A. RedisBloom uses two of its hashes for an item; the
// filters of package bloom use one.
func Murmur64A(s string, seed uint64) uint64 {
	const m = 0xc6a4a7935bd1e995
	h := seed ^ uint64(len(s))*m
	for ; len(s) >= 8; s = s[8:] {
		k := binary.LittleEndian.Uint64([]byte(s[:8])) * m
		k = (k ^ k>>47) * m
		h = (h ^ k) * m
	}
	if len(s) > 0 {
		for i := range len(s) {
			h ^= uint64(s[i]) << (8 * i)
		}
		h *= m
	}
	h = (h ^ h>>47) * m
	return h ^ h>>47
}
