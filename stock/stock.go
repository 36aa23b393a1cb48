package stock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/stock"
)

var (
	// ErrExpired is matched when a reservation ran out before it was
	// committed: its units are back on sale.
	ErrExpired = errors.New("stock: the reservation ran out")

	// ErrCancelled is matched when a reservation has been cancelled.
	ErrCancelled = errors.New("stock: the reservation is cancelled")

	// ErrCommitted is matched when a reservation has been committed.
	ErrCommitted = errors.New("stock: the reservation is committed")

	// ErrNotFound is matched when nothing was reserved under an id, or that is
	// over for longer than [Remembered].
	ErrNotFound = errors.New("stock: no such reservation")

	// ErrMismatch is matched when an id has reserved another number of units.
	ErrMismatch = errors.New("stock: the id has reserved another number of units")

	// ErrBelowZero is matched when an item has fewer units available than are
	// to be taken away.
	ErrBelowZero = errors.New("stock: fewer units are available than would be taken away")

	// ErrTooMany is matched when there would be more than [MaxUnits].
	ErrTooMany = errors.New("stock: there would be too many units")
)

const (
	// DefaultTTL is the TTL of an [Inventory] whose options name none.
	DefaultTTL = 15 * time.Minute
	// MinTTL and MaxTTL bound a TTL.
	MinTTL = time.Millisecond
	MaxTTL = 365 * 24 * time.Hour
	// MaxUnits, 10^15, bounds what there is of an item, sold units included.
	MaxUnits = wire.MaxUnits
	// MaxID is the longest id: 256 bytes.
	MaxID = wire.MaxID
	// Remembered is for how long a repeated call still gets its answer after
	// the reservation is over: an hour.
	Remembered = wire.Remembered
)

// Options configure an [Inventory]. The zero value is ready to use.
type Options struct {
	// TTL is how long a reservation holds its units unless it is committed or
	// cancelled. From 1 ms to a year. Defaults to 15 minutes.
	TTL time.Duration
}

// An Inventory is a family of items on a server, each with a name and a number
// of units. Make one and use it for every item.
//
// [Inventory.Do] is what most callers should use when the buyer is served in one
// go, [Inventory.Reserve] with an id of their own when the payment comes later.
// All methods may be called by many goroutines at once, each costs one round trip
// unless it says otherwise, and an error that matches redoubt.ErrUnknownOutcome
// says that the call may have had its effect. An Inventory keeps nothing between
// calls and need not be closed.
type Inventory struct {
	client *redoubt.Client
	ttl    time.Duration
}

// New returns an Inventory on client. It sends nothing.
func New(client *redoubt.Client, opts Options) (*Inventory, error) {
	if opts.TTL == 0 {
		opts.TTL = DefaultTTL
	}
	err := checkTTL(opts.TTL)
	if client == nil {
		err = errors.Join(errors.New("stock: client is nil"), err)
	}
	if err != nil {
		return nil, err
	}
	return &Inventory{client: client, ttl: opts.TTL}, nil
}

func checkTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return fmt.Errorf("stock: ttl is %v; want %v to %v", ttl, MinTTL, MaxTTL)
	}
	return nil
}

// Set sets how many units of an item there are in all: those on sale, those
// reserved and those sold. So a Set that is repeated, by an import that runs
// again during the sale, puts nothing back on sale that is sold. The error
// matches [ErrBelowZero], and nothing is changed, when more than total are
// reserved and sold.
func (v *Inventory) Set(ctx context.Context, name string, total int64) (Info, error) {
	if total < 0 || total > MaxUnits {
		return Info{}, fmt.Errorf("stock: total is %d; want 0 to %d", total, int64(MaxUnits))
	}
	return v.count(ctx, name, func(k wire.Keys) redoubt.Cmd { return wire.SetCmd(k, total) })
}

// Add adds delta units to an item, or takes -delta away that are available. The
// error matches [ErrBelowZero], and nothing is changed, when fewer are, and
// [ErrTooMany] when there would be more than [MaxUnits]. It is never sent twice:
// after an error that matches redoubt.ErrUnknownOutcome look at the Total of
// [Inventory.Info].
func (v *Inventory) Add(ctx context.Context, name string, delta int64) (Info, error) {
	if delta < -MaxUnits || delta > MaxUnits {
		return Info{}, fmt.Errorf("stock: delta is %d; want %d to %d", delta, int64(-MaxUnits), int64(MaxUnits))
	}
	return v.count(ctx, name, func(k wire.Keys) redoubt.Cmd { return wire.AddCmd(k, delta) })
}

// Info is what there is of an item. Total = Available + Reserved + Sold.
type Info struct {
	// Total is what was set and added.
	Total int64
	// Available units can be reserved.
	Available int64
	// Reserved units are held by reservations.
	Reserved int64
	// Sold units are committed.
	Sold int64
	// Reservations is how many hold units.
	Reservations int64
	// Expired is how many have run out whose units still count as Reserved. It
	// is 0 unless more than 512 ran out since the item was last used; they
	// come back as the item is used.
	Expired int64
	// Next is the time until a reservation runs out; 0 if there is none.
	Next time.Duration
}

// Info counts what there is of an item, 0 of everything if it was never set. It
// returns what has run out first, in one round trip for each 512 reservations
// that did since the item was last used, so Expired is 0.
func (v *Inventory) Info(ctx context.Context, name string) (Info, error) {
	for {
		i, err := v.count(ctx, name, wire.InfoCmd)
		if err != nil || i.Expired == 0 {
			return i, err
		}
	}
}

func (v *Inventory) count(ctx context.Context, name string, cmd func(wire.Keys) redoubt.Cmd) (Info, error) {
	keys, err := wire.KeysOf(v.client, name)
	if err != nil {
		return Info{}, err
	}
	for {
		c, err := wire.ReadCount(v.client.Do(ctx, cmd(keys)))
		switch {
		case err != nil:
			return Info{}, err
		case c.Short && c.Expired > 0: // some are to come back first
		case c.Short:
			return Info(c.Info), fmt.Errorf("%w: %d available, %d reserved, %d sold", ErrBelowZero, c.Available, c.Reserved, c.Sold)
		case c.Full:
			return Info(c.Info), fmt.Errorf("%w: %d in all, and at most %d can be", ErrTooMany, c.Total, int64(MaxUnits))
		default:
			return Info(c.Info), nil
		}
	}
}

// Delete forgets an item with all its reservations. A commit after it matches
// [ErrNotFound].
func (v *Inventory) Delete(ctx context.Context, name string) error {
	keys, err := wire.KeysOf(v.client, name)
	if err != nil {
		return err
	}
	return v.client.Do(ctx, redoubt.Cmd{Name: "UNLINK", Keys: keys[:], Flags: redoubt.Idempotent}).Err
}
