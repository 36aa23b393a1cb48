package native_test

import (
	"fmt"
	"slices"
)

// eval calls a script of one key.
func (p picker) eval(name, key string, args ...string) []string {
	return p.evalOn(name, []string{key}, args...)
}

// evalOn calls a script, now and then with arguments missing.
func (p picker) evalOn(name string, keys []string, args ...string) []string {
	if p.one(60) {
		args = args[:p.IntN(len(args)+1)]
	}
	return slices.Concat([]string{"EVALSHA", script(name).Digest(), fmt.Sprint(len(keys))}, keys, args)
}

// lock is one step in the history of a lock, or a few. Somebody listens to ch1
// and ch2; there are more dead waiters than one release tries to wake.
func (p picker) lock(key string) [][]string {
	id := p.of("id1", "id2", "id3", "id4", "id5", "")
	ttl := fmt.Sprint(p.IntN(3) * p.IntN(2_000_000))
	switch {
	case p.one(25):
		ttl = p.odd()
	case p.one(3):
		ttl = "60000000"
	}
	keep := p.number(70000)
	acquire := func(id, waiter string) []string {
		return p.eval("lock.acquire", key, id, ttl, keep, p.of("", "label"), waiter)
	}
	if p.one(30) { // some ask in order, until they have been served
		fair := func(id, waiter string) []string {
			return p.eval("lock.fair", key, id, "1000", "61000", "", waiter, "="+id, key+id+"!")
		}
		steps := [][]string{acquire(id, ""), fair("id1", "PUBLISH ch1"), fair("id2", "PUBLISH dead1"), fair("id3", "PUBLISH ch1"),
			acquire("id4", p.waiter()), p.eval("lock.release", key, id, p.of("=id1", "=id2", "=id3"), "1"), p.eval("lock.release", key, id, p.waiter(), "0")}
		for _, id := range []string{"id1", "id2", "id3"} {
			steps = append(steps, p.eval("lock.release", key, id, "", "1"))
		}
		return steps
	}
	switch p.IntN(14) {
	case 0, 1, 2, 3:
		return [][]string{acquire(id, p.waiter())}
	case 4:
		extend := p.eval("lock.extend", key, id, ttl, keep)
		return [][]string{extend, extend}
	case 5, 6, 7:
		return [][]string{p.eval("lock.release", key, id, p.waiter(), p.of("0", "1", "1"))}
	case 8, 9:
		return [][]string{{"HGETALL", key}}
	case 10:
		if p.one(4) { // a waiter whose acquire ends the key
			keep = p.of("0", "-1")
			return [][]string{{"HSET", key, "until", "0"}, acquire("id7", "PUBLISH dead"+p.of("0", "1", "2", "3", "4", "5"))}
		}
		return [][]string{p.spoil(key), {"HGETALL", key}}
	case 11:
		if !p.one(20) {
			return nil
		}
		steps := [][]string{{"DEL", key}}
		for i := range 40 + p.IntN(50) {
			ttl, keep = "1000000000", "1060000"
			steps = append(steps, acquire(id, fmt.Sprint("PUBLISH dead", i)))
			id = "another"
		}
		return append(steps, acquire(id, "PUBLISH ch1"), []string{"HGETALL", key}, []string{"HSET", key, "until", "0"},
			p.eval("lock.release", key, "nobody", "PUBLISH dead20", "1"), p.eval("lock.release", key, "nobody", "", "0"))
	default:
		return [][]string{acquire(id, ""), acquire("id6", p.waiter()), p.eval("lock.release", key, id, "", "0")}
	}
}

func (p picker) waiter() string {
	switch {
	case p.one(60):
		return p.of("nonsense", "GET x", "tail", "until", "PUBLISH", "PUBLISH ", "PUBLISH two\nlines", "publish ch1", "X PUBLISH ch1")
	case p.one(2):
		return fmt.Sprint(p.of("PUBLISH dead", "SPUBLISH dead"), p.IntN(6))
	}
	return p.of("", "PUBLISH ch1", "SPUBLISH ch2", "PUBLISH with blanks")
}

// spoil writes to a key what no script does.
func (p picker) spoil(key string) []string {
	field := p.of("1", "2", "3", "4", "5", "PUBLISH ch1", "SPUBLISH ch2", "PUBLISH dead1")
	switch p.IntN(16) {
	case 0:
		return []string{"SET", key, p.odd()}
	case 1:
		return []string{"LPUSH", key, "x"}
	case 2:
		return []string{"HSET", key, p.of("until", "fence", "label", "last", "void", "head", "tail"), p.odd()}
	case 3:
		return []string{"HSET", key, p.of("head", "tail"), p.of("", "x", "1.5", "-1", "0", "01", "3", "70", "00")}
	case 4:
		return []string{"HSET", key, "until", "1732199299000000", "fence", fmt.Sprint(1732147200123456 + p.Int64N(1e12))}
	case 5:
		return []string{"HSET", key, "until", "1732199299000000"}
	case 6:
		return []string{"HDEL", key, p.of("fence", "label", "head", "tail", "until", "id")}
	case 7, 8:
		return []string{"HDEL", key, field}
	case 9:
		return []string{"HSET", key, field, p.of("", "x", "1", "3", "4", "PUBLISH ch1", "PUBLISH dead1", "01", "GET x")}
	}
	return []string{"DEL", key}
}

// gcra is one step in the history of a limit.
func (p picker) gcra(key string) [][]string {
	inc := p.of("0", "0", "0", "1", "2", "-1", "-3")
	if p.one(30) {
		inc = p.odd()
	}
	nanos := p.number(1_000_000_000)
	if p.one(4) {
		nanos = p.of("0", "1", "1000000", "1000001", "999999999")
	}
	switch p.IntN(40) {
	case 0:
		return [][]string{{"SET", key, p.of("x", p.odd(), "1732147200123456000", "1732147290000000001", "1732147200", "5", "1732147290000000001 1732147200000000000")}}
	case 1:
		return [][]string{{"LPUSH", key, "x"}}
	case 2, 3:
		return [][]string{{"DEL", key}}
	}
	args := []string{p.of("0", "0", "0", "1", "3", "1000000000000"), p.of("0", "0", "1", "999999999"), inc, nanos, p.number(5), p.number(1_000_000_000)}
	if p.one(8) {
		args = append(args, inc, "0", p.number(9), "0")
	}
	return [][]string{p.eval("ratelimit.gcra", key, args...)}
}
