package native_test

import (
	"encoding/binary"
	"fmt"
	"strings"
)

var (
	bloomKeys   = []string{"", ":log"}
	ttlhashKeys = []string{"", ":index", ":events"}
	geoKeys     = []string{"", ":points"}
)

// bloom is one step in the history of a shard of a filter.
func (p picker) bloom(key string) [][]string {
	keys := keysOf(key, bloomKeys)
	hashes := 1 + p.IntN(4)
	args := []string{p.of("16", "16", "16", p.number(20)), p.of("0", "0", "1"), p.of("0", "1732147200000000", "1732147800000000"),
		p.of("0", "0", "1732147503000000", "1832147200000000"), fmt.Sprint(hashes)}
	if p.one(12) {
		args[p.IntN(5)] = p.of("0", "33", "40", p.odd())
	}
	for range 1 + p.IntN(3) {
		item := []byte{}
		for range hashes + p.IntN(8)/7 - p.IntN(20)/19 {
			item = binary.LittleEndian.AppendUint32(item, uint32(p.IntN(128)))
		}
		args = append(args, string(item))
	}
	if p.one(20) {
		args = append(args, args[5], args[5], args[5], args[5], args[5], args[5], args[5])
	}
	switch p.IntN(12) {
	case 0:
		return [][]string{pick(p, []string{"DEL", keys[0]}, []string{"SET", keys[0], strings.Repeat("\x00", 15+p.IntN(4))}, []string{"SETRANGE", keys[0], "16", "\x00"},
			[]string{"LPUSH", keys[p.IntN(2)], "x"})}
	case 1, 2:
		return [][]string{{"SET", keys[0], strings.Repeat("\x00", 16)}}
	case 3:
		return [][]string{pick(p, []string{"DEL", keys[1]}, []string{"SET", keys[1], "x"}, []string{"SETRANGE", keys[1], "1048576", "x"})}
	}
	return [][]string{p.evalOn("bloom.add", keys, args...)}
}

// ttlhash is one step in the history of a hash whose fields expire.
func (p picker) ttlhash(key string) [][]string {
	keys := keysOf(key, ttlhashKeys)
	field := func() []string {
		return []string{p.of("f1", "f2", "f3", "f4", "f5"), p.of("", "value"), p.of("-1", "60000", "0", p.number(5000))}
	}
	native := p.of("1", "1", "1", "1", "0")
	args := append([]string{native, "0", "any"}, field()...)
	if p.one(8) {
		args[1], args[2] = p.of("0", "1"), p.of("any", "absent", "present")
	}
	if p.one(8) {
		args = append(args, field()...)
	}
	switch p.IntN(16) {
	case 0:
		return [][]string{append([]string{"DEL"}, keys...)}
	case 1:
		return [][]string{pick(p, []string{"SET", keys[0], "x"}, []string{"SET", keys[1], "x"}, []string{"PERSIST", keys[0]}, []string{"PEXPIRE", keys[0], "2000"},
			[]string{"ZADD", keys[1], "1", "x"}, []string{"DEL", keys[0]}, []string{"DEL", keys[1]})}
	case 2:
		return [][]string{p.evalOn("ttlhash.set", keys, append([]string{"0", "0", "any"}, field()...)...)}
	}
	return [][]string{p.evalOn("ttlhash.set", keys, args...)}
}

// bitmap is one step in the history of a shard of a map.
func (p picker) bitmap(key string) [][]string {
	switch p.IntN(10) {
	case 0:
		return [][]string{pick(p, []string{"DEL", key}, []string{"LPUSH", key, "x"})}
	case 1:
		return [][]string{{"DEL", key}}
	}
	args := []string{p.of("0", "1", "1"), p.of("0", "1"), p.of("0", "1732147205000", "1832147200000", "1")}
	for range 1 + p.IntN(3) {
		args = append(args, fmt.Sprint(p.IntN(200)))
	}
	if p.one(20) {
		args[p.IntN(len(args))] = p.of("", "x", "1.5", "-1", "01", "-0", "99999999999999999999")
	}
	if p.one(20) {
		for i := range 20 {
			args = append(args, fmt.Sprint(i))
		}
	}
	return [][]string{p.eval("bitmap.map_set", key, args...)}
}

// record is one step in the history of a record.
func (p picker) record(key string) [][]string {
	switch p.IntN(12) {
	case 0:
		return [][]string{pick(p, []string{"DEL", key}, []string{"LPUSH", key, "x"})}
	case 1:
		return [][]string{{"DEL", key}}
	}
	args := []string{p.of("0", "0", "1000", "60000", p.odd())}
	for range 1 + p.IntN(3) {
		if p.one(3) {
			args = append(args, "OVERFLOW", p.of("WRAP", "SAT", "FAIL", "FAIL"))
		}
		args = append(args, p.of("INCRBY", "INCRBY", "SET", "GET"), p.of("u4", "i5", "u8"), p.of("0", "3", "#2"))
		if args[len(args)-3] != "GET" {
			args = append(args, p.of("1", "3", "7", "-1"))
		}
	}
	if p.one(30) {
		args = append(args, p.of("x", "OVERFLOW"))
	}
	return [][]string{p.eval("bitmap.record_update", key, args...)}
}

// geo is one step in the history of a cell.
func (p picker) geo(key string) [][]string {
	keys := keysOf(key, geoKeys)
	switch p.IntN(12) {
	case 0:
		return [][]string{pick(p, []string{"DEL", keys[0]}, []string{"SET", keys[p.IntN(2)], "x"}, []string{"HSET", keys[0], "state", p.of("split", "frozen", "open"), "split", "x"})}
	case 1, 2:
		return [][]string{append([]string{"DEL"}, keys...), {"ZADD", keys[1], "1", "m1", "1", "m2"}, {"HSET", keys[0], "state", "open"}}
	}
	args := []string{}
	for range p.IntN(4) {
		args = append(args, p.of("m1", "m2", "m3"), p.of("3673983793218339", "3673983793218340", p.number(1<<52)))
	}
	if p.one(30) {
		for range 9 {
			args = append(args, "m1", "5")
		}
	}
	return [][]string{p.evalOn("geo.put", keys, args...)}
}
