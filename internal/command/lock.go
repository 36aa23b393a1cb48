package command

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/resp"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
	"github.com/redoubt-go/redoubt/lock"
)

func lockScripts() []*redoubt.Script { return wire.Scripts() }

const (
	maxTTL = int64(lock.MaxTTL / time.Millisecond)
	maxID  = 256 // bytes
)

var lockName = Arg{Name: "name", Type: "key", Summary: fmt.Sprintf("the lock: 1 to %d bytes, not beginning with `}`", redoubt.MaxName)}

// lockErrors returns own and then the errors that all commands of locks share.
func lockErrors(own ...string) []string {
	return append(own, "`ERR redoubt: invalid name: …`", "`"+wrongType+"`: something else has written the lock's key")
}

// semaphoreErrors is lockErrors for semaphores.
func semaphoreErrors(own ...string) []string {
	return append(own, "`ERR redoubt: invalid name: …`", "`"+wrongType+"`: something else has written a key of the semaphore")
}

// acquireErrors returns own and then the errors that LOCK.ACQUIRE and SEM.ACQUIRE share.
func acquireErrors(own ...string) []string {
	return append([]string{
		docSyntax,
		docInteger,
		docTTL,
		docBlock,
		docID + ", also for OWNER",
		fmt.Sprintf("`ERR redoubt: LABEL has … bytes; want at most %d`", lock.MaxLabel),
		"`ERR redoubt: this ID is over: …`: what it acquired was released or ran out",
		docBlockElse,
		shutDownWaiting,
	}, own...)
}

const goneNote = "If the client disconnects while it waits, the server ends the wait. If it disconnects before the reply and the server made the ID, the server releases what was acquired. A client that made the ID can repeat the command on another connection, or release; otherwise the lease lasts for its ttl. So does a lease whose reply is lost later."

var (
	docTTL     = fmt.Sprintf("`ERR redoubt: ttl_ms is …; want 1 to %d`", maxTTL)
	docID      = fmt.Sprintf("`ERR redoubt: ID has … bytes; want 1 to %d`", maxID)
	docInteger = "`" + errInteger + "`"
)

// acquireArgs returns the arguments that LOCK.ACQUIRE and SEM.ACQUIRE share. They wait while busy, and the
// command info shows labels.
func acquireArgs(busy, info string) []Arg {
	return []Arg{
		{Name: "ttl", Type: "integer", Unit: "ms", Summary: fmt.Sprintf("how long the lease lasts unless it is extended: 1 to %d ms", maxTTL)},
		blockArg(busy),
		{Name: "id", Type: "oneof", Use: Optional, Args: []Arg{
			{Name: "id", Type: "string", Token: "ID", Summary: fmt.Sprintf("names this one acquisition, 1 to %d bytes that nobody can guess. Repeating the command with the same ID gives the same answer, so that it is safe after a lost reply. Made by the server when absent", maxID)},
			{Name: "owner", Type: "string", Token: "OWNER", Summary: "the same as ID"},
		}},
		{Name: "label", Type: "string", Token: "LABEL", Use: Optional, Summary: fmt.Sprintf("shown by %s, at most %d bytes", info, lock.MaxLabel)},
	}
}

