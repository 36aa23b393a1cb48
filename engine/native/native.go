package native

import (
	"bytes"
	"strconv"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/ratelimit"
)

var functions = map[string]engine.Native{
	"ratelimit.gcra": gcra,
	"lock.acquire":   acquire,
	"lock.extend":    extend,
	"lock.release":   release,
	"lock.info":      info,
}

// All returns the functions by the digests of their scripts. The map is new:
// it may be changed.
func All() map[string]engine.Native {
	all := map[string]engine.Native{}
	for _, list := range [][]*redoubt.Script{ratelimit.Scripts(), lock.Scripts()} {
		for _, s := range list {
			if f := functions[s.Name()]; f != nil {
				all[s.Digest()] = f
			}
		}
	}
	return all
}

// exact is the largest number up to which all integers are exact in Lua. The
// functions leave to Lua what is beyond a quarter of it, so that no sum of a
// few numbers is.
const exact = 1 << 51

// integer reads an integer as it is written by %.0f. It reports false for
// everything else that Lua would take for a number.
func integer(b []byte) (int64, bool) {
	digits, neg := bytes.CutPrefix(b, []byte("-"))
	if len(digits) == 0 || len(digits) > 16 || digits[0] == '0' && (neg || len(digits) > 1) {
		return 0, false
	}
	n := int64(0)
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + int64(d-'0')
	}
	if neg {
		n = -n
	}
	return n, n <= exact && n >= -exact
}

// integers reads the arguments at the positions given into the numbers.
func integers(args [][]byte, into ...*int64) bool {
	for i, p := range into {
		n, ok := integer(args[i])
		if !ok {
			return false
		}
		*p = n
	}
	return true
}

func digits(n int64) []byte { return strconv.AppendInt(make([]byte, 0, 20), n, 10) }

func word(s string) []byte { return []byte(s) }

// optional reads a field of HMGET as `tonumber(field or 0)`.
func optional(v *engine.Value) (n int64, ok bool) {
	b, there := v.Bulk()
	if !there {
		return 0, true
	}
	return integer(b)
}
