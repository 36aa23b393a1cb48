package native

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/redoubt-go/redoubt/internal/engine"
)

var (
	cmdHsetnx           = engine.CommandOf("HSETNX")
	cmdExists           = engine.CommandOf("EXISTS")
	cmdZrevrangebyscore = engine.CommandOf("ZREVRANGEBYSCORE")
	cmdZrangebyscore    = engine.CommandOf("ZRANGEBYSCORE")
	cmdZpopmin          = engine.CommandOf("ZPOPMIN")
	wordLimit           = word("LIMIT")

	cmdHstrlen = engine.CommandOf("HSTRLEN")

	wordPaused      = word("paused")
	wordConcurrency = word("concurrency")
	wordInterval    = word("interval_us")
)

const (
	lanes = 4
	// perLane is how far apart the ranks of lanes are, in µs.
	perLane = 1 << 51
	// beginning is 2020, in µs since 1970. Ranks count from there.
	beginning = 1577836800000000
	// mostTaken is how many messages, and mostBytes how many bytes of them, pump takes. Lua takes more.
	mostTaken = 32
	mostBytes = 64 << 10
	// mostRoom is how many messages may be taken where nothing limits that.
	mostRoom = 1_000_000
)

// put is queue/lua/put.lua for one message that is ready now and has neither a key nor a group, and
// comes after no other.
func put(tx *engine.Tx) bool {
	if len(tx.Keys) < 7 || len(tx.Args) != 4 || string(tx.Args[1]) != "0" || string(tx.Args[2]) != "0" {
		return false
	}
	id, envelope, ready, wake := tx.Args[0], tx.Args[3], tx.Keys[1], tx.Keys[6]
	lane := int64(0)
	if len(envelope) > 0 {
		lane = int64(envelope[0])
	}
	if lane < 16 {
		lane %= 8
	}
	if lane >= lanes || !tx.Holds(ready, "zset") || !tx.Holds(wake, "zset") {
		return false
	}
	us := tx.Micros()
	if v := tx.Do(cmdHsetnx, tx.Keys[0], id, envelope); v.Int() == 0 {
		return false
	}
	// As Lua's numbers, because another program may have written a rank.
	low := float64(lane * perLane)
	last := float64(us - beginning - 1)
	v := tx.Do(cmdZrevrangebyscore, ready, rank(tx, low+perLane-1), rank(tx, low), wordWithscores, wordLimit, wordZero, wordOne)
	if v.Elements() > 0 {
		v.Bulk()
		b, _ := v.Bulk()
		if top, err := strconv.ParseFloat(string(b), 64); err == nil {
			last = max(last, top-low)
		}
	}
	tx.Do(cmdZadd, ready, rank(tx, low+last+1), id)
	tx.Do(cmdZadd, wake, wordZero, wordOne)
	answer(tx, us/1000, 1)
	return true
}

func rank(tx *engine.Tx, n float64) []byte { return strconv.AppendFloat(tx.Word(), n, 'f', 0, 64) }

// The keys of pump.
const (
	keyQueue = iota
	keyReady
	keyGroups
	keyDue
	keyDead
	keyFails
	keyWake
	keyLeases
	keyConfig
	keyBlocked
	keyLinks
	keyEnded
	keyTaken
)

// A pump is one run of pump.lua.
type pump struct {
	tx             *engine.Tx
	n, lease, acks int64
	repeats        bool
	now            int64    // in ms
	due            int64    // when the next message is due, 0 for none
	leaseEnd       int64    // when the first lease ends, 0 for none
	prior          bool     // the consumer took messages before
	refused        bool     // the receipt that is to be settled is not held
	ids, envelopes [][]byte // of the messages that it takes, as the next two
	receipts       [][]byte
	since          []int64 // in ms
}

// runPump is queue/lua/pump.lua when it settles at most one message, which is done, and takes a few that were not taken
// before, on a queue without limits, groups, failures and messages that wait for others.
func runPump(tx *engine.Tx) bool {
	p := pump{tx: tx}
	if !p.read() || !p.plain() || !p.look() || !p.first() {
		return false
	}
	p.settle()
	p.lend()
	left := p.wake()
	tx.Array(6)
	tx.Int(p.now)
	switch {
	case p.due > 0 && p.leaseEnd > 0:
		tx.Int(max(min(p.due, p.leaseEnd)-p.now, 0))
	case p.due > 0 || p.leaseEnd > 0:
		tx.Int(max(p.due+p.leaseEnd-p.now, 0))
	default:
		tx.Int(-1)
	}
	tx.Int(left)
	tx.Int(0)
	if p.refused {
		answer(tx, 1)
	} else {
		answer(tx)
	}
	tx.Array(4 * len(p.receipts))
	for i, receipt := range p.receipts {
		tx.Bulk(receipt)
		tx.Bulk(nil)
		tx.Int(p.since[i])
		tx.Bulk(p.envelopes[i])
	}
	return true
}

// read reads the arguments.
func (p *pump) read() bool {
	args := p.tx.Args
	var results, flags int64
	if len(p.tx.Keys) != keyTaken+1 || len(args) < 6 || !integers(args[1:], &p.n, &p.lease, &p.acks, &results, &flags) {
		return false
	}
	if p.n < -1 || p.lease < 1 || p.acks < 0 || p.acks > 1 || results != 0 || len(args) != 6+int(p.acks) || flags < 0 || flags > 3 {
		return false
	}
	p.now, p.repeats = p.tx.Micros()/1000, flags%2 == 1
	return true
}

