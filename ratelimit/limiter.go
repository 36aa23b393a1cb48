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
	// Limit is the limit of each name.
	Limit Limit

	// And are further limits, like 10 a second and 1,000 an hour: a call takes its
	// tokens from all of them or from none. At most [MaxLimits] limits in all. Taken
	// tokens are kept by the place of a limit among the others, so a limit may be
	// changed, or added at the end, while it is in use.
	And []Limit

	// Stored reads the limits from the server, in the same round trip: [Limiter.Set] and
	// [Limiter.SetIfAbsent] store them under each name. Limit and And must then not be
	// set. A name without stored limits gives [ErrNotConfigured].
	Stored bool

	// Scope says who shares the tokens. Defaults to Overall.
	Scope Scope

	// MaxWait is the longest wait of Reserve and Wait: tokens that come later are not
	// taken. Defaults to 0, which is no bound.
	MaxWait time.Duration

	// BareKeys uses names as keys, unchanged, instead of "<prefix>:{<name>}:gcra", as
	// CL.THROTTLE does. So a Limiter shares limits with clients of that command, of
	// redis-cell or of redoubt serve, and continues the keys that the module has
	// written. A bare name may be longer than other names. It needs Scope Overall, and
	// can't be combined with Stored.
	BareKeys bool

	// DenyCache is how long this process may answer from a known refusal. A call for as
	// many tokens or more is refused without a round trip until RetryAfter has passed, so
	// a flood of refused calls costs one round trip each RetryAfter. A call on the same
	// Client that gives tokens back or changes limits ends the known refusal at once.
	// After such a call of another process this process may refuse up to DenyCache
	// longer. Limiters with other limits are not affected. 0 to 1 s. Defaults to 0, which
	// asks the server each time.
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

// A Limiter applies one limit, or several at once, to each of any number of names like
// "user:42", among all processes that use the server. Make one Limiter for each limit and
// use it for every name.
//
// Most callers should use [Limiter.Allow]. All methods may be called by many goroutines
// at once, and each costs one round trip; concurrent calls of Allow for one name go to
// the server as one command. A Limiter need not be closed.
//
// Two Limiters on one server share the state of a name, whatever their limits. So a limit
// can be changed while it is in use, and separate limits need separate names: "login:42"
// and "search:42".
type Limiter struct {
	keyspace
	bare    bool
	maxWait time.Duration
	wire    *wire.Limiter

	denials   *denials
	denyFor   time.Duration
	limitsID  string // identifies the limits; empty when they are stored
	coalescer coalescer
	failure   failure
}

// New returns a Limiter on client. It sends nothing. The error joins all that is wrong
// with the options.
func New(client *redoubt.Client, opts Options) (*Limiter, error) {
	keys, err := newKeyspace(client, opts.Scope)
	errs := []error{err}
	if client == nil {
		errs = append(errs, errors.New("ratelimit: client is nil"))
	}
	if opts.BareKeys && opts.Scope != Overall {
		errs = append(errs, errors.New("ratelimit: BareKeys needs Scope Overall: bare keys are shared"))
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
			errs = append(errs, errors.New("ratelimit: Stored can't be combined with Limit, And or BareKeys"))
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

// keysID identifies the way in which a Limiter makes keys of names.
func (l *Limiter) keysID() string {
	if l.bare {
		return "bare"
	}
	return l.suffix
}
