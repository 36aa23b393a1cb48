package ratelimit

import (
	"context"
	"fmt"

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
	if n < 0 {
		return Decision{}, fmt.Errorf("ratelimit: n is %d; want at least 0", n)
	}
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

// take is the way to the server of every call for all of its tokens or none.
func (l *Limiter) take(ctx context.Context, name string, n int) (Decision, error) {
	key, err := l.key(name)
	if err != nil {
		return Decision{}, err
	}
	args := l.one
	if n != 1 {
		args = l.terms.args(now, int64(n))
	}
	o, err := readOutcome(l.client.Do(ctx, gcraCmd(key, args, int64(n))), len(l.terms.rates))
	if err != nil {
		return Decision{}, err
	}
	return l.terms.decide(o, o.first*int64(n), int64(n)), nil
}
