package command

import (
	"context"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/resp"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
	"github.com/redoubt-go/redoubt/lock"
)

var (
	semaphoreName = Arg{Name: "name", Type: "key", Summary: fmt.Sprintf("the semaphore: 1 to %d bytes, not beginning with `}`", redoubt.MaxName)}
	permitID      = Arg{Name: "id", Type: "string", Summary: "from SEM.ACQUIRE"}
)

// semaphoreCommand fills in what the commands of semaphores share.
func semaphoreCommand(c Command) *Command {
	c.Since, c.Group = "0.1.0", "lock"
	c.FirstKey, c.LastKey, c.KeyStep = 1, 1, 1
	return &c
}

var semaphoreCommands = []*Command{
	semaphoreCommand(Command{
		Name:       "SEM.ACQUIRE",
		Summary:    "Takes one of a number of permits for a time, or waits until one is free.",
		Complexity: "O(log(N)) with N permits taken, and for at most 32 that ran out",
		Arity:      -4,
		Flags:      []string{"write", "denyoom", "noscript", "blocking"},
		Args: append([]Arg{
			semaphoreName,
			{Name: "limit", Type: "integer", Summary: fmt.Sprintf("how many permits there are: 1 to %d. Callers that disagree are each held to their own limit: a lower limit takes no permit away, and admits nobody until fewer are taken", lock.MaxLimit)},
		}, acquireArgs("no permit is free", "SEM.INFO")...),
		Reply:  "Array of three: the id for EXTEND and RELEASE; the fencing token, an integer that rises with each permit of the name; the time left in ms. Null when no permit was free in time.",
		Errors: semaphoreErrors(acquireErrors(fmt.Sprintf("`ERR redoubt: limit is …; want 1 to %d`", lock.MaxLimit))...),
		Examples: []Example{
			{"SEM.ACQUIRE geocoder 2 30000 ID 5f2b", "1) \"5f2b\"\n2) (integer) 1760000000000000\n3) (integer) 30000"},
			{"SEM.ACQUIRE geocoder 1 30000", "(nil)"},
		},
		Notes: []string{goneNote},
		Plan:  planPermit,
	}),
	semaphoreCommand(Command{
		Name:       "SEM.EXTEND",
		Summary:    "Makes a permit that is still held last longer.",
		Complexity: "O(log(N)) with N permits taken",
		Arity:      4,
		Flags:      []string{"write", "denyoom", "noscript", "fast"},
		Args: []Arg{
			semaphoreName,
			permitID,
			{Name: "ttl", Type: "integer", Unit: "ms", Summary: fmt.Sprintf("from now on: 1 to %d ms. A permit that lasts longer already stays as it is", maxTTL)},
		},
		Reply:    "Integer: 1 when the permit was held and now lasts at least ttl, 0 when it is not held any more.",
		Errors:   semaphoreErrors(docInteger, docTTL, docID),
		Examples: []Example{{"SEM.EXTEND geocoder 5f2b 30000", "(integer) 1"}},
		Plan: func(env *Env, args [][]byte) Plan {
			ttl, fault := milliseconds("ttl_ms", args[3], 1, maxTTL)
			if fault != "" {
				return Plan{Err: fault}
			}
			keys, err := wire.SemaphoreKeys(env.Client, string(args[1]))
			cmd := wire.PermitExtendCmd(keys, string(args[2]), time.Duration(ttl)*time.Millisecond)
			return planOfID(args[2], cmd, err, func(dst []byte, _ resp.Protocol, r redoubt.Reply) []byte {
				held, _, err := wire.ReadExtend(r)
				env.counts.semaphores.extended(held, err)
				return appendDone(dst, held, err)
			})
		},
	}),
	semaphoreCommand(Command{
		Name:       "SEM.RELEASE",
		Summary:    "Gives a permit back and wakes one waiter.",
		Complexity: "O(log(N)) with N permits taken",
		Arity:      3,
		Flags:      []string{"write", "noscript", "fast"},
		Args:       []Arg{semaphoreName, permitID},
		Reply:      "Integer: 1 when the permit was held and is given back, 0 when it was not held any more. Repeating the command gives the same answer until 128 later permits of the name have ended.",
		Errors:     semaphoreErrors(docID),
		Examples:   []Example{{"SEM.RELEASE geocoder 5f2b", "(integer) 1"}},
		Plan: func(env *Env, args [][]byte) Plan {
			keys, err := wire.SemaphoreKeys(env.Client, string(args[1]))
			cmd := wire.PermitReleaseCmd(keys, 0, string(args[2]), "", false)
			return planOfID(args[2], cmd, err, func(dst []byte, _ resp.Protocol, r redoubt.Reply) []byte {
				released, err := wire.ReadRelease(r)
				env.counts.semaphores.ended(released, err)
				return appendDone(dst, released, err)
			})
		},
	}),
	semaphoreCommand(Command{
		Name:       "SEM.INFO",
		Summary:    "Returns the holders of permits and the number of waiters.",
		Complexity: fmt.Sprintf("O(log(N)) with N permits taken, and for at most %d holders", lock.MaxHolders),
		Arity:      2,
		Flags:      []string{"readonly", "noscript", "fast"},
		Args:       []Arg{semaphoreName},
		Reply:      fmt.Sprintf("Map: `taken`, how many permits are held; `holders`, an array of maps with `label`, `fence`, `ttl_ms` and `since_ms`, when it was taken in ms since 1970, at most %d, in the order in which their permits end; `fence`, the last fencing token, 0 a minute after the last permit; `waiters`, how many processes wait: all clients of one server count as one. Ids are never shown: anybody with an id can give the permit back.", lock.MaxHolders),
		Errors:     semaphoreErrors(),
		Before: []string{
			"SEM.ACQUIRE geocoder 2 30000 ID 5f2c LABEL web-1\n1) \"5f2c\"\n2) (integer) 1760000000000000\n3) (integer) 30000",
		},
		Examples: []Example{{"SEM.INFO geocoder", "1) \"taken\"\n2) (integer) 1\n3) \"holders\"\n4) 1) 1) \"label\"\n      2) \"web-1\"\n      3) \"fence\"\n      4) (integer) 1760000000000000\n      5) \"ttl_ms\"\n      6) (integer) 29137\n      7) \"since_ms\"\n      8) (integer) 1760000000000\n5) \"fence\"\n6) (integer) 1760000000000000\n7) \"waiters\"\n8) (integer) 0"}},
		Plan: func(env *Env, args [][]byte) Plan {
			keys, err := wire.SemaphoreKeys(env.Client, string(args[1]))
			if err != nil {
				return refusal(err)
			}
			cmd := wire.SemaphoreInfoCmd(keys)
			return Plan{Cmd: &cmd, Translate: appendSemaphoreInfo}
		},
	}),
}

