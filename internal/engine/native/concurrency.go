package native

import "github.com/redoubt-go/redoubt/internal/engine"

var (
	cmdZrange      = engine.CommandOf("ZRANGE")
	cmdZrevrange   = engine.CommandOf("ZREVRANGE")
	wordWithscores = word("WITHSCORES")
)

// edge returns the lowest or the highest score of a sorted set, by ZRANGE or ZREVRANGE up to an index. It reports false
// if a score there is no integer.
func edge(tx *engine.Tx, command *engine.Command, key, to []byte) (score int64, there, ok bool) {
	v := tx.Do(command, key, wordZero, to, wordWithscores)
	n := v.Elements() / 2
	for i := range n {
		v.Bulk()
		b, _ := v.Bulk()
		at, ok := integer(b)
		if !ok {
			return 0, true, false
		}
		if i == 0 {
			score = at
		}
	}
	return score, n > 0, true
}

// enter is ratelimit/lua/enter.lua as long as no call has run out.
func enter(tx *engine.Tx) bool {
	if len(tx.Keys) != 1 || len(tx.Args) != 3 {
		return false
	}
	key, id := tx.Keys[0], tx.Args[0]
	var ttl, limit int64
	if !integers(tx.Args[1:], &ttl, &limit) || ttl < 1 || limit < 1 {
		return false
	}
	now := tx.Micros()
	var last, calls int64
	mine := false
	first, some, ok := edge(tx, cmdZrange, key, wordZero)
	if some {
		if !ok || first <= now {
			return false
		}
		if last, _, ok = edge(tx, cmdZrevrange, key, wordZero); !ok {
			return false
		}
		v := tx.Do(cmdZcard, key)
		calls = v.Int()
		v = tx.Do(cmdZscore, key, id)
		_, mine = v.Bulk()
	}
	tx.Do(cmdZremrangebyscore, key, wordLowest, digits(tx, now)) // none; but a user who may not do so is told
	if !mine && calls >= limit {
		answer(tx, 0, calls, first-now)
		return true
	}
	if !mine {
		tx.Do(cmdZadd, key, digits(tx, now+ttl), id)
		last, calls = max(last, now+ttl), calls+1
	}
	tx.Do(cmdPexpire, key, digits(tx, (last-now+999)/1000))
	answer(tx, 1, calls, 0)
	return true
}

// stay is ratelimit/lua/stay.lua.
func stay(tx *engine.Tx) bool {
	if len(tx.Keys) != 1 || len(tx.Args) != 2 {
		return false
	}
	key, id := tx.Keys[0], tx.Args[0]
	var ttl int64
	if !integers(tx.Args[1:], &ttl) || ttl < 0 {
		return false
	}
	now := tx.Micros()
	v := tx.Do(cmdZscore, key, id)
	till, ok := optional(&v)
	switch {
	case !ok:
		return false
	case till <= now:
		answer(tx, 0)
		return true
	case ttl == 0:
		tx.Do(cmdZrem, key, id)
		answer(tx, 1)
		return true
	}
	last, _, ok := edge(tx, cmdZrevrange, key, wordZero)
	if !ok {
		return false
	}
	till = max(till, now+ttl)
	tx.Do(cmdZadd, key, digits(tx, till), id)
	tx.Do(cmdPexpire, key, digits(tx, (max(last, till)-now+999)/1000))
	answer(tx, 1)
	return true
}
