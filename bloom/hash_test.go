package bloom_test

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/redoubt-go/redoubt/bloom"
	wire "github.com/redoubt-go/redoubt/internal/wire/bloom"
)

// slowMurmur is MurmurHash64A in whole numbers of any size, word by word as its
// description has it.
func slowMurmur(data []byte, seed uint64) uint64 {
	m := new(big.Int).SetUint64(0xc6a4a7935bd1e995)
	two64 := new(big.Int).Lsh(big.NewInt(1), 64)
	times := func(x uint64) uint64 {
		p := new(big.Int).Mul(new(big.Int).SetUint64(x), m)
		return p.Mod(p, two64).Uint64()
	}
	h := seed ^ times(uint64(len(data)))
	for len(data) >= 8 {
		k := times(binary.LittleEndian.Uint64(data))
		h = times(h ^ times(k^k>>47))
		data = data[8:]
	}
	if len(data) > 0 {
		var rest [8]byte
		copy(rest[:], data)
		h = times(h ^ binary.LittleEndian.Uint64(rest[:]))
	}
	h = times(h ^ h>>47)
	return h ^ h>>47
}

func TestMurmur(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for n := range 200 {
		data := make([]byte, n%41)
		for i := range data {
			data[i] = byte(rnd.Uint32())
		}
		seed := rnd.Uint64()
		if got, want := wire.Murmur64A(string(data), seed), slowMurmur(data, seed); got != want {
			t.Fatalf("%d bytes: %x, want %x", len(data), got, want)
		}
	}
}

// Later versions read the filters of this one: the places of items don't change.
func TestLayoutIsKept(t *testing.T) {
	for _, c := range []struct {
		spec bloom.Spec
		want string
	}{
		{bloom.Spec{Capacity: 1, ErrorRate: 0.5}, "1 1 1"},
		{bloom.Spec{Capacity: 1_000_000, ErrorRate: 0.01}, "19419 1 6"},
	} {
		b, s, h := bloom.Layout(c.spec)
		if got := fmt.Sprint(b, s, h); got != c.want {
			t.Errorf("%v: %s, want %s", c.spec, got, c.want)
		}
	}
	for _, spec := range []bloom.Spec{{Capacity: 100_000_000, ErrorRate: 0.03}, {Capacity: bloom.MaxCapacity, ErrorRate: bloom.MinErrorRate}} {
		blocks, shards, _ := bloom.Layout(spec)
		if n := blocks * 64 / int64(shards); n < 1<<20 || n > 8<<20 || blocks%int64(shards) != 0 {
			t.Errorf("%v: shards of %d bytes", spec, n)
		}
	}
}
