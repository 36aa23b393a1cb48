package resp

import "math"

// ParseInt reads a signed 64-bit decimal number in the one form that Redis
// accepts: no spaces, no plus, no leading zeros, no "-0". It doesn't allocate.
func ParseInt(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	neg := b[0] == '-'
	if neg {
		b = b[1:]
	}
	if len(b) == 0 {
		return 0, false
	}
	if b[0] == '0' {
		return 0, len(b) == 1 && !neg
	}
	var n uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n > (math.MaxUint64-9)/10 {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	if neg {
		if n > 1<<63 {
			return 0, false
		}
		return -int64(n), true //nolint:gosec // 1<<63 negates to itself, which is the least int64
	}
	if n > math.MaxInt64 {
		return 0, false
	}
	return int64(n), true
}
