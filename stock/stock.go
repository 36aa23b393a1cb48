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
	// ErrExpired is matched when a reservation expired before it was
	// committed: its units are back on sale.
	ErrExpired = errors.New("stock: the reservation expired")

	// ErrCancelled is matched when a reservation has been cancelled.
	ErrCancelled = errors.New("stock: the reservation is cancelled")

	// ErrCommitted is matched when a reservation has been committed.
	ErrCommitted = errors.New("stock: the reservation is committed")

	// ErrNotFound is matched when nothing was reserved under an ID, or the
	// reservation has been over for longer than [Remembered].
	ErrNotFound = errors.New("stock: no such reservation")

	// ErrMismatch is matched when an ID holds another number of units.
	ErrMismatch = errors.New("stock: the id holds another number of units")

	// ErrBelowZero is matched when a call would take away more units than are
	// available.
	ErrBelowZero = errors.New("stock: fewer units are available than would be taken away")

	// ErrTooMany is matched when an item would have more than [MaxUnits].
	ErrTooMany = errors.New("stock: there would be too many units")
)

const (
	// DefaultTTL is the default of [Options.TTL].
	DefaultTTL = 15 * time.Minute
	// MinTTL and MaxTTL bound a TTL.
	MinTTL = time.Millisecond
	MaxTTL = 365 * 24 * time.Hour
	// MaxUnits is the largest total of an item, including sold units: 10^15.
	MaxUnits = wire.MaxUnits
	// MaxID is the longest ID: 256 bytes.
	MaxID = wire.MaxID
	// Remembered is how long after the end of a reservation a repeated call still
	// gets its answer: an hour.
	Remembered = wire.Remembered
)

// Options configure an [Inventory]. The zero value is ready to use.
type Options struct {
	// TTL is how long a reservation holds its units before it expires. From 1 ms to a
	// year. Defaults to 15 minutes.
	TTL time.Duration
}

// An Inventory works on named items, each with a number of units. Make one and use it for
// all items. Use [Inventory.Do] to serve a buyer in one go, and
// [Inventory.ReserveRequest] with an ID of your own when the payment comes later.
//
// All methods may be called by many goroutines at once. A method costs one round trip
// unless it says otherwise. After an error that matches redoubt.ErrUnknownOutcome the call
// may have had its effect. An Inventory keeps no state between calls and need not be
// closed.
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

// Set sets the total of an item: available, reserved and sold units. So a repeated Set, by
// an import that runs again during the sale for example, does not sell a unit twice. The
// error matches [ErrBelowZero], and nothing is changed, if more than total units are
// reserved and sold.
func (v *Inventory) Set(ctx context.Context, name string, total int64) (Info, error) {
	if total < 0 || total > MaxUnits {
		return Info{}, fmt.Errorf("stock: total is %d; want 0 to %d", total, int64(MaxUnits))
	}
	return v.count(ctx, name, func(k wire.Keys) redoubt.Cmd { return wire.SetCmd(k, total) })
}

// Add adds delta units to an item, or takes -delta available units away. It changes
// nothing if the error matches [ErrBelowZero], because fewer units are available, or
// [ErrTooMany], because there would be more than [MaxUnits]. It is not sent again after a
// lost reply: if the error matches redoubt.ErrUnknownOutcome, compare the Total of
// [Inventory.Info].
func (v *Inventory) Add(ctx context.Context, name string, delta int64) (Info, error) {
	if delta < -MaxUnits || delta > MaxUnits {
		return Info{}, fmt.Errorf("stock: delta is %d; want %d to %d", delta, int64(-MaxUnits), int64(MaxUnits))
	}
	return v.count(ctx, name, func(k wire.Keys) redoubt.Cmd { return wire.AddCmd(k, delta) })
}

// Info is the state of an item. Total = Available + Reserved + Sold.
type Info struct {
	// Name is the item's name.
	Name string
	// Total is the number of units that were set and added.
	Total int64
	// Available units can be reserved.
	Available int64
	// Reserved units are held by reservations.
	Reserved int64
	// Sold units are committed.
	Sold int64
	// Reservations is how many reservations hold units.
	Reservations int64
	// Expired is how many reservations have expired whose units still count as Reserved.
	// It is 0 unless many expired since a call last changed the item: more than 4,096 in the reply of
	// Info and List, more than 512 in that of Set and Add. Later calls that change the item return them.
	Expired int64
	// Next is the time until the next reservation expires; 0 if there is none.
	Next time.Duration
}

func info(name string, i wire.Info) Info {
	return Info{
		Name: name, Total: i.Total, Available: i.Available, Reserved: i.Reserved, Sold: i.Sold,
		Reservations: i.Reservations, Expired: i.Expired, Next: i.Next,
	}
}

// Info reads the state of an item, with all counts 0 if it was never set. It changes nothing: the units of
// expired reservations count as Available, but the next call that changes the item returns them. If the server's
// clock jumps back before that call, they hold again.
func (v *Inventory) Info(ctx context.Context, name string) (Info, error) {
	keys, err := wire.KeysOf(v.client, name)
	if err != nil {
		return Info{}, err
	}
	c, err := wire.ReadCount(v.client.Do(ctx, wire.InfoCmd(keys)))
	if err != nil {
		return Info{}, err
	}
	return info(name, c.Info), nil
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
		case c.Short && c.Expired > 0: // return more expired reservations first
		case c.Short:
			return info(name, c.Info), fmt.Errorf("%w: %d available, %d reserved, %d sold", ErrBelowZero, c.Available, c.Reserved, c.Sold)
		case c.Full:
			return info(name, c.Info), fmt.Errorf("%w: %d in all, and at most %d can be", ErrTooMany, c.Total, int64(MaxUnits))
		default:
			return info(name, c.Info), nil
		}
	}
}

// Delete deletes an item with all its reservations. It reports whether there was anything
// to delete. Later commits match [ErrNotFound].
func (v *Inventory) Delete(ctx context.Context, name string) (deleted bool, err error) {
	keys, err := wire.KeysOf(v.client, name)
	if err != nil {
		return false, err
	}
	n, err := v.client.Do(ctx, redoubt.Cmd{Name: "UNLINK", Keys: keys[:], Flags: redoubt.Idempotent}).Int()
	return n > 0, err
}
