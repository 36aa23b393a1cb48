package fence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/fence"
)

// ErrStale is matched when a token is smaller than the largest token seen for the
// resource: a later holder has used it. The error is a [*StaleError].
var ErrStale = errors.New("fence: stale token")

// A StaleError is the refusal of a token. It matches [ErrStale].
type StaleError struct {
	// Resource is the name of the guarded resource.
	Resource string
	// Token is the token that was refused.
	Token int64
	// Current is the largest token seen for the resource.
	Current int64
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("%v: %d for %q, which has seen %d", ErrStale, e.Token, e.Resource, e.Current)
}

// Is reports whether target is [ErrStale].
func (e *StaleError) Is(target error) bool { return target == ErrStale }

const (
	// MaxToken is the largest token, 2^53 - 1: what a double holds exactly.
	MaxToken = wire.MaxToken
	// MaxWords, 4000, is the largest number of words that one [Guard.DoMany] can
	// send: names, keys and arguments of all commands together.
	MaxWords = wire.MaxWords
	// MaxKeep is the longest [Options.Keep].
	MaxKeep = 10 * 365 * 24 * time.Hour
)

// Options configure a [Guard]. The zero value is ready to use.
type Options struct {
	// Keep is how long the server remembers the largest token of a resource after
	// its last use. A holder that is paused for longer is accepted again if nobody
	// has written since. From 1 ms to ten years. Defaults to 0, for ever: a key of
	// about 100 bytes for each resource, until
	// [Guard.Delete].
	Keep time.Duration
}

// A Guard runs commands on Redis only with a fencing token that is at least the
// largest token seen for the resource that they change. Make one Guard and use it
// for every resource.
//
// Most callers use [Guard.Do]. All methods may be called by many goroutines at
// once. A Guard keeps nothing between calls and need not be closed.
type Guard struct {
	client *redoubt.Client
	keep   time.Duration
}

// New returns a Guard on client. It sends nothing. The error joins all that is
// wrong with the options.
func New(client *redoubt.Client, opts Options) (*Guard, error) {
	var errs []error
	if client == nil {
		errs = append(errs, errors.New("fence: client is nil"))
	}
	if k := opts.Keep; k != 0 && (k < time.Millisecond || k > MaxKeep) {
		errs = append(errs, fmt.Errorf("fence: keep is %v; want 1ms to %v, or 0 for ever", k, MaxKeep))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Guard{client: client, keep: opts.Keep}, nil
}

// Do runs cmd if token is at least the largest token seen for the resource, and
// remembers the token. Otherwise it runs nothing, and the reply's Err is a
// [*StaleError]. The check and the command are one atomic step. The token is
// that of the lease that protects the resource: lock.Lease.Token. The command
// may have a Script; it must not block.
//
// On a cluster all keys must be in the slot of the resource's name: a key that
// is the name, or has the name in braces.
//
// After a lost reply the command is sent again if it is ReadOnly or Idempotent.
// The reply may then be a [*StaleError] although the first copy ran, when a
// larger token came in between. Otherwise the error matches
// redoubt.ErrUnknownOutcome. One round trip.
func (g *Guard) Do(ctx context.Context, resource string, token int64, cmd redoubt.Cmd) redoubt.Reply {
	replies, err := g.DoMany(ctx, resource, token, []redoubt.Cmd{cmd})
	if len(replies) == 1 {
		return replies[0]
	}
	return redoubt.Reply{Err: err}
}

// Accept remembers token for the resource, if it is at least the largest token
// seen: from then on smaller tokens are refused. Otherwise the error is a
// [*StaleError]. A new holder calls it before its work to shut out all earlier
// holders. It may be sent again after a lost reply. One round trip.
func (g *Guard) Accept(ctx context.Context, resource string, token int64) error {
	_, err := g.DoMany(ctx, resource, token, nil)
	return err
}

// DoMany runs several commands as [Guard.Do] runs one, in one atomic step and one
// round trip. They have at most [MaxWords] words together, and none has a Script.
// As in a transaction, a command that fails leaves the others in place. There is
// a reply for each command; the error joins theirs. The commands are sent again
// after a lost reply if all of them are ReadOnly or Idempotent.
func (g *Guard) DoMany(ctx context.Context, resource string, token int64, cmds []redoubt.Cmd) ([]redoubt.Reply, error) {
	key, err := wire.Key(g.client, resource)
	if err != nil {
		return nil, err
	}
	cmd, err := wire.DoCmd(key, token, g.keep, cmds...)
	if err != nil {
		return nil, err
	}
	v, err := wire.ReadVerdict(g.client.Do(ctx, cmd))
	if err != nil {
		return nil, err
	}
	if !v.Accepted {
		return nil, &StaleError{Resource: resource, Token: token, Current: v.Largest}
	}
	if len(v.Replies) < len(cmds) {
		v.Replies = append(v.Replies, redoubt.Reply{}) // of a script that returned nothing
	}
	var errs []error
	for _, r := range v.Replies {
		errs = append(errs, r.Err)
	}
	return v.Replies, errors.Join(errs...)
}

// Info is what a [Guard] knows of a resource.
type Info struct {
	// Token is the largest token seen; 0 if none was.
	Token int64
}

// Info returns what the server knows of the resource. One round trip.
func (g *Guard) Info(ctx context.Context, resource string) (Info, error) {
	key, err := wire.Key(g.client, resource)
	if err != nil {
		return Info{}, err
	}
	largest, err := wire.ReadLargest(g.client.Do(ctx, wire.LargestCmd(key)))
	return Info{Token: largest}, err
}

// Delete removes the largest token of a resource that is gone: any token is
// accepted afterwards. It reports whether there was one. It may be sent again
// after a lost reply, and may then report false. One round trip.
func (g *Guard) Delete(ctx context.Context, resource string) (deleted bool, err error) {
	key, err := wire.Key(g.client, resource)
	if err != nil {
		return false, err
	}
	n, err := g.client.Do(ctx, redoubt.Cmd{Name: "DEL", Keys: []string{key}, Flags: redoubt.Idempotent}).Int()
	return n > 0, err
}
