package ratelimit

import (
	"context"
	"fmt"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
)

// Allow takes one token of the limit called name, if there is one. See
// [Limiter.AllowN].
func (l *Limiter) Allow(ctx context.Context, name string) (Decision, error) {
	return l.take(ctx, name, 1)
}

// AllowN takes n tokens of the limit called name, all of them or none. A refusal
// takes nothing. n = 0 takes nothing, and Allowed tells whether there is
// a token; a negative n is an error.
//
// After an error the state of the limit is unknown, and the caller decides whether to go
// on. When the error matches redoubt.ErrUnknownOutcome the tokens may have been taken:
// the call is never sent twice. One round trip at most.
func (l *Limiter) AllowN(ctx context.Context, name string, n int) (Decision, error) {
	return l.take(ctx, name, n)
}

// Reset gives the limit called name all its tokens back; stored limits stay. It may be
// sent again after a lost reply. One round trip.
func (l *Limiter) Reset(ctx context.Context, name string) error {
	key, err := l.wire.Key(name)
	if err != nil {
		return err
	}
	defer l.denials.forget(name)
	return l.client.Do(ctx, redoubt.Cmd{Name: "DEL", Keys: []string{key}, Flags: redoubt.Idempotent}).Err
}

// TakeUpTo takes up to n tokens of the limit called name, at least 1, as many as are
// left: Decision.Taken says how many. It is Allowed if it took one or more; otherwise
// RetryAfter is when the next token comes. Like Allow it is never sent twice. One round
// trip.
func (l *Limiter) TakeUpTo(ctx context.Context, name string, n int) (Decision, error) {
	if n < 1 || int64(n) > wire.MaxUpTo {
		return Decision{}, fmt.Errorf("ratelimit: n is %d; want 1 to %d", n, int64(wire.MaxUpTo))
	}
	o, t, err := l.upTo(ctx, name, int64(n))
	if err != nil {
		return Decision{}, err
	}
	return reported(ctx, l.client, name, n, decision(t.Decide(o, o.First, 1)), nil)
}

func (l *Limiter) upTo(ctx context.Context, name string, n int64) (wire.Outcome, *wire.Terms, error) {
	cmd, err := l.wire.UpToCmd(name, n)
	if err != nil {
		return wire.Outcome{}, nil, err
	}
	return l.wire.Read(l.client.Do(ctx, cmd))
}

// take sends every call for all of its tokens or none.
func (l *Limiter) take(ctx context.Context, name string, n int) (Decision, error) {
	if d, ok := l.denied(name, n); ok {
		return reported(ctx, l.client, name, n, d, nil)
	}
	cmd, err := l.wire.TakeCmd(name, n)
	if err != nil {
		return Decision{}, err
	}
	c := &caller{name: name, key: cmd.Keys[len(cmd.Keys)-1], n: n}
	d, err := l.guard(ctx, c.name, c.n, func(ctx context.Context) (Decision, error) { return l.coalesce(ctx, c, cmd) })
	return reported(ctx, l.client, name, n, d, err)
}

// reported tells the Observer what was decided on a call for n tokens, and returns the decision.
func reported(ctx context.Context, client *redoubt.Client, name string, n int, d Decision, err error) (Decision, error) {
	if err != nil || n == 0 {
		return d, err
	}
	kind := redoubt.EventDenied
	if d.Allowed {
		kind = redoubt.EventAllowed
	}
	client.Report(ctx, redoubt.Event{Kind: kind, Primitive: "ratelimit", Name: name, Err: d.Degraded})
	return d, nil
}
