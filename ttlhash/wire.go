package ttlhash

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
)

// Keys are the keys of one hash. They share a hash tag.
type Keys [3]string

// hashPart ends the key that every hash has.
const hashPart = "ttlhash"

// KeysOf returns the keys of the hash called name. An invalid name gives an error
// that matches redoubt.ErrInvalidName.
func KeysOf(client *redoubt.Client, name string) (keys Keys, err error) {
	for i, part := range [...]string{hashPart, "ttlindex", "ttlevents"} {
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

// The functions below are the operations on a hash as commands, and the readers of
// their replies. [Hashes] and the TTLHASH commands are built on them.

// SetCmd sets items. It is never sent twice: the second time it could replace what
// another has set in between.
func SetCmd(keys Keys, how How, when Presence, items []Item) redoubt.Cmd {
	args := make([]string, 3, 3+3*len(items))
	args[0], args[1], args[2] = flag(how.Native), flag(how.Event), when.String()
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
	args := append([]string{flag(how.Native), flag(how.Event), when.String(), ttlText(ttl), flag(want)}, fields...)
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
	// now is the server's time in µs, next when something is due, in ms; 0: never.
	now, next int64
}

// ReadSweep reads the reply to [SweepCmd].
func ReadSweep(r redoubt.Reply) (Sweep, error) {
	var n [5]int64
	if err := r.Ints(n[:]); err != nil {
		return Sweep{}, err
	}
	return Sweep{Swept: int(n[1]), More: n[2] == 1, Fields: int(n[3]), now: n[0], next: n[4]}, nil
}

func migrateCmd(keys Keys, from int64) redoubt.Cmd {
	return redoubt.Cmd{Script: migrateScript, Keys: keys[:], Args: []string{"1", decimal(sweepChunks), decimal(from)}, Flags: redoubt.Idempotent}
}

// A value on the server has a header of 8 bytes: 6 for the deadline in ms since 1970,
// 0 for none, whose highest bit says that its end is an event; and 2 that say how it
// is filed in the index, which is no business of a reader's.
const (
	headerBytes = 8
	eventBit    = 1 << 47
)

// open takes a value apart. now is the server's time in µs.
func open(value string, now int64) (payload string, ttl time.Duration, ok bool, err error) {
	if len(value) < headerBytes {
		return "", 0, false, ErrForeign
	}
	var b [8]byte
	copy(b[2:], value[:6])
	deadline := int64(binary.BigEndian.Uint64(b[:]) &^ eventBit) //nolint:gosec // below 2^47
	if deadline == 0 {
		return value[headerBytes:], Never, true, nil
	}
	left := time.Duration(deadline*1000-now) * time.Microsecond
	return value[headerBytes:], left, left > 0, nil
}

func ttlText(ttl time.Duration) string {
	if ttl == Never {
		return "-1"
	}
	return decimal(ttl.Milliseconds())
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// CheckTTL returns an error for a TTL that is neither [Never] nor whole milliseconds
// from [MinTTL] to [MaxTTL].
func CheckTTL(ttl time.Duration) error {
	if ttl != Never && (ttl < MinTTL || ttl > MaxTTL || ttl%time.Millisecond != 0) {
		return fmt.Errorf("ttlhash: ttl is %v; want whole milliseconds from %v to %v, or Never", ttl, MinTTL, MaxTTL)
	}
	return nil
}

// CheckField returns an error for a field that is longer than [MaxField].
func CheckField(field string) error {
	if len(field) > MaxField {
		return fmt.Errorf("ttlhash: field has %d bytes; want at most %d", len(field), MaxField)
	}
	return nil
}

// CheckValue returns an error for a value that is longer than [MaxValue].
func CheckValue(value string) error {
	if len(value) > MaxValue {
		return fmt.Errorf("ttlhash: value has %d bytes; want at most %d", len(value), MaxValue)
	}
	return nil
}
