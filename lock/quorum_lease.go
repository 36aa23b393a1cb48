package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
)

// extendQuorum is Extend of a lease on several masters: a majority must confirm.
func (l *Lease) extendQuorum(ctx context.Context, ttl time.Duration) error {
	confirmed := 0
	errs := []error{ErrNoMajority}
	err := l.family.ask(ctx, l.family.patience(),
		func(ctx context.Context, i int) error { return l.parts[i].prolong(ctx, ttl) },
		func(i int, err error) bool {
			switch {
			case err == nil:
				confirmed++
			case errors.Is(err, ErrNotHeld): // lost on this master, but the lease may last
				errs = append(errs, fmt.Errorf("master %d: %v", i, err)) //nolint:errorlint // it must not match
			default:
				errs = append(errs, fmt.Errorf("master %d: %w", i, err))
			}
			return confirmed >= l.need
		})
	switch over := l.Err(); {
	case over != nil:
		return notHeld(over)
	case err != nil:
		return redoubt.UnknownOutcome(err)
	case confirmed < l.need:
		return errors.Join(errs...)
	}
	return nil
}

// releaseQuorum is release of a lease on several masters. It returns when a majority has
// released it; the others follow in the background.
func (l *Lease) releaseQuorum(ctx context.Context, lost error) error {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(redoubt.Patient(context.WithoutCancel(ctx)), cleanUpTimeout)
		defer cancel()
	}
	held, answered := 0, 0
	errs := []error{ErrNoMajority}
	err := l.family.ask(ctx, cleanUpTimeout,
		func(ctx context.Context, i int) error { return l.parts[i].free(ctx) },
		func(i int, err error) bool {
			switch {
			case err == nil:
				held++
				answered++
			case errors.Is(err, ErrNotHeld):
				answered++
			default:
				errs = append(errs, fmt.Errorf("master %d: %w", i, err))
			}
			return held >= l.need
		})
	switch {
	case errors.Is(lost, ErrNotHeld):
		return lost
	case held >= l.need:
		return nil
	case err != nil:
		return redoubt.UnknownOutcome(err)
	case len(l.parts)-answered+held >= l.need: // the unreachable masters may have held it
		return errors.Join(errs...)
	}
	return l.gone()
}

// free releases the part on its own master, unless that is done.
func (h *heldLease) free(ctx context.Context) error { return h.giveUp(ctx, false) }

// freeAgain releases the part in the background after a call that came late: it may have
// taken the master after the release, which the master has forgotten since. Without the
// reply of the late call, err, it does so twice, as undo does.
func (h *heldLease) freeAgain(err error) {
	h.family.client.Go(func() {
		// Another release of the part may take as long before it.
		ctx, cancel := context.WithTimeout(redoubt.Patient(context.Background()), 2*cleanUpTimeout)
		defer cancel()
		_ = h.giveUp(ctx, true)
		if err != nil && pause(ctx, undoAgain) {
			_ = h.giveUp(ctx, true)
		}
	})
}

// giveUp releases the part on its own master; with again, even if it was released before. The
// releases of a part follow each other. If two were under way, the master could forget the
// first, by the leases of others, and answer to the second that it never held the part.
func (h *heldLease) giveUp(ctx context.Context, again bool) error {
	select {
	case h.releasing <- struct{}{}:
		defer func() { <-h.releasing }()
	case <-ctx.Done():
		return redoubt.UnknownOutcome(ctx.Err())
	}
	h.lease.mu.Lock()
	released := h.released
	h.lease.mu.Unlock()
	if released && !again {
		return nil
	}
	held, err := wire.ReadRelease(h.family.client.Do(ctx, h.release(h.id)))
	if err != nil {
		return err
	}
	if !held {
		return ErrTaken
	}
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	h.released = true
	return nil
}