var lockCommands = []*Command{
	{
		Name:       "LOCK.ACQUIRE",
		Summary:    "Acquires a lock for a time, or waits until it is free.",
		Since:      "0.1.0",
		Group:      "lock",
		Complexity: "O(1); O(log(N)) with N readers",
		Arity:      -3,
		FirstKey:   1, LastKey: 1, KeyStep: 1,
		Flags: []string{"write", "denyoom", "noscript", "blocking"},
		Args: append(append([]Arg{lockName}, acquireArgs("others hold it", "LOCK.INFO")...), Arg{Name: "mode", Type: "oneof", Use: Optional, Args: []Arg{
			{Name: "shared", Type: "pure-token", Token: "SHARED", Summary: "hold it together with other readers; without it, alone"},
			{Name: "fair", Type: "pure-token", Token: "FAIR", Summary: "wait in the order of the clients with FAIR: a release hands the lock to the first of them, and a client without FAIR waits until no fair client is queued. A dead client delays the others by at most 3 s"},
		}}),
		Reply:  "Array of three: the id for EXTEND and RELEASE; the fencing token, an integer that rises with each acquisition of the name, except that readers get the token of the last writer; the time left in ms. Null when the lock was not acquired in time.",
		Errors: lockErrors(acquireErrors("`" + errFairShared + "`")...),
		Examples: []Example{
			{"LOCK.ACQUIRE orders:42 30000 ID 5f2b LABEL web-1", "1) \"5f2b\"\n2) (integer) 1760000000000000\n3) (integer) 30000"},
			{"LOCK.ACQUIRE orders:42 30000", "(nil)"},
		},
		Notes: []string{goneNote},
		Plan:  planAcquire,
	},
	{
		Name:       "LOCK.EXTEND",
		Summary:    "Makes a lease that is still held last longer.",
		Since:      "0.1.0",
		Group:      "lock",
		Complexity: "O(1); O(log(N)) with N readers",
		Arity:      4,
		FirstKey:   1, LastKey: 1, KeyStep: 1,
		Flags: []string{"write", "denyoom", "noscript", "fast"},
		Args: []Arg{
			lockName,
			{Name: "id", Type: "string", Summary: "from LOCK.ACQUIRE"},
			{Name: "ttl", Type: "integer", Unit: "ms", Summary: fmt.Sprintf("from now on: 1 to %d ms. A lease that lasts longer already stays as it is", maxTTL)},
		},
		Reply:    "Integer: 1 when the lease was held and now lasts at least ttl, 0 when it is not held any more.",
		Errors:   lockErrors(docInteger, docTTL, docID),
		Examples: []Example{{"LOCK.EXTEND orders:42 5f2b 30000", "(integer) 1"}},
		Plan:     planExtend,
	},
	{
		Name:       "LOCK.RELEASE",
		Summary:    "Ends a lease and wakes one waiter.",
		Since:      "0.1.0",
		Group:      "lock",
		Complexity: "O(1); O(log(N)) with N readers",
		Arity:      3,
		FirstKey:   1, LastKey: 1, KeyStep: 1,
		Flags: []string{"write", "noscript", "fast"},
		Args: []Arg{
			lockName,
			{Name: "id", Type: "string", Summary: "from LOCK.ACQUIRE"},
		},
		Reply:    "Integer: 1 when the lease was held and is released, 0 when it was not held any more. Repeating the command gives the same answer until a later lease of the same name is released.",
		Errors:   lockErrors(docID),
		Examples: []Example{{"LOCK.RELEASE orders:42 5f2b", "(integer) 1"}},
		Plan:     planRelease,
	},
	{
		Name:       "LOCK.INFO",
		Summary:    "Returns the holders of a lock and the number of waiters.",
		Since:      "0.1.0",
		Group:      "lock",
		Complexity: "O(log(N)) with N readers, and for at most 100 of them",
		Arity:      2,
		FirstKey:   1, LastKey: 1, KeyStep: 1,
		Flags:  []string{"readonly", "noscript", "fast"},
		Args:   []Arg{lockName},
		Reply:  "Map: `mode`, `free`, `exclusive` or `shared`; `holders`, an array of maps with `label`, `fence`, `ttl_ms` and `since_ms`, when it acquired in ms since 1970, at most 100, in the order in which their leases end; `fence`, the last fencing token, 0 a minute after the last lease; `waiters`, how many processes wait: all clients of one server count as one. Ids are never shown: anybody with an id can release the lock.",
		Errors: lockErrors(),
		Before: []string{
			"LOCK.ACQUIRE orders:42 30000 ID 5f2c LABEL web-1\n1) \"5f2c\"\n2) (integer) 1760000000000000\n3) (integer) 30000",
		},
		Examples: []Example{{"LOCK.INFO orders:42", "1) \"mode\"\n2) \"exclusive\"\n3) \"holders\"\n4) 1) 1) \"label\"\n      2) \"web-1\"\n      3) \"fence\"\n      4) (integer) 1760000000000000\n      5) \"ttl_ms\"\n      6) (integer) 29137\n      7) \"since_ms\"\n      8) (integer) 1760000000000\n5) \"fence\"\n6) (integer) 1760000000000000\n7) \"waiters\"\n8) (integer) 0"}},
		Plan:     planInfo,
	},
}

// acquire is the arguments of LOCK.ACQUIRE and SEM.ACQUIRE.
type acquire struct {
	name   string
	r      lock.Request
	block  time.Duration // 0: for ever
	blocks bool
	secret bool // the id was made here: nobody knows it before the reply
}