func planPermit(env *Env, args [][]byte) Plan {
	a := acquire{name: string(args[1])}
	limit, ok := integer(args[2])
	if !ok {
		return Plan{Err: errInteger}
	}
	if limit < 1 || limit > lock.MaxLimit {
		return Plan{Err: fmt.Sprintf("ERR redoubt: limit is %d; want 1 to %d", limit, lock.MaxLimit)}
	}
	if fault := a.options(args[3:], func(string) (bool, string) { return false, "" }); fault != "" {
		return Plan{Err: fault}
	}
	keys, err := wire.SemaphoreKeys(env.Client, a.name)
	if err != nil {
		return refusal(err)
	}
	return env.planAcquire(a, way{
		now:     wire.PermitCmd(keys, int(limit), a.wire()),
		release: wire.PermitReleaseCmd(keys, 0, a.r.ID, "", false),
		count:   &env.counts.semaphores,
		take: func(ctx context.Context, r lock.Request) (lock.Handle, error) {
			return env.semaphores.AcquireRequest(ctx, a.name, int(limit), r)
		},
	})
}

// planOfID is the plan of a command on an acquisition that has an id.
func planOfID(id []byte, cmd redoubt.Cmd, err error, translate Translate) Plan {
	switch {
	case err != nil:
		return refusal(err)
	case len(id) == 0 || len(id) > maxID:
		return Plan{Err: fmt.Sprintf("ERR redoubt: ID has %d bytes; want 1 to %d", len(id), maxID)}
	}
	return Plan{Cmd: &cmd, Translate: translate}
}

func appendSemaphoreInfo(dst []byte, p resp.Protocol, r redoubt.Reply) []byte {
	info, err := wire.ReadSemaphoreInfo(r)
	if err != nil {
		return appendError(dst, err)
	}
	return appendSemaphore(resp.AppendMap(dst, p, 4), p, info)
}

// appendSemaphore appends the four pairs of SEM.INFO.
func appendSemaphore(dst []byte, p resp.Protocol, info wire.SemaphoreInfo) []byte {
	dst = resp.AppendBulk(dst, "taken")
	dst = resp.AppendInt(dst, info.Taken)
	return appendHolders(dst, p, info.Holders, info.Token, info.Waiters)
}
