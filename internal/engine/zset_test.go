package engine

import (
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// Redis forgets the sign of a zero in its small form of a sorted set, and not in the
// large one, which a long member calls for.
func TestNegativeZeroIsThatOfRedis(t *testing.T) {
	p := newPair(t, resp.RESP2)
	long := strings.Repeat("m", 70)
	for _, line := range []string{
		"ZADD k -0 a", "ZSCORE k a", "ZADD k -0 " + long, "ZSCORE k " + long, "ZSCORE k a", "ZADD k -0 b", "ZSCORE k b", "ZADD l -0 " + long, "ZRANGE l 0 -1 WITHSCORES",
	} {
		p.do(split(line))
	}
}
