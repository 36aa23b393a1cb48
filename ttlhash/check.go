package ttlhash

import (
	"fmt"
	"strconv"
	"time"
)

// checkTTL returns an error unless ttl is [Never] or whole milliseconds from [MinTTL] to
// [MaxTTL].
func checkTTL(ttl time.Duration) error {
	if ttl != Never && (ttl < MinTTL || ttl > MaxTTL || ttl%time.Millisecond != 0) {
		return fmt.Errorf("ttlhash: ttl is %v; want whole milliseconds from %v to %v, or Never", ttl, MinTTL, MaxTTL)
	}
	return nil
}

// checkField returns an error for a field that is longer than [MaxField].
func checkField(field string) error {
	if len(field) > MaxField {
		return fmt.Errorf("ttlhash: field has %d bytes; want at most %d", len(field), MaxField)
	}
	return nil
}

// checkValue returns an error for a value that is longer than [MaxValue].
func checkValue(value string) error {
	if len(value) > MaxValue {
		return fmt.Errorf("ttlhash: value has %d bytes; want at most %d", len(value), MaxValue)
	}
	return nil
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
