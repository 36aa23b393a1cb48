package ttlhash

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
)

// A Condition decides whether a field gets another deadline.
type Condition uint8

const (
	// Always: in any case.
	Always Condition = iota
	// IfNone: only if it has no deadline.
	IfNone
	// IfSome: only if it has a deadline.
	IfSome
	// IfLater: only if the new deadline is later. No deadline is later than any.
	IfLater
	// IfSooner: only if the new deadline is sooner.
	IfSooner
)

// String returns the script's word for c.
func (c Condition) String() string {
	return [...]string{"always", "none", "some", "later", "sooner"}[c]
}

// A Change is the result of changing a field's deadline.
type Change int8

const (
	// Missing: the hash does not have the field.
	Missing Change = -2
	// Unchanged: the [Condition] was not met.
	Unchanged Change = 0
	// Changed: the field has the new deadline.
	Changed Change = 1
)

// A Presence decides whether items are set.
type Presence uint8

const (
	// InAnyCase sets them in any case.
	InAnyCase Presence = iota
	// Absent sets them only if the hash has none of the fields.
	Absent
	// Present sets them only if the hash has all of the fields.
	Present
)

// word returns the script's word for p.
func (p Presence) word() string { return [...]string{"any", "absent", "present"}[p] }

// Never is the TTL of a field without a deadline.
const Never = time.Duration(math.MaxInt64)

// ErrForeign is matched when another program wrote a field.
var ErrForeign = errors.New("ttlhash: another program wrote the field")

// An Item is a field with its value and its remaining time: whole milliseconds, or [Never].
type Item struct {
	Field, Value string
	TTL          time.Duration
}

// Keys are the keys of one hash. They share a hash tag.
type Keys [3]string

// Part ends the key of the hash with the fields.
const Part = "ttlhash"

// KeysOf returns the keys of the hash called name. An invalid name gives an error
// that matches redoubt.ErrInvalidName.
func KeysOf(client *redoubt.Client, name string) (keys Keys, err error) {
	for i, part := range [...]string{Part, "ttlindex", "ttlevents"} {
		if keys[i], err = client.Key(name, part); err != nil {
			return Keys{}, err
		}
	}
	return keys, nil
}

