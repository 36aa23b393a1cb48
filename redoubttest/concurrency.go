package redoubttest

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
)

// parallel runs f in n goroutines and waits for them.
func parallel(t *testing.T, n int, f func(g int)) {
	t.Helper()
	var wg sync.WaitGroup
	for g := range n {
		wg.Go(func() { f(g) })
	}
	wg.Wait()
}

func testConcurrency(t *testing.T, open func(*testing.T) redoubt.Conn) {
	t.Run("counts exactly", func(t *testing.T) {
		c, k := open(t), newKeys()
		s := script("return redis.call('INCR', KEYS[1])")
		const callers, rounds = 32, 50
		parallel(t, callers, func(g int) {
			ctx := bounded(t)
			for i := range rounds {
				key := []string{k.apart((g + i) % 4)}
				for _, r := range []redoubt.Reply{
					c.Do(ctx, redoubt.Cmd{Name: "INCR", Keys: key}),
					c.Do(ctx, redoubt.Cmd{Script: s, Keys: key}),
					c.Pipeline(ctx, []redoubt.Cmd{{Name: "GET", Keys: key, Flags: redoubt.ReadOnly}, {Name: "INCR", Keys: key}})[1],
				} {
					if r.Err != nil {
						t.Error(r.Err)
					}
				}
			}
		})
		total := int64(0)
		for i := range 4 {
			total += counter(t, c, k.apart(i))
		}
		if want := int64(3 * callers * rounds); total != want {
			t.Errorf("counted %d, want %d", total, want)
		}
	})

	// A client that recycles the memory of a call whose caller has left writes
	// keys that nobody asked for.
	t.Run("callers leave", func(t *testing.T) {
		c, k := open(t), newKeys()
		s := script("redis.call('SET', KEYS[1], ARGV[1]) return 1")
		const callers, rounds = 16, 150
		parallel(t, callers, func(g int) {
			key, arg := make([]string, 1), make([]string, 1) // reused, as a caller may
			// Some calls are to get through, so on a busy machine they have more time.
			life, through := 400*time.Microsecond, false
			for i := range rounds {
				if i%10 == 9 && !through {
					life *= 2
				}
				name := strconv.Itoa(g*rounds + i)
				key[0], arg[0] = k.apart(name), name
				ctx, cancel := context.WithTimeout(t.Context(), rand.N(life))
				var r redoubt.Reply
				switch i % 3 {
				case 0:
					r = c.Do(ctx, redoubt.Cmd{Name: "SET", Keys: key, Args: arg})
				case 1:
					r = c.Do(ctx, redoubt.Cmd{Script: s, Keys: key, Args: arg})
				case 2:
					cmds := []redoubt.Cmd{{Name: "SET", Keys: key, Args: arg}, {Script: s, Keys: key, Args: arg}}
					r = c.Pipeline(ctx, cmds)[0]
					cmds[0], cmds[1] = redoubt.Cmd{}, redoubt.Cmd{}
				}
				key[0], arg[0] = "wrong key "+k.prefix, "wrong value"
				cancel()
				through = through || r.Err == nil
				if r.Err != nil && !errors.Is(r.Err, context.DeadlineExceeded) {
					t.Error(r.Err)
				}
			}
		})
		// Abandoned commands may still arrive. The same connections answer
		// after them, but the test can't know which connections were used. So it looks until two
		// looks agree.
		seen, before := -1, -2
		eventually(t, "the keys stay the same", func() bool {
			before, seen = seen, checkKeys(t, c, k)
			return seen == before
		})
		if seen == 0 {
			t.Error("no call got through: the test tests nothing")
		}
	})
}

// checkKeys checks that each key that contains k's prefix was asked for and has
// its value, and returns their number.
func checkKeys(t *testing.T, c redoubt.Conn, k keys) int {
	t.Helper()
	found := 0
	for _, p := range primaries(t, c) {
		names, err := p.Do(bounded(t), redoubt.Cmd{Name: "KEYS", Args: []string{"*" + k.prefix + "*"}, Flags: redoubt.ReadOnly}).Array()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			found++
			key := name.(string)
			want := strings.TrimSuffix(strings.TrimPrefix(key, "{"+k.prefix+"-"), "}")
			if got := must(t, c.Do(bounded(t), redoubt.Cmd{Name: "GET", Keys: []string{key}, Flags: redoubt.ReadOnly})); got != any(want) {
				t.Errorf("key %q holds %q: nobody asked for that", key, got)
			}
		}
	}
	return found
}
