package stream

import (
	"runtime"
	"testing"
	"time"
)

// heap returns the bytes in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what finalizers kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestStreamMemoryIsReal compares the count of bytes with what Go allocates.
func TestStreamMemoryIsReal(t *testing.T) {
	const n = 200_000
	before := heap()
	s := New()
	for i := range n {
		s.Add(DefaultLimits, ID{MS: 1_700_000_000_000 + uint64(3*i)}, [][]byte{[]byte("f"), []byte("01234567ab")})
	}
	g := s.AddGroup([]byte("g"), ID{}, 0)
	c := g.AddConsumer([]byte("c"), time.Now().UnixMilli())
	for cur := s.Range(ID{}, Largest); cur.Next(); {
		g.Put(Pending{ID: cur.ID(), Consumer: c, Count: 1})
	}
	taken := heap() - before
	if counted := float64(s.Bytes()); float64(taken) > 1.1*counted || float64(taken) < 0.9*counted {
		t.Errorf("%d bytes are allocated, %.0f counted", taken, counted)
	}
	runtime.KeepAlive(s)
}
