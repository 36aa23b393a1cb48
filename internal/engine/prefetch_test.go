package engine

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
)

// shownItem finds a key as Prefetch does.
func shownItem(e *Engine, db int, key string) *item {
	t := e.shards[shardOf([]byte(key))].shown[db].Load()
	if t == nil {
		return nil
	}
	h := hashOf([]byte(key))
	for it := t.head(uint64(h) & t.mask); it != nil; it = it.next {
		if it.key == key {
			return it
		}
	}
	return nil
}

// TestPrefetchFindsKeys wants Prefetch to look where the keys are: after growth, shrinking, SWAPDB and FLUSHDB.
func TestPrefetchFindsKeys(t *testing.T) {
	const n = 50000
	e := open(t, Options{})
	s := e.Session()
	found := func(db, from, to int) (n int) {
		for i := from; i < to; i++ {
			if shownItem(e, db, fmt.Sprint("key:", i)) != nil {
				n++
			}
		}
		return n
	}
	settle := func() { // resizes go on with each command
		for range 20 {
			for i := range n {
				run(s, "GET key:"+strconv.Itoa(i))
			}
		}
	}
	for i := range n {
		run(s, "SET key:"+strconv.Itoa(i)+" v")
	}
	settle()
	if got := found(0, 0, n); got != n {
		t.Errorf("after growth %d of %d keys are found", got, n)
	}
	run(s, "SWAPDB 0 3")
	if got := found(3, 0, n) - found(0, 0, n); got != n {
		t.Errorf("after SWAPDB %d of %d keys are found", got, n)
	}
	run(s, "SELECT 3")
	for i := n / 100; i < n; i++ {
		run(s, "DEL key:"+strconv.Itoa(i))
	}
	settle()
	if got := found(3, 0, n); got != n/100 {
		t.Errorf("after shrinking %d of %d keys are found", got, n/100)
	}
	run(s, "FLUSHDB")
	if got := found(3, 0, n); got != 0 {
		t.Errorf("after FLUSHDB %d keys are found", got)
	}
}

// TestPrefetchBesideWrites is for the race detector: Prefetch takes no lock.
func TestPrefetchBesideWrites(t *testing.T) {
	e := open(t, Options{})
	var writers sync.WaitGroup
	writers.Go(func() {
		s := e.Session()
		for i := range 20000 {
			key := "key:" + strconv.Itoa(i%3000)
			switch {
			case i%7 == 0:
				run(s, "DEL "+key)
			case i%5000 == 4999:
				run(s, "FLUSHDB")
			case i%3000 == 2999:
				run(s, "SWAPDB 0 1")
			default:
				run(s, "INCR "+key)
			}
		}
	})
	written := make(chan struct{})
	go func() {
		writers.Wait()
		close(written)
	}()
	s := e.Session()
	keys := make([][]byte, 40)
	for i := 0; ; i++ {
		select {
		case <-written:
			return
		default:
		}
		for j := range keys {
			keys[j] = []byte("key:" + strconv.Itoa((i*len(keys)+j)%3000))
		}
		s.Prefetch(keys, keys)
	}
}

// TestPrefetchTellsItsUse wants a session that repeats commands on one small key to hear that it looks ahead in vain.
func TestPrefetchTellsItsUse(t *testing.T) {
	e := open(t, Options{})
	s := e.Session()
	run(s, "RPUSH list a b c")
	run(s, "HSET small f v")
	run(s, "SADD set a")
	for i := range 1000 {
		run(s, sprint("HSET large f%d v", i))
		run(s, sprint("SADD set m%d", i))
	}
	for _, c := range []struct {
		keys, members string
		useful        bool
	}{
		{"list list list list list", "a a a a a", false},
		{"small small small small", "f f f f", false},
		{"none none none none", "f f f f", false},
		{"large large large large", "f1 f2 f3 f4", true},
		{"set set set set", "m1 m2 m3 m4", true},
		{"list small", "a f", true},
	} {
		if useful := s.Prefetch(split(c.keys), split(c.members)); useful != c.useful {
			t.Errorf("%s: useful is %v", c.keys, useful)
		}
	}
}
