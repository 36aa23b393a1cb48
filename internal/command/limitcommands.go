package command

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/resp"
	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
	"github.com/redoubt-go/redoubt/ratelimit"
)

var limitCommands = []*Command{
	limitCommand(Command{
		Name:     "LIMIT.TAKE",
		Summary:  "Takes tokens from one or more rate limits, from all of them or from none.",
		Arity:    -6,
		Flags:    []string{"write", "denyoom", "noscript", "fast"},
		Args:     []Arg{limitKey, limitTokens, limitLists},
		Reply:    decisionReply,
		Errors:   limitErrors(docSyntax, docLimits, docTokens),
		Examples: []Example{{"LIMIT.TAKE user:42 1 10 1000 10 1000 3600000 1000", "1) (integer) 1\n2) (integer) 9\n3) (integer) 0\n4) (integer) 3600\n5) (integer) -1"}},
		Notes:    []string{"The algorithm is GCRA, as with CL.THROTTLE, in whole nanoseconds. A refusal takes nothing."},
		Plan: func(env *Env, args [][]byte) Plan {
			c, fault := limitCallOf(args)
			if fault != "" {
				return Plan{Err: fault}
			}
			l, fault := c.limiter(env, false)
			if fault != "" {
				return Plan{Err: fault}
			}
			return env.planTokens(l, c)
		},
	}),
	limitCommand(Command{
		Name:       "LIMIT.WINDOW",
		Summary:    "Admits at most a number of calls in any window of a given length, exactly, by a sliding-window log; takes several limits.",
		Complexity: "O(N*log(M)) with N limits of M calls; O(M) when the log grows",
		Arity:      -5,
		Flags:      []string{"write", "denyoom", "noscript"},
		Args: []Arg{limitKey, limitTokens, {Name: "limits", Type: "block", Use: Multiple, Summary: "as in LIMIT.TAKE", Args: []Arg{
			{Name: "limit", Type: "integer", Summary: fmt.Sprintf("calls in any window: 1 to %d", ratelimit.MaxWindow)},
			{Name: "window", Type: "integer", Unit: "ms", Summary: fmt.Sprintf("1 to %d ms", maxLimitMS)},
		}}},
		Reply:    decisionReply,
		Errors:   limitErrors(docSyntax, docLimits, docTokens, "`ERR redoubt: the key holds no log of calls`"),
		Examples: []Example{{"LIMIT.WINDOW sms:4912345 1 3 60000", "1) (integer) 1\n2) (integer) 2\n3) (integer) 0\n4) (integer) 60000\n5) (integer) -1"}},
		Notes:    []string{"It keeps 8 bytes for each admitted call in the window, and nothing for refused calls."},
		Plan: func(env *Env, args [][]byte) Plan {
			c, fault := limitCallOf(args)
			if fault != "" {
				return Plan{Err: fault}
			}
			limits, fault := c.limits(2)
			if fault != "" {
				return Plan{Err: fault}
			}
			w, err := wire.NewWindow(env.Client, "", limits)
			if err != nil {
				return refusal(err)
			}
			cmd, err := w.Cmd(c.name, int(c.n), int(c.n))
			return env.planCounted(c, cmd, func(r redoubt.Reply) (wire.Decision, error) { return w.Read(r, int(c.n)) }, err)
		},
	}),
	limitCommand(Command{
		Name:       "LIMIT.QUOTA",
		Summary:    "Takes from a quota that begins anew with each period of a calendar.",
		Complexity: "O(1)",
		Arity:      6,
		Flags:      []string{"write", "denyoom", "noscript", "fast"},
		Args: []Arg{
			limitKey, limitTokens,
			{Name: "limit", Type: "integer", Summary: fmt.Sprintf("tokens in each period: 1 to %d", int64(ratelimit.MaxAllowance))},
			{Name: "period", Type: "oneof", Args: []Arg{
				{Name: "day", Type: "pure-token", Token: "DAY", Summary: "begins at midnight"},
				{Name: "week", Type: "pure-token", Token: "WEEK", Summary: "begins with Monday"},
				{Name: "month", Type: "pure-token", Token: "MONTH", Summary: "begins with its first day"},
				{Name: "year", Type: "pure-token", Token: "YEAR", Summary: "begins with January 1"},
			}},
			{Name: "zone", Type: "string", Summary: "the time zone, like UTC or Europe/Paris"},
		},
		Reply: decisionReply,
		Errors: limitErrors(docSyntax, docLimits, docTokens, "`ERR redoubt: the key holds no quota`",
			"`ERR redoubt: time zone … is not known; want a name like UTC or Europe/Paris`",
			"`TRYAGAIN redoubt: the server's clock is days from the clock here: ask again`: nothing was taken"),
		Examples: []Example{{"LIMIT.QUOTA customer:7 1 1000 MONTH Europe/Paris", "1) (integer) 1\n2) (integer) 999\n3) (integer) 0\n4) (integer) 1209600000\n5) (integer) -1"}},
		Notes:    []string{"Around the end of a period up to twice the limit pass in a short time, as with any fixed window. Where that matters use LIMIT.WINDOW."},
		Plan:     planQuota,
	}),
	limitCommand(Command{
		Name:     "LIMIT.RESERVE",
		Summary:  "Takes tokens ahead of time, and returns how long until they are there.",
		Arity:    -6,
		Flags:    []string{"write", "denyoom", "noscript", "fast"},
		Args:     []Arg{limitKey, {Name: "n", Type: "integer", Summary: "tokens to take, all or none: at least 1"}, limitMax, limitLists},
		Reply:    "Array of seven: the five of LIMIT.TAKE; ms until the caller may act, 0 for now; a receipt for LIMIT.CANCEL, empty when refused. The time of a refusal is until the same call is allowed without waiting.",
		Errors:   limitErrors(docSyntax, docLimits, docTokens, docMax),
		Before:   []string{"LIMIT.TAKE telescope 1 1 3600000 1"},
		Examples: []Example{{"LIMIT.RESERVE telescope 1 MAX 7200000 1 3600000 1", "1) (integer) 1\n2) (integer) 0\n3) (integer) 0\n4) (integer) 7200000\n5) (integer) -1\n6) (integer) 3600000\n7) \"5f2b:3600:0:3600:0:1760007200000000000\""}},
		Plan:     planLimitReserve,
	}),
	limitCommand(Command{
		Name:       "LIMIT.CANCEL",
		Summary:    "Cancels a reservation and returns its tokens, except tokens that later reservations depend on.",
		Complexity: "O(N+log(M)) with N limits and M refunds known",
		Arity:      3,
		Flags:      []string{"write", "noscript", "fast"},
		Args:       []Arg{limitKey, {Name: "receipt", Type: "string", Summary: "from LIMIT.RESERVE"}},
		Reply:      "Integer: 1 when it was cancelled, now or before; 0 when its time has come.",
		Errors:     []string{"`ERR redoubt: this is no receipt of a reservation`", "`ERR redoubt: invalid name: …`", "`" + wrongType + "`: something else has written the limit's key"},
		Examples:   []Example{{"LIMIT.CANCEL telescope 5f2b:3600:0:3600:0:1760007200000000000", "(integer) 1"}},
		Plan: func(env *Env, args [][]byte) Plan {
			cmd, err := env.stored.CancelReceiptCmd(string(args[1]), string(args[2]))
			if err != nil {
				return refusal(err)
			}
			return Plan{Cmd: &cmd, Translate: func(dst []byte, _ resp.Protocol, r redoubt.Reply) []byte {
				done, err := wire.ReadCancel(r)
				return appendDone(dst, done, err)
			}}
		},
	}),
	limitCommand(Command{
		Name:    "LIMIT.WAIT",
		Summary: "Takes tokens, and replies once they are there.",
		Arity:   -6,
		Flags:   []string{"write", "denyoom", "noscript", "blocking"},
		Args:    []Arg{limitKey, {Name: "n", Type: "integer", Summary: "tokens to take, all or none: at least 1"}, limitMax, limitLists},
		Reply:   decisionReply + " A refusal is immediate.",
		Errors: limitErrors(docSyntax, docLimits, docTokens, docMax,
			docElse, shutDownWaiting),
		Examples: []Example{{"LIMIT.WAIT partner-api 1 MAX 5000 1 1000 1", "1) (integer) 1\n2) (integer) 0\n3) (integer) 0\n4) (integer) 1000\n5) (integer) -1"}},
		Notes: []string{
			"Clients are served in the order in which their commands came, never early. Each has its place from the beginning, in one round trip.",
			"A client that goes away while it waits gives its place back, as by LIMIT.CANCEL. Inside MULTI the command is LIMIT.TAKE.",
		},
		Plan: planLimitWait,
	}),
	limitCommand(Command{
		Name:     "LIMIT.PEEK",
		Summary:  "Returns the state of a rate limit, and takes nothing.",
		Arity:    -2,
		Flags:    []string{"readonly", "noscript", "fast"},
		Args:     []Arg{limitKey, optionalLimits},
		Reply:    decisionReply + " It is allowed if there is one token.",
		Errors:   limitErrors(docSyntax, docLimits, docNoLimit),
		Before:   []string{"LIMIT.RESET user:42"},
		Examples: []Example{{"LIMIT.PEEK user:42 10 1000 10", "1) (integer) 1\n2) (integer) 10\n3) (integer) 0\n4) (integer) 0\n5) (integer) -1"}},
		Notes:    []string{"LIMIT.WINDOW and LIMIT.QUOTA return their state when n is 0."},
		Plan: func(env *Env, args [][]byte) Plan {
			c := limitCall{name: string(args[1]), rest: args[2:]}
			l, fault := c.limiter(env, true)
			if fault != "" {
				return Plan{Err: fault}
			}
			return env.planTokens(l, c)
		},
	}),
	limitCommand(Command{
		Name:       "LIMIT.RESET",
		Summary:    "Gives back all that LIMIT.TAKE, LIMIT.WINDOW, LIMIT.QUOTA and LIMIT.USE have taken under a name.",
		Complexity: "O(1)",
		Arity:      2,
		Flags:      []string{"write", "noscript", "fast"},
		Args:       []Arg{limitKey},
		Reply:      "Integer: 1 when anything had been taken, 0 otherwise.",
		Errors:     []string{"`ERR redoubt: invalid name: …`"},
		Before:     []string{"LIMIT.TAKE user:42 1 10 60000 10"},
		Examples:   []Example{{"LIMIT.RESET user:42", "(integer) 1"}},
		Notes:      []string{"A limit of CL.THROTTLE is a key of its own name: DEL resets it."},
		Plan: func(env *Env, args [][]byte) Plan {
			cmd, err := wire.ResetCmd(env.Client, string(args[1]))
			if err != nil {
				return refusal(err)
			}
			return Plan{Cmd: &cmd, Translate: func(dst []byte, _ resp.Protocol, r redoubt.Reply) []byte {
				var n [1]int64
				err := r.Ints(n[:])
				return appendDone(dst, n[0] > 0, err)
			}}
		},
	}),
	limitCommand(Command{
		Name:       "LIMIT.REFUND",
		Summary:    "Gives tokens back to a rate limit, at most as many as are taken, once for each id.",
		Complexity: "O(N+log(M)) with N limits and M refunds known",
		Arity:      -4,
		Flags:      []string{"write", "denyoom", "noscript", "fast"},
		Args: []Arg{
			limitKey,
			{Name: "n", Type: "integer", Summary: "tokens to give back: at least 1"},
			{Name: "id", Type: "string", Summary: "names this refund: a second one with the same id gives nothing, until a minute after all tokens that are taken now have come back. With an empty id each call is a refund of its own"},
			optionalLimits,
		},
		Reply:    decisionReply + " It is the state afterwards, as of LIMIT.PEEK.",
		Errors:   limitErrors(docSyntax, docLimits, docTokens, docNoLimit, "`ERR redoubt: id has … bytes; want at most 512`"),
		Before:   []string{"LIMIT.TAKE user:42 1 10 60000 10"},
		Examples: []Example{{"LIMIT.REFUND user:42 1 order:1 10 60000 10", "1) (integer) 1\n2) (integer) 10\n3) (integer) 0\n4) (integer) 0\n5) (integer) -1"}},
		Plan: func(env *Env, args [][]byte) Plan {
			c, fault := limitCallOf(args)
			if fault != "" {
				return Plan{Err: fault}
			}
			id := string(c.rest[0])
			c.rest = c.rest[1:]
			l, fault := c.limiter(env, true)
			if fault != "" {
				return Plan{Err: fault}
			}
			cmd, err := l.RefundCmd(c.name, int(c.n), id)
			return planDecision(cmd, l.ReadRefund, err)
		},
	}),
	limitCommand(Command{
		Name:    "LIMIT.DEFINE",
		Summary: "Stores limits on the server, for LIMIT.USE, or returns the stored ones.",
		Arity:   -2,
		Flags:   []string{"write", "denyoom", "noscript", "fast"},
		Args: []Arg{
			{Name: "name", Type: "key", Summary: limitKey.Summary},
			{Name: "nx", Type: "pure-token", Token: "NX", Use: Optional, Summary: "only if none are stored: the first writer decides"},
			{Name: "limits", Type: "block", Use: Any, Summary: "absent: return the stored limits", Args: limitLists.Args},
		},
		Reply:    "Integer: 1 when they are stored, 0 when NX found others. Without limits an array with limit, period in ms and burst of each stored limit, or null.",
		Errors:   limitErrors(docSyntax, docLimits),
		Examples: []Example{{"LIMIT.DEFINE partner-api NX 100 1000 100", "(integer) 1"}, {"LIMIT.DEFINE partner-api", "1) 1) (integer) 100\n   2) (integer) 1000\n   3) (integer) 100"}},
		Notes: []string{
			"Tokens that were taken stay taken when the limits change. The limits stay until they are changed or removed: `DEL rd:{partner-api}:limit`.",
		},
		Plan: planDefine,
	}),
	limitCommand(Command{
		Name:     "LIMIT.USE",
		Summary:  "Takes tokens as LIMIT.TAKE does, from the limits that are stored under the name.",
		Arity:    3,
		Flags:    []string{"write", "denyoom", "noscript", "fast"},
		Args:     []Arg{{Name: "name", Type: "key", Summary: limitKey.Summary}, limitTokens},
		Reply:    decisionReply,
		Errors:   limitErrors(docTokens, docNoLimit),
		Before:   []string{"LIMIT.RESET partner-api"},
		Examples: []Example{{"LIMIT.USE partner-api 1", "1) (integer) 1\n2) (integer) 99\n3) (integer) 0\n4) (integer) 10\n5) (integer) -1"}},
		Plan: func(env *Env, args [][]byte) Plan {
			c, fault := limitCallOf(args)
			if fault != "" {
				return Plan{Err: fault}
			}
			return env.planTokens(env.stored, c)
		},
	}),
}

