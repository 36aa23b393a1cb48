package ratelimit

import (
	"errors"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
)

// Options configure a [Limiter]. Limit must be set, or Stored.
type Options struct {
	// Limit is what each name is held to.
	Limit Limit

	// And are further limits that a call must keep to as well, like 10 a second
	// and 1,000 an hour: it takes its tokens from all of them, or from none. At
	// most [MaxLimits] limits in all. What was taken is kept by the place of a
	// limit among the others, so that a limit may be changed or added at the
	// end while it is in use.
	And []Limit

	// Stored takes the limits from the server, in the same round trip: those that
	// [Limiter.Set] or [Limiter.SetIfAbsent] has put there under each name. Limit and
	// And are not set then. A name without any gives [ErrNotConfigured].
	Stored bool

	// Scope says who shares what was taken. Defaults to Overall.
	Scope Scope

	// MaxWait is how long Reserve and Wait wait at most for their tokens: those
	// that come later are not taken. Defaults to 0, which is no bound.
	MaxWait time.Duration

	// BareKeys uses names as keys, unchanged, instead of
	// "<prefix>:{<name>}:gcra". That is how CL.THROTTLE names its keys: a
	// Limiter with BareKeys shares limits with clients of that command, of
	// redis-cell or of redoubt serve, and goes on with the keys that the
	// module has written. A bare name may be longer than other names. It goes
	// with Scope Overall only, and not with Stored.
	BareKeys bool

	// DenyCache is how long this process answers by a refusal that it knows, at
	// most: a call for as many tokens or more is refused without a round trip
	// until RetryAfter has passed, so that a flood of calls that are refused
	// costs one each RetryAfter. All that gives tokens back or changes limits on
	// the same Client ends it, and Limiters with other limits don't see it;
	// when another process does so, this one may refuse up to DenyCache longer.
	// 0 to 1 s. Defaults to 0, which asks the server each time.
	DenyCache time.Duration

	// OnFailure is how Allow, AllowN and AllowMany answer when the server doesn't.
	// Defaults to FailWithError.
	OnFailure FailureMode

	// Timeout is how long a call waits for the server before OnFailure decides.
	// After one call has waited in vain, the others answer at once, except one
	// call each Timeout that tries the server again. Defaults to 1 s. With
	// FailWithError it must not be set: there the caller's ctx decides.
	Timeout time.Duration
}

// A Limiter holds each of any number of names, like "user:42", to one limit, or
// to several at once. It does so among all processes that use the server. Make
// one for each limit and use it for every name.
//
// [Limiter.Allow] is what most callers should use. All methods may be called by
// many goroutines at once, and each costs one round trip; concurrent calls of
// Allow for one name go to the server as one. A Limiter need not be closed.
//
// Two Limiters on one server that use the same name share its state, whatever
// their limits: a limit can be changed while it is in use, and two limits that
// should be apart need names that differ, "login:42" and "search:42".
type Limiter struct {
	keyspace
	bare    bool
	maxWait time.Duration
	wire    *wire.Limiter

	denials  *denials
	denyFor  time.Duration
	limitsID string // tells the limits from others; empty when they are stored
	flights  flights
	failure  failure
}

// New returns a Limiter on client. It sends nothing. The error joins all that
// is wrong with the options.
func New(client *redoubt.Client, opts Options) (*Limiter, error) {
	keys, err := newKeyspace(client, opts.Scope)
	errs := []error{err}
	if client == nil {
		errs = append(errs, errors.New("ratelimit: client is nil"))
	}
	if opts.BareKeys && opts.Scope != Overall {
		errs = append(errs, errors.New("ratelimit: BareKeys goes with Scope Overall only: bare keys are shared"))
	}
	if opts.MaxWait < 0 {
		errs = append(errs, fmt.Errorf("ratelimit: MaxWait is %v; want at least 0", opts.MaxWait))
	}
	if opts.DenyCache < 0 || opts.DenyCache > maxDeny {
		errs = append(errs, fmt.Errorf("ratelimit: DenyCache is %v; want 0 to %v", opts.DenyCache, maxDeny))
	}
	failure, err := newFailure(opts)
	errs = append(errs, err)
	l := &Limiter{keyspace: keys, bare: opts.BareKeys, maxWait: opts.MaxWait, denyFor: opts.DenyCache, failure: failure}
	if opts.Stored {
		if opts.Limit != (Limit{}) || len(opts.And) > 0 || opts.BareKeys {
			errs = append(errs, errors.New("ratelimit: Stored does not go with Limit, And or BareKeys"))
		}
		l.wire = wire.NewStored(client, keys.suffix)
	} else {
		l.wire, err = wire.NewLimiter(client, keys.suffix, opts.BareKeys, wireLimits(opts.Limit, opts.And))
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	l.denials = denialsOf(client)
	if !opts.Stored {
		l.limitsID = l.wire.Terms().String()
	}
	return l, nil
}

// keysID tells apart the keys that Limiters of a Client make of the same name.
func (l *Limiter) keysID() string {
	if l.bare {
		return "bare"
	}
	return l.suffix
}
