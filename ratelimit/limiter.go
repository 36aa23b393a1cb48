package ratelimit

import (
	"context"
	"errors"
	"fmt"

	"github.com/redoubt-go/redoubt"
)

// Options configure a [Limiter]. Limit must be set.
type Options struct {
	// Limit is what each name is held to.
	Limit Limit

	// BareKeys uses names as keys, unchanged, instead of
	// "<prefix>:{<name>}:gcra". That is how CL.THROTTLE names its keys: a
	// Limiter with BareKeys shares limits with clients of that command, of
	// redis-cell or of redoubt serve, and goes on with the keys that the
	// module has written. A bare name may be longer than other names.
	BareKeys bool
}

// A Limiter holds each of any number of names, like "user:42", to one limit. It
// does so among all processes that use the server. Make one for each limit and
// use it for every name.
//
// [Limiter.Allow] is what most callers should use. All methods may be called by
// many goroutines at once, and each costs one round trip. A Limiter keeps
// nothing between calls and need not be closed.
//
// Two Limiters on one server that use the same name share its state, whatever
// their limits: a limit can be changed while it is in use, and two limits that
// should be apart need names that differ, "login:42" and "search:42".
type Limiter struct {
	client *redoubt.Client
	bare   bool
	limit  Limit
	gcra   gcra
	one    []string // arguments for one token
}

// New returns a Limiter on client. It sends nothing. The error joins all that
// is wrong with the options.
func New(client *redoubt.Client, opts Options) (*Limiter, error) {
	limit := opts.Limit
	if limit.Burst == 0 {
		limit.Burst = limit.Rate
	}
	g, err := limit.gcra()
	if client == nil {
		err = errors.Join(errors.New("ratelimit: client is nil"), err)
	}
	if err != nil {
		return nil, err
	}
	return &Limiter{client: client, bare: opts.BareKeys, limit: limit, gcra: g, one: g.args(g.interval)}, nil
}

// Allow takes one token of the limit called name, if there is one. See
// [Limiter.AllowN].
func (l *Limiter) Allow(ctx context.Context, name string) (Decision, error) {
	return l.AllowN(ctx, name, 1)
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
	key, err := l.key(name)
	if err != nil {
		return Decision{}, err
	}
	cost, args := l.gcra.interval, l.one
	if n != 1 {
		cost = l.gcra.cost(int64(n))
		args = l.gcra.args(cost)
	}
	o, err := readOutcome(l.client.Do(ctx, gcraCmd(key, args, cost)))
	if err != nil {
		return Decision{}, err
	}
	return l.decide(o, n), nil
}

// Peek answers what [Limiter.Allow] would, and takes nothing: Remaining counts
// the token that Allow would take. It may be sent again after a lost reply.
func (l *Limiter) Peek(ctx context.Context, name string) (Decision, error) {
	return l.AllowN(ctx, name, 0)
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

// key returns the key that holds the limit called name. The error matches
// redoubt.ErrInvalidName.
func (l *Limiter) key(name string) (string, error) {
	if !l.bare {
		return l.client.Key(name, "gcra")
	}
	if name == "" {
		return "", fmt.Errorf("%w: it is empty", redoubt.ErrInvalidName)
	}
	return name, nil
}
