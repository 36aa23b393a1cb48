package native

import (
	"bytes"

	"github.com/redoubt-go/redoubt/internal/engine"
)

var (
	cmdDel         = engine.CommandOf("DEL")
	wordShared     = word("shared")
	wordClaim      = word("claim")
	wordClaimBy    = word("claim_by")
	wordClaimFence = word("claim_fence")
)

// A holding is what a lock's hash says of its holders.
type holding struct {
	fence, expiry int64
	writer        bool // the id given is that of a writer who holds it
	shared        bool // readers hold it
}

// holders reads the hash of a lock. It reports false if somebody waits or claims it, or waiter is not empty and in
// the queue.
func holders(tx *engine.Tx, now int64, id, waiter []byte) (h holding, ok bool) {
	v := tx.Do(cmdHmget, tx.Keys[0], wordUntil, wordFence, wordHead, wordTail, wordFair, wordClaimBy, wordClaim, wordClaimFence, waiter, wordID, wordShared)
	v.Elements()
	expiry, ok1 := optional(&v)
	fence, ok2 := optional(&v)
	if !ok1 || !ok2 || !nulls(&v, 7) {
		return h, false
	}
	holder, there1 := v.Bulk()
	group, there2 := v.Bulk()
	h = holding{fence: fence, expiry: expiry}
	if expiry > now {
		h.writer = same(holder, there1, id)
		h.shared = there2 && bytes.Equal(holder, group)
	}
	return h, there1 || expiry <= now
}

// rwRead is lock/lua/rw_read.lua as long as no writer holds the lock, nobody waits for it and no reader died.
func rwRead(tx *engine.Tx) bool {
	if len(tx.Keys) != 3 || len(tx.Args) != 5 {
		return false
	}
	key, readers, labels := tx.Keys[0], tx.Keys[1], tx.Keys[2]
	id, label, waiter, group := tx.Args[0], tx.Args[2], tx.Args[3], tx.Args[4]
	var ttl int64
	if !integers(tx.Args[1:], &ttl) || ttl < 1 {
		return false
	}
	now := tx.Micros()
	h, ok := holders(tx, now, nil, waiter)
	if !ok {
		return false
	}
	mine, ok := held(tx, readers, id)
	switch {
	case !ok:
		return false
	case mine > now && h.shared:
		answerLock(tx, 1, h.fence, mine-now, label)
		return true
	case mine != 0:
		answerLock(tx, -1, h.fence, 0, nil)
		return true
	case h.expiry > now && !h.shared, h.shared && !tx.Holds(labels, "hash"):
		return false
	}
	if count(tx, readers, wordZero, digits(tx, now)) > 0 || count(tx, readers, wordLowest, wordNotZero) > mostOver {
		return false
	}
	if !h.shared {
		tx.Do(cmdZremrangebyscore, readers, wordNotZero, wordHighest)
		tx.Do(cmdDel, labels)
		if h.fence == 0 {
			h.fence = now
		}
		tx.Do(cmdHset, key, wordID, group, wordShared, group, wordLabel, label, wordFence, digits(tx, h.fence))
		h.expiry = 0
	}
	h.expiry = max(h.expiry, now+ttl)
	tx.Do(cmdHset, key, wordUntil, digits(tx, h.expiry))
	tx.Do(cmdZadd, readers, digits(tx, now+ttl), id)
	since := append(append(digits(tx, now), ' '), label...)
	tx.Do(cmdHset, labels, id, since)
	keepMS := keepAfter(tx, max(h.expiry, h.fence), now)
	tx.Do(cmdPexpire, key, keepMS)
	tx.Do(cmdPexpire, readers, keepMS)
	tx.Do(cmdPexpire, labels, keepMS)
	answerLock(tx, 1, h.fence, ttl, label)
	return true
}

// rwRelease is lock/lua/rw_release.lua for a writer or a reader who holds the lock, while nobody waits for it.
func rwRelease(tx *engine.Tx) bool {
	if len(tx.Keys) != 3 || len(tx.Args) != 3 {
		return false
	}
	key, readers, labels := tx.Keys[0], tx.Keys[1], tx.Keys[2]
	id, how := tx.Args[0], string(tx.Args[2])
	if len(id) == 0 || len(tx.Args[1]) > 0 || how != "0" && how != "1" && how != "2" {
		return false
	}
	now := tx.Micros()
	h, ok := holders(tx, now, id, nil)
	if !ok || !h.writer && !h.shared {
		return false
	}
	mine, ok := held(tx, readers, id)
	if !ok {
		return false
	}
	if h.writer {
		tx.Do(cmdHset, key, wordUntil, wordZero, wordLast, id)
		tx.Do(cmdPexpire, key, keepAfter(tx, max(h.fence, now), now))
		answer(tx, 1)
		return true
	}
	last, ok := latest(tx, readers, id)
	if !ok || mine <= now {
		return false
	}
	tx.Do(cmdHdel, labels, id)
	tx.Do(cmdZadd, readers, digits(tx, -2*now-1), id)
	forget(tx, readers)
	until := wordZero
	if last > now {
		until = digits(tx, last)
	}
	tx.Do(cmdHset, key, wordUntil, until)
	keepMS := keepAfter(tx, max(last, now), now)
	tx.Do(cmdPexpire, readers, keepMS)
	tx.Do(cmdPexpire, labels, keepMS)
	tx.Do(cmdPexpire, key, keepAfter(tx, max(last, h.fence, now), now))
	answer(tx, 1)
	return true
}
