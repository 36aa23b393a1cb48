package stock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/stock"
)

// A Reservation holds a number of units of an item for a time. Any process that knows the
// name and the ID can commit or cancel it.
type Reservation struct {
	// Name is the item's name.
	Name string
	// ID names the reservation.
	ID string
	// N is how many units it holds.
	N int64
	// Deadline is when it expires, by this process's clock and a hundredth of the TTL
	// early. The server's clock decides.
	Deadline time.Time
}

// A Shortage is the state of an item that has too few units.
type Shortage struct {
	// Available units can be reserved: fewer than the call wanted.
	Available int64
	// Reserved units are held by others and may come back.
	Reserved int64
	// Next is a lower bound of the time until a reservation expires, and mostly
	// exact; 0 when none is reserved. [Inventory.Info] is always exact.
	Next time.Duration
}

// A Request is one reservation with its own ID and TTL.
type Request struct {
	// N is how many units to reserve: 1 to [MaxUnits].
	N int64
	// ID names the reservation, for example the number of an order: 1 to [MaxID] bytes,
	// used once for an item. A repeated request with the same ID gets the same answer
	// and takes no more units. Defaults to 128 random bits.
	ID string
	// TTL is how long the units are held. Defaults to [Options.TTL].
	TTL time.Duration
}

func (r Request) check() error {
	var errs []error
	if r.N < 1 || r.N > MaxUnits {
		errs = append(errs, fmt.Errorf("stock: n is %d; want 1 to %d", r.N, int64(MaxUnits)))
	}
	return errors.Join(append(errs, wire.CheckID(r.ID), checkTTL(r.TTL))...)
}

// Reserve reserves n units of the item called name for the TTL. Exactly one result is
// set: the reservation; a [Shortage] if too few units are available; or an error.
//
// When the error matches redoubt.ErrUnknownOutcome the server may hold the units. The
// client cancels them in the background; at the latest they expire.
func (v *Inventory) Reserve(ctx context.Context, name string, n int64) (*Reservation, *Shortage, error) {
	return v.ReserveRequest(ctx, name, Request{N: n})
}

// ReserveRequest reserves units as [Inventory.Reserve] does, under an ID of the caller.
// After an error that matches redoubt.ErrUnknownOutcome the server may hold the units:
// repeat the request with the same ID, or cancel it.
//
// If the reservation with this ID is over, the error matches [ErrCommitted],
// [ErrCancelled] or [ErrExpired]. If it holds another number of units, the error matches
// [ErrMismatch].
func (v *Inventory) ReserveRequest(ctx context.Context, name string, r Request) (*Reservation, *Shortage, error) {
	own := r.ID == ""
	if own {
		r.ID = wire.NewID()
	}
	if r.TTL == 0 {
		r.TTL = v.ttl
	}
	if err := r.check(); err != nil {
		return nil, nil, err
	}
	keys, err := wire.KeysOf(v.client, name)
	if err != nil {
		return nil, nil, err
	}
	for {
		sent := time.Now()
		a, err := wire.ReadAttempt(v.client.Do(ctx, wire.ReserveCmd(keys, r.ID, r.N, r.TTL)))
		switch {
		case err != nil:
			if own && errors.Is(err, redoubt.ErrUnknownOutcome) {
				v.cleanUp(ctx, wire.CancelCmd(keys, r.ID))
			}
			return nil, nil, err
		case a.Status == wire.Again:
		case a.Status == wire.None:
			return nil, (*Shortage)(&a.Left), nil
		case a.Status != wire.Reserved:
			return nil, nil, overError(a.Status)
		case a.N != r.N:
			return nil, nil, fmt.Errorf("%w: %d", ErrMismatch, a.N)
		default:
			deadline := sent.Add(a.TTL - a.TTL/100)
			return &Reservation{Name: name, ID: r.ID, N: a.N, Deadline: deadline}, nil, nil
		}
	}
}

