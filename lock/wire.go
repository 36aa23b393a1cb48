package lock

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
)

// Keys are the keys of one lock. Make them with [NewKeys].
type Keys struct {
	lease   string // hash: id, until, fence, label, wait
	waiters string // sorted set: channel → when it began to wait
}

// NewKeys returns the keys of the lock called name. An invalid name gives an
// error that matches redoubt.ErrInvalidName.
func NewKeys(client *redoubt.Client, name string) (Keys, error) {
	lease, err := client.Key(name, "lock")
	if err != nil {
		return Keys{}, err
	}
	waiters, err := client.Key(name, "wait")
	return Keys{lease: lease, waiters: waiters}, err
}

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
	// Over: this acquisition held the lock before and has been released, or
	// has run out. Its id can't be used again.
	Over Status = -1
)

// An Attempt is the answer to one acquire.
type Attempt struct {
	Status Status
	// Fence is the fencing token of whoever holds the lock.
	Fence int64
	// TTL is the time left to whoever holds the lock.
	TTL time.Duration
	// Label is the holder's.
	Label string
}

// The functions below are the operations of a lock as commands, and the
// readers of their replies. [Mutex] and the LOCK commands are built on them.

// AcquireCmd tries to acquire the lock for the acquisition id. A channel that
// is not empty queues for a wake-up there when the lock is held. The command
// is idempotent: repeated with the same id it gives the same answer.
func AcquireCmd(k Keys, id string, ttl time.Duration, label, channel string) redoubt.Cmd {
	return redoubt.Cmd{
		Script: acquireScript,
		Keys:   []string{k.lease, k.waiters},
		Args:   []string{id, micros(ttl), keep(ttl), label, channel},
		Flags:  redoubt.Idempotent,
	}
}

// ReadAttempt reads the reply to [AcquireCmd].
func ReadAttempt(r redoubt.Reply) (Attempt, error) {
	n, label, err := intsAndText(r, 3)
	if err != nil {
		return Attempt{}, err
	}
	return Attempt{Status: Status(n[0]), Fence: n[1], TTL: time.Duration(n[2]) * time.Microsecond, Label: label}, nil
}

// ExtendCmd sets the time left to the acquisition id to ttl, if it still holds
// the lock.
func ExtendCmd(k Keys, id string, ttl time.Duration) redoubt.Cmd {
	return redoubt.Cmd{
		Script: extendScript,
		Keys:   []string{k.lease},
		Args:   []string{id, micros(ttl), keep(ttl)},
		Flags:  redoubt.Idempotent,
	}
}

// ReadExtend reads the reply to [ExtendCmd]: whether the lock is held, and the
// time that the server gave.
func ReadExtend(r redoubt.Reply) (held bool, ttl time.Duration, err error) {
	var n [3]int64
	if err := r.Ints(n[:]); err != nil {
		return false, 0, err
	}
	return n[0] == 1, time.Duration(n[2]) * time.Microsecond, nil
}

// ReleaseCmd ends the acquisition id and wakes one waiter by the command
// publish, which is the client's PublishVerb.
func ReleaseCmd(k Keys, id, publish string) redoubt.Cmd {
	return releaseCmd(k, id, "", publish, "0")
}

// voidCmd is ReleaseCmd for an acquire whose outcome is unknown: it ends it
// even if it arrives later. It also takes channel out of the queue.
func voidCmd(k Keys, id, channel, publish string) redoubt.Cmd {
	return releaseCmd(k, id, channel, publish, "1")
}

// leaveCmd takes channel out of the queue.
func leaveCmd(k Keys, channel, publish string) redoubt.Cmd {
	return releaseCmd(k, "", channel, publish, "0")
}

func releaseCmd(k Keys, id, channel, publish, void string) redoubt.Cmd {
	return redoubt.Cmd{
		Script: releaseScript,
		Keys:   []string{k.lease, k.waiters},
		Args:   []string{id, channel, publish, void},
		Flags:  redoubt.Idempotent,
	}
}

// ReadRelease reads the reply to [ReleaseCmd]: false when the acquisition did
// not hold the lock any more.
func ReadRelease(r redoubt.Reply) (released bool, err error) {
	var n [2]int64
	if err := r.Ints(n[:]); err != nil {
		return false, err
	}
	return n[0] == 1, nil
}

// Info is the state of a lock. It never contains ids: who knows an id can
// release the lock.
type Info struct {
	// Held tells whether somebody holds the lock now.
	Held bool
	// Fence is the fencing token of the holder, or of the last one when the
	// lock is free; 0 when the lock has not been held for a minute.
	Fence int64
	// TTL is the time left to the holder.
	TTL time.Duration
	// Label is the holder's.
	Label string
	// Waiters is the number of processes that wait.
	Waiters int64
}

// InfoCmd asks for the state of the lock.
func InfoCmd(k Keys) redoubt.Cmd {
	return redoubt.Cmd{Script: infoScript, Keys: []string{k.lease, k.waiters}, Flags: redoubt.ReadOnly}
}

// ReadInfo reads the reply to [InfoCmd].
func ReadInfo(r redoubt.Reply) (Info, error) {
	n, label, err := intsAndText(r, 4)
	if err != nil {
		return Info{}, err
	}
	return Info{Held: n[0] == 1, Fence: n[1], TTL: time.Duration(n[2]) * time.Microsecond, Waiters: n[3], Label: label}, nil
}

// intsAndText reads an array of n integers and, last, a string.
func intsAndText(r redoubt.Reply, n int) (ints []int64, text string, err error) {
	a, err := r.Array()
	if err != nil {
		return nil, "", err
	}
	if len(a) != n+1 {
		return nil, "", fmt.Errorf("lock: reply has %d elements, want %d", len(a), n+1)
	}
	ints = make([]int64, n)
	if err := (redoubt.Reply{Val: a[:n]}).Ints(ints); err != nil {
		return nil, "", err
	}
	text, err = redoubt.Reply{Val: a[n]}.Text()
	return ints, text, err
}

func micros(ttl time.Duration) string { return strconv.FormatInt(ttl.Microseconds(), 10) }

// keep is how long the key lives after a lease of ttl began, in ms: a minute
// longer, so that tokens go on rising if the clock of a new primary is behind.
func keep(ttl time.Duration) string {
	return strconv.FormatInt((ttl + time.Minute).Milliseconds(), 10)
}
