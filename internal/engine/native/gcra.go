package native

import (
	"strconv"

	"github.com/redoubt-go/redoubt/internal/engine"
)

var (
	cmdGet   = engine.CommandOf("GET")
	cmdSet   = engine.CommandOf("SET")
	wordPX   = word("PX")
	wordZero = word("0")
)

const (
	second = 1_000_000_000
	// mostSeconds keeps ms exact in Lua.
	mostSeconds = 1 << 40
)

// gcra is ratelimit/lua/gcra.lua for one limit; it leaves several to Lua.
func gcra(tx *engine.Tx) bool {
	if len(tx.Keys) != 1 || len(tx.Args) != 6 {
		return false
	}
	var waitS, waitNS, incS, incNS, tolS, tolNS int64
	if !integers(tx.Args, &waitS, &waitNS, &incS, &incNS, &tolS, &tolNS) {
		return false
	}
	for _, s := range [...]int64{waitS, incS, tolS} {
		if s > mostSeconds || s < -mostSeconds {
			return false
		}
	}
	for _, ns := range [...]int64{waitNS, incNS, tolNS} {
		if ns < 0 || ns >= second {
			return false
		}
	}
	us := tx.Micros()
	nowS, nowNS := us/1e6, us%1e6*1000
	var aheadS, aheadNS int64
	v := tx.Do(cmdGet, tx.Keys[0])
	if tat, there := v.Bulk(); there {
		s, ns, ok := theoretical(tat)
		if !ok {
			return false
		}
		if aheadS, aheadNS = s-nowS, ns-nowNS; aheadNS < 0 {
			aheadS, aheadNS = aheadS-1, aheadNS+second
		}
	}
	ttlS, ttlNS := incS, incNS
	if aheadS >= 0 {
		if ttlS, ttlNS = ttlS+aheadS, ttlNS+aheadNS; ttlNS >= second {
			ttlS, ttlNS = ttlS+1, ttlNS-second
		}
	}
	lateS, lateNS := ttlS-tolS, ttlNS-tolNS
	if lateNS < 0 {
		lateS, lateNS = lateS-1, lateNS+second
	}
	if lateS < 0 {
		lateS, lateNS = 0, 0
	}
	never := incS > tolS || incS == tolS && incNS > tolNS
	if never || lateS > waitS || lateS == waitS && lateNS > waitNS {
		answer(tx, 0, us, aheadS, aheadNS)
		return true
	}
	if ttlS < 0 {
		ttlS, ttlNS = 0, 0
	}
	if incS != 0 || incNS != 0 {
		s, ns := nowS+ttlS, nowNS+ttlNS
		if ns >= second {
			s, ns = s+1, ns-second
		}
		tat := strconv.AppendInt(tx.Word(), s, 10)
		for unit := int64(second / 10); unit > 0; unit /= 10 {
			tat = append(tat, byte('0'+ns/unit%10))
		}
		ms := max(1, ttlS*1000+(ttlNS+999_999)/1_000_000)
		tx.Do(cmdSet, tx.Keys[0], tat, wordPX, strconv.AppendInt(tx.Word(), ms, 10))
	}
	answer(tx, 1, us, ttlS, ttlNS)
	return true
}

// theoretical splits a theoretical arrival time, at least 10 digits, into seconds and ns. It
// reports false for anything else, which is left to Lua.
func theoretical(tat []byte) (s, ns int64, ok bool) {
	n := len(tat) - 9
	if n < 1 || n > 11 {
		return 0, 0, false
	}
	for i, d := range tat {
		if d < '0' || d > '9' {
			return 0, 0, false
		}
		if i < n {
			s = s*10 + int64(d-'0')
		} else {
			ns = ns*10 + int64(d-'0')
		}
	}
	return s, ns, true
}
