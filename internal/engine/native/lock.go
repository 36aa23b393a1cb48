package native

import (
	"bytes"

	"github.com/redoubt-go/redoubt/internal/engine"
)

var (
	cmdHmget   = engine.CommandOf("HMGET")
	cmdHget    = engine.CommandOf("HGET")
	cmdHset    = engine.CommandOf("HSET")
	cmdHdel    = engine.CommandOf("HDEL")
	cmdHincrby = engine.CommandOf("HINCRBY")
	cmdPexpire = engine.CommandOf("PEXPIRE")

	wordID        = word("id")
	wordUntil     = word("until")
	wordFence     = word("fence")
	wordLast      = word("last")
	wordVoid      = word("void")
	wordLabel     = word("label")
	wordHead      = word("head")
	wordTail      = word("tail")
	wordFair      = word("fair_first")
	wordGranted   = word("granted")
	wordGrantedTo = word("granted_to")
	wordOne       = word("1")
	wordMinus     = word("-1")
	wordBlank     = word(" ")

	cmdPublish   = engine.CommandOf("PUBLISH")
	cmdSpublish  = engine.CommandOf("SPUBLISH")
	wordPublish  = word("PUBLISH ")
	wordSpublish = word("SPUBLISH ")
)

// keep is how long a key lives, in ms: longer when the fence is ahead of now.
func keep(tx *engine.Tx, ms, fence, now int64) []byte {
	if fence > now {
		ms += (fence - now) / 1000
	}
	return digits(tx, ms)
}

// same compares a field that may be missing with an argument.
func same(field []byte, there bool, arg []byte) bool { return there && bytes.Equal(field, arg) }

// acquire is lock/lua/acquire.lua. A writer of an RWMutex names more keys, which it doesn't use.
func acquire(tx *engine.Tx) bool {
	if len(tx.Keys) < 1 || len(tx.Args) != 5 {
		return false
	}
	key, id, label, waiter := tx.Keys[0], tx.Args[0], tx.Args[3], tx.Args[4]
	var ttl, keepMS int64
	if !integers(tx.Args[1:], &ttl, &keepMS) || keepMS <= 0 || len(waiter) > 0 && !isWaiter(waiter) {
		return false
	}
	now := tx.Micros()
	v := tx.Do(cmdHmget, key, wordID, wordUntil, wordFence, wordLast, wordVoid, wordFair, wordHead, wordTail)
	v.Elements()
	b, there := v.Bulk()
	isHolder := same(b, there, id)
	expiry, ok1 := optional(&v)
	fence, ok2 := optional(&v)
	over := isHolder
	for range 2 {
		b, there = v.Bulk()
		over = over || same(b, there, id)
	}
	_, fair := v.Bulk()
	head, ok3 := optional(&v)
	tail, ok4 := optional(&v)
	switch {
	case !ok1 || !ok2 || !ok3 || !ok4:
		return false
	case isHolder && expiry > now:
		answerLock(tx, 1, fence, expiry-now, label)
		return true
	case over:
		answerLock(tx, -1, fence, 0, nil)
		return true
	case fair: // some wait in order: for Lua
		return false
	}
	q := queue{key: key, head: head, tail: tail}
	at, ok := q.find(tx, waiter)
	if !ok {
		return false
	}
	if expiry > now {
		v = tx.Do(cmdHget, key, wordLabel)
		held, there := v.Bulk()
		if !there {
			return false
		}
		held = bytes.Clone(held)
		if len(waiter) > 0 && !at.queued {
			v = tx.Do(cmdHincrby, key, wordTail, wordOne)
			place := digits(tx, v.Int())
			tx.Do(cmdHset, key, place, waiter, waiter, place)
		}
		answerLock(tx, 0, fence, expiry-now, held)
		return true
	}
	fence = max(fence+1, now)
	tx.Do(cmdHset, key, wordID, id, wordUntil, digits(tx, now+ttl), wordFence, digits(tx, fence), wordLabel, label)
	tx.Do(cmdPexpire, key, keep(tx, keepMS, fence, now))
	if at.queued {
		q.leave(tx, at)
	}
	answerLock(tx, 1, fence, ttl, label)
	return true
}

func answerLock(tx *engine.Tx, status, fence, ttl int64, label []byte) {
	tx.Array(4)
	tx.Int(status)
	tx.Int(fence)
	tx.Int(ttl)
	tx.Bulk(label)
}

// extend is lock/lua/extend.lua.
func extend(tx *engine.Tx) bool {
	if len(tx.Keys) != 1 || len(tx.Args) != 3 {
		return false
	}
	key, id := tx.Keys[0], tx.Args[0]
	var ttl, keepMS int64
	if !integers(tx.Args[1:], &ttl, &keepMS) {
		return false
	}
	now := tx.Micros()
	v := tx.Do(cmdHmget, key, wordID, wordUntil, wordFence)
	v.Elements()
	b, there := v.Bulk()
	held := same(b, there, id)
	until, ok1 := optional(&v)
	fence, ok2 := optional(&v)
	if !ok1 || !ok2 {
		return false
	}
	switch left := until - now; {
	case !held || left <= 0:
		answer(tx, 0, fence, 0)
		return true
	case left >= ttl:
		answer(tx, 1, fence, left)
		return true
	}
	tx.Do(cmdHset, key, wordUntil, digits(tx, now+ttl))
	tx.Do(cmdPexpire, key, keep(tx, keepMS, fence, now))
	answer(tx, 1, fence, ttl)
	return true
}
