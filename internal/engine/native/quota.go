package native

import (
	"bytes"

	"github.com/redoubt-go/redoubt/internal/engine"
)

// mostPeriod is a bound, in s, of what is left of a period. It keeps µs exact in Lua.
const mostPeriod = 1 << 31

// quota is ratelimit/lua/quota.lua for one allowance; it leaves several to Lua.
func quota(tx *engine.Tx) bool {
	if len(tx.Keys) != 1 || len(tx.Args) != 7 {
		return false
	}
	var most, least, limit int64
	var begins [4]int64
	if !integers(tx.Args, &most, &least, &limit, &begins[0], &begins[1], &begins[2], &begins[3]) || most < 0 || least < 0 {
		return false
	}
	us := tx.Micros()
	now := us / 1e6
	v := tx.Do(cmdGet, tx.Keys[0])
	b, there := v.Bulk()
	var begun, used int64
	if there {
		first, second, _ := bytes.Cut(b, wordBlank)
		var ok1, ok2 bool
		begun, ok1 = integer(first)
		used, ok2 = integer(second)
		if !ok1 || !ok2 || begun < 0 || used < 0 {
			return false
		}
	}
	period := -1
	for k := range 3 {
		if now >= begins[k] && now < begins[k+1] {
			period = k
		}
	}
	if period < 0 {
		answer(tx, -1, 0, now, 0, 0)
		return true
	}
	start := begins[period]
	if there && begun >= start {
		start = begun
	} else {
		used = 0
	}
	stop := begins[period+1]
	if stop <= start {
		stop = begins[min(period+2, 3)]
	}
	if stop <= now || stop-now > mostPeriod {
		return false
	}
	wanted, left := max(least, 1), max(limit-used, 0)
	reset := stop*1e6 - us
	taken := min(most, left)
	if taken < least {
		taken = 0
	}
	if taken == 0 {
		retry := int64(0)
		if wanted <= limit && left < wanted {
			retry = reset
		}
		answer(tx, 0, 0, left, retry, reset)
		return true
	}
	value := append(append(digits(tx, start), ' '), digits(tx, used+taken)...)
	tx.Do(cmdSet, tx.Keys[0], value, wordPX, digits(tx, (reset+999)/1000))
	answer(tx, taken, 0, left-taken, 0, reset)
	return true
}
