package engine

import (
	"fmt"
	"math"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/rdb"
	"github.com/redoubt-go/redoubt/internal/stream"
)

const (
	dumpArgs  = 512 // arguments of one command of a dump
	dumpBytes = 64 << 10
)

// A dumper makes commands of many elements from elements.
type dumper struct {
	emit  func(args [][]byte)
	head  int
	args  [][]byte
	bytes int
}

func (d *dumper) begin(head ...[]byte) {
	d.args, d.head, d.bytes = append(d.args[:0], head...), len(head), 0
}

func (d *dumper) add(parts ...[]byte) {
	d.args = append(d.args, parts...)
	for _, p := range parts {
		d.bytes += len(p)
	}
	if len(d.args) >= dumpArgs || d.bytes >= dumpBytes {
		d.end()
	}
}

func (d *dumper) end() {
	if len(d.args) > d.head {
		d.emit(d.args)
	}
	d.args, d.bytes = d.args[:d.head], 0
}

// dump passes to emit the commands that make the key of it from nothing. The arguments are valid
// until emit returns.
func dump(it *item, emit func(args [][]byte)) {
	key := view(it.key)
	d := dumper{emit: emit}
	switch it.val.kind() {
	case kindString:
		emit([][]byte{[]byte("SET"), key, it.val.bytes()})
	case kindList:
		d.begin([]byte("RPUSH"), key)
		asList(it).all(func(s string) bool { d.add(view(s)); return true })
	case kindSet:
		d.begin([]byte("SADD"), key)
		asSet(it).each(func(m []byte) bool { d.add(clone(m)); return true })
	case kindZset:
		d.begin([]byte("ZADD"), key)
		for at := asZset(it).first(); at.ok(); at = at.next() {
			d.add(appendDouble(nil, at.score()), view(at.member()))
		}
	case kindHash:
		d.begin([]byte("HSET"), key)
		asHash(it).each(func(name string, f field) bool { d.add(view(name), view(f.value)); return true })
	case kindStream:
		dumpStream(key, asStream(it), mostPending, emit)
	}
	if d.args != nil {
		d.end()
	}
	if it.val.kind() == kindHash {
		asHash(it).each(func(name string, f field) bool {
			if f.expire != 0 {
				emit([][]byte{[]byte("HPEXPIREAT"), key, appendInt(nil, f.expire), []byte("FIELDS"), []byte("1"), view(name)})
			}
			return true
		})
	}
	if it.val.expire != 0 {
		emit([][]byte{[]byte("PEXPIREAT"), key, appendInt(nil, it.val.expire)})
	}
}

// mostPending is how many pending entries of a stream come as one payload, at some 40 bytes each.
const mostPending = 1 << 20

// dumpStream passes to emit the commands that make a stream. Groups with their pending entries come as
// one payload, because no command makes a consumer with the time when it was seen, or the pending entry of an entry
// that was deleted. Then the entries are added, so that no command is as long as a long stream. With more
// than most pending entries, the ones with an entry come last.
func dumpStream(key []byte, s *stream.Stream, most int, emit func(args [][]byte)) {
	pending := 0
	s.EachGroup(func(g *stream.Group) bool { pending += g.Pending(); return true })
	var keep func(p stream.Pending) bool
	if pending > most {
		keep = func(p stream.Pending) bool { return p.Count > math.MaxInt64 || !s.Has(p.ID) }
	}
	groups := rdb.Payload(nil, &rdb.Value{Kind: rdb.Stream, Stream: s.Bare(keep)})
	emit([][]byte{[]byte("RESTORE"), key, []byte("0"), groups, []byte("ABSTTL"), []byte("REPLACE")})
	dumpEntries(key, s, emit)
	if top, _ := s.TopID(); s.LastID() != top {
		emit([][]byte{[]byte("XSETID"), key, s.LastID().Append(nil)})
	}
	if keep != nil {
		s.EachGroup(func(g *stream.Group) bool {
			dumpPending(key, g, keep, emit)
			return true
		})
	}
}

func dumpEntries(key []byte, s *stream.Stream, emit func(args [][]byte)) {
	args := [][]byte{[]byte("XADD"), key}
	var buf []byte
	var ends []int
	for c := s.Range(stream.ID{}, stream.Largest); c.Next(); {
		buf = c.ID().Append(buf[:0])
		ends = append(ends[:0], len(buf))
		for range c.Pairs() {
			field, value := c.Pair()
			buf = append(buf, field...)
			ends = append(ends, len(buf))
			buf = append(buf, value...)
			ends = append(ends, len(buf))
		}
		args = args[:2]
		from := 0
		for _, end := range ends { // buf doesn't move any more
			args = append(args, buf[from:end:end])
			from = end
		}
		emit(args)
	}
}

// dumpPending passes to emit the commands that make the pending entries which left doesn't have.
func dumpPending(key []byte, g *stream.Group, left func(p stream.Pending) bool, emit func(args [][]byte)) {
	batch := make([]stream.Pending, 0, mostClaims)
	end := func() {
		claimCommands(key, []byte(g.Name()), g.LastID(), batch, emit)
		batch = batch[:0]
	}
	g.EachPending(stream.ID{}, stream.Largest, func(p stream.Pending) bool {
		if !left(p) {
			if batch = append(batch, p); len(batch) == cap(batch) {
				end()
			}
		}
		return true
	})
	end()
}

// dumpAll passes to emit the commands that make an empty engine equal to this one, which no other
// goroutine uses. It runs them itself, one key at a time, and fails when they don't make the same
// key: the log that they replace is about to be deleted.
func (e *Engine) dumpAll(emit func(db int, commands [][][]byte) error) (err error) {
	trial := create(Options{Clock: e.clock})
	defer trial.Close() //nolint:errcheck // nothing is saved
	trial.startLoading()
	repeat := trial.replayer()
	var one [1][][]byte
	for i := range e.shards {
		for db, ks := range e.shards[i].dbs {
			if ks == nil {
				continue
			}
			ks.keys.each(func(it *item) bool {
				dump(it, func(args [][]byte) {
					if one[0] = args; err == nil {
						err = emit(db, one[:])
					}
					if err == nil {
						err = repeat(aof.Record{DB: db, Commands: one[:]})
					}
				})
				if err == nil && !trial.has(db, it) {
					err = fmt.Errorf("engine: internal error: key %.100q is not the same when it is read back", it.key)
				}
				if err == nil {
					err = repeat(aof.Record{DB: db, Commands: [][][]byte{{[]byte("DEL"), view(it.key)}}})
				}
				return err == nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// has reports whether a key is there and equal, as far as a quick comparison shows. No other
// goroutine uses the engine.
func (e *Engine) has(db int, it *item) bool {
	ks := e.shards[shardOf(view(it.key))].dbs[db]
	if ks == nil {
		return false
	}
	got := ks.keys.get(view(it.key))
	if got != nil && it.val.kind() == kindStream && got.val.kind() == kindStream && !asStream(got).Alike(asStream(it)) {
		return false
	}
	return got != nil && got.val.kind() == it.val.kind() && got.val.expire == it.val.expire && got.val.length() == it.val.length()
}

// length is how many bytes or elements a value has.
func (v *value) length() int {
	if v.kind() == kindString {
		return int(v.n)
	}
	return v.len()
}
