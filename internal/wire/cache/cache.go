package cache

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/randid"
)

// MaxName is the longest name of a cache, in bytes.
const MaxName = 128

// CheckName returns an error that matches [redoubt.ErrInvalidName] for a name that no cache can
// have. A colon would make it the name of another cache, with another key.
func CheckName(cache string) error {
	if cache == "" || len(cache) > MaxName || strings.Contains(cache, ":") || strings.HasPrefix(cache, "}") {
		return fmt.Errorf("%w: the name of the cache is %q; want 1 to %d bytes, without a colon, and not beginning with '}'",
			redoubt.ErrInvalidName, cache, MaxName)
	}
	return nil
}

// EntriesOf returns the pattern that matches the entries of one cache and no others.
func EntriesOf(cache string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(cache) + ":*"
}

// idBytes is the length of the id of a value.
const idBytes = 8

// Nobody is the sender of messages that no Cache has sent.
var Nobody = strings.Repeat("-", 2*idBytes)

// NewID returns an id for a value, or for an attempt to load one.
func NewID() string { return randid.Bytes(idBytes) }

// Written is a value as it is stored.
type Written struct {
	Mark    string
	Payload string
	Fresh   time.Duration
	Keep    time.Duration
}

// StoreCmd stores the value that owner has loaded, if its lease still exists.
func StoreCmd(key, owner string, w Written, took time.Duration) redoubt.Cmd {
	return redoubt.Cmd{
		Script: storeScript, Keys: []string{key},
		Args:  []string{owner, w.Mark, micros(w.Fresh), micros(took), millis(w.Keep), w.Payload},
		Flags: redoubt.Idempotent,
	}
}

// ReleaseCmd releases a lease.
func ReleaseCmd(key, owner string) redoubt.Cmd {
	return redoubt.Cmd{Script: releaseScript, Keys: []string{key}, Args: []string{owner}, Flags: redoubt.Idempotent}
}

// RenewCmd prolongs a lease.
func RenewCmd(key, owner string, lease time.Duration) redoubt.Cmd {
	return redoubt.Cmd{Script: renewScript, Keys: []string{key}, Args: []string{owner, micros(lease)}, Flags: redoubt.Idempotent}
}

// LeaseCmd takes a lease. It is sent once: a copy that arrived after an invalidation would bring
// the lease back, and an older value could be stored.
func LeaseCmd(keys []string, owner string, lease time.Duration, seen, waiter string) redoubt.Cmd {
	return redoubt.Cmd{Script: leaseScript, Keys: keys, Args: []string{owner, micros(lease), seen, waiter}}
}

// SetCmd stores a value. It is sent once: a copy that arrived later would undo later changes.
func SetCmd(keys []string, w Written, channel, message string) redoubt.Cmd {
	return redoubt.Cmd{
		Script: setScript, Keys: keys,
		Args: []string{NewID(), w.Mark, micros(w.Fresh), millis(w.Keep), w.Payload, channel, message},
	}
}

// TimedReadCmd reads the server's time and an entry.
func TimedReadCmd(key string) redoubt.Cmd {
	return redoubt.Cmd{Script: readScript, Keys: []string{key}, Flags: redoubt.ReadOnly}
}

// TagCmd adds the entry called text to a tag, for the time keep.
func TagCmd(keys []string, text string, keep time.Duration) redoubt.Cmd {
	return redoubt.Cmd{Script: tagScript, Keys: keys, Args: []string{text, millis(keep)}, Flags: redoubt.Idempotent}
}

// TagMarkCmd notes the invalidation of a tag, so that running loads with the tag are not stored.
func TagMarkCmd(keys []string) redoubt.Cmd {
	return redoubt.Cmd{Script: tagMarkScript, Keys: keys, Flags: redoubt.Idempotent}
}

// TagDropCmd removes entries from a tag: each by its text and its score.
func TagDropCmd(tag string, textsAndScores []string) redoubt.Cmd {
	return redoubt.Cmd{Script: tagDropScript, Keys: []string{tag}, Args: textsAndScores, Flags: redoubt.Idempotent}
}

// InvalidateCmd deletes an entry and publishes to the channel.
func InvalidateCmd(key, channel, message string) redoubt.Cmd {
	return redoubt.Cmd{Script: invalidateScript, Keys: []string{key}, Args: []string{channel, message}, Flags: redoubt.Idempotent}
}

// ReadHeld reads the replies of scripts that say whether a lease existed.
func ReadHeld(r redoubt.Reply) (held bool, err error) {
	a, err := r.Array()
	if err != nil {
		return false, err
	}
	n, err := (redoubt.Reply{Val: a[0]}).Int()
	return n == 1, err
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// millis rounds up: a key must not expire before its value is stale.
func millis(d time.Duration) string {
	return decimal(int64((d + time.Millisecond - 1) / time.Millisecond))
}

// The statuses of a [LeaseCmd].
const (
	LeaseHeld = iota
	LeaseGranted
	LeaseFresh
)

// ReadLease reads the reply to [LeaseCmd]: the status, the server's time, how much longer the lease
// lasts, and the entry.
func ReadLease(r redoubt.Reply) (status, now int64, left time.Duration, raw string, err error) {
	a, err := r.Array()
	if err != nil {
		return 0, 0, 0, "", err
	}
	var n [3]int64
	if err := (redoubt.Reply{Val: a[:3]}).Ints(n[:]); err != nil {
		return 0, 0, 0, "", err
	}
	raw, err = redoubt.Reply{Val: a[3]}.Text()
	return n[0], n[1], time.Duration(n[2]) * time.Microsecond, raw, err
}

func micros(d time.Duration) string { return decimal(d.Microseconds()) }
