package lock

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
)

// Key returns the key of the lock called name. An invalid name gives an error
// that matches redoubt.ErrInvalidName.
func Key(client *redoubt.Client, name string) (string, error) { return client.Key(name, lockPart) }

// lockPart ends the key of a lock.
const lockPart = "lock"

// NewID returns the name of a new acquisition: 128 random bits as 32
// hexadecimal digits.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b[:])
}

// Status is what became of an attempt to acquire.
type Status int8

const (
	// Acquired: the lock is held by this acquisition.
	Acquired Status = 1
	// Held: another acquisition holds the lock.
	Held Status = 0
	// Over: this acquisition held the lock before and has been released, has
	// run out, or was given up.
	Over Status = -1
)

// An Attempt is the answer to one acquire.
type Attempt struct {
	Status Status
	// Token is the fencing token of whoever holds the lock.
	Token int64
	// TTL is the time left to whoever holds the lock.
	TTL time.Duration
	// Label is the holder's.
	Label string
}

// The functions below are the operations of a lock as commands, and the
// readers of their replies. [Mutex] and the LOCK commands are built on them.

// AcquireCmd tries to acquire the lock at key for the acquisition id. The
// command is idempotent: repeated with the same id it gives the same answer.
func AcquireCmd(key, id string, ttl time.Duration, label string) redoubt.Cmd {
	return acquireCmd([]string{key}, id, ttl, label, "")
}

// acquireCmd is AcquireCmd, and queues waiter, if it is not empty, when the
// lock is held. See entry.
func acquireCmd(keys []string, id string, ttl time.Duration, label, waiter string) redoubt.Cmd {
	return redoubt.Cmd{
		Script: acquireScript,
		Keys:   keys,
		Args:   []string{id, micros(ttl), keep(ttl), label, waiter},
		Flags:  redoubt.Idempotent,
	}
}

// entry is how a waiter stands in the queue: the command and the channel that
// wake it.
func entry(w *redoubt.Waiter) string { return w.Verb + " " + w.Channel }

// ReadAttempt reads the reply to [AcquireCmd].
func ReadAttempt(r redoubt.Reply) (Attempt, error) {
	var n [3]int64
	label, err := intsAndText(r, n[:])
	if err != nil {
		return Attempt{}, err
	}
	return Attempt{Status: Status(n[0]), Token: n[1], TTL: time.Duration(n[2]) * time.Microsecond, Label: label}, nil
}

// ExtendCmd makes the acquisition id last ttl from now, or longer if it does so
// already, if it still holds the lock.
func ExtendCmd(key, id string, ttl time.Duration) redoubt.Cmd {
	return extendCmd([]string{key}, id, ttl)
}

func extendCmd(keys []string, id string, ttl time.Duration) redoubt.Cmd {
	return redoubt.Cmd{
		Script: extendScript,
		Keys:   keys,
		Args:   []string{id, micros(ttl), keep(ttl)},
		Flags:  redoubt.Idempotent,
	}
}

// ReadExtend reads the reply to [ExtendCmd]: whether the lock is held, and the
// time left.
func ReadExtend(r redoubt.Reply) (held bool, ttl time.Duration, err error) {
	var n [3]int64
	if err := r.Ints(n[:]); err != nil {
		return false, 0, err
	}
	return n[0] == 1, time.Duration(n[2]) * time.Microsecond, nil
}

// ReleaseCmd ends the acquisition id and wakes one waiter. Repeated, it gives
// the same answer until another acquisition on the same key was released.
func ReleaseCmd(key, id string) redoubt.Cmd { return releaseCmd([]string{key}, id, "", false) }

// releaseCmd ends the acquisition id, if it is not empty, and takes waiter out
// of the queue, if it is not empty. With void it ends an acquire whose outcome
// is unknown even if that arrives later, unless another was voided in between.
func releaseCmd(keys []string, id, waiter string, void bool) redoubt.Cmd {
	return redoubt.Cmd{
		Script: releaseScript,
		Keys:   keys,
		Args:   []string{id, waiter, flag(void)},
		Flags:  redoubt.Idempotent,
	}
}

// ReadRelease reads the reply to [ReleaseCmd]: false when the acquisition did
// not hold the lock any more. One that ran out counts as released as long as
// nobody has had the lock since.
func ReadRelease(r redoubt.Reply) (released bool, err error) {
	var n [1]int64
	if err := r.Ints(n[:]); err != nil {
		return false, err
	}
	return n[0] == 1, nil
}

// intsAndText reads an array of integers, as many as ints has room for, and, last,
// a string.
func intsAndText(r redoubt.Reply, ints []int64) (text string, err error) {
	a, err := r.Array()
	if err != nil {
		return "", err
	}
	if len(a) != len(ints)+1 {
		return "", fmt.Errorf("lock: reply has %d elements, want %d", len(a), len(ints)+1)
	}
	for i := range ints {
		if ints[i], err = (redoubt.Reply{Val: a[i]}).Int(); err != nil {
			return "", err
		}
	}
	return redoubt.Reply{Val: a[len(ints)]}.Text()
}

func flag(is bool) string {
	if is {
		return "1"
	}
	return "0"
}

func micros(ttl time.Duration) string { return strconv.FormatInt(ttl.Microseconds(), 10) }

// keep is how long the key lives after a lease of ttl began, in ms: a minute
// longer, so that tokens go on rising if the clock of a new primary is behind.
func keep(ttl time.Duration) string {
	return strconv.FormatInt((ttl + time.Minute).Milliseconds(), 10)
}
