package stock

import (
	"fmt"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/randid"
)

const (
	// MaxUnits bounds what there is of an item, sold units included.
	MaxUnits = 1_000_000_000_000_000
	// MaxID is the longest id, in bytes.
	MaxID = 256
	// Remembered is for how long a repeated call still gets its answer after
	// the reservation is over.
	Remembered = time.Hour
)

// Keys are the keys of one item. They share a hash tag.
type Keys [3]string

// stockPart ends the key that every item has.
const stockPart = "stock"

// KeysOf returns the keys of the item called name. An invalid name gives an
// error that matches redoubt.ErrInvalidName.
func KeysOf(client *redoubt.Client, name string) (keys Keys, err error) {
	for i, part := range [...]string{stockPart, "due", "over"} {
		if keys[i], err = client.Key(name, part); err != nil {
			return Keys{}, err
		}
	}
	return keys, nil
}

// NewID returns the name of a new reservation: 128 random bits as 32
// hexadecimal digits.
func NewID() string { return randid.Hex(16) }

// Status is what became of a reservation.
type Status int8

const (
	// None: nothing was reserved under this id, or that is over for longer
	// than [Remembered]. As an answer to [ReserveCmd]: too few are left.
	None Status = 0
	// Reserved: the units are held.
	Reserved Status = 1
	// Committed: the units are sold.
	Committed Status = -1
	// Cancelled: the units are back, or will never be taken.
	Cancelled Status = -2
	// Expired: the time ran out, and the units are back.
	Expired Status = -3
	// Again: too few are left now, but so many reservations have run out that
	// one call does not return them all: repeat it.
	Again Status = -9
)

// ReserveCmd reserves n units for ttl under id. Repeated, it gives the same
// answer.
func ReserveCmd(keys Keys, id string, n int64, ttl time.Duration) redoubt.Cmd {
	return redoubt.Cmd{
		Script: reserveScript,
		Keys:   keys[:],
		Args:   []string{field(id), decimal(n), decimal(ttl.Microseconds()), remembered},
		Flags:  redoubt.Idempotent,
	}
}

// A Shortage is what is left of an item.
type Shortage struct {
	Available, Reserved int64
	Next                time.Duration // until the first reservation runs out, or a little less
}

// An Attempt is the answer to one reserve.
type Attempt struct {
	Status Status
	// N is how many units the reservation holds.
	N int64
	// TTL is the time left to it.
	TTL time.Duration
	// Left is what is left of the item after this.
	Left Shortage
}

// ReadAttempt reads the reply to [ReserveCmd].
func ReadAttempt(r redoubt.Reply) (Attempt, error) {
	var n [6]int64
	if err := r.Ints(n[:]); err != nil {
		return Attempt{}, err
	}
	return Attempt{
		Status: Status(n[0]), N: n[1], TTL: micros(n[2]),
		Left: Shortage{Available: n[3], Reserved: n[4], Next: micros(n[5])},
	}, nil
}

// CommitCmd sells what id has reserved. Repeated, it gives the same answer.
func CommitCmd(keys Keys, id string) redoubt.Cmd { return settleCmd(keys, id, "1") }

// CancelCmd puts what id has reserved back on sale. Repeated, it gives the same
// answer. A reserve with this id that arrives later takes nothing.
func CancelCmd(keys Keys, id string) redoubt.Cmd { return settleCmd(keys, id, "2") }

func settleCmd(keys Keys, id, how string) redoubt.Cmd {
	return redoubt.Cmd{
		Script: settleScript,
		Keys:   keys[:],
		Args:   []string{field(id), how, remembered},
		Flags:  redoubt.Idempotent,
	}
}

// ReadSettled reads the reply to [CommitCmd] and [CancelCmd]: Committed,
// Cancelled, Expired or None.
func ReadSettled(r redoubt.Reply) (Status, error) {
	var n [1]int64
	if err := r.Ints(n[:]); err != nil {
		return None, err
	}
	return Status(-n[0]), nil
}

// AddCmd adds delta units, or takes away as many as are not held or sold. It is
// never sent twice.
func AddCmd(keys Keys, delta int64) redoubt.Cmd { return countCmd(keys, "add", delta, 0) }

// SetCmd sets how many units there are in all, sold and reserved ones included.
func SetCmd(keys Keys, total int64) redoubt.Cmd {
	return countCmd(keys, "set", total, redoubt.Idempotent)
}

// InfoCmd counts what there is. It returns expired reservations, so it writes.
func InfoCmd(keys Keys) redoubt.Cmd { return countCmd(keys, "add", 0, redoubt.Idempotent) }

func countCmd(keys Keys, change string, n int64, flags redoubt.Flags) redoubt.Cmd {
	return redoubt.Cmd{
		Script: countScript,
		Keys:   keys[:],
		Args:   []string{change, decimal(n), decimal(MaxUnits), remembered},
		Flags:  flags,
	}
}

// Info is what there is of an item.
type Info struct {
	Total, Available, Reserved, Sold int64         // units
	Reservations                     int64         // that hold units
	Expired                          int64         // of which the units still count as Reserved
	Next                             time.Duration // until a reservation runs out; 0 if there is none
}

// A Count is the answer to a command that counts or changes an item.
type Count struct {
	Info
	// Short: the change would have taken more than is available.
	Short bool
	// Full: the change would have made more than [MaxUnits].
	Full bool
}

// ReadCount reads the reply to [AddCmd], [SetCmd] and [InfoCmd].
func ReadCount(r redoubt.Reply) (Count, error) {
	var n [7]int64
	if err := r.Ints(n[:]); err != nil {
		return Count{}, err
	}
	return Count{
		Short: n[0] == 0, Full: n[0] == -1,
		Info: Info{
			Total: n[1], Available: n[2], Sold: n[3], Reserved: n[1] - n[2] - n[3],
			Reservations: n[4], Expired: n[5], Next: micros(n[6]),
		},
	}, nil
}

// field is how a reservation is named on the server: apart from the other
// fields of the hash.
func field(id string) string { return ":" + id }

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func micros(µs int64) time.Duration { return time.Duration(µs) * time.Microsecond }

var remembered = decimal(Remembered.Microseconds())

// CheckID returns an error for an id that is empty or longer than [MaxID].
func CheckID(id string) error {
	if len(id) == 0 || len(id) > MaxID {
		return fmt.Errorf("stock: id has %d bytes; want 1 to %d", len(id), MaxID)
	}
	return nil
}
