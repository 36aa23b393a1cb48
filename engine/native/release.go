package native

import (
	"bytes"

	"github.com/redoubt-go/redoubt/engine"
)

const (
	// mostTries is how many waiters release tries to wake.
	mostTries = 64
	// mostPlaces is how long the queue may be, with the places of those who
	// left. Lua can be stopped when it is longer.
	mostPlaces = 100_000
)

// release is lock/lua/release.lua.
func release(tx *engine.Tx) bool {
	if len(tx.Keys) != 1 || len(tx.Args) != 3 {
		return false
	}
	key, id, waiter := tx.Keys[0], tx.Args[0], tx.Args[1]
	now := tx.Micros()
	v := tx.Do(wordHmget, key, wordID, wordUntil, wordFence, wordLast, wordWait, wordHead, wordTail)
	v.Elements()
	b, there := v.Bulk()
	holds := same(b, there, id)
	expiry, ok1 := optional(&v)
	fence, ok2 := optional(&v)
	b, there = v.Bulk()
	isLast := same(b, there, id)
	waiting, ok3 := optional(&v)
	head, ok4 := optional(&v)
	tail, ok5 := optional(&v)
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || !isWaiter(waiter) {
		return false
	}
	var place []byte
	queued := false
	if len(waiter) > 0 {
		v = tx.Do(wordHget, key, waiter)
		if b, queued = v.Bulk(); queued {
			if _, ok := integer(b); !ok {
				return false
			}
			place = bytes.Clone(b)
		}
	}
	if (waiting != 0 || queued) && !wellFormed(tx, head, tail) {
		return false
	}
	keepMS := keep(60000, fence, now)
	released := int64(0)
	switch {
	case holds && expiry > now:
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
	if queued {
		tx.Do(wordHdel, key, place, waiter)
		v = tx.Do(wordHincrby, key, wordWait, wordMinus)
		waiting = v.Int()
	}
	if expiry <= now && waiting != 0 {
		wake(tx, waiting, head, tail)
	}
	tx.Array(1)
	tx.Int(released)
	return true
}

// wake tells the waiters of longest standing, until one has a subscriber.
func wake(tx *engine.Tx, waiting, head, tail int64) {
	key := tx.Keys[0]
	woken := int64(0)
	for tries := 0; woken == 0 && head < tail && tries < mostTries; {
		head++
		place := digits(head)
		v := tx.Do(wordHget, key, place)
		waiter, there := v.Bulk()
		if !there {
			continue
		}
		waiter = bytes.Clone(waiter)
		tx.Do(wordHdel, key, place, waiter)
		waiting, tries = waiting-1, tries+1
		publish, channel, _ := address(waiter)
		v = tx.Do(publish, channel, key)
		woken = v.Int()
	}
	if waiting == 0 || head == tail {
		tx.Do(wordHdel, key, wordHead, wordTail, wordWait)
	} else {
		tx.Do(wordHset, key, wordHead, digits(head), wordWait, digits(waiting))
	}
}

// wellFormed reports whether every waiter that wake may come to is one that
// acquire has queued.
func wellFormed(tx *engine.Tx, head, tail int64) bool {
	if tail-head > mostPlaces {
		return false
	}
	for tries := 0; head < tail && tries < mostTries+1; {
		head++
		v := tx.Do(wordHget, tx.Keys[0], digits(head))
		if waiter, there := v.Bulk(); there {
			tries++
			if _, _, ok := address(waiter); !ok {
				return false
			}
		}
	}
	return true
}

// isWaiter reports whether an argument is none, or one that can be woken.
func isWaiter(arg []byte) bool {
	_, _, ok := address(arg)
	return len(arg) == 0 || ok
}

// address splits a waiter into the command that wakes it and the channel.
func address(waiter []byte) (publish, channel []byte, ok bool) {
	publish, channel, ok = bytes.Cut(waiter, []byte(" "))
	return publish, channel, ok && (string(publish) == "PUBLISH" || string(publish) == "SPUBLISH")
}
