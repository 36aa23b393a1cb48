package native

import (
	"bytes"
	"encoding/binary"

	"github.com/redoubt-go/redoubt/internal/engine"
)

var (
	wordGetrange = word("GETRANGE")
	wordSetrange = word("SETRANGE")
	wordEight    = word("8")
)

const (
	ringHeader = 8  // bytes
	ringBlock  = 64 // slots that are read at once
	smallRing  = 32 // calls that a ring of their own size holds
)

// A ring is a log of calls, as window.lua describes it.
type ring struct {
	tx        *engine.Tx
	head, cap int64
	from      int64 // the first slot of block
	block     []byte
	buf       [ringHeader + 8*ringBlock]byte
	words     [2][]byte
	odd       bool // the log is none that window.lua writes
}

// read gets n bytes of the log.
func (r *ring) read(at, n int64) []byte {
	lo, hi := appendInt(r.words[0][:0], at), appendInt(r.words[1][:0], at+n-1)
	v := r.tx.Do(wordGetrange, r.tx.Keys[0], lo, hi)
	b, _ := v.Bulk()
	return r.buf[:copy(r.buf[:], b)]
}

// open reads the header and the first slots.
func (r *ring) open() {
	r.words = [2][]byte{r.tx.Word(), r.tx.Word()}
	start := r.read(0, int64(len(r.buf)))
	if len(start) == 0 {
		return
	}
	if len(start) < 2*ringHeader {
		r.odd = true
		return
	}
	r.head, r.cap = int64(binary.BigEndian.Uint32(start)), int64(binary.BigEndian.Uint32(start[4:]))
	r.odd = r.head >= r.cap || r.cap <= ringBlock && int64(len(start)) != ringHeader+8*r.cap
	r.block = start[ringHeader:]
}

// called is when the k-th call from the last was.
func (r *ring) called(k int64) int64 {
	if k > r.cap || r.odd {
		return 0
	}
	i := (r.head - k + r.cap) % r.cap
	if i < r.from || i >= r.from+ringBlock {
		r.from = i / ringBlock * ringBlock
		r.block = r.read(ringHeader+8*r.from, 8*ringBlock)
	}
	at := 8 * (i - r.from)
	if at+8 > int64(len(r.block)) {
		r.odd = true
		return 0
	}
	us := binary.BigEndian.Uint64(r.block[at:])
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

// window is ratelimit/lua/window.lua. It leaves to Lua to make a large ring larger.
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
	var longest, live, by, retry int64
	left, refusedBy, never := int64(-1), int64(-1), false
	for i := int64(0); int(2*i+3) < len(tx.Args); i++ {
		var limit, span int64
		if !integers(tx.Args[2*i+2:], &limit, &span) || limit < 1 || span < 1 {
			return false
		}
		longest = max(longest, span)
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
	size := live + taken
	if taken > smallRing || size > smallRing && size > r.cap || size <= smallRing && r.cap > ringBlock {
		return false
	}
	if !r.add(at, taken, live, digits(tx, (at+longest-now+999)/1000)) {
		return false
	}
	answer(tx, taken, by, left-taken, 0, at+longest-now)
	return true
}

// add writes the calls at a time, behind the live calls. It reports false, and writes nothing, if one of these is odd.
func (r *ring) add(at, taken, live int64, px []byte) bool {
	key := r.tx.Keys[0]
	calls := bytes.Repeat(binary.BigEndian.AppendUint64(nil, uint64(at)), int(taken))
	if size := live + taken; size <= smallRing {
		log := make([]byte, 0, ringHeader+8*smallRing)
		log = binary.BigEndian.AppendUint32(log, 0) // it is full
		log = binary.BigEndian.AppendUint32(log, uint32(size))
		for k := live; k > 0; k-- {
			log = binary.BigEndian.AppendUint64(log, uint64(r.called(k)))
		}
		if r.odd {
			return false
		}
		r.tx.Do(wordSet, key, append(log, calls...), wordPX, px)
		return true
	}
	fit := min(taken, r.cap-r.head)
	r.tx.Do(wordSetrange, key, digits(r.tx, ringHeader+8*r.head), calls[:8*fit])
	if fit < taken {
		r.tx.Do(wordSetrange, key, wordEight, calls[8*fit:])
	}
	r.tx.Do(wordSetrange, key, wordZero, binary.BigEndian.AppendUint32(r.tx.Word(), uint32((r.head+taken)%r.cap)))
	r.tx.Do(wordPexpire, key, px)
	return true
}
