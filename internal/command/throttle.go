package command

import (
	"errors"
	"strconv"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/resp"
	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
)

func throttleScripts() []*redoubt.Script { return wire.Scripts() }

// The texts of the redis-cell module, which carry no ERR.
const (
	cellError   = "Cell error: Store error: "
	cellUsage   = cellError + "Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"
	cellInteger = cellError + "Couldn't parse as integer: "
	cellZero    = cellError + "Zero rates are not supported"
	cellExpire  = cellError + "Error while setting key expire"
	cellTooLong = cellError + "The burst takes more than 292 years to come back"
)

var throttleCommands = []*Command{{
	Name:       "CL.THROTTLE",
	Summary:    "Takes tokens from a rate limit, as the redis-cell module does.",
	Since:      "0.1.0",
	Group:      "ratelimit",
	Complexity: "O(1)",
	Arity:      -1, // as the module has it: it checks for itself
	FirstKey:   1, LastKey: 1, KeyStep: 1,
	Flags: []string{"write"},
	Args: []Arg{
		{Name: "key", Type: "key", Summary: "the key that holds the limit, used unchanged; any bytes. Keys written by the module are continued"},
		{Name: "max_burst", Type: "integer", Summary: "tokens available at once beyond the first: max_burst + 1 in all"},
		{Name: "count", Type: "integer", Summary: "tokens that come back in each period"},
		{Name: "period", Type: "integer", Unit: "s", Summary: "the period"},
		{Name: "quantity", Type: "integer", Use: Optional, Summary: "tokens to take. Defaults to 1; 0 takes nothing; a negative quantity gives back, at most as many as were taken"},
	},
	Reply: "Array of five integers: 0 allowed or 1 limited; the limit, max_burst + 1; tokens remaining; seconds until a retry can succeed, -1 when allowed or when the quantity exceeds the limit; seconds until all tokens are back. Seconds are rounded up, but a remainder of less than a millisecond is dropped, so 0 is possible when limited.",
	Errors: []string{
		"`" + cellUsage + "`",
		"`" + cellInteger + "…`",
		"`" + cellZero + "`: count or period is 0, or more than one token a nanosecond",
		"`" + cellExpire + "`: count or period is negative",
		"`" + cellTooLong + "`",
		"`" + wrongType + "`",
	},
	Examples: []Example{{"CL.THROTTLE user123 15 30 60 1", "1) (integer) 0\n2) (integer) 16\n3) (integer) 15\n4) (integer) -1\n5) (integer) 2"}},
	Notes: []string{
		"Many articles show `15` and `14` where this prints `16` and `15`. They describe max_burst as the limit; the module, and so this command, allows max_burst + 1 at once.",
		"It differs from the module in four cases. A key of another type is an error; the module crashes the server. A negative count or period is refused before anything is written; the module leaves a key that never expires. A negative quantity gives back at most what was taken; the module fails if it is more. Keys may be any bytes.",
	},
	Plan: planThrottle,
}}

func planThrottle(env *Env, args [][]byte) Plan {
	if len(args) != 5 && len(args) != 6 {
		return Plan{Err: cellUsage}
	}
	n := [4]int64{3: 1}
	for i, a := range args[2:] {
		var err error
		if n[i], err = strconv.ParseInt(string(a), 10, 64); err != nil {
			return Plan{Err: cellInteger + string(a)}
		}
	}
	t, err := wire.NewThrottle(n[0], n[1], n[2], n[3])
	switch {
	case errors.Is(err, wire.ErrZeroRate):
		return Plan{Err: cellZero}
	case errors.Is(err, wire.ErrNegativeRate):
		return Plan{Err: cellExpire}
	case err != nil:
		return Plan{Err: cellTooLong}
	}
	key := string(args[1])
	cmd := t.Cmd(key)
	return Plan{Cmd: &cmd, Translate: func(dst []byte, _ resp.Protocol, r redoubt.Reply) []byte {
		reply, err := t.Reply(r)
		if err != nil {
			return appendError(dst, err)
		}
		if t.Takes() {
			env.decisions.throttle(key, reply[0] == 0)
		}
		dst = resp.AppendArray(dst, len(reply))
		for _, v := range reply {
			dst = resp.AppendInt(dst, v)
		}
		return dst
	}}
}
