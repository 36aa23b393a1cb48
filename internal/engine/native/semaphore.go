package native

import (
	"bytes"

	"github.com/redoubt-go/redoubt/internal/engine"
)

var (
	cmdZcount           = engine.CommandOf("ZCOUNT")
	cmdZremrangebyrank  = engine.CommandOf("ZREMRANGEBYRANK")
	cmdZremrangebyscore = engine.CommandOf("ZREMRANGEBYSCORE")
	wordLowest          = word("-inf")
	wordHighest         = word("+inf")
	wordNotZero         = word("(0")
	wordOldest          = word("128")
)

// mostOver is how many acquisitions that are over a sorted set of holders remembers.
const mostOver = 128

// held is the score of a member of a set of holders, 0 for none. A member that is over has twice a
// time, below 0.
func held(tx *engine.Tx, key, member []byte) (score int64, ok bool) {
	v := tx.Do(cmdZscore, key, member)
	b, there := v.Bulk()
	if !there {
		return 0, true
	}
	score, ok = whole(b)
	return score, ok && score <= exact
}

// count is how many members have a score in a range.
func count(tx *engine.Tx, key, from, to []byte) int64 {
	v := tx.Do(cmdZcount, key, from, to)
	return v.Int()
}

// forget removes the oldest members of a set of holders that are over, if there are too many.
func forget(tx *engine.Tx, key []byte) {
	if over := count(tx, key, wordLowest, wordNotZero); over > mostOver {
		tx.Do(cmdZremrangebyrank, key, wordOldest, digits(tx, over-1))
	}
}

// latest is the highest score in a set of holders, without that of one member, if but is not
// empty; 0 if none is positive.
func latest(tx *engine.Tx, key, but []byte) (score int64, ok bool) {
	v := tx.Do(cmdZrevrange, key, wordZero, wordOne, wordWithscores)
	for range v.Elements() / 2 {
		member, _ := v.Bulk()
		b, _ := v.Bulk()
		n, ok := whole(b)
		if !ok || n > exact {
			return 0, false
		}
		if len(but) == 0 || !bytes.Equal(member, but) {
			return max(n, 0), true
		}
	}
	return 0, true
}

// keepAfter is how long a key lives, in ms: a minute longer than the time given.
func keepAfter(tx *engine.Tx, us, now int64) []byte { return digits(tx, (us-now)/1000+60000) }

// semAcquire is lock/lua/sem_acquire.lua as long as nobody waits and no permit has run out.
func semAcquire(tx *engine.Tx) bool {
	if len(tx.Keys) != 2 || len(tx.Args) != 5 {
		return false
	}
	key, permits, id, label, waiter := tx.Keys[0], tx.Keys[1], tx.Args[0], tx.Args[2], tx.Args[3]
	var ttl, limit int64
	if !integers(tx.Args[1:], &ttl) || !integers(tx.Args[4:], &limit) || ttl < 1 || !isPermit(id) {
		return false
	}
	now := tx.Micros()
	if count(tx, permits, wordZero, digits(tx, now)) > 0 || count(tx, permits, wordLowest, wordNotZero) > mostOver {
		return false
	}
	mine, ok1 := held(tx, permits, id)
	v := tx.Do(cmdHmget, key, wordFence, wordHead, wordTail, id, waiter)
	v.Elements()
	fence, ok2 := optional(&v)
	queued := !nulls(&v, 2)
	if !ok1 || !ok2 || queued {
		return false
	}
	token, ok := optional(&v)
	switch {
	case !ok:
		return false
	case mine > now:
		answerLock(tx, 1, token, mine-now, label)
		return true
	case mine != 0:
		answerLock(tx, -1, fence, 0, nil)
		return true
	case !v.Null():
		return false
	}
	taken := count(tx, permits, digits(tx, now+1), wordHighest)
	if taken >= limit {
		return false
	}
	last := int64(0)
	if taken > 0 {
		if last, ok = latest(tx, permits, nil); !ok {
			return false
		}
	}
	fence = max(fence+1, now)
	text := digits(tx, fence)
	tx.Do(cmdZadd, permits, digits(tx, now+ttl), id)
	tx.Do(cmdHset, key, wordFence, text, id, text)
	if len(label) > 0 {
		tx.Do(cmdHset, key, text, label)
	}
	keepMS := keepAfter(tx, max(last, now+ttl, fence), now)
	tx.Do(cmdPexpire, key, keepMS)
	tx.Do(cmdPexpire, permits, keepMS)
	answerLock(tx, 1, fence, ttl, label)
	return true
}

// isPermit reports whether b names an acquisition, and so is no other field of a semaphore.
func isPermit(b []byte) bool { return len(b) > 0 && b[0] == '=' }

// semRelease is lock/lua/sem_release.lua for a permit that is held, or was, while nobody waits.
func semRelease(tx *engine.Tx) bool {
	if len(tx.Keys) != 2 || len(tx.Args) != 4 {
		return false
	}
	key, permits, id, how := tx.Keys[0], tx.Keys[1], tx.Args[0], string(tx.Args[2])
	if !isPermit(id) || len(tx.Args[1]) > 0 || how != "0" && how != "1" {
		return false
	}
	now := tx.Micros()
	mine, ok1 := held(tx, permits, id)
	v := tx.Do(cmdHmget, key, wordFence, wordHead, wordTail, id)
	v.Elements()
	fence, ok2 := optional(&v)
	queued := !nulls(&v, 2)
	if !ok1 || !ok2 || queued {
		return false
	}
	if mine <= now {
		if mine >= 0 && how == "1" { // it may be still under way
			return false
		}
		answer(tx, -min(mine, 0)%2)
		return true
	}
	b, _ := v.Bulk()
	token := append(tx.Word(), b...)
	if _, ok := integer(token); !ok && len(token) > 0 {
		return false
	}
	last, ok := latest(tx, permits, id)
	if !ok {
		return false
	}
	tx.Do(cmdHdel, key, id, token)
	tx.Do(cmdZadd, permits, digits(tx, -2*now-1), id)
	forget(tx, permits)
	keepMS := keepAfter(tx, max(last, fence, now), now)
	tx.Do(cmdPexpire, key, keepMS)
	tx.Do(cmdPexpire, permits, keepMS)
	answer(tx, 1)
	return true
}
