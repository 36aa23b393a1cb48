package fence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/fence"
)

// ErrStale is matched when a token is smaller than the largest that the resource
// has seen: another has had the lock since. The error is a [*StaleError].
var ErrStale = errors.New("fence: stale token")

// A StaleError says which token was refused, and why. It matches [ErrStale].
type StaleError struct {
	// Resource is the name of what is guarded.
	Resource string
	// Token was refused.
	Token int64
	// Largest is the largest token that the resource has seen.
	Largest int64
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("%v: %d for %q, which has seen %d", ErrStale, e.Token, e.Resource, e.Largest)
}

// Is reports whether target is [ErrStale].
func (e *StaleError) Is(target error) bool { return target == ErrStale }

const (
	// MaxToken is the largest token, 2^53 - 1: what a double holds exactly.
	MaxToken = wire.MaxToken
	// MaxWords, 4000, bounds what one [Guard.Do] can send: names, keys and arguments
	// of all commands together.
	MaxWords = wire.MaxWords
	// MaxKeep is the longest [Options.Keep].
	MaxKeep = 10 * 365 * 24 * time.Hour
)

// Options configure a [Guard]. The zero value is ready to use.
type Options struct {
	// Keep is how long the largest token of a resource is remembered after it
	// was last used. A holder that is paused for longer than that and finds
	// that nobody has written since is not refused. From 1 ms to ten years.
	// Defaults to for ever: a key of some 100 bytes for each resource, until
	// [Guard.Forget].
	Keep time.Duration
}

// A Guard lets commands through to Redis only with a fencing token that is not
// smaller than the largest seen for the resource that they change. Make one and
// use it for every resource.
//
// [Guard.Do] is what callers use. All methods may be called by many goroutines
// at once, and each costs one round trip. A Guard keeps nothing between calls
// and need not be closed.
type Guard struct {
	client *redoubt.Client
	keep   time.Duration
}

// New returns a Guard on client. It sends nothing.
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

// Do runs commands if token is not smaller than the largest seen for the
// resource, and remembers it. Otherwise nothing is run, and the error is a
// [*StaleError]. The check and the commands are one atomic step. token is that
// of the lease that protects the resource: lock.Lease.Token.
//
// The commands are plain ones, at most [MaxWords] words, which run like those of
// a transaction: one that fails leaves the others in place. Or it is one Cmd with
// a Script. Without any, the token is only remembered: those with a smaller one
// are refused from then on. There is a reply for each; the error joins theirs.
//
// On a cluster all keys must be in the slot of the resource's name, which they
// are if they have it in braces, or if the one key is the name.
//
// What is sent again after a lost reply is decided by the commands' flags: it is
// if all are ReadOnly or Idempotent. Then a token may be refused although the
// first copy was let through before the larger one came.
func (g *Guard) Do(ctx context.Context, resource string, token int64, cmds ...redoubt.Cmd) ([]redoubt.Reply, error) {
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
		return nil, &StaleError{Resource: resource, Token: token, Largest: v.Largest}
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

// Largest returns the largest token seen for the resource; 0 if none was.
func (g *Guard) Largest(ctx context.Context, resource string) (int64, error) {
	key, err := wire.Key(g.client, resource)
	if err != nil {
		return 0, err
	}
	return wire.ReadLargest(g.client.Do(ctx, wire.LargestCmd(key)))
}

// Forget forgets the largest token of the resource: any is accepted then. It is
// for a resource that is gone.
func (g *Guard) Forget(ctx context.Context, resource string) error {
	key, err := wire.Key(g.client, resource)
	if err != nil {
		return err
	}
	return g.client.Do(ctx, redoubt.Cmd{Name: "DEL", Keys: []string{key}, Flags: redoubt.Idempotent}).Err
}