// overError returns the error for a reservation that is over.
func overError(s wire.Status) error {
	switch s {
	case wire.Committed:
		return ErrCommitted
	case wire.Cancelled:
		return ErrCancelled
	case wire.Expired:
		return ErrExpired
	default:
		return ErrNotFound
	}
}

// Commit sells the units of a reservation. A repeated call gets the same answer, for
// [Remembered]. When nothing is sold the error matches [ErrExpired], [ErrCancelled] or
// [ErrNotFound].
func (v *Inventory) Commit(ctx context.Context, name, id string) error {
	return v.settle(ctx, name, id, wire.CommitCmd, wire.Committed)
}

// Cancel puts the units of a reservation back on sale. A repeated call gets the same
// answer, for [Remembered]. When nothing is held the error matches [ErrExpired],
// [ErrCommitted] or [ErrNotFound]. A reserve with the same ID that arrives later takes
// nothing.
func (v *Inventory) Cancel(ctx context.Context, name, id string) error {
	return v.settle(ctx, name, id, wire.CancelCmd, wire.Cancelled)
}

func (v *Inventory) settle(ctx context.Context, name, id string, cmd func(wire.Keys, string) redoubt.Cmd, want wire.Status) error {
	if err := wire.CheckID(id); err != nil {
		return err
	}
	keys, err := wire.KeysOf(v.client, name)
	if err != nil {
		return err
	}
	got, err := wire.ReadSettled(v.client.Do(ctx, cmd(keys, id)))
	if err != nil || got == want {
		return err
	}
	return overError(got)
}

// Do reserves n units of the item called name and runs fn. It commits the units if fn
// returns nil, else it cancels them. If fewer than n are available it returns a
// [Shortage] and does not run fn.
//
// The context of fn ends a little before the reservation expires, with a cause that
// matches [ErrExpired]. Do commits or cancels even if ctx has ended meanwhile, and
// cancels when fn panics.
//
// The error is fn's, joined with the cancel's, or the commit's. If it matches
// [ErrExpired], fn returned nil too late and nothing is sold. If it matches
// redoubt.ErrUnknownOutcome but not ErrExpired, the units may be sold.
//
// It costs two round trips.
func (v *Inventory) Do(ctx context.Context, name string, n int64, fn func(ctx context.Context) error) (*Shortage, error) {
	r, short, err := v.Reserve(ctx, name, n)
	if r == nil {
		return short, err
	}
	done := false
	defer func() {
		if !done {
			_ = v.end(ctx, r, v.Cancel) // fn panics
		}
	}()
	err = v.call(ctx, r, fn)
	done = true
	if err != nil {
		if cerr := v.end(ctx, r, v.Cancel); cerr != nil && !errors.Is(cerr, ErrExpired) {
			err = errors.Join(err, cerr)
		}
		return nil, err
	}
	return nil, v.end(ctx, r, v.Commit)
}

func (v *Inventory) call(ctx context.Context, r *Reservation, fn func(ctx context.Context) error) error {
	ctx, cancel := context.WithDeadlineCause(ctx, r.Deadline, ErrExpired)
	defer cancel()
	return fn(ctx)
}

// end ends a reservation for a caller whose ctx may have ended.
func (v *Inventory) end(ctx context.Context, r *Reservation, how func(ctx context.Context, name, id string) error) error {
	ctx, cancel := context.WithTimeout(redoubt.Patient(context.WithoutCancel(ctx)), endTimeout)
	defer cancel()
	return how(ctx, r.Name, r.ID)
}

// endTimeout bounds calls on behalf of a caller that has left.
const endTimeout = 3 * time.Second

// cleanUp sends cmd in the background, for a caller that has left. If it can't reach the
// server in time, the reservation expires.
func (v *Inventory) cleanUp(ctx context.Context, cmd redoubt.Cmd) {
	v.client.Go(func() {
		ctx, cancel := context.WithTimeout(redoubt.Patient(context.WithoutCancel(ctx)), endTimeout)
		defer cancel()
		_ = v.client.Do(ctx, cmd)
	})
}
