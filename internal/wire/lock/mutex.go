package lock

import (
	"fmt"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
)

// A Request is one acquisition.
type Request struct {
	ID    string
	TTL   time.Duration
	Label string
	// Waiter is queued, unless it is empty, when the lock is busy: see [Entry].
	Waiter string
}

// Entry is the entry of a waiter in the queue: the command and the channel that wake it.
func Entry(w *redoubt.Waiter) string { return w.Verb + " " + w.Channel }

// Status is the result of an attempt to acquire.
type Status int8

const (
	// Acquired: this acquisition holds the lock.
	Acquired Status = 1
	// Held: another acquisition holds the lock.
	Held Status = 0
	// Over: this acquisition held the lock before, and was released, ran out or was
	// given up.
	Over Status = -1
)

// An Attempt is the answer to one acquire.
type Attempt struct {
	Status Status
	// Token is the fencing token of the holder.
	Token int64
	// TTL is how long the lease of the holder still lasts.
	TTL time.Duration
	// Label is the holder's.
	Label string
}

// AcquireCmd tries to acquire a lock. The command is idempotent: repeated with the same ID it gives
// the same answer. [ReadAttempt] reads the reply.
func AcquireCmd(keys []string, r Request) redoubt.Cmd {
	return redoubt.Cmd{
		Script: acquireScript,
		Keys:   keys,
		Args:   []string{r.ID, micros(r.TTL), keep(r.TTL), r.Label, r.Waiter},
		Flags:  redoubt.Idempotent,
	}
}

// ReadAttempt reads the reply to [AcquireCmd], [FairCmd], [ReadCmd] and [PermitCmd].
func ReadAttempt(r redoubt.Reply) (Attempt, error) {
	var n [3]int64
	label, err := intsAndText(r, n[:])
	if err != nil {
		return Attempt{}, err
	}
	return Attempt{Status: Status(n[0]), Token: n[1], TTL: time.Duration(n[2]) * time.Microsecond, Label: label}, nil
}

// ExtendCmd makes the acquisition id last ttl from now, or longer if it does so
// already, unless it has lost the lock.
func ExtendCmd(keys []string, id string, ttl time.Duration) redoubt.Cmd {
	return redoubt.Cmd{
		Script: extendScript,
		Keys:   keys,
		Args:   []string{id, micros(ttl), keep(ttl)},
		Flags:  redoubt.Idempotent,
	}
}

// QuorumExtendCmd is [ExtendCmd], and acquires the lock for id with the fencing token if nobody
// holds it.
func QuorumExtendCmd(keys []string, id string, ttl time.Duration, label string, token int64) redoubt.Cmd {
	return redoubt.Cmd{
		Script: quorumExtendScript,
		Keys:   keys,
		Args:   []string{id, micros(ttl), keep(ttl), label, strconv.FormatInt(token, 10)},
		Flags:  redoubt.Idempotent,
	}
}

// ReadExtend reads the reply to every command that extends: whether the lock is held, and the
// time left.
func ReadExtend(r redoubt.Reply) (held bool, ttl time.Duration, err error) {
	held, _, ttl, err = ReadResume(r)
	return held, ttl, err
}

// ReadResume is [ReadExtend] with the holder's fencing token.
func ReadResume(r redoubt.Reply) (held bool, token int64, ttl time.Duration, err error) {
	var n [3]int64
	if err := r.Ints(n[:]); err != nil {
		return false, 0, 0, err
	}
	return n[0] == 1, n[1], time.Duration(n[2]) * time.Microsecond, nil
}

// ReleaseCmd ends the acquisition id, if it is not empty, wakes one waiter, and removes waiter, if it
// is not empty, from the queue. With void it also ends an acquire that arrives later, unless another
// one was voided in between. Repeated, it gives the same answer until another acquisition on the same
// key is released.
func ReleaseCmd(keys []string, id, waiter string, void bool) redoubt.Cmd {
	return redoubt.Cmd{
		Script: releaseScript,
		Keys:   keys,
		Args:   []string{id, waiter, flag(void)},
		Flags:  redoubt.Idempotent,
	}
}

// ReadRelease reads the reply to every command that releases: false when the acquisition did
// not hold the lock any more. An acquisition that ran out counts as released as long as nobody has
// had the lock since.
func ReadRelease(r redoubt.Reply) (released bool, err error) {
	var n [1]int64
	if err := r.Ints(n[:]); err != nil {
		return false, err
	}
	return n[0] == 1, nil
}

// MultiCmd tries to acquire the locks at all keys for one acquisition, or none.
func MultiCmd(keys []string, r Request) redoubt.Cmd {
	return redoubt.Cmd{
		Script: multiAcquireScript,
		Keys:   keys,
		Args:   []string{r.ID, micros(r.TTL), keep(r.TTL), r.Label},
		Flags:  redoubt.Idempotent,
	}
}

// ReadMulti reads the reply to [MultiCmd] for n names: the result, which name, counted from 1, was
// busy, and the tokens.
func ReadMulti(r redoubt.Reply, n int) (got Attempt, at int, tokens []int64, err error) {
	a, err := r.Array()
	if err != nil {
		return got, 0, nil, err
	}
	if len(a) != 5 {
		return got, 0, nil, fmt.Errorf("lock: reply has %d elements, want 5", len(a))
	}
	var ints [3]int64
	if err := (redoubt.Reply{Val: a[:3]}).Ints(ints[:]); err != nil {
		return got, 0, nil, err
	}
	got = Attempt{Status: Status(ints[0]), TTL: time.Duration(ints[2]) * time.Microsecond}
	if got.Label, err = (redoubt.Reply{Val: a[3]}).Text(); err != nil {
		return got, 0, nil, err
	}
	if got.Status != Acquired {
		n = 1
		if ints[1] < 1 {
			return got, 0, nil, fmt.Errorf("lock: key %d is busy, want 1 or more", ints[1])
		}
	}
	tokens = make([]int64, n)
	if err := (redoubt.Reply{Val: a[4]}).Ints(tokens); err != nil {
		return got, 0, nil, err
	}
	got.Token = tokens[0]
	return got, int(ints[1]), tokens, nil
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

// member is the field of an id: no other field begins with '='.
func member(id string) string { return "=" + id }

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
