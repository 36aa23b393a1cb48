package command

import (
	"bytes"
	"context"
	"fmt"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/fence"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/wire/listing"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
)

// The commands of this file are for people who look after locks of others.

var (
	docFence   = fmt.Sprintf("`ERR redoubt: fence is …; want 1 to %d`", int64(fence.MaxToken))
	docTx      = "`ERR redoubt: … takes several steps and has no place in a transaction`: inside MULTI"
	docElse    = "`ERR redoubt: this works in the back end's own database only: …`: after SELECT of another"
	docPattern = "`ERR redoubt: invalid pattern: …`"
	docCursor  = "`ERR redoubt: invalid cursor: …`"
)

const lsComplexity = "O(1) a call, which looks at about 1,000 keys and at what it finds; O(N) in all, with N keys of the server"

// lsArgs are the arguments of LOCK.LS and SEM.LS.
var lsArgs = []Arg{
	{Name: "pattern", Type: "string", Token: "MATCH", Use: Optional, Summary: "only names that match, as with KEYS"},
	{Name: "cursor", Type: "string", Token: "CURSOR", Use: Optional, Summary: "the cursor of the reply before; 0, or none, to begin"},
}

// lsReply is what LOCK.LS and SEM.LS answer.
func lsReply(info string) string {
	return "Array of two: the cursor for the next call, 0 when there is no more; an array of maps, each with `name` and what " + info + " says of it. As with SCAN, a call may find nothing though there is more, what comes or goes meanwhile may be found or not, and a name may come twice."
}

func lsErrors() []string {
	return []string{docSyntax, docPattern, docCursor, docElse, docTx, shuttingDown}
}

const (
	shuttingDown    = "`ERR redoubt: the server is shutting down`"
	shutDownWaiting = shuttingDown + ": the shutdown began while the command waited"
)

var lockAdminCommands = []*Command{
	{
		Name:       "LOCK.FORCE",
		Summary:    "Takes a lock away from the holder with a fencing token, and wakes one waiter.",
		Since:      "0.1.0",
		Group:      "lock",
		Complexity: "O(1)",
		Arity:      3,
		FirstKey:   1, LastKey: 1, KeyStep: 1,
		Flags: []string{"write", "noscript", "fast"},
		Args: []Arg{
			lockName,
			{Name: "fence", Type: "integer", Summary: "from LOCK.INFO, so that no later holder loses the lock. Readers share a token, and all readers with it lose the lock"},
		},
		Reply:    "Integer: 1 when this token held the lock and the lock is now free, also if the command is repeated; 0 when the token no longer held it.",
		Errors:   lockErrors(docInteger, docFence),
		Examples: []Example{{"LOCK.FORCE orders:42 1760000000000000", "(integer) 1"}},
		Notes:    []string{forceNote},
		Plan: func(env *Env, args [][]byte) Plan {
			token, fault := milliseconds("fence", args[2], 1, fence.MaxToken)
			if fault != "" {
				return Plan{Err: fault}
			}
			keys, err := wire.RWKeys(env.Client, string(args[1]))
			if err != nil {
				return refusal(err)
			}
			cmd := wire.ForceCmd(keys, token)
			return Plan{Cmd: &cmd, Translate: func(dst []byte, _ resp.Protocol, r redoubt.Reply) []byte {
				released, err := wire.ReadRelease(r)
				return appendDone(dst, released, err)
			}}
		},
	},
	{
		Name:       "LOCK.LS",
		Summary:    "Lists the locks that are held or waited for, a part in each call.",
		Since:      "0.1.0",
		Group:      "lock",
		Complexity: lsComplexity,
		Arity:      -1,
		Flags:      []string{"readonly", "noscript"},
		Args:       lsArgs,
		Reply:      lsReply("LOCK.INFO"),
		Errors:     lsErrors(),
		Before: []string{
			"LOCK.ACQUIRE orders:42 30000 ID 5f2d LABEL web-1\n1) \"5f2d\"\n2) (integer) 1760000000000000\n3) (integer) 30000",
		},
		Examples: []Example{{"LOCK.LS MATCH orders:*", "1) \"0\"\n2) 1)  1) \"name\"\n       2) \"orders:42\"\n       3) \"mode\"\n       4) \"exclusive\"\n       …"}},
		Plan: func(env *Env, args [][]byte) Plan {
			return planLS(env, args, wire.Page, func(dst []byte, p resp.Protocol, l listing.Listed[wire.Info]) []byte {
				dst = resp.AppendMap(dst, p, 5)
				dst = resp.AppendBulk(dst, "name")
				dst = resp.AppendBulk(dst, l.Name)
				return appendLock(dst, p, l.Info)
			})
		},
	},
}

