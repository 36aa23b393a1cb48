package native

import "github.com/redoubt-go/redoubt/engine"

// release is lock/lua/release.lua.
func release(tx *engine.Tx) bool {
	if len(tx.Keys) != 1 || len(tx.Args) != 3 {
		return false
	}
	key, id, waiter := tx.Keys[0], tx.Args[0], tx.Args[1]
	if len(waiter) > 0 && !isWaiter(waiter) {
		return false
	}
	now := tx.Micros()
	v := tx.Do(wordHmget, key, wordID, wordUntil, wordFence, wordLast, wordHead, wordTail)
	v.Elements()
	b, there := v.Bulk()
	isHolder := same(b, there, id)
	expiry, ok1 := optional(&v)
	fence, ok2 := optional(&v)
	b, there = v.Bulk()
	isLast := same(b, there, id)
	head, ok3 := optional(&v)
	tail, ok4 := optional(&v)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return false
	}
	holds := isHolder && expiry > now
	q := queue{key: key, head: head, tail: tail}
	at, ok := q.find(tx, waiter)
	if !ok || (holds || expiry <= now) && !q.wakeable(tx) {
		return false
	}
	keepMS := keep(60000, fence, now)
	released := int64(0)
	switch {
	case holds:
		tx.Do(wordHset, key, wordUntil, wordZero, wordLast, id)
		tx.Do(wordPexpire, key, keepMS)
		expiry, released = 0, 1
	case isLast:
		released = 1
	case string(tx.Args[2]) == "1":
		tx.Do(wordHset, key, wordVoid, id)
		if expiry <= now {
			tx.Do(wordPexpire, key, keepMS)
		}
	}
	if at.queued {
		q.leave(tx, at)
	}
	if expiry <= now && q.head != q.tail {
		q.wake(tx)
	}
	tx.Array(1)
	tx.Int(released)
	return true
}