// options reads the ttl and what follows it. It asks word first about what
// stands alone.
func (a *acquire) options(args [][]byte, word func(string) (taken bool, fault string)) (fault string) {
	n, fault := milliseconds("ttl_ms", args[0], 1, maxTTL)
	if fault != "" {
		return fault
	}
	a.r.TTL = time.Duration(n) * time.Millisecond
	labelled := false
	for i := 1; i < len(args); i++ {
		is := func(word string) bool { return bytes.EqualFold(args[i], []byte(word)) }
		if taken, fault := word(strings.ToUpper(string(args[i]))); fault != "" {
			return fault
		} else if taken {
			continue
		}
		if i+1 == len(args) {
			return syntaxAt(args[i])
		}
		value := args[i+1]
		switch {
		case is("BLOCK") && !a.blocks:
			if a.block, fault = blockTime(value); fault != "" {
				return fault
			}
			a.blocks = true
		case (is("ID") || is("OWNER")) && a.r.ID == "":
			if len(value) < 1 || len(value) > maxID {
				return fmt.Sprintf("ERR redoubt: ID has %d bytes; want 1 to %d", len(value), maxID)
			}
			a.r.ID = string(value)
		case is("LABEL") && !labelled:
			if len(value) > lock.MaxLabel {
				return fmt.Sprintf("ERR redoubt: LABEL has %d bytes; want at most %d", len(value), lock.MaxLabel)
			}
			a.r.Label, labelled = string(value), true
		default:
			return syntaxAt(args[i])
		}
		i++
	}
	if a.r.ID == "" {
		a.r.ID, a.secret = wire.NewID(), true
	}
	return ""
}

const errFairShared = "ERR redoubt: FAIR is not for SHARED locks"

func (a *acquire) wire() wire.Request {
	return wire.Request{ID: a.r.ID, TTL: a.r.TTL, Label: a.r.Label}
}

// A way is how something is acquired.
type way struct {
	now     redoubt.Cmd // without waiting
	release redoubt.Cmd
	take    func(ctx context.Context, r lock.Request) (lock.Handle, error)
	count   *lockCounter
}

func planAcquire(env *Env, args [][]byte) Plan {
	a := acquire{name: string(args[1])}
	shared, fair := false, false
	if fault := a.options(args[2:], func(word string) (bool, string) {
		switch {
		case word == "SHARED" && !shared:
			shared = true
		case word == "FAIR" && !fair:
			fair = true
		case word == "SHARED", word == "FAIR":
			return false, syntaxAt([]byte(word))
		default:
			return false, ""
		}
		return true, ""
	}); fault != "" {
		return Plan{Err: fault}
	}
	if shared && fair {
		return Plan{Err: errFairShared}
	}
	keys, err := wire.RWKeys(env.Client, a.name)
	if err != nil {
		return refusal(err)
	}
	w := way{
		now:     wire.AcquireCmd(keys[:1], a.wire()),
		release: wire.RWReleaseCmd(keys, a.r.ID, "", wire.End),
		count:   &env.counts.locks,
		take: func(ctx context.Context, r lock.Request) (lock.Handle, error) {
			return env.locks.AcquireRequest(ctx, a.name, r)
		},
	}
	if fair {
		w.take = func(ctx context.Context, r lock.Request) (lock.Handle, error) {
			return env.fair.AcquireRequest(ctx, a.name, r)
		}
	}
	if shared {
		w.now = wire.ReadCmd(keys, a.wire())
		w.take = func(ctx context.Context, r lock.Request) (lock.Handle, error) {
			return env.locks.AcquireSharedRequest(ctx, a.name, r)
		}
	}
	return env.planAcquire(a, w)
}

func (env *Env) planAcquire(a acquire, w way) Plan {
	now := func() Plan {
		p := Plan{Cmd: &w.now, Translate: func(dst []byte, p resp.Protocol, r redoubt.Reply) []byte {
			got, err := wire.ReadAttempt(r)
			if err != nil {
				return appendError(dst, err)
			}
			switch got.Status {
			case wire.Acquired:
				w.count.acquired.Add(1)
				return appendAcquired(dst, a.r.ID, got.Token, got.TTL)
			case wire.Over:
				return resp.AppendError(dst, errOver)
			case wire.Held:
				w.count.refused.Add(1)
			}
			return resp.AppendNullArray(dst, p)
		}}
		if a.secret {
			// The client that made the id may have used it again on another
			// connection, and hold the lock.
			p.Undo = func(ctx context.Context, r redoubt.Reply) {
				if got, err := wire.ReadAttempt(r); err == nil && got.Status == wire.Acquired {
					env.undo(ctx, w.release)
				}
			}
		}
		return p
	}
	if !a.blocks {
		return now()
	}
	return Plan{Instead: now, Wait: func(ctx context.Context) Outcome { return env.acquire(ctx, w, a) }}
}

