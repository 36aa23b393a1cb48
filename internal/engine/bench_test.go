package engine

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

func benchmark(b *testing.B, name string, prepare func(*Session), args func(i int, a [][]byte) [][]byte) {
	b.Run(name, func(b *testing.B) {
		e := open(b, Options{})
		if prepare != nil {
			prepare(e.Session())
		}
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			s := e.Session()
			w := make([]byte, 0, 1024)
			a := make([][]byte, 0, 8)
			i := rand.IntN(1 << 20) // a benchmark: what it measures doesn't depend on it
			for pb.Next() {
				i += 7919
				w, _ = s.Do(w[:0], args(i, a[:0]))
			}
		})
	})
}

const benchKeys = 1 << 16

var benchKey, benchValue = func() (keys [benchKeys][]byte, v []byte) {
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key:%012d", i)
	}
	return keys, []byte("0123456789abcdef0123456789abcdef")
}()

func BenchmarkCommands(b *testing.B) {
	key := func(i int) []byte { return benchKey[i&(benchKeys-1)] }
	word := func(s string) []byte { return []byte(s) }
	set, get, incr, lpush, lpop, hset, sadd, zadd, field := word("SET"), word("GET"), word("INCR"), word("LPUSH"), word("RPOP"), word("HSET"), word("SADD"), word("ZADD"), word("f")
	benchmark(b, "SET", nil, func(i int, a [][]byte) [][]byte { return append(a, set, key(i), benchValue) })
	fill := func(s *Session) {
		for i := range benchKeys {
			s.Do(nil, [][]byte{set, key(i), benchValue})
		}
	}
	benchmark(b, "GET", fill, func(i int, a [][]byte) [][]byte { return append(a, get, key(i)) })
	benchmark(b, "INCR", nil, func(i int, a [][]byte) [][]byte { return append(a, incr, key(i)) })
	benchmark(b, "LPUSH+RPOP", nil, func(i int, a [][]byte) [][]byte {
		if i&1 == 0 {
			return append(a, lpush, key(i>>1), benchValue)
		}
		return append(a, lpop, key(i>>1))
	})
	benchmark(b, "HSET", nil, func(i int, a [][]byte) [][]byte { return append(a, hset, key(i), field, benchValue) })
	benchmark(b, "SADD", nil, func(i int, a [][]byte) [][]byte { return append(a, sadd, key(i), key(i>>1)) })
	one := word("myzset")
	var score [2][64][]byte
	for i := range 64 {
		score[0][i] = fmt.Appendf(nil, "%d.5", i)
	}
	benchmark(b, "ZADD/one-key", nil, func(i int, a [][]byte) [][]byte { return append(a, zadd, one, score[0][i>>3&63], key(i)) })
	benchmark(b, "ZADD/small", nil, func(i int, a [][]byte) [][]byte { return append(a, zadd, key(i>>6), score[0][i>>3&63], score[0][i&63]) })
	mset := word("MSET")
	benchmark(b, "MSET/3", nil, func(i int, a [][]byte) [][]byte {
		return append(a, mset, key(i), benchValue, key(i+1), benchValue, key(i+2), benchValue)
	})
}

// BenchmarkMemory tells the live bytes of a string and of a member among a
// million.
func BenchmarkMemory(b *testing.B) {
	live := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const n = 1_000_000
	for _, line := range []string{"SET key:%012[1]d 0123456789abcdef0123456789abcdef", "ZADD z %[1]d member:%012[1]d"} {
		b.Run(line[:4], func(b *testing.B) {
			for b.Loop() {
				e := open(b, Options{})
				s := e.Session()
				before := live()
				for i := range n {
					s.Do(nil, split(fmt.Sprintf(line, i)))
				}
				b.ReportMetric(float64(live()-before)/n, "bytes/each")
				runtime.KeepAlive(e)
			}
		})
	}
}
