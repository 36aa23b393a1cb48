package stock

import (
	"fmt"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/randid"
)

const (
	// MaxUnits is the largest total of an item, including sold units.
	MaxUnits = 1_000_000_000_000_000
	// MaxID is the longest id, in bytes.
	MaxID = 256
	// Remembered is how long after the end of a reservation a repeated call still gets its
	// answer.
	Remembered = time.Hour
)

// Keys are the keys of one item. They share a hash tag.
type Keys [3]string

// stockPart ends the key of the hash that every item has.
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

// NewID returns an id for a new reservation: 128 random bits as 32 hexadecimal digits.
func NewID() string { return randid.Hex(16) }

// Status is the state of a reservation.
type Status int8

const (
	// None: no reservation has this id, or it has been over for longer than [Remembered].
	// In the reply to [ReserveCmd]: too few units are available.
	None Status = 0
	// Reserved: the units are held.
	Reserved Status = 1
	// Committed: the units are sold.
	Committed Status = -1
	// Cancelled: the units are back on sale, or a later reserve will not take them.
	Cancelled Status = -2
	// Expired: the time ran out, and the units are back on sale.
	Expired Status = -3
	// Again: too few units are available now, but more reservations have expired than one
	// call returns: repeat it.
	Again Status = -9
)

// ReserveCmd reserves n units for ttl under id. A repeated command gets the same reply.
func ReserveCmd(keys Keys, id string, n int64, ttl time.Duration) redoubt.Cmd {
	return redoubt.Cmd{
		Script: reserveScript,
		Keys:   keys[:],
		Args:   []string{field(id), decimal(n), decimal(ttl.Microseconds()), remembered},
		Flags:  redoubt.Idempotent,
	}
}

// A Shortage is the state of an item that has too few units.
type Shortage struct {
	Available, Reserved int64
	Next                time.Duration // until the first reservation expires, or a little less
}

// An Attempt is the result of one reserve.
type Attempt struct {
	Status Status
	// N is how many units the reservation holds.
	N int64
	// TTL is its remaining time.
	TTL time.Duration
	// Left is the state of the item afterwards.
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

// CommitCmd sells the units of a reservation. A repeated command gets the same reply.
func CommitCmd(keys Keys, id string) redoubt.Cmd { return settleCmd(keys, id, "1") }

// CancelCmd puts the units of a reservation back on sale. A repeated command gets the same
// reply. A reserve with this id that arrives later takes nothing.
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

// AddCmd adds delta units, or takes -delta available units away. It is not sent again after a lost
// reply.
func AddCmd(keys Keys, delta int64) redoubt.Cmd { return countCmd(keys, "add", delta, 0) }

// SetCmd sets the total: available, reserved and sold units.
func SetCmd(keys Keys, total int64) redoubt.Cmd {
	return countCmd(keys, "set", total, redoubt.Idempotent)
}

// InfoCmd reads the state of an item. Expired reservations count as back on sale, though the server has not
// returned them yet.
func InfoCmd(keys Keys) redoubt.Cmd {
	return redoubt.Cmd{Script: infoScript, Keys: keys[:2], Flags: redoubt.ReadOnly}
}

func countCmd(keys Keys, change string, n int64, flags redoubt.Flags) redoubt.Cmd {
	return redoubt.Cmd{
		Script: countScript,
		Keys:   keys[:],
		Args:   []string{change, decimal(n), decimal(MaxUnits), remembered},
		Flags:  flags,
	}
}

// Info is the state of an item.
type Info struct {
	Total, Available, Reserved, Sold int64         // units
	Reservations                     int64         // reservations that hold units
	Expired                          int64         // expired reservations whose units still count as Reserved
	Next                             time.Duration // until the next reservation expires; 0 if there is none
}

// A Count is the result of a command that reads or changes an item.
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

// field returns the field of a reservation. The colon keeps it apart from the other fields of the
// hash.
func field(id string) string { return ":" + id }

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func micros(µs int64) time.Duration { return time.Duration(µs) * time.Microsecond }

var remembered = decimal(Remembered.Microseconds())

// CheckID returns an error unless id has 1 to [MaxID] bytes.
func CheckID(id string) error {
	if len(id) == 0 || len(id) > MaxID {
		return fmt.Errorf("stock: id has %d bytes; want 1 to %d", len(id), MaxID)
	}
	return nil
}
