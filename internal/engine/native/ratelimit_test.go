package native_test

import (
	"encoding/binary"
	"fmt"
)

// window is one step in the history of a log of calls, or a few.
func (p picker) window(key string) [][]string {
	allow := func(most, least, limit int, window string) []string {
		args := []string{fmt.Sprint(most), fmt.Sprint(least), fmt.Sprint(limit), window}
		if p.one(4) {
			args = append(args, p.of("3", "20", p.number(100)), p.of("100000", "2000000", p.number(3_000_000)))
		}
		if p.one(30) {
			args[p.IntN(len(args))] = p.odd()
		}
		return p.eval("ratelimit.window", key, args...)
	}
	large := [][]string{allow(100, 0, 300, "60000000"), allow(30, 0, 300, "60000000"), allow(p.IntN(9), p.IntN(3), 300, "1000000")}
	switch p.IntN(30) {
	case 0:
		return [][]string{p.spoilWindow(key)}
	case 1: // larger than one read, and once around
		for range 40 {
			large = append(large, allow(p.IntN(9), p.IntN(2), 300, "60000000"), allow(p.IntN(3), 0, 150+p.IntN(99), "200000"))
		}
		return append(large, allow(1+p.IntN(2000), 0, 3000, "60000000"))
	case 2, 3, 4:
		return large[2:]
	}
	most := p.IntN(4)
	return [][]string{allow(most, p.IntN(3), 1+p.IntN(60), p.of("1000000", "300000", "20000000"))}
}

// spoilWindow writes to a log what no script does.
func (p picker) spoilWindow(key string) []string {
	log := func(head, slots, has int, first uint64) []string {
		b := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(head)), uint32(slots))
		for i := range has {
			b = binary.BigEndian.AppendUint64(b, first+uint64(i))
		}
		return []string{"SET", key, string(b)}
	}
	switch p.IntN(10) {
	case 0:
		return log(0, 0, 0, 0)
	case 1:
		return log(5, 5, 5, 1732147200123456)
	case 2:
		return log(1, 5, 4, 1732147200123456)
	case 3:
		if p.one(2) { // the last slot is missing, and the search passes it by
			return log(3, 100, 99, 1932147200123456)
		}
		return log(p.IntN(70), 100, 70, 1732147200123456)
	case 4: // ahead of the clock, or no time at all
		return log(2, 40, 40, uint64(p.IntN(2))*(1<<62)+1732199200123456)
	case 5:
		return []string{"LPUSH", key, "x"}
	case 6:
		return []string{"SET", key, p.of("", "x", "1234567", "123456789")}
	}
	return []string{"DEL", key}
}

// quota is one step in the history of an allowance.
func (p picker) quota(key string) [][]string {
	switch p.IntN(30) {
	case 0, 1: // the clock stepped back
		return [][]string{{"SET", key, fmt.Sprintf("%d %d", 1732147200+p.IntN(4000), p.IntN(30))}}
	case 2:
		return [][]string{pick(p, []string{"DEL", key}, []string{"LPUSH", key, "x"}, []string{"SET", key, p.of("x", "1732147200 3", "1732147200 03",
			"1732147205 7", "1732147200 99999999999999999", "1732147200", "1732147200 ", "1732147200  3", "1732147200 3 ", "1732147200 3 1732147200 4", "-5 3")})}
	}
	// The clock gets some 2400 s further in a history.
	first := 1732147200 + p.Int64N(2400)
	step := pick(p, []int64{100, 200, 300}, []int64{800, 1600, 2400}, []int64{800, 1600, 2400}, []int64{0, 0, 1000}, []int64{1000, 1 << 33, 1 << 34})
	limit := func() []string {
		l := []string{p.number(30)}
		for _, at := range append([]int64{0}, step...) {
			l = append(l, fmt.Sprint(first+at))
		}
		if p.one(30) {
			l[p.IntN(5)] = p.odd()
		}
		return l
	}
	args := append([]string{p.of("1", "1", p.number(5)), p.of("0", "1", p.number(5))}, limit()...)
	if p.one(8) {
		args = append(args, limit()...)
	}
	return [][]string{p.eval("ratelimit.quota", key, args...)}
}

// concurrency is one step in the history of calls under way.
func (p picker) concurrency(key string) [][]string {
	id := p.of("id1", "id2", "id3", "id4", "id5", "")
	ttl := p.of("60000000", "60000000", p.number(60_000_000))
	switch p.IntN(12) {
	case 0:
		return [][]string{pick(p, []string{"DEL", key}, []string{"DEL", key}, []string{"SET", key, "x"},
			[]string{"ZADD", key, p.of("1832147200123453", "1.5", "1832147200123453.5", "inf", "-inf", "0", "1"), id})}
	case 1, 2, 3, 4:
		return [][]string{p.eval("ratelimit.stay", key, id, "0")}
	case 5:
		return [][]string{p.eval("ratelimit.stay", key, id, p.of("0", ttl))}
	}
	return [][]string{p.eval("ratelimit.enter", key, id, ttl, p.of("3", "3", p.number(6)))}
}
