package transfer

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/redoubt-go/redoubt/internal/rdb"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// TestLargeValuesBehindSmallOnes: a move reads a limited number of bytes at a time, even where many large values
// follow many small ones.
func TestLargeValuesBehindSmallOnes(t *testing.T) {
	redis, _ := startRedis(t)
	r := randtest.Rand(t)
	for name, from := range map[string]*store{"redis": redis, "engine": startEngine(t)} {
		large := strings.Repeat("0123456789abcdef", 64<<10) // 1 MiB
		for i := range 3000 {
			from.must("SET", fmt.Sprint("small", i), "v")
			if i%100 == 0 {
				from.must("RPUSH", fmt.Sprint("large", i), large+fmt.Sprint(r.Uint64()), large+fmt.Sprint(r.Uint64()))
			}
		}
		n, most := 0, 0
		var gone int64
		err := from.server(0).each(t.Context(), &gone, func(batch []rdb.Entry) error {
			bytes := 0
			for _, e := range batch {
				bytes += strings.Count(string(e.Key), "large") * 2 << 20
			}
			n, most = n+len(batch), max(most, bytes)
			return nil
		})
		if err != nil || n != 3030 {
			t.Errorf("%s: %d keys, %v", name, n, err)
		}
		if most > batchBytes {
			t.Errorf("%s: %d MiB at once", name, most>>20)
		}
	}
}

// TestKeysThatChange moves keys while another client changes their values and expiry times: no key may arrive
// with the value of one moment and the expiry time of another.
func TestKeysThatChange(t *testing.T) {
	from := startEngine(t)
	set := func(s *store, i int, mortal bool) {
		if key := fmt.Sprint("k", i); mortal {
			s.must("SET", key, "mortal", "PX", "1000000")
		} else {
			s.must("SET", key, "immortal")
		}
	}
	const keys = 8
	for i := range keys {
		set(from, i, false)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	stop := make(chan struct{})
	defer close(stop)
	changer := open(t, from.b)
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				set(changer, i%keys, i/keys%2 == 0)
			}
		}
	})
	to := startEngine(t)
	for range 300 {
		mustMove(t, from.server(AnyDatabase), to.server(AnyDatabase), Options{Replace: true}, keys)
		for i := range keys {
			key := fmt.Sprint("k", i)
			value, ttl := to.must("GET", key), to.must("PTTL", key)
			if (value == "mortal") != (ttl != int64(-1)) {
				t.Fatalf("%s is %v and has %v ms to live", key, value, ttl)
			}
		}
	}
}
