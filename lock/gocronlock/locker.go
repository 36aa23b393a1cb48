package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/lock"
)

// DefaultHold is the Options.Hold of a [Locker] whose options set none.
const DefaultHold = 5 * time.Second

// Options configure a [Locker]. The zero value is ready to use.
type Options struct {
	// Hold is the shortest time for which the lock of a job is held, from the job's start on. It must be
	// longer than the processes' clocks differ and their machines are late. After a shorter job the lock
	// is held for up to Hold after the job's end. So Hold must be less than half the time between two
	// runs; otherwise runs are left out. Jobs that count their interval from the start of the process, such as
	// gocron.DurationJob, are due at different times in each process: they run once an interval
	// only if Hold is nearly half of it or more.
	//
	// Hold is also the TTL of the lock, which is renewed while the job runs: after the death of a
	// process others wait for up to Hold. From 1 ms to a year. Defaults to [DefaultHold], for runs
	// that are more than 10 s apart.
	Hold time.Duration

	// Label tells other clients who holds the lock, as in lock.Options. Defaults to none.
	Label string
}

// A Locker is a gocron.Locker. The lock of a job is called "gocron:" and the name of the job, so
// set gocron.WithName to the same name in all processes: the default is the name of the function.
//
// Its methods may be called by many goroutines at once. It holds no resources and need not be closed.
type Locker struct {
	locks *lock.Mutex
	hold  time.Duration
}

// New returns a Locker on client. It sends nothing. The error joins all that is wrong with the
// options.
func New(client *redoubt.Client, opts Options) (*Locker, error) {
	if opts.Hold == 0 {
		opts.Hold = DefaultHold
	}
	var errs []error
	if opts.Hold < lock.MinTTL || opts.Hold > lock.MaxTTL {
		errs = append(errs, fmt.Errorf("gocronlock: hold is %v; want %v to %v", opts.Hold, lock.MinTTL, lock.MaxTTL))
		opts.Hold = DefaultHold // so that lock.New finds the other faults
	}
	locks, err := lock.New(client, lock.Options{TTL: opts.Hold, Label: opts.Label})
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	return &Locker{locks, opts.Hold}, nil
}

// Lock acquires the lock of the job called key, and doesn't wait. The error matches lock.ErrBusy when
// the job runs, or has just run, in another process; gocron then skips this run. It does
// so after any other error too: gocron.AfterLockError tells the program. One round trip.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lease, busy, err := l.locks.TryAcquire(ctx, "gocron:"+key)
	if busy != nil {
		err = busy.Err()
	}
	if err != nil {
		return nil, err
	}
	return &held{lease, time.Now().Add(l.hold)}, nil
}

// held is the lock of a job that runs.
type held struct {
	lease *lock.Lease
	until time.Time // at least
}

// Unlock lets the lock run out if it was held for less than the Locker's Hold, and releases it
// otherwise, even if ctx has ended: gocron passes the context of the job. The error matches
// lock.ErrNotHeld when the lease was lost: the job may have run beside another one.
func (h *held) Unlock(ctx context.Context) error {
	if time.Now().Before(h.until) {
		_, err := h.lease.HandOver() // to nobody
		return err
	}
	return h.lease.Release(ctx)
}
