package ratelimit

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/redoubt-go/redoubt"
)

// Allow takes one token of the limit called name, if there is one. See
// [Limiter.AllowN].
func (l *Limiter) Allow(ctx context.Context, name string) (Decision, error) {
	return l.take(ctx, name, 1)
}

// AllowN takes n tokens of the limit called name, all of them or none. A
// refusal takes nothing. n = 0 is [Limiter.Peek]; a negative n is an error.
//
// With an error nothing is known of the limit: whether to go on is for the
// caller to choose. An error that matches redoubt.ErrUnknownOutcome says that
// the tokens may have been taken: the call is never sent twice.
func (l *Limiter) AllowN(ctx context.Context, name string, n int) (Decision, error) {
	return l.take(ctx, name, n)
}

// Peek answers what [Limiter.Allow] would, and takes nothing: Remaining counts
// the token that Allow would take. It may be sent again after a lost reply.
func (l *Limiter) Peek(ctx context.Context, name string) (Decision, error) {
	return l.take(ctx, name, 0)
}

// Reset gives the limit called name all its tokens back. It may be sent again
// after a lost reply.
func (l *Limiter) Reset(ctx context.Context, name string) error {
	key, err := l.key(name)
	if err != nil {
		return err
	}
	defer l.denials.forget(name)
	return l.client.Do(ctx, redoubt.Cmd{Name: "DEL", Keys: []string{key}, Flags: redoubt.Idempotent}).Err
}

// TakeUpTo takes as many tokens of the limit called name as there are, at most
// n, which is at least 1: Decision.Taken says how many. It is Allowed if that is
// at least one; otherwise RetryAfter is when the next one comes. Like Allow it is
// never sent twice.
func (l *Limiter) TakeUpTo(ctx context.Context, name string, n int) (Decision, error) {
	if n < 1 || int64(n) > maxUpTo {
		return Decision{}, fmt.Errorf("ratelimit: n is %d; want 1 to %d", n, int64(maxUpTo))
	}
	o, t, err := l.upTo(ctx, name, int64(n))
	if err != nil {
		return Decision{}, err
	}
	return t.decide(o, o.first, 1), nil
}

func (l *Limiter) upTo(ctx context.Context, name string, n int64) (outcome, *terms, error) {
	cmd, err := l.cmd(upTo, name, 1, strconv.FormatInt(n, 10))
	if err != nil {
		return outcome{}, nil, err
	}
	return l.read(l.client.Do(ctx, cmd))
}

// maxUpTo is the most that a script multiplies by, so that Lua's numbers stay
// exact.
const maxUpTo = 1 << 52

// take is the way to the server of every call for all of its tokens or none.
func (l *Limiter) take(ctx context.Context, name string, n int) (Decision, error) {
	if d, ok := l.denied(name, n); ok {
		return d, nil
	}
	cmd, err := l.takeCmd(name, n)
	if err != nil {
		return Decision{}, err
	}
	c := &caller{name: name, key: cmd.Keys[len(cmd.Keys)-1], n: n}
	return l.guard(ctx, c.name, c.n, func(ctx context.Context) (Decision, error) { return l.coalesce(ctx, c, cmd) })
}

// takeCmd is the command that takes n tokens of the limit called name, all or
// none.
func (l *Limiter) takeCmd(name string, n int) (redoubt.Cmd, error) {
	if n < 0 {
		return redoubt.Cmd{}, fmt.Errorf("ratelimit: n is %d; want at least 0", n)
	}
	cmd, err := l.cmd(take, name, n, now...)
	if n == 0 {
		cmd.Flags = redoubt.ReadOnly
	}
	return cmd, err
}

// readTake reads the reply to takeCmd.
func (l *Limiter) readTake(r redoubt.Reply, n int) (Decision, error) {
	o, t, err := l.read(r)
	if err != nil {
		return Decision{}, err
	}
	return t.decide(o, o.first*int64(n), int64(n)), nil
}

// An operation is a script that works on a list of limits, without and with the
// limits kept on the server.
type operation struct {
	script, stored *redoubt.Script
	refunds        bool // the ids of refunds are its second key
}

var (
	take   = operation{script: gcraScript, stored: storedGCRAScript}
	upTo   = operation{script: uptoScript, stored: storedUpToScript}
	refund = operation{script: refundScript, stored: storedRefundScript, refunds: true}
	batch  = operation{script: batchScript, stored: storedBatchScript}
)

// cmd is the command that does op with n tokens of the limit called name. The
// lead is what the script has before its limits.
func (l *Limiter) cmd(op operation, name string, n int, lead ...string) (redoubt.Cmd, error) {
	if l.stored != nil {
		return l.storedCmd(op, name, n, lead)
	}
	keys, err := l.keys(op, nil, name)
	args := l.one
	if op != take || n != 1 || !slices.Equal(lead, now) {
		args = l.terms.args(lead, int64(n))
	}
	return redoubt.Cmd{Script: op.script, Keys: keys, Args: args}, err
}

// keys appends the keys of what op works on.
func (l *Limiter) keys(op operation, keys []string, name string) ([]string, error) {
	key, err := l.key(name)
	if err != nil || !op.refunds {
		return append(keys, key), err
	}
	refunds, err := l.refundsKey(name)
	return append(keys, key, refunds), err
}

// read reads the reply to cmd: the outcome, and the limits that it came by.
func (l *Limiter) read(r redoubt.Reply) (outcome, *terms, error) {
	r, t := l.reply(r)
	if r.Err != nil {
		return outcome{}, nil, r.Err
	}
	o, err := readOutcome(r, len(t.rates))
	return o, t, err
}

// reply returns the reply of the script itself, or why there is none, and the
// limits that it came by.
func (l *Limiter) reply(r redoubt.Reply) (redoubt.Reply, *terms) {
	if l.stored != nil {
		return l.stored.reply(r)
	}
	return r, &l.terms
}
