package transfer

import (
	"fmt"
	"sync"
	"testing"
)

// TestKeysThatChange moves keys that get another value, with a time to live or
// without, all the while: none may arrive with what belongs to another of its
// values.
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
