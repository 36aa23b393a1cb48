package native

import (
	"bytes"

	"github.com/redoubt-go/redoubt/internal/engine"
)

// mostTries is how many waiters a release tries to wake.
const mostTries = 64

// A queue is that of a lock's waiters: lock/doc.go says how it is kept.
type queue struct {
	key        []byte
	head, tail int64
}

// A spot is where a waiter stands in a queue.
type spot struct {
	queued bool
	waiter []byte
	place  []byte // as it is written in the hash
	end    []byte // the place of the last in the queue
	last   []byte // the waiter in last place, nil when it is waiter itself
}

// find returns the place of waiter, if it is not empty and in the queue. It reports false for a
// queue that the scripts did not make: their effect on it depends on reads between their writes.
func (q *queue) find(tx *engine.Tx, waiter []byte) (at spot, ok bool) {
	if len(waiter) == 0 {
		return spot{}, true
	}
	v := tx.Do(cmdHget, q.key, waiter)
	place, there := v.Bulk()
	if !there {
		return spot{}, true
	}
	if _, ok := integer(place); !ok {
		return spot{}, false
	}
	at = spot{queued: true, waiter: waiter, place: bytes.Clone(place)}
	v = tx.Do(cmdHget, q.key, wordTail)
	end, there := v.Bulk()
	if !there {
		return spot{}, false
	}
	if at.end = bytes.Clone(end); bytes.Equal(at.place, at.end) {
		return at, true
	}
	v = tx.Do(cmdHget, q.key, at.end)
	last, there := v.Bulk()
	at.last = bytes.Clone(last)
	return at, there && isWaiter(last)
}

// leave gives the place of a waiter to the last in the queue.
func (q *queue) leave(tx *engine.Tx, at spot) {
	if at.last != nil {
		tx.Do(cmdHset, q.key, at.place, at.last, at.last, at.place)
	}
	tx.Do(cmdHdel, q.key, at.end, at.waiter)
	v := tx.Do(cmdHincrby, q.key, wordTail, wordMinus)
	if q.tail = v.Int(); q.tail == q.head {
		tx.Do(cmdHdel, q.key, wordHead, wordTail)
	}
}

// stop is the last place that wake visits.
func (q *queue) stop() int64 { return min(q.tail, q.head+mostTries) }

// wakeable reports whether every place that wake may visit has a waiter that it can wake.
func (q *queue) wakeable(tx *engine.Tx) bool {
	args := [][]byte{q.key}
	for place := q.head + 1; place <= q.stop(); place++ {
		args = append(args, digits(tx, place))
	}
	if len(args) == 1 {
		return true
	}
	v := tx.Do(cmdHmget, args...)
	for range v.Elements() {
		if waiter, there := v.Bulk(); !there || !isWaiter(waiter) {
			return false
		}
	}
	return true
}

// wake publishes to the waiters in the order of their arrival, until one of them has a subscriber.
func (q *queue) wake(tx *engine.Tx) {
	woken := int64(0)
	for stop := q.stop(); woken == 0 && q.head < stop; {
		q.head++
		place := digits(tx, q.head)
		v := tx.Do(cmdHget, q.key, place)
		waiter, _ := v.Bulk()
		waiter = bytes.Clone(waiter)
		tx.Do(cmdHdel, q.key, place, waiter)
		publish := cmdSpublish
		channel, shared := bytes.CutPrefix(waiter, wordSpublish)
		if !shared {
			publish, channel = cmdPublish, channel[len(wordPublish):]
		}
		v = tx.Do(publish, channel, q.key)
		woken = v.Int()
	}
	if q.head == q.tail {
		tx.Do(cmdHdel, q.key, wordHead, wordTail)
	} else {
		tx.Do(cmdHset, q.key, wordHead, digits(tx, q.head))
	}
}

// isWaiter reports whether b is a waiter as package lock queues it: the command
// that wakes it, a blank, and the channel.
func isWaiter(b []byte) bool {
	return bytes.HasPrefix(b, wordPublish) || bytes.HasPrefix(b, wordSpublish)
}
