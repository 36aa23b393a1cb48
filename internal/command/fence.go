package command

import (
	"fmt"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/fence"
	"github.com/redoubt-go/redoubt/internal/resp"
	wire "github.com/redoubt-go/redoubt/internal/wire/fence"
)

func fenceScripts() []*redoubt.Script { return wire.Scripts() }

var fenceCommands = []*Command{{
	Name:       "FENCE.DO",
	Summary:    "Runs a command unless the resource has seen a larger fencing token.",
	Since:      "0.1.0",
	Group:      "fence",
	Complexity: "that of the command",
	Arity:      -3,
	FirstKey:   1, LastKey: 4, KeyStep: 3,
	Flags: []string{"write", "denyoom", "noscript"},
	Args: []Arg{
		{Name: "name", Type: "key", Summary: fmt.Sprintf("the resource that is guarded: 1 to %d bytes, not beginning with `}`", redoubt.MaxName)},
		{Name: "token", Type: "integer", Summary: fmt.Sprintf("the fencing token from LOCK.ACQUIRE: 1 to %d. It is accepted unless the resource has seen a larger one, and is remembered", int64(fence.MaxToken))},
		{Name: "guarded", Type: "block", Use: Optional, Args: []Arg{
			{Name: "command", Type: "string", Summary: "the back end's command to run, with one key as its first argument. Without it the token is only remembered, which shuts out earlier holders"},
			{Name: "key", Type: "key", Summary: "the command's key. On a cluster it must be in the slot of name: the name itself, or a key with the name in braces"},
			{Name: "arg", Type: "string", Use: Any, Summary: fmt.Sprintf("the command's other arguments, at most %d", fence.MaxWords-2)},
		}},
	},
	Reply: "The reply of the command, as a script sees it: simple strings are bulk strings, and maps are flat arrays. OK without a command.",
	Errors: []string{
		"`STALE redoubt: the token is …, and … has been seen`: a later holder has used the resource, and nothing was run",
		docSyntax,
		docInteger,
		fmt.Sprintf("`ERR redoubt: token is …; want 1 to %d`", int64(fence.MaxToken)),
		fmt.Sprintf("`ERR redoubt: the command has … words; want at most %d`", fence.MaxWords),
		"`ERR redoubt: invalid name: …`",
		"`" + wrongType + "`: something else has written the key of the resource, or that of the command has another type",
	},
	Examples: []Example{
		{"FENCE.DO ledger 1760000000000001 SET ledger 200", "\"OK\""},
		{"FENCE.DO ledger 1760000000000000 SET ledger 110", "(error) STALE redoubt: the token is 1760000000000000, and 1760000000000001 has been seen"},
	},
	Notes: []string{
		"The largest token is the key `rd:{name}:fence`, a decimal number that stays until it is deleted.",
		"The check and the command are one step. A command that is refused inside scripts is refused here.",
		"In front of a pool, all keys of the command must be on the resource's server: put the resource's name, in braces, into each key.",
	},
	Plan: planFence,
}}

func planFence(env *Env, args [][]byte) Plan {
	if len(args) == 4 {
		return Plan{Err: errSyntax}
	}
	token, fault := milliseconds("token", args[2], 1, fence.MaxToken)
	if fault != "" {
		return Plan{Err: fault}
	}
	key, err := wire.Key(env.Client, string(args[1]))
	if err != nil {
		return refusal(err)
	}
	var guarded []redoubt.Cmd
	if len(args) > 4 {
		if len(args[3]) == 0 {
			return Plan{Err: errSyntax}
		}
		if n := len(args) - 3; n > fence.MaxWords {
			return Plan{Err: fmt.Sprintf("ERR redoubt: the command has %d words; want at most %d", n, fence.MaxWords)}
		}
		c := redoubt.Cmd{Name: string(args[3]), Keys: []string{string(args[4])}}
		for _, a := range args[5:] {
			c.Args = append(c.Args, string(a))
		}
		guarded = append(guarded, c)
	}
	cmd, err := wire.DoCmd(key, token, 0, guarded...)
	if err != nil {
		return Plan{Err: errSyntax} // the name is made of blanks
	}
	return Plan{Cmd: &cmd, Translate: func(dst []byte, p resp.Protocol, r redoubt.Reply) []byte {
		v, err := wire.ReadVerdict(r)
		switch {
		case err != nil:
			return appendError(dst, err)
		case !v.Accepted:
			return resp.AppendError(dst, fmt.Sprintf("STALE redoubt: the token is %d, and %d has been seen", token, v.Largest))
		case len(guarded) == 0:
			return resp.AppendSimple(dst, "OK")
		case len(v.Replies) == 0:
			return resp.AppendNull(dst, p)
		case v.Replies[0].Err != nil:
			return appendError(dst, v.Replies[0].Err)
		}
		return appendValue(dst, p, v.Replies[0].Val)
	}}
}

// appendValue appends what a script returned.
func appendValue(dst []byte, p resp.Protocol, val any) []byte {
	switch v := val.(type) {
	case int64:
		return resp.AppendInt(dst, v)
	case string:
		return resp.AppendBulk(dst, v)
	case redoubt.ServerError:
		return appendError(dst, v)
	case []any:
		dst = resp.AppendArray(dst, len(v))
		for _, e := range v {
			dst = appendValue(dst, p, e)
		}
		return dst
	}
	return resp.AppendNull(dst, p)
}