// optionalLimits are limits that may be stored on the server instead.
var optionalLimits = Arg{Name: "limits", Type: "block", Use: Any, Summary: "absent: the limits that LIMIT.DEFINE has stored", Args: limitLists.Args}

func planQuota(env *Env, args [][]byte) Plan {
	c, fault := limitCallOf(args)
	if fault != "" {
		return Plan{Err: fault}
	}
	calls, ok := integer(c.rest[0])
	if !ok {
		return Plan{Err: errInteger}
	}
	if calls < 1 || calls > ratelimit.MaxAllowance {
		return Plan{Err: fmt.Sprintf("ERR redoubt: limit is %d; want 1 to %d", calls, int64(ratelimit.MaxAllowance))}
	}
	periods := []ratelimit.Period{ratelimit.Day, ratelimit.Week, ratelimit.Month, ratelimit.Year}
	i := slices.IndexFunc(periods, func(p ratelimit.Period) bool { return strings.EqualFold(p.String(), string(c.rest[1])) })
	if i < 0 {
		return Plan{Err: syntaxAt(c.rest[1])}
	}
	q, err := env.quotas.get(env, calls, wire.Period(periods[i]), string(c.rest[2]))
	if err != nil {
		return refusal(err)
	}
	cmd, read, err := q.Cmd(c.name, int(c.n), int(c.n))
	return env.planCounted(c, cmd, read, err)
}