const forceNote = "The holder continues until it next tries to extend the lease. So use the command only if the holder has stopped, or if its resource checks the fencing token: the next holder's token is larger."

var semaphoreAdminCommands = []*Command{
	semaphoreCommand(Command{
		Name:       "SEM.FORCE",
		Summary:    "Takes the permit with a fencing token away from its holder, and wakes one waiter.",
		Complexity: "O(N) with N permits taken, in steps of 500",
		Arity:      3,
		Flags:      []string{"write", "noscript"},
		Args: []Arg{
			semaphoreName,
			{Name: "fence", Type: "integer", Summary: "the token of the holder, from SEM.INFO"},
		},
		Reply:    "Integer: 1 when the permit was held and is given back, 0 when no permit has this token any more.",
		Errors:   semaphoreErrors(docInteger, docFence, docElse, docTx, shuttingDown),
		Examples: []Example{{"SEM.FORCE geocoder 1760000000000000", "(integer) 1"}},
		Notes:    []string{forceNote},
		Plan: func(env *Env, args [][]byte) Plan {
			token, fault := milliseconds("fence", args[2], 1, fence.MaxToken)
			if fault != "" {
				return Plan{Err: fault}
			}
			name := string(args[1])
			if _, err := wire.SemaphoreKeys(env.Client, name); err != nil {
				return refusal(err)
			}
			return steps(args, func(ctx context.Context) Outcome {
				released, err := env.semaphores.ForceRelease(ctx, name, token)
				return Outcome{Append: func(dst []byte, _ resp.Protocol) []byte {
					if err != nil {
						return appendStepError(ctx, dst, err)
					}
					return appendDone(dst, released, nil)
				}}
			})
		},
	}),
	{
		Name:       "SEM.LS",
		Summary:    "Lists the semaphores that have a permit taken or waited for, a part in each call.",
		Since:      "0.1.0",
		Group:      "lock",
		Complexity: lsComplexity,
		Arity:      -1,
		Flags:      []string{"readonly", "noscript"},
		Args:       lsArgs,
		Reply:      lsReply("SEM.INFO"),
		Errors:     lsErrors(),
		Examples:   []Example{{"SEM.LS CURSOR 0", "1) \"0\"\n2) (empty array)"}},
		Plan: func(env *Env, args [][]byte) Plan {
			return planLS(env, args, wire.SemaphorePage, func(dst []byte, p resp.Protocol, l listing.Listed[wire.SemaphoreInfo]) []byte {
				dst = resp.AppendMap(dst, p, 5)
				dst = resp.AppendBulk(dst, "name")
				dst = resp.AppendBulk(dst, l.Name)
				return appendSemaphore(dst, p, l.Info)
			})
		},
	},
}

// steps is the plan of a command that takes more than one script.
func steps(args [][]byte, run func(ctx context.Context) Outcome) Plan {
	name := string(bytes.ToUpper(args[0]))
	return Plan{Wait: run, Instead: func() Plan {
		return Plan{Err: "ERR redoubt: " + name + " takes several steps and has no place in a transaction"}
	}}
}

func appendStepError(ctx context.Context, dst []byte, err error) []byte {
	if ctx.Err() != nil {
		return resp.AppendError(dst, "ERR redoubt: the server is shutting down")
	}
	return appendError(dst, err)
}

// planLS is the plan of LOCK.LS, SEM.LS and STOCK.LS.
func planLS[I any](
	env *Env, args [][]byte,
	page func(ctx context.Context, client *redoubt.Client, match, cursor string) ([]listing.Listed[I], string, error),
	appendOne func(dst []byte, p resp.Protocol, l listing.Listed[I]) []byte,
) Plan {
	var match, cursor string
	var matches, goesOn bool
	for i := 1; i < len(args); i += 2 {
		switch {
		case i+1 == len(args):
			return Plan{Err: syntaxAt(args[i])}
		case bytes.EqualFold(args[i], []byte("MATCH")) && !matches:
			match, matches = string(args[i+1]), true
		case bytes.EqualFold(args[i], []byte("CURSOR")) && !goesOn:
			cursor, goesOn = string(args[i+1]), true
		default:
			return Plan{Err: syntaxAt(args[i])}
		}
	}
	return steps(args, func(ctx context.Context) Outcome {
		found, next, err := page(ctx, env.Client, match, cursor)
		return Outcome{Append: func(dst []byte, p resp.Protocol) []byte {
			if err != nil {
				return appendStepError(ctx, dst, err)
			}
			dst = resp.AppendArray(dst, 2)
			dst = resp.AppendBulk(dst, next)
			dst = resp.AppendArray(dst, len(found))
			for _, l := range found {
				dst = appendOne(dst, p, l)
			}
			return dst
		}}
	})
}