// first reports whether the take is no repeated one. It is the last of what may leave the case to Lua, because it deletes
// a key that has expired.
func (p *pump) first() bool {
	taken := p.tx.Keys[keyTaken]
	if p.n <= 0 {
		return true
	}
	if p.acks > 0 && p.tx.Expired(taken) { // Lua settles before it deletes the key
		return false
	}
	v := p.tx.Do(cmdGet, taken)
	b, there := v.Bulk()
	p.prior = there
	return !there || !p.repeats && !bytes.Equal(b[:min(16, len(b))], p.tx.Args[0])
}

// plain reports whether the queue has none of what is left to Lua.
func (p *pump) plain() bool {
	tx := p.tx
	k := tx.Keys
	if !tx.Holds(k[keyQueue], "hash") || !tx.Holds(k[keyReady], "zset") || !tx.Holds(k[keyWake], "zset") {
		return false
	}
	v := tx.Do(cmdExists, k[keyGroups], k[keyFails], k[keyLinks], k[keyEnded])
	if v.Int() > 0 {
		return false
	}
	first, leased, ok := edge(tx, cmdZrange, k[keyLeases], wordOne)
	if !ok || leased && first <= p.now {
		return false
	}
	due, some, ok := edge(tx, cmdZrange, k[keyDue], wordZero)
	if !ok || some && due <= p.now {
		return false
	}
	p.due, p.leaseEnd = due, first
	v = tx.Do(cmdHmget, k[keyConfig], wordPaused, wordConcurrency, wordInterval)
	v.Elements()
	return nulls(&v, 3)
}

// look reads the messages that are to be taken.
func (p *pump) look() bool {
	tx := p.tx
	if p.n <= 0 {
		return true
	}
	v := tx.Do(cmdZrange, tx.Keys[keyReady], wordZero, digits(tx, min(p.n, mostTaken+1)-1), wordWithscores)
	n := v.Elements() / 2
	if n == 0 || n > mostTaken {
		return n == 0
	}
	v.Keep()
	args := append(make([][]byte, 0, 1+n), tx.Keys[keyQueue])
	for range n {
		id, _ := v.Bulk()
		b, _ := v.Bulk()
		at, ok := whole(b)
		if !ok || at < 0 || p.acks > 0 && bytes.HasSuffix(tx.Args[6], id) {
			return false
		}
		args, p.since = append(args, id), append(p.since, (at%perLane+beginning)/1000)
	}
	p.ids = args[1:]
	most := int64(mostBytes)
	for _, id := range p.ids {
		v = tx.Do(cmdHstrlen, tx.Keys[keyQueue], id)
		if most -= v.Int(); most < 0 {
			return false
		}
	}
	v = tx.Do(cmdHmget, args...)
	v.Elements()
	v.Keep()
	for range n {
		envelope, there := v.Bulk()
		if !there {
			return false
		}
		p.envelopes = append(p.envelopes, envelope)
	}
	return true
}

// settle ends the message that is done.
func (p *pump) settle() {
	if p.acks == 0 {
		return
	}
	tx := p.tx
	leases, receipt := tx.Keys[keyLeases], tx.Args[6]
	v := tx.Do(cmdZscore, leases, receipt)
	if p.refused = v.Null(); p.refused {
		return
	}
	tx.Do(cmdZrem, leases, receipt)
	tx.Do(cmdHdel, tx.Keys[keyQueue], receipt[min(16, len(receipt)):])
	p.leaseEnd, _, _ = edge(tx, cmdZrange, leases, wordZero)
}

// lend takes the messages that look has read.
func (p *pump) lend() {
	tx := p.tx
	taken := tx.Keys[keyTaken]
	if len(p.ids) == 0 {
		if p.prior {
			tx.Do(cmdDel, taken)
		}
		return
	}
	tx.Do(cmdZpopmin, tx.Keys[keyReady], digits(tx, min(p.n, mostRoom)))
	end := p.now + p.lease
	text := digits(tx, end)
	args := append(make([][]byte, 0, 1+2*len(p.ids)), tx.Keys[keyLeases])
	p.receipts = make([][]byte, len(p.ids))
	for i, id := range p.ids {
		p.receipts[i] = slices.Concat(tx.Args[0], id)
		args = append(args, text, p.receipts[i])
	}
	tx.Do(cmdZadd, args...)
	tx.Do(cmdSet, taken, slices.Concat(tx.Args[0], text), wordPX, tx.Args[2])
	if p.leaseEnd == 0 || end < p.leaseEnd {
		p.leaseEnd = end
	}
}

// wake wakes another consumer while there is work, and returns how many messages are ready.
func (p *pump) wake() (left int64) {
	tx := p.tx
	wake := tx.Keys[keyWake]
	if p.n <= 0 || int64(len(p.ids)) == p.n { // otherwise it took all
		v := tx.Do(cmdZcard, tx.Keys[keyReady])
		left = v.Int()
	}
	some := left > 0 || p.due > 0 || p.leaseEnd > 0
	switch {
	case left > 0, p.n < 0 && some:
		tx.Do(cmdZadd, wake, wordZero, wordOne)
	case p.n > 0, !some:
		tx.Do(cmdDel, wake)
	}
	return left
}