func planLimitReserve(env *Env, args [][]byte) Plan {
	c, fault := limitCallOf(args)
	if fault != "" {
		return Plan{Err: fault}
	}
	within, fault := c.max()
	if fault != "" {
		return Plan{Err: fault}
	}
	l, fault := c.limiter(env, false)
	if fault != "" {
		return Plan{Err: fault}
	}
	n := int(c.n)
	cmd, err := l.ReserveCmd(c.name, n, within)
	if err != nil {
		return refusal(err)
	}
	return Plan{Cmd: &cmd, Translate: func(dst []byte, _ resp.Protocol, r redoubt.Reply) []byte {
		o, t, err := l.Read(r)
		if err != nil {
			return appendLimitError(dst, err)
		}
		d := t.Decide(o, o.First*int64(n), int64(n))
		env.decisions.limit(c, d.Allowed)
		dst = appendDecision(resp.AppendArray(dst, 7), d)
		if !d.Allowed {
			return resp.AppendBulk(resp.AppendInt(dst, 0), "")
		}
		return resp.AppendBulk(resp.AppendInt(dst, wholeMS(t.Delay(o))), t.Receipt(o, wire.NewID(), n))
	}}
}

func planDefine(env *Env, args [][]byte) Plan {
	c := limitCall{name: string(args[1]), rest: args[2:]}
	first := len(c.rest) > 0 && strings.EqualFold(string(c.rest[0]), "NX")
	if first {
		c.rest = c.rest[1:]
	}
	if len(c.rest) == 0 && !first {
		cmd, err := env.stored.GetCmd(c.name)
		if err != nil {
			return refusal(err)
		}
		return Plan{Cmd: &cmd, Translate: appendLimits}
	}
	limits, fault := c.limits(3)
	if fault != "" {
		return Plan{Err: fault}
	}
	set := env.stored.SetCmd
	if first {
		set = env.stored.TrySetCmd
	}
	cmd, err := set(c.name, limits)
	if err != nil {
		return refusal(err)
	}
	return Plan{Cmd: &cmd, Translate: func(dst []byte, _ resp.Protocol, r redoubt.Reply) []byte {
		stored, _, err := wire.ReadLimits(r)
		return appendDone(dst, stored, err)
	}}
}

func appendLimits(dst []byte, p resp.Protocol, r redoubt.Reply) []byte {
	_, limits, err := wire.ReadLimits(r)
	switch {
	case err != nil:
		return appendError(dst, err)
	case limits == nil:
		return resp.AppendNullArray(dst, p)
	}
	dst = resp.AppendArray(dst, len(limits))
	for _, l := range limits {
		dst = resp.AppendArray(dst, 3)
		dst = resp.AppendInt(dst, int64(l.Rate))
		dst = resp.AppendInt(dst, int64(l.Period/time.Millisecond))
		dst = resp.AppendInt(dst, int64(l.Burst))
	}
	return dst
}
