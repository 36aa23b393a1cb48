package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
)

// replication is what a lock waits for after its acquire: Options.Replicas and
// Options.ReplicaTimeout, with the default filled in.
type replication struct {
	replicas int
	timeout  time.Duration
}

// replication checks what opts say of replicas.
func (opts Options) replication() (replication, error) {
	r := replication{opts.Replicas, opts.ReplicaTimeout}
	var errs []error
	if r.replicas < 0 || r.replicas > MaxReplicas {
		errs = append(errs, fmt.Errorf("lock: replicas is %d; want 0 to %d", r.replicas, MaxReplicas))
	}
	most := cmp.Or(opts.TTL, DefaultTTL) / 2
	if r.timeout == 0 && r.replicas > 0 {
		r.timeout = min(DefaultReplicaTimeout, most)
	}
	if r.timeout != 0 && (r.timeout < time.Millisecond || r.timeout > most) {
		errs = append(errs, fmt.Errorf("lock: replica timeout is %v; want 1ms to half the ttl, %v", r.timeout, most))
	}
	return r, errors.Join(errs...)
}

// replicasSuffix ends the key that is written for WAIT, behind the key of the lock.
const replicasSuffix = ":replicas"

// replicated waits until the number of replicas in the options have the data of the primary,
// the acquisition id included, and gives the lock back if they don't have it in time.
//
// WAIT covers the writes of its own connection, and since Redis 7.2 a read doesn't bring that connection up to
// date. So a write to a key of its own, which expires at once, precedes it in one pipeline, which is on one
// connection. Rejected: the acquire before the WAIT; if it missed its script, WAIT would answer before the
// acquire was sent again. Neither command is sent again after a lost reply.
func (f *family) replicated(ctx context.Context, t target, id string) error {
	if f.replication.replicas == 0 {
		return nil
	}
	replies := f.client.Pipeline(ctx, []redoubt.Cmd{
		{Name: "SET", Keys: []string{t.key() + replicasSuffix}, Args: []string{"", "PX", "1000"}},
		{Name: "WAIT", At: t.key(), Args: []string{strconv.Itoa(f.replication.replicas), strconv.FormatInt(f.replication.timeout.Milliseconds(), 10)}},
	})
	n, err := replies[1].Int()
	if err == nil {
		err = replies[0].Err
	}
	if err == nil && n >= int64(f.replication.replicas) {
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
	return fmt.Errorf("%w: %d of %d replicas confirmed the lease within %v", ErrNotReplicated, n, f.replication.replicas, f.replication.timeout)
}
