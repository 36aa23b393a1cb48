package gocronlock

import (
	"context"
	"errors"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/lock"
)

// DefaultName is the name of an election whose options set none.
const DefaultName = "gocron"

// ElectorOptions configure an [Elector]. The zero value is ready to use.
type ElectorOptions struct {
	// Name is the name of the election and of its lock: lock.Mutex.Observe tells who leads. Defaults to
	// [DefaultName].
	Name string

	// TTL is how long the other processes wait after a leader dies, as in lock.Options. Defaults to
	// lock.DefaultTTL.
	TTL time.Duration

	// Label tells other clients who leads, "host:pid" for instance. Defaults to none.
	Label string
}

// An Elector is a gocron.Elector. The process that asks first leads, and goes on leading until
// Close, its death, or the loss of the server for longer than its TTL.
//
// When the lead changes hands, a run that is due may be left out. If the clocks of the processes
// differ, it may also happen twice, which a [Locker] prevents.
//
// Its methods may be called by many goroutines at once. Close it after the scheduler's Shutdown.
type Elector struct {
	locks *lock.Mutex
	name  string

	mu     chan struct{} // a mutex for lease and closed, whose lock can be given up
	lease  *lock.Lease   // nil before the first election
	closed bool
}

// NewElector returns an Elector on client. It sends nothing, and campaigns only when a job is due.
// The error joins all that is wrong with the options.
func NewElector(client *redoubt.Client, opts ElectorOptions) (*Elector, error) {
	if opts.Name == "" {
		opts.Name = DefaultName
	}
	locks, err := lock.New(client, lock.Options{TTL: opts.TTL, Label: opts.Label})
	if client != nil {
		_, nerr := client.Key(opts.Name, "lock")
		err = errors.Join(err, nerr)
	}
	if err != nil {
		return nil, err
	}
	return &Elector{locks: locks, name: opts.Name, mu: make(chan struct{}, 1)}, nil
}

var errClosed = errors.New("gocronlock: the elector is closed")

// IsLeader returns nil if this process leads, or if nobody else does: then it leads from now on. The
// error matches lock.ErrBusy, and names the leader's label, when another process leads. It sends
// nothing while this process leads, and costs one round trip otherwise.
func (e *Elector) IsLeader(ctx context.Context) error {
	select {
	case e.mu <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-e.mu }()
	if e.closed {
		return errClosed
	}
	if e.lease != nil && e.lease.Err() == nil {
		return nil
	}
	lease, busy, err := e.locks.TryAcquire(ctx, e.name)
	if busy != nil {
		err = busy.Err()
	}
	if err != nil {
		return err
	}
	e.lease = lease
	return nil
}

// closeTimeout bounds Close.
const closeTimeout = 3 * time.Second

// Close resigns, in 3 s at most, so that another process leads without waiting for the TTL. IsLeader
// then returns errors. Close may be called more than once.
func (e *Elector) Close() error {
	e.mu <- struct{}{}
	defer func() { <-e.mu }()
	if e.closed = true; e.lease == nil || e.lease.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return e.lease.Release(ctx)
}
