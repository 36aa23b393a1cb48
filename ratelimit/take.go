package ratelimit

import (
	"context"
	"fmt"
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
	key, err := l.key(name)
	if err != nil {
		return Decision{}, err
	}
	cmd := redoubt.Cmd{Script: uptoScript, Keys: []string{key}, Args: l.terms.args([]string{strconv.Itoa(n)}, 1)}
	o, err := readOutcome(l.client.Do(ctx, cmd), len(l.terms.rates))
	if err != nil {
		return Decision{}, err
	}
	return l.terms.decide(o, o.first, 1), nil
}

// maxUpTo is the most that [Limiter.TakeUpTo] asks for, so that Lua's numbers
// stay exact.
const maxUpTo = 1 << 52

// take is the way to the server of every call for all of its tokens or none.
func (l *Limiter) take(ctx context.Context, name string, n int) (Decision, error) {
	cmd, err := l.takeCmd(name, n)
	if err != nil {
		return Decision{}, err
	}
	return l.readTake(l.client.Do(ctx, cmd), n)
}

// takeCmd is the command that takes n tokens of the limit called name, all or
// none.
func (l *Limiter) takeCmd(name string, n int) (redoubt.Cmd, error) {
	if n < 0 {
		return redoubt.Cmd{}, fmt.Errorf("ratelimit: n is %d; want at least 0", n)
	}
	key, err := l.key(name)
	if err != nil {
		return redoubt.Cmd{}, err
	}
	args := l.one
	if n != 1 {
		args = l.terms.args(now, int64(n))
	}
	return gcraCmd(key, args, int64(n)), nil
}

// readTake reads the reply to takeCmd.
func (l *Limiter) readTake(r redoubt.Reply, n int) (Decision, error) {
	o, err := readOutcome(r, len(l.terms.rates))
	if err != nil {
		return Decision{}, err
	}
	return l.terms.decide(o, o.first*int64(n), int64(n)), nil
}
