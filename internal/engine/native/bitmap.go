package native

import (
	"bytes"

	"github.com/redoubt-go/redoubt/internal/engine"
)

var wordKeepttl = word("KEEPTTL")

// mostBits is how many bits mapSet sets, and mostOps how many arguments of BITFIELD recordUpdate takes, by themselves.
const (
	mostBits = 16
	mostOps  = 64
)

// mapSet is bitmap/lua/map_set.lua for a few bits.
func mapSet(tx *engine.Tx) bool {
	if len(tx.Keys) != 1 || len(tx.Args) < 4 || len(tx.Args) > 3+mostBits {
		return false
	}
	key, bit := tx.Keys[0], tx.Args[0]
	var until int64
	if string(bit) != "0" && string(bit) != "1" || !integers(tx.Args[2:], &until) {
		return false
	}
	v := tx.Do(cmdExists, key)
	made := v.Int() == 0
	if made && string(tx.Args[1]) == "0" {
		answer(tx, 0, 0)
		return true
	}
	args := append(make([][]byte, 0, 1+4*mostBits), key)
	for _, offset := range tx.Args[3:] {
		args = append(args, wordSet, wordBit, offset, bit)
	}
	v = tx.Do(cmdBitfield, args...)
	changed := int64(0)
	for range v.Elements() {
		if v.Int() != int64(bit[0]-'0') {
			changed++
		}
	}
	if made && until != 0 {
		tx.Do(cmdPexpireat, key, tx.Args[2])
	}
	answer(tx, 1, changed)
	return true
}

// recordUpdate is bitmap/lua/record_update.lua.
func recordUpdate(tx *engine.Tx) bool {
	if len(tx.Keys) != 1 || len(tx.Args) < 2 || len(tx.Args) > mostOps {
		return false
	}
	key := tx.Keys[0]
	var ttl int64
	if !integers(tx.Args, &ttl) || ttl < 0 {
		return false
	}
	v := tx.Do(cmdStrlen, key)
	if v.Int() > mostBytes {
		return false
	}
	v = tx.Do(cmdGet, key)
	before, there := v.Bulk()
	before = bytes.Clone(before)
	args := append(append(make([][]byte, 0, 1+mostOps), key), tx.Args[1:]...)
	v = tx.Do(cmdBitfield, args...)
	for i := range v.Elements() {
		if !v.Null() {
			v.Int()
			continue
		}
		if there {
			tx.Do(cmdSet, key, before, wordKeepttl)
		} else {
			tx.Do(cmdDel, key)
		}
		tx.Array(2)
		tx.Int(int64(i + 1))
		tx.Bulk(before)
		return true
	}
	if ttl > 0 {
		tx.Do(cmdPexpire, key, tx.Args[0])
	}
	v = tx.Do(cmdGet, key)
	record, there := v.Bulk()
	if !there {
		return false // it has only read
	}
	tx.Array(2)
	tx.Int(0)
	tx.Bulk(record)
	return true
}
