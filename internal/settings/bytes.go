package settings

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is a flag's value: a number of bytes, like 1048576, 64KiB, 1MiB or 2GiB. KB, MB and GB mean the same
// as KiB, MiB and GiB, as in redis.conf. Case does not matter.
type Bytes int

// units are tried in order, because the last is a suffix of all others.
var units = []struct {
	name string
	size int
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30},
	{"kb", 1 << 10}, {"mb", 1 << 20}, {"gb", 1 << 30},
	{"b", 1},
}

// Set implements pflag.Value.
func (b *Bytes) Set(s string) error {
	digits, size := strings.ToLower(strings.TrimSpace(s)), 1
	for _, u := range units {
		if d, ok := strings.CutSuffix(digits, u.name); ok {
			digits, size = strings.TrimSpace(d), u.size
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return fmt.Errorf("%q is not a size; want a number of bytes like 1048576, 64KiB or 1GiB", s)
	}
	if n > math.MaxInt/uint64(size) {
		return fmt.Errorf("%q is too large", s)
	}
	*b = Bytes(n * uint64(size))
	return nil
}

// String implements pflag.Value.
func (b *Bytes) String() string {
	for _, u := range []int{2, 1, 0} {
		if n := int(*b); n != 0 && n%units[u].size == 0 {
			return strconv.Itoa(n/units[u].size) + []string{"KiB", "MiB", "GiB"}[u]
		}
	}
	return strconv.Itoa(int(*b))
}

// Type implements pflag.Value: it names the value in help.
func (b *Bytes) Type() string { return "size" }
