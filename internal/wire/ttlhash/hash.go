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

// Condition says what must be so for a field to get another deadline.
type Condition uint8

const (
	// Always: whatever it has.
	Always Condition = iota
	// IfNone: it has no deadline.
	IfNone
	// IfSome: it has one.
	IfSome
	// IfLater: the new one is later than the one it has. None is later than any.
	IfLater
	// IfSooner: the new one is sooner than the one it has.
	IfSooner
)

// word returns what the script calls it.
func (c Condition) word() string {
	return [...]string{"always", "none", "some", "later", "sooner"}[c]
}

// A Change is what became of a field that was to get another deadline.
type Change int8

const (
	// Missing: it is not there.
	Missing Change = -2
	// Unchanged: the condition was not so.
	Unchanged Change = 0
	// Changed: it has the new deadline.
	Changed Change = 1
)

// Presence says what must be so for items to be set.
type Presence uint8

const (
	// AnyWay sets whatever is there.
	AnyWay Presence = iota
	// Absent sets if none of the fields is there.
	Absent
	// Present sets if all of the fields are there.
	Present
)

// String returns the word that the script has for it.
func (p Presence) word() string { return [...]string{"any", "absent", "present"}[p] }

// Never is the TTL of a field without a deadline.
const Never = time.Duration(math.MaxInt64)

// ErrForeign is matched when a field was not written by [SetCmd].
var ErrForeign = errors.New("ttlhash: something else has written the field")

// An Item is a field with its value and the time that it has left: whole milliseconds, or [Never].
type Item struct {
	Field, Value string
	TTL          time.Duration
}

// Keys are the keys of one hash. They share a hash tag.
type Keys [3]string

// Part ends the key that every hash has.
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

// How says how a script is to write.
type How struct {
	// Native: the server expires fields.
	Native bool
	// Event: the end of a field is an event.
	Event bool
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// SetCmd sets items. It is never sent twice: the second time it could replace what
// another has set in between.
func SetCmd(keys Keys, how How, when Presence, items []Item) redoubt.Cmd {
	args := make([]string, 3, 3+3*len(items))
	args[0], args[1], args[2] = flag(how.Native), flag(how.Event), when.word()
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

// ExpireCmd gives fields another deadline, and gives their values back if they are
// wanted.
func ExpireCmd(keys Keys, how How, when Condition, ttl time.Duration, want bool, fields []string) redoubt.Cmd {
	args := append([]string{flag(how.Native), flag(how.Event), when.word(), ttlText(ttl), flag(want)}, fields...)
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

// DeleteCmd deletes fields, and gives their values back if they are wanted.
func DeleteCmd(keys Keys, how How, want bool, fields []string) redoubt.Cmd {
	args := append([]string{flag(how.Native), flag(want)}, fields...)
	return redoubt.Cmd{Script: deleteScript, Keys: keys[:], Args: args}
}

// ReadDeleted reads the reply to [DeleteCmd]: how many were there, and the values,
// nil for those that were not.
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

// GetCmd reads fields by the server's own clock: their values, if they are wanted,
// and their TTLs.
func GetCmd(keys Keys, want bool, fields []string) redoubt.Cmd {
	return redoubt.Cmd{Script: getScript, Keys: keys[:1], Args: append([]string{flag(want)}, fields...), Flags: redoubt.ReadOnly}
}

// ReadGot reads the reply to [GetCmd]: an Item without its field for each, nil where
// there is none.
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

// What the scripts say in the place of a TTL.
const (
	noDeadline = -1
	missing    = -2
)

// ScanCmd reads a page of fields by the server's own clock.
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

// sweepChunks is how many chunks of the index a sweep looks at in one script: a
// millisecond of the server.
const sweepChunks = 32

// SweepCmd deletes up to 512 fields whose deadline is over, and counts the others.
func SweepCmd(keys Keys, how How) redoubt.Cmd {
	return redoubt.Cmd{Script: sweepScript, Keys: keys[:], Args: []string{flag(how.Native), decimal(sweepChunks)}, Flags: redoubt.Idempotent}
}

// A Sweep is the answer to a [SweepCmd].
type Sweep struct {
	// Swept is how many fields it deleted.
	Swept int
	// More: others are over as well.
	More bool
	// Fields is how many there are now.
	Fields int
	// Now is the server's time in µs, Next when something is due, in ms; 0: never.
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

// MigrateCmd moves fields, from a position of the index on, to a server that expires them.
func MigrateCmd(keys Keys, from int64) redoubt.Cmd {
	return redoubt.Cmd{Script: migrateScript, Keys: keys[:], Args: []string{"1", decimal(sweepChunks), decimal(from)}, Flags: redoubt.Idempotent}
}

// ReadMigrated reads the reply to [MigrateCmd]: how many fields it moved, and where to go on.
func ReadMigrated(r redoubt.Reply) (moved int, more bool, next int64, err error) {
	var n [5]int64
	err = r.Ints(n[:])
	return int(n[1]), n[3] == 1, n[4], err
}

// TimeCmd asks for the server's time, in µs.
func TimeCmd(keys Keys) redoubt.Cmd {
	return redoubt.Cmd{Script: timeScript, Keys: keys[:1], Flags: redoubt.ReadOnly}
}

// A value on the server has a header of 8 bytes: 6 for the deadline in ms since 1970,
// 0 for none, whose highest bit says that its end is an event; and 2 that say how it
// is filed in the index, which is no business of a reader's.
const (
	HeaderBytes = 8
	eventBit    = 1 << 47
)

// Open takes a value apart. now is the server's time in µs.
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
