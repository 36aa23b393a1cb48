package native

import (
	"encoding/binary"

	"github.com/redoubt-go/redoubt/internal/engine"
)

var (
	cmdPttl       = engine.CommandOf("PTTL")
	cmdPersist    = engine.CommandOf("PERSIST")
	cmdUnlink     = engine.CommandOf("UNLINK")
	cmdPexpireat  = engine.CommandOf("PEXPIREAT")
	cmdHpexpireat = engine.CommandOf("HPEXPIREAT")
	wordFields    = word("FIELDS")
	wordTwo       = word("2")
)

// mostTTL, in ms, keeps a deadline in the six bytes that it has.
const mostTTL = 1 << 46

// setField is ttlhash/lua/set.lua for one field without events, on a server that expires fields, while no chunk of the
// index is due.
func setField(tx *engine.Tx) bool {
	if len(tx.Keys) != 3 || len(tx.Args) != 6 || string(tx.Args[0]) != "1" || string(tx.Args[1]) != "0" || string(tx.Args[2]) != "any" {
		return false
	}
	hash, index, field, value := tx.Keys[0], tx.Keys[1], tx.Args[3], tx.Args[4]
	var ttl int64
	if !integers(tx.Args[5:], &ttl) || ttl > mostTTL || !tx.Holds(hash, "hash") {
		return false
	}
	us := tx.Micros()
	now := us / 1000
	v := tx.Do(cmdZrangebyscore, index, wordZero, digits(tx, now), wordLimit, wordZero, wordTwo)
	if v.Elements() > 0 {
		return false
	}
	v = tx.Do(cmdPttl, hash)
	left := v.Int()
	if left == -2 {
		tx.Do(cmdUnlink, index)
	}
	deadline := int64(0)
	if ttl >= 0 {
		deadline = (us+999)/1000 + ttl
	}
	payload := make([]byte, 8, 8+len(value))
	binary.BigEndian.PutUint64(payload, uint64(deadline)<<16) // and two bytes that say it is in no chunk
	tx.Do(cmdHset, hash, field, append(payload, value...))
	text := digits(tx, deadline)
	switch {
	case ttl >= 0:
		tx.Do(cmdHpexpireat, hash, text, wordFields, wordOne, field)
		if left >= 0 && now+left < deadline {
			tx.Do(cmdPexpireat, hash, text)
			tx.Do(cmdPexpireat, index, text)
		}
	case left >= 0:
		tx.Do(cmdPersist, hash)
		tx.Do(cmdPersist, index)
	}
	answer(tx, 1, us)
	return true
}
