package native_test

import "fmt"

var (
	semaphoreKeys = []string{"", ":permits"}
	rwmutexKeys   = []string{"", ":readers", ":labels"}
)

// semaphore is one step in the history of a semaphore, or a few.
func (p picker) semaphore(key string) [][]string {
	id := p.of("=id1", "=id2", "=id3", "=id4", "=id5", fmt.Sprint("=", p.IntN(200)))
	if p.one(50) {
		id = p.of("", "fence", "head")
	}
	keys := keysOf(key, semaphoreKeys)
	acquire := func(id string) []string {
		waiter := ""
		if p.one(15) {
			waiter = p.waiter()
		}
		ttl := p.of("60000000", "60000000", "60000000", p.number(3_000_000))
		return p.evalOn("lock.sem_acquire", keys, id, ttl, p.of("", "label"), waiter, p.of("9", "9", "9", p.number(9)))
	}
	release := func(id, how string) []string {
		waiter := ""
		if p.one(12) {
			waiter = p.waiter()
		}
		return p.evalOn("lock.sem_release", keys, id, waiter, how, p.of("4", p.number(6)))
	}
	switch p.IntN(20) {
	case 0:
		return [][]string{acquire(id), p.spoilSemaphore(key, id), acquire(id), release(id, "0")}
	case 1, 2:
		return [][]string{{"DEL", key, key + ":permits"}}
	case 3, 4, 5, 6:
		return [][]string{acquire(id)}
	case 7, 8, 9, 10, 11:
		return [][]string{release(id, p.of("0", "0", "0", "1", "2", "x"))}
	case 12:
		return [][]string{acquire(id), acquire(id), release(id, "0"), release(id, p.of("0", "1")), acquire(id)}
	}
	steps, n := [][]string{}, 4
	if p.one(60) { // until more are over than are remembered
		n = 140
	}
	for range n {
		id := fmt.Sprint("=", p.IntN(100_000))
		steps = append(steps, acquire(id), release(id, "0"))
	}
	return steps
}

// spoilSemaphore writes to the keys of a semaphore what no script does.
func (p picker) spoilSemaphore(key, id string) []string {
	score := p.of("1832147200123453", "1832147200123453.5", "inf", "-7", "-8", "-7.5", "0", "1")
	switch p.IntN(7) {
	case 0:
		return []string{"SET", key + p.of("", ":permits"), "x"}
	case 1:
		return []string{"HSET", key, p.of("fence", "head", "tail", id), p.odd()}
	case 2:
		return []string{"HDEL", key, p.of("fence", "head", "tail", id)}
	case 3:
		return []string{"ZADD", key + ":permits", score, id}
	case 4:
		return []string{"ZADD", key + ":permits", score, p.of("", "=other", "=id1")}
	case 5:
		return []string{"HSET", key, id, p.odd()}
	}
	return []string{"HSET", key, p.of("", "PUBLISH ch1"), p.of("1", "x")}
}

// rwmutex is one step in the history of a lock that has readers and writers, or a few.
func (p picker) rwmutex(key string) [][]string {
	id := p.of("id1", "id2", "id3", "id4", "id5", "id6")
	if p.one(50) {
		id = p.of("", "g1")
	}
	keys := keysOf(key, rwmutexKeys)
	ttl := func() string { return p.of("60000000", "60000000", "60000000", p.number(3_000_000)) }
	waiter := func(in int) string {
		if p.one(in) {
			return p.waiter()
		}
		return ""
	}
	read := func(id string) []string {
		return p.evalOn("lock.rw_read", keys, id, ttl(), p.of("", "label"), waiter(6), p.of("g1", "g2", "g3"))
	}
	write := func(id string) []string {
		return p.evalOn("lock.acquire", keys, id, ttl(), "61000", "", waiter(3))
	}
	release := func(id, how string) []string {
		return p.evalOn("lock.rw_release", keys, id, waiter(15), how)
	}
	switch p.IntN(30) {
	case 0:
		return [][]string{p.spoilRWMutex(key, id), read(id), release(id, "0")}
	case 1, 2, 3:
		return [][]string{{"DEL", keys[0], keys[1], keys[2]}}
	case 4, 5:
		return [][]string{write(id), write("id7"), release(id, p.of("0", "0", "1"))}
	case 6:
		return [][]string{p.evalOn("lock.rw_claim", keys[:1], id, "1000000"), release(id, p.of("0", "1"))}
	case 7, 8, 9:
		return [][]string{release(id, p.of("0", "0", "0", "1", "2", "3", "4"))}
	case 10, 11, 12:
		return [][]string{read(id), release(id, p.of("0", "0", "1", "2"))}
	case 13:
		return [][]string{read(id), read(id), release(id, "0"), release(id, p.of("0", "2")), read(id)}
	case 14:
		steps := [][]string{{"DEL", keys[0], keys[1], keys[2]}}
		for i := range 140 { // more are over than are remembered
			id := fmt.Sprint("r", i)
			steps = append(steps, read(id), release(id, "0"))
		}
		if p.one(12) {
			return steps
		}
		return steps[:5]
	}
	return [][]string{read(id)}
}

// spoilRWMutex writes to the keys of a lock what no script does.
func (p picker) spoilRWMutex(key, id string) []string {
	switch p.IntN(6) {
	case 0:
		return []string{"SET", key + p.of(rwmutexKeys...), "x"}
	case 1:
		return []string{"HSET", key, p.of("fence", "until", "head", "tail", "claim", "fair_first", "shared"), p.of("", "x", "1832147200123453", p.odd())}
	case 2:
		return []string{"HDEL", key, p.of("fence", "until", "id", "shared")}
	case 3:
		return []string{"ZADD", key + ":readers", p.of("1832147200123453", "1832147200123453.5", "inf", "-7", "-7.5", "0", "1"), p.of("", "other", id)}
	case 4:
		return []string{"HSET", key, "id", p.of("g1", id), "shared", p.of("g1", id), "until", "1832147200123453"}
	}
	return []string{"HSET", key, p.of("", "PUBLISH ch1"), p.of("1", "x")}
}