// A Mode tells a script how to write.
type Mode struct {
	// Native: the server expires fields.
	Native bool
	// Event: a field that expires makes an event.
	Event bool
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// SetCmd sets items. It is not sent again after a lost reply: that could replace a value
// that another client has set in between.
func SetCmd(keys Keys, mode Mode, when Presence, items []Item) redoubt.Cmd {
	args := make([]string, 3, 3+3*len(items))
	args[0], args[1], args[2] = flag(mode.Native), flag(mode.Event), when.word()
	for _, i := range items {
		args = append(args, i.Field, i.Value, ttlText(i.TTL))
	}
	return redoubt.Cmd{Script: setScript, Keys: keys[:], Args: args}
}

// ReadSet reads the reply to [SetCmd].
func ReadSet(r redoubt.Reply) (set bool, now int64, err error) {
	var n [2]int64
	err = r.Ints(n[:])
	return n[0] == 1, n[1], err
}

// ExpireCmd changes the deadlines of fields. With want it returns their values.
func ExpireCmd(keys Keys, mode Mode, when Condition, ttl time.Duration, want bool, fields []string) redoubt.Cmd {
	args := append([]string{flag(mode.Native), flag(mode.Event), when.String(), ttlText(ttl), flag(want)}, fields...)
	return redoubt.Cmd{Script: expireScript, Keys: keys[:], Args: args}
}

// ReadExpired reads the reply to [ExpireCmd] for n fields.
func ReadExpired(r redoubt.Reply, n int) (changes []Change, values []string, now int64, err error) {
	a, err := r.Array()
	if err == nil && len(a) != 1+2*n {
		err = fmt.Errorf("ttlhash: reply has %d elements, want %d", len(a), 1+2*n)
	}
	if err != nil {
		return nil, nil, 0, err
	}
	changes, values = make([]Change, n), make([]string, n)
	for i := range n {
		status, err := redoubt.Reply{Val: a[1+2*i]}.Int()
		if err != nil {
			return nil, nil, 0, err
		}
		changes[i] = Change(status)
		values[i], _ = a[2+2*i].(string)
	}
	now, err = redoubt.Reply{Val: a[0]}.Int()
	return changes, values, now, err
}

// DeleteCmd deletes fields. With want it returns their values.
func DeleteCmd(keys Keys, mode Mode, want bool, fields []string) redoubt.Cmd {
	args := append([]string{flag(mode.Native), flag(want)}, fields...)
	return redoubt.Cmd{Script: deleteScript, Keys: keys[:], Args: args}
}

// ReadDeleted reads the reply to [DeleteCmd]: how many fields it deleted, and the values, nil
// for absent fields.
func ReadDeleted(r redoubt.Reply) (n int, values []any, now int64, err error) {
	a, err := r.Array()
	if err == nil && len(a) < 3 {
		err = fmt.Errorf("ttlhash: reply has %d elements, want 3 or more", len(a))
	}
	if err != nil {
		return 0, nil, 0, err
	}
	if now, err = (redoubt.Reply{Val: a[0]}).Int(); err != nil {
		return 0, nil, 0, err
	}
	deleted, err := redoubt.Reply{Val: a[1]}.Int()
	return int(deleted), a[2:], now, err
}

// GetCmd reads the TTLs of fields by the server's clock. With want it also returns their
// values.
func GetCmd(keys Keys, want bool, fields []string) redoubt.Cmd {
	return redoubt.Cmd{Script: getScript, Keys: keys[:1], Args: append([]string{flag(want)}, fields...), Flags: redoubt.ReadOnly}
}

// ReadGot reads the reply to [GetCmd]: for each field an Item without the field's name, nil
// for an absent field.
func ReadGot(r redoubt.Reply) ([]*Item, error) {
	a, err := r.Array()
	if err != nil {
		return nil, err
	}
	items := make([]*Item, len(a)/2)
	for i := range items {
		ms, err := redoubt.Reply{Val: a[2*i]}.Int()
		if err != nil {
			return nil, err
		}
		if ms == missing {
			continue
		}
		items[i] = &Item{TTL: Never}
		items[i].Value, _ = a[2*i+1].(string)
		if ms != noDeadline {
			items[i].TTL = time.Duration(ms) * time.Millisecond
		}
	}
	return items, nil
}

// Replies of the scripts in place of a TTL.
const (
	noDeadline = -1
	missing    = -2
)

// ScanCmd reads a page of fields by the server's clock.
func ScanCmd(keys Keys, cursor, match string, count int64) redoubt.Cmd {
	return redoubt.Cmd{Script: scanScript, Keys: keys[:1], Args: []string{cursor, match, decimal(count)}, Flags: redoubt.ReadOnly}
}

// ReadScanned reads the reply to [ScanCmd]: fields and values in turn.
func ReadScanned(r redoubt.Reply) (next string, fieldsAndValues []any, err error) {
	a, err := r.Array()
	if err == nil && len(a) != 2 {
		err = fmt.Errorf("ttlhash: reply has %d elements, want 2", len(a))
	}
	if err != nil {
		return "", nil, err
	}
	if next, err = (redoubt.Reply{Val: a[0]}).Text(); err != nil {
		return "", nil, err
	}
	fieldsAndValues, err = redoubt.Reply{Val: a[1]}.Array()
	return next, fieldsAndValues, err
}

// sweepChunks is how many chunks of the index one script sweeps. They take the server a
// millisecond.
const sweepChunks = 32

// SweepCmd deletes up to 512 fields whose deadline has passed, and counts the others.
func SweepCmd(keys Keys, mode Mode) redoubt.Cmd {
	return redoubt.Cmd{Script: sweepScript, Keys: keys[:], Args: []string{flag(mode.Native), decimal(sweepChunks)}, Flags: redoubt.Idempotent}
}

// A Sweep is the result of a [SweepCmd].
type Sweep struct {
	// Swept is how many fields it deleted.
	Swept int
	// More: the deadlines of other fields have passed too.
	More bool
	// Fields is how many fields the hash has now.
	Fields int
	// Now is the server's time in µs. Next is when the next chunk is due, in ms; 0: never.
	Now, Next int64
}

// ReadSweep reads the reply to [SweepCmd].
func ReadSweep(r redoubt.Reply) (Sweep, error) {
	var n [5]int64
	if err := r.Ints(n[:]); err != nil {
		return Sweep{}, err
	}
	return Sweep{Swept: int(n[1]), More: n[2] == 1, Fields: int(n[3]), Now: n[0], Next: n[4]}, nil
}

// MigrateCmd hands the deadlines of fields over to a server that expires fields. It starts at a
// position of the index.
func MigrateCmd(keys Keys, from int64) redoubt.Cmd {
	return redoubt.Cmd{Script: migrateScript, Keys: keys[:], Args: []string{"1", decimal(sweepChunks), decimal(from)}, Flags: redoubt.Idempotent}
}

// ReadMigrated reads the reply to [MigrateCmd]: how many fields it moved, and the position of
// the next call.
func ReadMigrated(r redoubt.Reply) (moved int, more bool, next int64, err error) {
	var n [5]int64
	err = r.Ints(n[:])
	return int(n[1]), n[3] == 1, n[4], err
}

// TimeCmd asks for the server's time, in µs.
func TimeCmd(keys Keys) redoubt.Cmd {
	return redoubt.Cmd{Script: timeScript, Keys: keys[:1], Flags: redoubt.ReadOnly}
}

// A stored value has a header of 8 bytes. The first 6 are the deadline in ms since 1970, 0 for
// none; their highest bit means that expiring makes an event. The last 2 belong to the index, and
// readers ignore them.
const (
	HeaderBytes = 8
	eventBit    = 1 << 47
)

// Open decodes a stored value. now is the server's time in µs. ok is false when the deadline has
// passed.
func Open(value string, now int64) (payload string, ttl time.Duration, ok bool, err error) {
	if len(value) < HeaderBytes {
		return "", 0, false, ErrForeign
	}
	var b [8]byte
	copy(b[2:], value[:6])
	deadline := int64(binary.BigEndian.Uint64(b[:]) &^ eventBit) //nolint:gosec // below 2^47
	if deadline == 0 {
		return value[HeaderBytes:], Never, true, nil
	}
	left := time.Duration(deadline*1000-now) * time.Microsecond
	return value[HeaderBytes:], left, left > 0, nil
}

func ttlText(ttl time.Duration) string {
	if ttl == Never {
		return "-1"
	}
	return decimal(ttl.Milliseconds())
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
