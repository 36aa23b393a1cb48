package native

import (
	"bytes"
	"encoding/binary"

	"github.com/redoubt-go/redoubt/internal/engine"
)

var (
	cmdGetrange   = engine.CommandOf("GETRANGE")
	cmdSetrange   = engine.CommandOf("SETRANGE")
	wordEight     = word("8")
	wordHeaderEnd = word("7")
)

const (
	ringHeader = 8    // bytes
	ringBlock  = 64   // slots that the script reads at once
	smallRing  = 32   // calls that a ring of their own size holds
	mostCalls  = 1024 // of one run
)

// A ring is a log of calls, as window.lua describes it.
type ring struct {
	tx        *engine.Tx
	head, cap int64
	log       []byte
	odd       bool // the log is none that window.lua writes
}

// open reads the header by a command, which a user may not be allowed, and looks at the rest in place.
func (r *ring) open() {
	v := r.tx.Do(cmdGetrange, r.tx.Keys[0], wordZero, wordHeaderEnd)
	if start, _ := v.Bulk(); len(start) == 0 {
		return
	}
	r.log = r.tx.Peek(r.tx.Keys[0])
	if len(r.log) < 2*ringHeader {
		r.odd = true
		return
	}
	r.head, r.cap = int64(binary.BigEndian.Uint32(r.log)), int64(binary.BigEndian.Uint32(r.log[4:]))
	r.odd = r.head >= r.cap || r.cap <= ringBlock && int64(len(r.log)) != ringHeader+8*r.cap
}

// called is when the k-th call from the last was.
func (r *ring) called(k int64) int64 {
	if k > r.cap || r.odd {
		return 0
	}
	at := ringHeader + 8*((r.head-k+r.cap)%r.cap)
	if at+8 > int64(len(r.log)) {
		r.odd = true
		return 0
	}
	us := binary.BigEndian.Uint64(r.log[at:])
	if us > exact {
		r.odd = true
		return 0
	}
	return int64(us)
}

// since is how many of the last calls, at most limit, were later than the time.
func (r *ring) since(limit, us int64) int64 {
	is, isnt := int64(0), min(limit, r.cap)+1
	for isnt-is > 1 {
		if k := (is + isnt) / 2; r.called(k) > us {
			is = k
		} else {
			isnt = k
		}
	}
	return is
}

// window is ratelimit/lua/window.lua.
func window(tx *engine.Tx) bool {
	if len(tx.Keys) != 1 || len(tx.Args) < 4 || len(tx.Args)%2 != 0 {
		return false
	}
	var most, least int64
	if !integers(tx.Args, &most, &least) || most < 0 || least < 0 {
		return false
	}
	now := tx.Micros()
	r := ring{tx: tx}
	r.open()
	last := r.called(1)
	at, wanted := max(now, last), max(least, 1)
	var longest, highest, live, by, retry int64
	left, refusedBy, never := int64(-1), int64(-1), false
	for i := int64(0); int(2*i+3) < len(tx.Args); i++ {
		var limit, span int64
		if !integers(tx.Args[2*i+2:], &limit, &span) || limit < 1 || span < 1 {
			return false
		}
		longest, highest = max(longest, span), max(highest, limit)
		is := r.since(limit, at-span)
		live = max(live, is)
		if left < 0 || limit-is < left {
			by, left = i, limit-is
		}
		if wanted > limit {
			refusedBy, never = i, true
		} else if is+wanted > limit && !never {
			if wait := r.called(limit-wanted+1) + span - now; wait > retry {
				refusedBy, retry = i, wait
			}
		}
	}
	taken := min(most, left)
	if taken < least {
		taken = 0
	}
	if r.odd {
		return false
	}
	if taken == 0 {
		if refusedBy >= 0 {
			by = refusedBy
		}
		if never {
			retry = 0
		}
		answer(tx, 0, by, left, retry, max(last+longest-now, 0))
		return true
	}
	if taken > mostCalls {
		return false
	}
	px := digits(tx, (at+longest-now+999)/1000)
	if size := live + taken; size <= smallRing || size > r.cap {
		if !r.renew(at, taken, live, highest, px) {
			return false
		}
	} else {
		r.add(at, taken, px)
	}
	answer(tx, taken, by, left-taken, 0, at+longest-now)
	return true
}

// slots are those from one index up to another. It reports false if the log has not all of them.
func (r *ring) slots(from, to int64) (b []byte, ok bool) {
	if from == to {
		return nil, true
	}
	if int64(len(r.log)) < ringHeader+8*to {
		return nil, false
	}
	return r.log[ringHeader+8*from : ringHeader+8*to], true
}

// renew writes a ring of the live calls and those at a time, with room for the highest limit at most. It reports false, and
// writes nothing, if the old ring is odd.
func (r *ring) renew(at, taken, live, highest int64, px []byte) bool {
	older := max(live-r.head, 0)
	first, ok1 := r.slots(r.cap-older, r.cap)
	second, ok2 := r.slots(r.head-(live-older), r.head)
	if !ok1 || !ok2 {
		return false
	}
	size := live + taken
	room := size
	if size > smallRing {
		room = max(size, min(highest, size*3/2))
	}
	log := make([]byte, 0, ringHeader+8*room)
	log = binary.BigEndian.AppendUint32(log, uint32(size%room))
	log = binary.BigEndian.AppendUint32(log, uint32(room))
	log = append(append(log, first...), second...)
	for range taken {
		log = binary.BigEndian.AppendUint64(log, uint64(at))
	}
	r.tx.Do(cmdSet, r.tx.Keys[0], log[:cap(log)], wordPX, px)
	return true
}

// add writes the calls at a time into the ring, which has room.
func (r *ring) add(at, taken int64, px []byte) {
	key := r.tx.Keys[0]
	calls := bytes.Repeat(binary.BigEndian.AppendUint64(nil, uint64(at)), int(taken))
	fit := min(taken, r.cap-r.head)
	r.tx.Do(cmdSetrange, key, digits(r.tx, ringHeader+8*r.head), calls[:8*fit])
	if fit < taken {
		r.tx.Do(cmdSetrange, key, wordEight, calls[8*fit:])
	}
	r.tx.Do(cmdSetrange, key, wordZero, binary.BigEndian.AppendUint32(r.tx.Word(), uint32((r.head+taken)%r.cap)))
	r.tx.Do(cmdPexpire, key, px)
}
