package lock

import (
	"fmt"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
)

// On the server, "<prefix>:{<name>}:sem" is a hash: fence, the last fencing
// token; head, tail, the places and the waiters as in a lock; "=<id>", the token
// of the permit with that id; "<token>", its label. Beside it is a sorted set,
// "<prefix>:{<name>}:permits", of "=<id>" by until when: in µs since 1970, by the
// server's clock. A score below 0 belongs to an acquisition that has ended: minus twice the time of
// its end, and one less if it was released and not lost. The last 128 are kept, so that no late copy
// of them takes a permit.

// PermitCmd tries to take a permit of a semaphore. The command is idempotent: repeated with the
// same id it gives the same answer.
func PermitCmd(keys []string, limit int, r Request) redoubt.Cmd {
	return redoubt.Cmd{
		Script: semAcquireScript,
		Keys:   keys,
		Args:   []string{member(r.ID), micros(r.TTL), r.Label, r.Waiter, strconv.Itoa(limit)},
		Flags:  redoubt.Idempotent,
	}
}

// PermitExtendCmd makes the permit of the acquisition id last ttl from now, or
// longer if it does so already, unless it has ended.
func PermitExtendCmd(keys []string, id string, ttl time.Duration) redoubt.Cmd {
	return redoubt.Cmd{
		Script: semExtendScript,
		Keys:   keys,
		Args:   []string{member(id), micros(ttl)},
		Flags:  redoubt.Idempotent,
	}
}

// PermitReleaseCmd gives the permit of the acquisition id back, if that is not empty, and wakes one
// waiter. It removes waiter, if it is not empty, from the queue, and wakes the next one if fewer
// permits than limit are taken. With void it also ends an acquire that arrives later. Repeated, it
// gives the same answer until 128 other acquisitions on the name have ended.
func PermitReleaseCmd(keys []string, limit int, id, waiter string, void bool) redoubt.Cmd {
	if id != "" {
		id = member(id)
	}
	return redoubt.Cmd{
		Script: semReleaseScript,
		Keys:   keys,
		Args:   []string{id, waiter, flag(void), strconv.Itoa(limit)},
		Flags:  redoubt.Idempotent,
	}
}

// PermitForceCmd takes permit, as [ReadPermitsPage] names it, away from its holder.
func PermitForceCmd(keys []string, permit string) redoubt.Cmd {
	return redoubt.Cmd{
		Script: semReleaseScript,
		Keys:   keys,
		Args:   []string{permit, "", "2", "0"},
		Flags:  redoubt.Idempotent,
	}
}

// PermitsPageCmd asks for the tokens of some 500 permits, from the cursor on.
func PermitsPageCmd(keys []string, cursor string) redoubt.Cmd {
	return redoubt.Cmd{
		Name:  "HSCAN",
		Keys:  keys[:1],
		Args:  []string{cursor, "MATCH", member("*"), "COUNT", "500"},
		Flags: redoubt.ReadOnly,
	}
}

// ReadPermitsPage reads the reply to [PermitsPageCmd]: which of the permits has token, or "", and
// the cursor of the next page, "0" after the last.
func ReadPermitsPage(r redoubt.Reply, token int64) (permit, next string, err error) {
	page, err := r.Array()
	if err != nil {
		return "", "", err
	}
	if len(page) != 2 {
		return "", "", fmt.Errorf("lock: reply of HSCAN has %d elements, want 2", len(page))
	}
	fields, err := redoubt.Reply{Val: page[1]}.Array()
	if err != nil {
		return "", "", err
	}
	text := strconv.FormatInt(token, 10)
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i+1] == text {
			permit, err = redoubt.Reply{Val: fields[i]}.Text()
			return permit, "0", err
		}
	}
	next, err = redoubt.Reply{Val: page[0]}.Text()
	return "", next, err
}
