package engine

import (
	"fmt"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
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
		emit([][]byte{[]byte("SET"), key, it.val.str})
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
	return got != nil && got.val.kind() == it.val.kind() && got.val.expire == it.val.expire && got.val.length() == it.val.length()
}

// length is how many bytes or elements a value has.
func (v *value) length() int {
	if v.obj == nil {
		return len(v.str)
	}
	return v.obj.v.(interface{ len() int }).len()
}
