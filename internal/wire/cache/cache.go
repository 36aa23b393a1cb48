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

// idBytes is the length of the name of a value.
const idBytes = 8

// Nobody stands for the sender of a message that no Cache has sent.
var Nobody = strings.Repeat("-", 2*idBytes)

// NewID returns the name of a value or of an attempt to load one.
func NewID() string { return randid.Bytes(idBytes) }

// Written is a value as it is stored.
type Written struct {
	Mark    string
	Payload string
	Fresh   time.Duration
	Keep    time.Duration
}

// StoreCmd stores what owner has loaded, if its lease is still there.
func StoreCmd(key, owner string, w Written, took time.Duration) redoubt.Cmd {
	return redoubt.Cmd{
		Script: storeScript, Keys: []string{key},
		Args:  []string{owner, w.Mark, micros(w.Fresh), micros(took), millis(w.Keep), w.Payload},
		Flags: redoubt.Idempotent,
	}
}

// ReleaseCmd gives a lease back.
func ReleaseCmd(key, owner string) redoubt.Cmd {
	return redoubt.Cmd{Script: releaseScript, Keys: []string{key}, Args: []string{owner}, Flags: redoubt.Idempotent}
}

// RenewCmd makes a lease last.
func RenewCmd(key, owner string, lease time.Duration) redoubt.Cmd {
	return redoubt.Cmd{Script: renewScript, Keys: []string{key}, Args: []string{owner, micros(lease)}, Flags: redoubt.Idempotent}
}

// LeaseCmd is sent once: a copy of it that came after an invalidation would bring the
// lease back, and what was loaded before could be stored.
func LeaseCmd(keys []string, owner string, lease time.Duration, seen, waiter string) redoubt.Cmd {
	return redoubt.Cmd{Script: leaseScript, Keys: keys, Args: []string{owner, micros(lease), seen, waiter}}
}

// SetCmd is sent once too: a copy that came later would undo what others have done.
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

// TagCmd notes that the entry called text has a tag, for as long as it is kept.
func TagCmd(keys []string, text string, keep time.Duration) redoubt.Cmd {
	return redoubt.Cmd{Script: tagScript, Keys: keys, Args: []string{text, millis(keep)}, Flags: redoubt.Idempotent}
}

// TagMarkCmd invalidates what is being loaded for a tag.
func TagMarkCmd(keys []string) redoubt.Cmd {
	return redoubt.Cmd{Script: tagMarkScript, Keys: keys, Flags: redoubt.Idempotent}
}

// TagDropCmd forgets that entries have a tag: each by its text and its score.
func TagDropCmd(tag string, textsAndScores []string) redoubt.Cmd {
	return redoubt.Cmd{Script: tagDropScript, Keys: []string{tag}, Args: textsAndScores, Flags: redoubt.Idempotent}
}

// InvalidateCmd deletes an entry and tells the channel.
func InvalidateCmd(key, channel, message string) redoubt.Cmd {
	return redoubt.Cmd{Script: invalidateScript, Keys: []string{key}, Args: []string{channel, message}, Flags: redoubt.Idempotent}
}

// ReadHeld reads the replies of those scripts that say whether a lease was there.
func ReadHeld(r redoubt.Reply) (held bool, err error) {
	a, err := r.Array()
	if err != nil {
		return false, err
	}
	n, err := (redoubt.Reply{Val: a[0]}).Int()
	return n == 1, err
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// millis rounds up: a key must not go before its value is stale.
func millis(d time.Duration) string {
	return decimal(int64((d + time.Millisecond - 1) / time.Millisecond))
}

// What becomes of a [LeaseCmd].
const (
	LeaseHeld = iota
	LeaseGranted
	LeaseFresh
)

// ReadLease reads the reply to [LeaseCmd]: what became of it, the server's time, the time left to the
// lease, and the entry.
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
