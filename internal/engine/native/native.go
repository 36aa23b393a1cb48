package native

import (
	"bytes"
	"maps"
	"strconv"

	"github.com/redoubt-go/redoubt/internal/engine"
)

// functions have the digests of the scripts that they stand for. When a script changes, its
// function must change too: a script whose digest is not here runs as Lua, which is slower and
// never wrong.
var functions = map[string]engine.Native{
	"7aa36b0fd6224d1b0b1a08aff601a6566a514958": gcra,         // internal/wire/ratelimit/lua/gcra.lua with its parts
	"2bb60b580a41164071a23f321e4b9e92c95fcf8e": window,       // internal/wire/ratelimit/lua/window.lua
	"877762adbda764e0fbd6f0ddef69354161f6839b": quota,        // internal/wire/ratelimit/lua/quota.lua
	"777d388bf3ae5af8180ae100a9cf28fde57a22cd": enter,        // internal/wire/ratelimit/lua/enter.lua
	"a191bdfb5a51b02e4833139518b80abd58cec82c": stay,         // internal/wire/ratelimit/lua/stay.lua
	"c148ba86c30b3b25ecd89ac3519d883e092098a9": acquire,      // internal/wire/lock/lua/acquire.lua
	"936bea7dcf3977c83a42d16ebd9df09b05643aa7": extend,       // internal/wire/lock/lua/extend.lua
	"0e23b03b9f0e2fc51203ada0f27f13feed6ba606": release,      // internal/wire/lock/lua/release.lua with its parts
	"abf84cb7560c459c8462b970142265bc1082c61a": semAcquire,   // internal/wire/lock/lua/sem_acquire.lua
	"c12d5371f503af547d9143e8601ffa0ea69007f9": semRelease,   // internal/wire/lock/lua/sem_release.lua
	"df4a7b2287939818cad48f11704275db2f269025": rwRead,       // internal/wire/lock/lua/rw_read.lua
	"ec5466e2c5d2df12720dc60a9c57ade59636e347": rwRelease,    // internal/wire/lock/lua/rw_release.lua
	"d4157378ee6e256f13b40ef06df13d9781bae4d8": put,          // internal/wire/queue/lua/put.lua with its parts
	"82864cb1c2eff0f19f6bd440fe2aedd2fb02d2ad": runPump,      // internal/wire/queue/lua/pump.lua with its parts
	"6a3251c13925216cb3efda371f900fdf6bf52072": add,          // internal/wire/bloom/lua/add.lua
	"e7bdf350db8eb3d3b4aaa76896ee253a43e13de4": setField,     // internal/wire/ttlhash/lua/set.lua with its parts
	"94e8ab4bcae93488a92d1beac308d81819924dd5": mapSet,       // internal/wire/bitmap/lua/map_set.lua
	"0124162cbbb82809f29d672523548209f08d0755": recordUpdate, // internal/wire/bitmap/lua/record_update.lua
	"0e488ad65ccff40d8c67e8c6b755e356d7651a26": geoPut,       // internal/wire/geo/lua/put.lua
	"0ef5686c4259998340609251baa44ab45ed3781d": reserve,      // internal/wire/stock/lua/reserve.lua
	"9671b4d3fb57944405cdcacdc149505d6b7cb035": settle,       // internal/wire/stock/lua/settle.lua
}

// All returns the functions by the digests of their scripts. The map is new:
// it may be changed.
func All() map[string]engine.Native { return maps.Clone(functions) }

// exact is the bound of all numbers that the functions handle: a quarter of the largest number up
// to which Lua's integers are exact, so that the sum of a few of them is exact too. They leave
// greater numbers to Lua.
const exact = 1 << 51

// integer reads an integer as it is written by %.0f. It reports false for
// everything else that Lua would take for a number.
func integer(b []byte) (int64, bool) {
	n, ok := whole(b)
	return n, ok && n <= exact && n >= -exact
}

// whole is integer up to the last that Lua has exactly.
func whole(b []byte) (int64, bool) {
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
	return n, n <= 4*exact && n >= -4*exact
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

func digits(tx *engine.Tx, n int64) []byte { return appendInt(tx.Word(), n) }

func appendInt(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }

// answer is a reply of integers.
func answer(tx *engine.Tx, ns ...int64) {
	tx.Array(len(ns))
	for _, n := range ns {
		tx.Int(n)
	}
}

func word(s string) []byte { return []byte(s) }

// nulls reports whether the next n elements are null.
func nulls(v *engine.Value, n int) bool {
	for range n {
		if !v.Null() {
			return false
		}
	}
	return true
}

// optional reads a field of HMGET as `tonumber(field or 0)`.
func optional(v *engine.Value) (n int64, ok bool) {
	b, there := v.Bulk()
	if !there {
		return 0, true
	}
	return integer(b)
}
