package native_test

import "fmt"

var stockKeys = []string{"", ":due", ":over"}

// stock is one step in the history of an item, or a few.
func (p picker) stock(key string) [][]string {
	id := fmt.Sprint(":", p.IntN(40))
	if p.one(50) {
		id = p.of("", "total", "available", "sold", "next", "tidy")
	}
	keep := p.of("3600000000", "3600000000", "2000000")
	call := func(name string, args ...string) []string {
		return p.evalOn(name, keysOf(key, stockKeys), args...)
	}
	reserve := func() []string {
		ttl := p.of("60000000", "60000000", "60000000", p.number(60_000_000))
		return call("stock.reserve", id, p.of("1", "2", p.number(12)), ttl, keep)
	}
	settle := func() []string { return call("stock.settle", id, p.of("1", "1", "2", "2", p.number(4)), keep) }
	switch p.IntN(20) {
	case 0:
		return [][]string{call("stock.count", p.of("add", "set"), p.of("40", p.number(100)), "1000000000000000", keep)}
	case 1:
		if p.one(3) {
			return [][]string{p.spoilStock(key, id), reserve(), settle()}
		}
		return [][]string{call("stock.count", "add", "0", "1000000000000000", keep)}
	case 2, 3, 4, 5, 6, 7, 8:
		return [][]string{reserve()}
	case 9, 10, 11, 12:
		return [][]string{settle()}
	case 13: // both again
		r := reserve()
		s := settle()
		return [][]string{r, r, s, s, r}
	}
	return [][]string{call("stock.reserve", id, "1", "60000000", keep), settle()}
}

// spoilStock writes to the keys of an item what no script does.
func (p picker) spoilStock(key, id string) []string {
	switch p.IntN(10) {
	case 0:
		return []string{"SET", key + p.of("", ":due"), p.odd()}
	case 1:
		return []string{"HSET", key, p.of("total", "available", "sold", "next", "tidy"), p.odd()}
	case 2:
		return []string{"HSET", key, id, p.of("", "x", "1", "11732147200123456", "1732147200123456", "1-000000000000001", "10000000000000001")}
	case 3:
		return []string{"ZADD", key + ":over", p.of("1", "1.5", "9e15", "inf", "1832147200123453", "1832147200123454", "-7"), id}
	case 4:
		return []string{"HDEL", key, p.of("total", "available", "sold", "next", "tidy", id)}
	case 5:
		return []string{"PEXPIRE", key + ":over", "100"}
	}
	return []string{"DEL", key, key + ":due", key + ":over"}
}
