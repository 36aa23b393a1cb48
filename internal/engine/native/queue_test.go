package native_test

import (
	"fmt"
	"strings"
)

var queueKeys = []string{"", ":ready", ":groups", ":due", ":dead", ":fails", ":wake", ":leases", ":config", ":blocked", ":links", ":ended", ":c1"}

// queue is one step in the history of a queue, or a few.
func (p picker) queue(key string) [][]string {
	keys := keysOf(key, queueKeys)
	id := func() string { return fmt.Sprint("m", p.IntN(60)) }
	take := func() string { return fmt.Sprintf("take%012d", p.IntN(20)) }
	put := func() []string {
		when := "0"
		if p.one(15) {
			when = p.of("-1", "-500", "1732147300000", "1", p.odd())
		}
		args := []string{id(), when, "0", p.envelope()}
		if p.one(15) {
			args = append(args, id(), "0", "0", p.envelope())
		}
		return p.evalOn("queue.put", keys[:7], args...)
	}
	pump := func(settled ...string) []string {
		n := p.of("1", "1", "3", "10", "100", "0", "-1")
		lease := p.of("30000", "30000", p.number(3000))
		flags := p.of("0", "0", "0", "2", "1")
		if p.one(40) {
			flags = p.odd()
		}
		args := append([]string{take(), n, lease, fmt.Sprint(len(settled)), "0", flags}, settled...)
		if p.one(25) { // it failed
			args[3] = "0"
			args = append(args[:6], take()+id(), p.of("fail", "back", "snooze", "dead"), "-1", "why")
		}
		return p.evalOn("queue.pump", keys, args...)
	}
	switch p.IntN(24) {
	case 0:
		if p.one(2) {
			return [][]string{p.spoilQueue(key), put(), pump(), pump(take() + id())}
		}
		return [][]string{append([]string{"DEL"}, keys...)}
	case 1: // no message has failed, and nobody holds one
		return [][]string{{"DEL", keys[5], keys[7]}, put(), pump()}
	case 2:
		steps := [][]string{{"DEL", keys[5]}}
		for range 40 {
			steps = append(steps, put())
		}
		return append(steps, pump())
	case 3:
		return [][]string{pump(take()+id(), take()+id())}
	case 4, 5, 6, 7, 8:
		return [][]string{put()}
	case 9, 10, 11, 12:
		return [][]string{pump()}
	case 13:
		return [][]string{pump(p.of("", "short", take()+id()))}
	case 14, 15:
		return [][]string{append([]string{"DEL"}, keys...), put(), put(), pump(), pump()}
	}
	// As Work does it.
	m := fmt.Sprint("w", p.IntN(1000))
	t1, t2 := take(), take()
	steps := [][]string{
		p.evalOn("queue.put", keys[:7], m, "0", "0", p.envelope()),
		p.evalOn("queue.pump", keys, t1, "1", "30000", "0", "0", "0"),
	}
	if p.one(20) { // extended
		steps = append(steps, []string{"PEXPIRE", keys[12], "1"}, []string{pause})
	}
	if p.one(4) { // another put, and took its message away
		steps = append(steps, []string{"ZADD", keys[6], "0", "1"})
	}
	return append(steps,
		p.evalOn("queue.pump", keys, t2, p.of("1", "0", "5"), "30000", "1", "0", "0", t1+m))
}

// envelope is mostly that of a message without a group.
func (p picker) envelope() string {
	switch {
	case p.one(40):
		return p.of("", "\x06\x00\x00\x02grtext", "\x04\x00\x00\x09", "\x10", "\xff", "\x08\x00\x00x")
	case p.one(40):
		return "\x02\x00\x00" + strings.Repeat("x", 20_000*p.IntN(6))
	}
	return p.of("\x00", "\x01", "\x02", "\x03", "\x0a") + "\x00\x0amessage"
}

// spoilQueue writes to the keys of a queue what no script does.
func (p picker) spoilQueue(key string) []string {
	at := p.of(queueKeys...)
	switch p.IntN(8) {
	case 0:
		return []string{"SET", key + at, p.of("x", "take000000000001")}
	case 1:
		return []string{"LPUSH", key + at, "x"}
	case 2:
		return []string{"HSET", key + ":config", p.of("paused", "concurrency", "interval_us", "burst", "tat_us"), p.of("1", "5")}
	case 3:
		return []string{"ZADD", key + ":ready", p.of("1.5", "-1", "inf", "4503599627370496", "9007199254740991", "4611686018427387904"), fmt.Sprint("m", p.IntN(60))}
	case 4:
		return []string{"ZADD", key + p.of(":leases", ":due"), p.of("1732147200000.5", "inf", "-1", "1832147200000", "1"), fmt.Sprintf("take%012dm%d", p.IntN(20), p.IntN(60))}
	case 5:
		return []string{"HDEL", key, fmt.Sprint("m", p.IntN(60)), fmt.Sprint("m", p.IntN(60)), fmt.Sprint("m", p.IntN(60))}
	case 6:
		return []string{"ZADD", key + ":ready", "0", "gone"}
	}
	return []string{"DEL", key + at}
}
