package outages

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/cache"
)

// A source is what the caches read: keys with versions that rise.
type source struct {
	old   time.Duration // how old a value may be
	fault func(format string, args ...any)

	mu          sync.Mutex
	now         [30]int       // the version of each key
	invalidated [30][]version // what is known to be invalidated, in order
	reads       int
	done        int
}

type version struct {
	n  int
	at time.Time
}

func (s *source) newCache(client *redoubt.Client) (*cache.Cache[int, int], error) {
	return cache.New(client, cache.Options[int, int]{Name: "versions", TTL: time.Hour, Local: 1000})
}

// load is the source's own answer.
func (s *source) load(_ context.Context, key int) (n int, found bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now[key], true, nil
}

// write changes one key after the other and invalidates it.
func (s *source) write(ctx context.Context, c *cache.Cache[int, int], rng *rand.Rand) {
	for ctx.Err() == nil {
		key := rng.IntN(len(s.now))
		s.mu.Lock()
		s.now[key]++
		n := s.now[key]
		s.mu.Unlock()
		if err := c.Invalidate(ctx, key); err == nil {
			s.mu.Lock()
			s.invalidated[key] = append(s.invalidated[key], version{n, time.Now()})
			s.done++
			s.mu.Unlock()
		}
		rest(ctx, 10*time.Millisecond)
	}
}

// least is the version that a read which begins now may not be behind.
func (s *source) least(key int) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, now := s.invalidated[key], time.Now()
	for len(known) > 1 && now.Sub(known[1].at) > s.old {
		known = known[1:]
	}
	s.invalidated[key] = known
	if len(known) == 0 || now.Sub(known[0].at) <= s.old {
		return 0
	}
	return known[0].n
}

// read reads all keys again and again.
func (s *source) read(ctx context.Context, c *cache.Cache[int, int]) {
	for ctx.Err() == nil {
		for key := range s.now {
			least := s.least(key)
			got, _, err := c.Get(ctx, key, s.load)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				s.fault("Get of %d: %v", key, err)
			case got < least:
				s.fault("key %d is at version %d, more than %v after %d was invalidated", key, got, s.old, least-1)
			}
		}
		s.mu.Lock()
		s.reads += len(s.now)
		s.mu.Unlock()
		rest(ctx, 2*time.Millisecond)
	}
}

func (s *source) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strconv.Itoa(s.reads) + " reads beside " + strconv.Itoa(s.done) + " invalidations"
}
