package native

import "github.com/redoubt-go/redoubt/internal/engine"

// release is lock/lua/release.lua.
func release(tx *engine.Tx) bool {
	if len(tx.Keys) != 1 || len(tx.Args) != 3 {
		return false
	}
	key, id, waiter := tx.Keys[0], tx.Args[0], tx.Args[1]
	if len(waiter) > 0 && !isWaiter(waiter) || string(tx.Args[2]) == "2" {
		return false
	}
	v := tx.Do(cmdHmget, key, wordID, wordUntil, wordFence, wordTail, wordFair)
	v.Elements()
	b, there := v.Bulk()
	mine := same(b, there, id)
	until, untilThere := v.Bulk()
	mine = mine && string(until) != "0"
	expiry, fence, tail := int64(0), int64(0), int64(0)
	ok1, ok2, ok3 := true, true, true
	if untilThere {
		expiry, ok1 = integer(until)
	}
	was, fenceThere := v.Bulk()
	if fenceThere {
		fence, ok2 = integer(was)
	}
	last, queued := v.Bulk()
	if queued {
		tail, ok3 = integer(last)
	}
	if _, fair := v.Bulk(); fair { // some wait in order: for Lua
		return false
	}
	if !ok1 || !ok2 || !ok3 || mine && (!untilThere || !fenceThere) {
		return false
	}
	long := mine && expiry-fence > 60_000_000
	void := string(tx.Args[2]) != "0"
	if mine && !queued && !long {
		end(tx, void)
		tx.Array(1)
		tx.Int(1)
		return true
	}
	now := tx.Micros()
	v = tx.Do(cmdHmget, key, wordLast, wordHead)
	v.Elements()
	b, there = v.Bulk()
	isLast := same(b, there, id)
	head, ok := optional(&v)
	if !ok {
		return false
	}
	q := queue{key: key, head: head, tail: tail}
	at, ok := q.find(tx, waiter)
	if !ok || (mine || expiry <= now) && !q.wakeable(tx) {
		return false
	}
	keepMS := keep(tx, 60000, fence, now)
	released := int64(0)
	switch {
	case mine:
		end(tx, void)
		if long {
			tx.Do(cmdPexpire, key, keepMS)
		}
		expiry, released = 0, 1
	case isLast:
		released = 1
	case string(tx.Args[2]) == "1":
		tx.Do(cmdHset, key, wordVoid, id)
		if expiry <= now {
			tx.Do(cmdPexpire, key, keepMS)
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

// end marks the acquisition as over, and a grant that its waiter gives back as answered.
func end(tx *engine.Tx, void bool) {
	tx.Do(cmdHset, tx.Keys[0], wordUntil, wordZero, wordLast, tx.Args[0])
	if void {
		tx.Do(cmdHdel, tx.Keys[0], wordGranted, wordGrantedTo)
	}
}
