package native

import (
	"encoding/binary"

	"github.com/redoubt-go/redoubt/internal/engine"
)

var (
	cmdStrlen   = engine.CommandOf("STRLEN")
	cmdAppend   = engine.CommandOf("APPEND")
	cmdBitfield = engine.CommandOf("BITFIELD")
	wordSet     = word("SET")
	wordBit     = word("u1")
)

const (
	// mostItems and mostHashes bound what add does by itself.
	mostItems  = 8
	mostHashes = 32
	// mostLog is the length of a log of items, in bytes, that add ends.
	mostLog = 1 << 20
)

// add is bloom/lua/add.lua for a few items.
func add(tx *engine.Tx) bool {
	if len(tx.Keys) != 2 || len(tx.Args) < 6 || len(tx.Args) > 5+mostItems {
		return false
	}
	shard, log, items := tx.Keys[0], tx.Keys[1], tx.Args[5:]
	var length, seal, from, until, hashes int64
	if !integers(tx.Args, &length, &seal, &from, &until, &hashes) || hashes < 1 || hashes > mostHashes || !tx.Holds(log, "string") {
		return false
	}
	for _, item := range items {
		if int64(len(item)) < 4*hashes {
			return false
		}
	}
	now := int64(0)
	if until != 0 {
		if now = tx.Micros(); now < from || now >= until {
			answer(tx, -2, now)
			return true
		}
	}
	v := tx.Do(cmdStrlen, shard)
	switch has := v.Int(); {
	case has < length:
		answer(tx, 0, now)
		return true
	case has > length+seal:
		answer(tx, -1, now)
		return true
	}
	var isNew [mostItems]bool
	var added []byte
	for i, item := range items {
		if isNew[i] = set(tx, shard, item, int(hashes)); isNew[i] {
			added = append(added, item...)
		}
	}
	if len(added) > 0 {
		v := tx.Do(cmdStrlen, log)
		if logged := v.Int(); logged > mostLog {
			tx.Do(cmdDel, log)
		} else if logged > 0 {
			tx.Do(cmdAppend, log, added)
		}
	}
	tx.Array(2 + len(items))
	tx.Int(1)
	tx.Int(now)
	for i := range items {
		if isNew[i] {
			tx.Int(1)
		} else {
			tx.Int(0)
		}
	}
	return true
}

// set sets the bits of an item, and reports whether one of them was not set.
func set(tx *engine.Tx, shard, item []byte, hashes int) (isNew bool) {
	args := append(make([][]byte, 0, 1+4*mostHashes), shard)
	for j := range hashes {
		args = append(args, wordSet, wordBit, digits(tx, int64(binary.LittleEndian.Uint32(item[4*j:]))), wordOne)
	}
	v := tx.Do(cmdBitfield, args...)
	for range v.Elements() {
		if v.Int() == 0 {
			return true
		}
	}
	return false
}
