package lock

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
)

// Elect campaigns to be the leader called name, and runs fn while this process leads. The
// leader is the holder of the lock called name. The context of fn ends when the lead is
// lost, with a cause that matches [ErrNotHeld], or when ctx ends: fn must then stop.
//
// When fn returns in the lead, Elect resigns: it releases the lock, which wakes the next
// candidate, and returns the error of fn. When the lead was lost meanwhile, Elect waits
// until fn has returned, drops its error and campaigns again. When ctx ends, Elect returns
// the error of fn or, as a candidate, the error of ctx.
//
// A candidate waits as [Mutex.Acquire] does, so candidates don't poll. The leader's lease
// is renewed while fn runs, and the others wait for its TTL after its death. Candidates
// survive an outage: after an error of the server or the network, Elect tries again within
// a second. It returns the server's error only if the server refuses the first attempt. When
// the client is closed, the error matches redoubt.ErrClosed.
//
// The context of fn ends at the lease's deadline, 1% of the TTL before the server can
// accept another leader. A process that is paused at that time learns of it only afterwards, and
// may act beside its successor. No clock prevents that: send the fencing token with each write,
// FromContext(ctx).Token(), and let the resource refuse smaller tokens. Each leader has a
// larger token than all earlier leaders.
//
// If ctx carries a lease on the same name, Elect runs fn in it once, as [Mutex.Do] does.
// An election costs a round trip for each candidate, one more to wait and one to resign.
func (m *Mutex) Elect(ctx context.Context, name string, fn func(ctx context.Context) error) error {
	t, err := m.target(name)
	if err != nil {
		return err
	}
	outer, err := m.carriedBy(ctx, t)
	if err != nil {
		return err
	}
	if outer != nil {
		return outer.enter(ctx, fn)
	}
	for answered := false; ; {
		lease, busy, err := m.try(ctx, t)
		if busy != nil {
			answered = true
			lease, err = m.lease(ctx, t)
		}
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, redoubt.ErrClosed) || !answered && refused(err) {
				return err
			}
			campaignLater(ctx)
			continue
		}
		answered = true
		err = lease.do(ctx, fn)
		if ctx.Err() != nil || !errors.Is(lease.Err(), ErrNotHeld) {
			return err
		}
	}
}

// refused reports whether the server answered that it won't do it. A server that loads its data
// says so too, until the call's time is over.
func refused(err error) bool {
	_, answer := errors.AsType[redoubt.ServerError](err)
	return answer && !errors.Is(err, redoubt.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrNotReplicated)
}

// campaignAgain is how long a candidate pauses at most after an error.
const campaignAgain = time.Second

func campaignLater(ctx context.Context) {
	timer := time.NewTimer(campaignAgain/2 + rand.N(campaignAgain/2)) //nolint:gosec // no secret
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Observe iterates over the holders of the lock called name, as seen from a process that
// need not be a candidate of [Mutex.Elect]: the state at once, and then each change of it.
// [Info] has the leader's token, label and time of election in Holders; its Mode is [Free]
// while nobody leads.
//
// Observe reads the state once in every, at least 1 ms: one round trip each. A leader that
// comes and goes in between is not seen. Observing needs no rights to write, and delays
// nobody.
//
// An error of the server or the network doesn't end the loop. Each failed read yields an
// error, and the next successful read yields the state. The loop ends without an error when
// ctx ends. An error for invalid arguments, or one that matches redoubt.ErrClosed, is the last.
func (m *Mutex) Observe(ctx context.Context, name string, every time.Duration) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		_, err := wire.RWKeys(m.client, name)
		if every < time.Millisecond {
			err = errors.Join(err, fmt.Errorf("lock: every is %v; want at least 1ms", every))
		}
		if err != nil {
			yield(Info{}, err)
			return
		}
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		var last Info
		for seen := false; ; {
			now, err := m.Info(ctx, name)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				if !yield(Info{}, err) || errors.Is(err, redoubt.ErrClosed) {
					return
				}
				seen = false
			case !seen || now.Mode != last.Mode || now.Token != last.Token:
				if !yield(now, nil) {
					return
				}
				seen, last = true, now
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	}
}
