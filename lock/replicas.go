package lock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
)

// ErrNotReplicated is matched when a lock was acquired, but too few replicas
// confirmed that they know of it: see [Options].Replicas. It has been given back.
var ErrNotReplicated = errors.New("lock: not replicated")

const (
	// DefaultReplicaTimeout is how long replicas have unless the options say so,
	// or half the TTL if that is shorter.
	DefaultReplicaTimeout = time.Second
	// MaxReplicas bounds [Options].Replicas.
	MaxReplicas = 100
)

// checkReplicas checks what opts say of replicas, and fills in the default.
func (opts *Options) checkReplicas() error {
	var errs []error
	if opts.Replicas < 0 || opts.Replicas > MaxReplicas {
		errs = append(errs, fmt.Errorf("lock: replicas is %d; want 0 to %d", opts.Replicas, MaxReplicas))
	}
	most := opts.TTL
	if most == 0 {
		most = DefaultTTL
	}
	most /= 2
	if opts.ReplicaTimeout == 0 && opts.Replicas > 0 {
		opts.ReplicaTimeout = min(DefaultReplicaTimeout, most)
	}
	if timeout := opts.ReplicaTimeout; timeout != 0 && (timeout < time.Millisecond || timeout > most) {
		errs = append(errs, fmt.Errorf("lock: replica timeout is %v; want 1ms to half the ttl, %v", timeout, most))
	}
	return errors.Join(errs...)
}

// replicated waits until as many replicas as the options say have what the primary
// has, the acquisition id included, and gives the lock back if they don't come to
// it.
//
// WAIT answers for what its own connection has seen of the primary. So a read goes
// before it, in one pipeline and so on one connection: when the acquire itself went
// before it, and missed its script, WAIT would have answered before the acquire was
// sent again. Neither is WAIT ever sent again by itself.
func (f *family) replicated(ctx context.Context, t target, id string) error {
	if f.opts.Replicas == 0 {
		return nil
	}
	replies := f.client.Pipeline(ctx, []redoubt.Cmd{
		{Name: "EXISTS", Keys: []string{t.key()}, Flags: redoubt.ReadOnly},
		{Name: "WAIT", At: t.key(), Args: []string{strconv.Itoa(f.opts.Replicas), strconv.FormatInt(f.opts.ReplicaTimeout.Milliseconds(), 10)}},
	})
	n, err := replies[1].Int()
	if err == nil {
		err = replies[0].Err
	}
	if err == nil && n >= int64(f.opts.Replicas) {
		return nil
	}
	if rerr := f.client.Do(ctx, t.release(id)).Err; rerr != nil {
		f.cleanUp(ctx, t.release(id))
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNotReplicated, err)
	}
	return fmt.Errorf("%w: %d of %d replicas confirmed the lease within %v", ErrNotReplicated, n, f.opts.Replicas, f.opts.ReplicaTimeout)
}
