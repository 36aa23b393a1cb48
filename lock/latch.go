package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
)

// LatchOptions configure a [Latch]. The zero value is ready to use.
type LatchOptions struct {
	// TTL is how long a latch lasts after Set. Then it is removed, open or not. From 1
	// ms to a year. Defaults to 24 h.
	TTL time.Duration
}

// A Latch holds named latches on a server. A latch is set to a count, once. Each member
// counts it down by one, however often it repeats the call. Waiters go on when the count
// is zero. A latch can't be set again before its TTL has ended. Make one Latch and use it
// for every name.
//
// All methods may be called by many goroutines at once. A Latch holds no resources
// between calls and need not be closed.
type Latch struct {
	client *redoubt.Client
	opts   LatchOptions
	queues *waitQueues
}

// NewLatch returns a Latch on client. It sends nothing. The error joins all that is wrong
// with the options.
func NewLatch(client *redoubt.Client, opts LatchOptions) (*Latch, error) {
	if opts.TTL == 0 {
		opts.TTL = DefaultLatchTTL
	}
	var errs []error
	if client == nil {
		errs = append(errs, errors.New("lock: client is nil"))
	}
	errs = append(errs, checkTTL(opts.TTL))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Latch{client: client, opts: opts, queues: queuesOf(client)}, nil
}

// Set sets the latch called name to count, 1 to [MaxLimit]. It reports false,
// and changes nothing, when the latch is set already. It may be repeated after a lost
// reply. One round trip.
func (l *Latch) Set(ctx context.Context, name string, count int) (set bool, err error) {
	if count < 1 || count > MaxLimit {
		return false, fmt.Errorf("lock: count is %d; want 1 to %d", count, MaxLimit)
	}
	key, err := wire.LatchKey(l.client, name)
	if err != nil {
		return false, err
	}
	return wire.ReadLatchSet(l.client.Do(ctx, wire.LatchSetCmd(key, count, l.opts.TTL)))
}

// CountDown counts the latch called name down by one for member, 1 to [MaxMember] bytes.
// Each member counts once, and the count does not fall below zero. It returns the
// remaining count, or an error that matches [ErrNotSet]. After an error that matches
// redoubt.ErrUnknownOutcome call it again. One round trip.
func (l *Latch) CountDown(ctx context.Context, name, member string) (left int64, err error) {
	if len(member) < 1 || len(member) > MaxMember {
		return 0, fmt.Errorf("lock: member has %d bytes; want 1 to %d", len(member), MaxMember)
	}
	key, err := wire.LatchKey(l.client, name)
	if err != nil {
		return 0, err
	}
	return leftOf(wire.ReadLatchDown(l.client.Do(ctx, wire.LatchDownCmd(key, member))))
}

// LatchInfo is the state of a latch.
type LatchInfo struct {
	// Count is how many members have yet to count down; 0 when the latch is open.
	Count int64
	// TTL is how long the latch still lasts.
	TTL time.Duration
}

// Info returns the state of the latch called name, or an error that matches
// [ErrNotSet]. One round trip.
func (l *Latch) Info(ctx context.Context, name string) (LatchInfo, error) {
	key, err := wire.LatchKey(l.client, name)
	if err != nil {
		return LatchInfo{}, err
	}
	left, ttl, err := wire.ReadLatchInfo(l.client.Pipeline(ctx, wire.LatchInfoCmds(key)))
	if left, err = leftOf(left, err); err != nil {
		return LatchInfo{}, err
	}
	return LatchInfo{Count: left, TTL: ttl}, nil
}

// Wait blocks until the latch called name is at zero, or ctx ends. The error matches
// [ErrNotSet] when the latch is not set, or its TTL ends meanwhile.
//
// It costs one round trip when the latch is at zero. Otherwise the first of all callers
// that wait for a name with one Client queues on the server, which wakes it at zero:
// nobody polls. A lost wake-up delays the callers by 30 s at most.
func (l *Latch) Wait(ctx context.Context, name string) (err error) {
	key, err := wire.LatchKey(l.client, name)
	if err != nil {
		return err
	}
	var since time.Time // when the wait began
	defer func() {
		if !since.IsZero() {
			l.client.Report(ctx, redoubt.Event{Kind: redoubt.EventWaited, Primitive: "lock", Name: name, Took: time.Since(since), Err: err})
		}
	}()
	for {
		if left, _, err := l.read(ctx, key, ""); err != nil || left == 0 {
			return err
		}
		if since.IsZero() {
			since = time.Now()
		}
		turn := l.queues.join(key)
		select {
		case <-turn:
		case <-ctx.Done():
			l.giveUp(ctx, key, turn)
			return ctx.Err()
		}
		if !l.queues.first(key, turn) {
			continue // the queue was disbanded: the latch is at zero now
		}
		if err = l.wait(ctx, name, key); err == nil || errors.Is(err, ErrNotSet) {
			l.queues.disband(key)
		} else {
			l.giveUp(ctx, key, turn)
		}
		return err
	}
}

// wait waits for the first caller of this process's queue.
func (l *Latch) wait(ctx context.Context, name, key string) error {
	w, err := l.client.Waiter(ctx, name, key)
	if err != nil {
		return err
	}
	defer w.Close()
	queue := l.queues.queued(key, wire.Entry(w))
	timer := time.NewTimer(maxPoll)
	defer timer.Stop()
	for {
		var left int64
		var ttl time.Duration
		var err error
		if !queue.run(ctx, l.client, func(ctx context.Context) {
			left, ttl, err = l.read(ctx, key, wire.Entry(w))
		}, func(context.Context) {}) {
			return ctx.Err()
		}
		if err != nil || left == 0 {
			return err
		}
		timer.Reset(min(ttl+time.Millisecond, maxPoll))
		select {
		case <-w.C:
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// read reads the count and the remaining time, and queues waiter unless it is empty.
func (l *Latch) read(ctx context.Context, key, waiter string) (left int64, ttl time.Duration, err error) {
	left, ttl, err = wire.ReadLatchWait(l.client.Do(ctx, wire.LatchWaitCmd(key, waiter)))
	left, err = leftOf(left, err)
	return left, ttl, err
}

func (l *Latch) giveUp(ctx context.Context, key string, turn chan struct{}) {
	l.queues.giveUp(ctx, l.client, key, turn, false, func(waiter string) redoubt.Cmd { return wire.LatchLeaveCmd(key, waiter) })
}

func leftOf(n int64, err error) (int64, error) {
	if err == nil && n < 0 {
		return 0, ErrNotSet
	}
	return n, err
}
