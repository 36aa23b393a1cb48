package native

import (
	"github.com/redoubt-go/redoubt/internal/engine"
)

var (
	cmdZadd   = engine.CommandOf("ZADD")
	cmdZrem   = engine.CommandOf("ZREM")
	cmdZcard  = engine.CommandOf("ZCARD")
	cmdZscore = engine.CommandOf("ZSCORE")

	wordTotal     = word("total")
	wordAvailable = word("available")
	wordSold      = word("sold")
	wordNext      = word("next")
	wordTidy      = word("tidy")
)

// deadlineDigits is how many digits of a reservation say when it runs out.
const deadlineDigits = 16

// reservation reads a field of an item's hash: its units, and when they run out.
func reservation(b []byte) (n, until int64, ok bool) {
	at := len(b) - deadlineDigits
	if at < 1 {
		return 0, 0, false
	}
	n, ok1 := integer(b[:at])
	until, ok2 := integer(b[at:])
	return n, until, ok1 && ok2
}

// reserve is stock/lua/reserve.lua as long as nothing has run out that it could
// put back.
func reserve(tx *engine.Tx) bool {
	if len(tx.Keys) != 3 || len(tx.Args) != 4 {
		return false
	}
	id := tx.Args[0]
	var n, ttl int64
	if !integers(tx.Args[1:], &n, &ttl) || n < 1 || ttl < 1 {
		return false
	}
	now := tx.Micros()
	v := tx.Do(cmdHmget, tx.Keys[0], wordTotal, wordAvailable, wordSold, wordNext, id)
	v.Elements()
	total, ok1 := optional(&v)
	available, ok2 := optional(&v)
	sold, ok3 := optional(&v)
	next, ok4 := optional(&v)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return false
	}
	unsold := total - sold
	if held, there := v.Bulk(); there {
		had, until, ok := reservation(held)
		switch left := until - now; {
		case !ok:
			return false
		case left <= 0: // it ends
			return false
		default:
			answer(tx, 1, had, left, available, unsold-available, 0)
		}
		return true
	}
	v = tx.Do(cmdZscore, tx.Keys[2], id)
	over, ok := optional(&v)
	switch {
	case !ok || over <= now && next > 0 && next <= now:
		return false
	case over > now:
		how := over % 10
		if how == 4 {
			how = 2
		}
		answer(tx, -how, 0, 0, available, unsold-available, 0)
		return true
	case available < n:
		wait := int64(0)
		if unsold > available {
			wait = max(next-now, 0)
		}
		answer(tx, 0, 0, 0, available, unsold-available, wait)
		return true
	}
	if !tx.Holds(tx.Keys[1], "zset") {
		return false
	}
	available -= n
	until := now + ttl
	deadline := digits(tx, until)
	if len(deadline) != deadlineDigits {
		return false
	}
	tx.Do(cmdHset, tx.Keys[0], wordAvailable, digits(tx, available), id, append(digits(tx, n), deadline...))
	tx.Do(cmdZadd, tx.Keys[1], deadline, id)
	if next == 0 || until < next {
		tx.Do(cmdHset, tx.Keys[0], wordNext, deadline)
	}
	answer(tx, 1, n, ttl, available, unsold-available, 0)
	return true
}

// settle is stock/lua/settle.lua, but for the one call a minute that forgets ids.
func settle(tx *engine.Tx) bool {
	if len(tx.Keys) != 3 || len(tx.Args) != 3 {
		return false
	}
	id := tx.Args[0]
	var how, keepUS int64
	if !integers(tx.Args[1:], &how, &keepUS) || how < 1 || how > 2 || keepUS < 0 {
		return false
	}
	now := tx.Micros()
	v := tx.Do(cmdHmget, tx.Keys[0], wordAvailable, wordSold, wordTidy, id)
	v.Elements()
	available, ok1 := optional(&v)
	sold, ok2 := optional(&v)
	tidy, ok3 := optional(&v)
	if !ok1 || !ok2 || !ok3 {
		return false
	}
	held, there := v.Bulk()
	var n int64
	if there {
		units, until, ok := reservation(held)
		if !ok {
			return false
		}
		if n = units; until <= now {
			how = 3
		}
		if !tx.Holds(tx.Keys[1], "zset") || !tx.Holds(tx.Keys[2], "zset") {
			return false
		}
	} else {
		v = tx.Do(cmdZscore, tx.Keys[2], id)
		over, ok := optional(&v)
		switch {
		case !ok:
			return false
		case over > now:
			answer(tx, over%10%4)
			return true
		case how == 1:
			answer(tx, 0)
			return true
		}
		how = 4
	}
	if tidy <= now || tidy > now+60_000_000 {
		return false
	}
	if there {
		if how == 1 {
			tx.Do(cmdHset, tx.Keys[0], wordSold, digits(tx, sold+n))
		} else {
			tx.Do(cmdHset, tx.Keys[0], wordAvailable, digits(tx, available+n))
		}
		tx.Do(cmdHdel, tx.Keys[0], id)
		tx.Do(cmdZrem, tx.Keys[1], id)
	}
	tx.Do(cmdZadd, tx.Keys[2], digits(tx, (now+keepUS)/10*10+how), id)
	answer(tx, how%4)
	return true
}
