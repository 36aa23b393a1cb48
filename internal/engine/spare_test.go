package engine

import (
	"bytes"
	"fmt"
	"testing"
	"unsafe"

	"github.com/redoubt-go/redoubt/internal/sizeclass"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// TestSpares: a block that was kept is used for a string that nearly fills it, once; others are not kept.
func TestSpares(t *testing.T) {
	const most = 1 << 20
	var s spares
	s.keep(make([]byte, 32), most)
	s.keep(make([]byte, 100), most) // of no class
	s.keep(make([]byte, mostSpare+1<<11), most)
	if s.bytes != 0 {
		t.Errorf("%d bytes of blocks that are of no class", s.bytes)
	}
	for n := leastSpare; n <= mostSpare; n++ {
		size := int(sizeclass.Of(n))
		b := make([]byte, 0, size)
		s.keep(b, most)
		for _, less := range []int{n, n - n/8} {
			if less < leastSpare {
				continue
			}
			got := s.block(less)
			if unsafe.SliceData(got) != unsafe.SliceData(b) || len(got) != 0 || cap(got) != size {
				t.Fatalf("a block of %d bytes was kept, %d wanted, and %d of another given", size, less, cap(got))
			}
			if again := s.block(less); unsafe.SliceData(again) == unsafe.SliceData(b) || cap(again) < less {
				t.Fatalf("block of %d bytes given twice", size)
			}
			s.keep(got, most)
		}
		if more := s.block(size + 1); cap(more) <= size {
			t.Fatalf("%d bytes for %d", cap(more), size+1)
		}
		if less := s.block(max(n/2-32, leastSpare)); size > 80 && unsafe.SliceData(less) == unsafe.SliceData(b) {
			t.Fatalf("block of %d bytes given for %d", size, n/2)
		}
		s.block(n)
		if s.bytes != 0 || s.classes != 0 {
			t.Fatalf("%d bytes and classes %b are left", s.bytes, s.classes)
		}
	}
	s.keep(make([]byte, 64), 100)
	s.keep(make([]byte, 64), 100)
	if s.bytes != 64 {
		t.Errorf("%d bytes kept of at most 100", s.bytes)
	}
}

// TestStringsOfChangingLength: keys of one shard have the last value that was set.
func TestStringsOfChangingLength(t *testing.T) {
	s := open(t, Options{}).Session()
	r, steps := randtest.Rand(t), randtest.Watch(t)
	values := map[string][]byte{}
	for i := range 20000 {
		key := fmt.Sprintf("{k}%d", r.IntN(100))
		val := bytes.Repeat([]byte{byte('a' + i%26)}, r.IntN(1<<r.IntN(12)))
		steps.Begin(func() string { return fmt.Sprintf("SET %s of %d bytes", key, len(val)) })
		switch r.IntN(4) {
		case 0:
			run(s, "DEL "+key)
			delete(values, key)
		case 1:
			run(s, "APPEND "+key+" "+string(val)+"x")
			values[key] = append(values[key], string(val)+"x"...)
		default:
			if len(val) == 0 {
				continue
			}
			run(s, "SET "+key+" "+string(val))
			values[key] = val
		}
	}
	for key, val := range values {
		want(t, s, "GET "+key, fmt.Sprintf("$%d\r\n%s\r\n", len(val), val))
	}
	if s.e.shards[shardOf([]byte("{k}"))].dbs[0].spares == nil {
		t.Error("no block was kept")
	}
}

// TestSparesAreBounded: strings that grow leave blocks, of at most the share of the keyspace that docs/engine.md states.
func TestSparesAreBounded(t *testing.T) {
	s := open(t, Options{}).Session()
	ks := func() *keyspace { return s.e.shards[shardOf([]byte("{k}"))].dbs[0] }
	kept := false
	for size := 40; size <= 4000; size += 40 {
		for key := range 100 {
			run(s, fmt.Sprintf("SET {k}%d %s", key, xs(size)))
			if sp := ks().spares; sp != nil {
				kept = kept || sp.bytes > 0
				if sp.bytes > ks().used/32 {
					t.Fatalf("%d spare bytes beside %d of keys", sp.bytes, ks().used)
				}
			}
		}
	}
	if !kept {
		t.Error("no block was kept")
	}
}