const errOver = "ERR redoubt: this ID is over: it acquired before, and was released or ran out; use a new one"

func appendAcquired(dst []byte, id string, token int64, ttl time.Duration) []byte {
	dst = resp.AppendArray(dst, 3)
	dst = resp.AppendBulk(dst, id)
	dst = resp.AppendInt(dst, token)
	return resp.AppendInt(dst, ttl.Milliseconds())
}

func planExtend(env *Env, args [][]byte) Plan {
	ttl, fault := milliseconds("ttl_ms", args[3], 1, maxTTL)
	if fault != "" {
		return Plan{Err: fault}
	}
	keys, err := wire.RWKeys(env.Client, string(args[1]))
	cmd := wire.RWExtendCmd(keys, string(args[2]), time.Duration(ttl)*time.Millisecond)
	return planOfID(args[2], cmd, err, func(dst []byte, _ resp.Protocol, r redoubt.Reply) []byte {
		held, _, err := wire.ReadExtend(r)
		env.counts.locks.extended(held, err)
		return appendDone(dst, held, err)
	})
}

func planRelease(env *Env, args [][]byte) Plan {
	keys, err := wire.RWKeys(env.Client, string(args[1]))
	cmd := wire.RWReleaseCmd(keys, string(args[2]), "", wire.End)
	return planOfID(args[2], cmd, err, func(dst []byte, _ resp.Protocol, r redoubt.Reply) []byte {
		released, err := wire.ReadRelease(r)
		env.counts.locks.ended(released, err)
		return appendDone(dst, released, err)
	})
}

func appendDone(dst []byte, done bool, err error) []byte {
	switch {
	case err != nil:
		return appendError(dst, err)
	case done:
		return resp.AppendInt(dst, 1)
	}
	return resp.AppendInt(dst, 0)
}

func planInfo(env *Env, args [][]byte) Plan {
	keys, err := wire.RWKeys(env.Client, string(args[1]))
	if err != nil {
		return refusal(err)
	}
	cmd := wire.InfoCmd(keys)
	return Plan{Cmd: &cmd, Translate: appendInfo}
}

func appendInfo(dst []byte, p resp.Protocol, r redoubt.Reply) []byte {
	info, err := wire.ReadInfo(r)
	if err != nil {
		return appendError(dst, err)
	}
	return appendLock(resp.AppendMap(dst, p, 4), p, info)
}

// appendLock appends the four pairs of LOCK.INFO.
func appendLock(dst []byte, p resp.Protocol, info wire.Info) []byte {
	dst = resp.AppendBulk(dst, "mode")
	dst = resp.AppendBulk(dst, lock.Mode(info.Mode).String())
	return appendHolders(dst, p, info.Holders, info.Token, info.Waiters)
}

// appendHolders appends the last three pairs of LOCK.INFO and SEM.INFO.
func appendHolders(dst []byte, p resp.Protocol, holders []wire.Holder, fence, waiters int64) []byte {
	dst = resp.AppendBulk(dst, "holders")
	dst = resp.AppendArray(dst, len(holders))
	for _, h := range holders {
		dst = resp.AppendMap(dst, p, 4)
		dst = resp.AppendBulk(dst, "label")
		dst = resp.AppendBulk(dst, h.Label)
		dst = resp.AppendBulk(dst, "fence")
		dst = resp.AppendInt(dst, h.Token)
		dst = resp.AppendBulk(dst, "ttl_ms")
		dst = resp.AppendInt(dst, h.TTL.Milliseconds())
		dst = resp.AppendBulk(dst, "since_ms")
		dst = resp.AppendInt(dst, h.Since.UnixMilli())
	}
	dst = resp.AppendBulk(dst, "fence")
	dst = resp.AppendInt(dst, fence)
	dst = resp.AppendBulk(dst, "waiters")
	return resp.AppendInt(dst, waiters)
}
