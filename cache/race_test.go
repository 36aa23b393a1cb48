package cache_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/cache"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/frozenclock"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	wire "github.com/redoubt-go/redoubt/internal/wire/cache"
)

// A register is a source of one number. It knows the least number that may be read.
type register struct {
	seed         uint64
	loads        atomic.Uint64
	value, floor atomic.Int64
	mu           sync.Mutex
	changed      chan struct{} // closed by the next invalidation
}

func newRegister(t *testing.T) *register {
	t.Helper()
	return &register{seed: randtest.Seed(t), changed: make(chan struct{})}
}

// next waits for the next invalidation.
func (r *register) next(ctx context.Context) {
	r.mu.Lock()
	changed := r.changed
	r.mu.Unlock()
	select {
	case <-changed:
	case <-ctx.Done():
	}
}

// load reads the number, and keeps it for a while: sometimes until it is old.
func (r *register) load(ctx context.Context, _ string) (string, bool, error) {
	v := r.value.Load()
	choices := rand.New(rand.NewPCG(r.seed, r.loads.Add(1)))
	switch choices.IntN(4) {
	case 0:
		r.next(ctx)
		if choices.IntN(2) == 0 {
			runtime.Gosched()
		}
	case 1:
		runtime.Gosched()
	}
	return strconv.FormatInt(v, 10), true, nil
}

// loadAtOnce reads the number.
func (r *register) loadAtOnce(context.Context, string) (string, bool, error) {
	return strconv.FormatInt(r.value.Load(), 10), true, nil
}

// write changes the number and invalidates it.
func (r *register) write(ctx context.Context, invalidate func(ctx context.Context) error) error {
	v := r.value.Add(1)
	if err := invalidate(ctx); err != nil {
		return err
	}
	r.floor.Store(v)
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.changed)
	r.changed = make(chan struct{})
	return nil
}

// races lets readers read through caches while write is called again and again, and
// fails the test when one gets what was old before he asked. The caches are invalidated
// by others while they load, which they must have noticed.
func races(t *testing.T, r *register, caches []*cache.Cache[string, string], write func(ctx context.Context) error) {
	t.Helper()
	times := 150
	if full() {
		times = 100_000
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	var reads, stale atomic.Int64
	for _, c := range caches {
		for range 3 {
			all.Go(func() {
				pace := time.NewTicker(time.Millisecond)
				defer pace.Stop()
				for i := 1; ctx.Err() == nil; i++ {
					if i%32 == 0 { // readers that hit the local level would leave no time to the others
						<-pace.C
					}
					floor := r.floor.Load()
					v, _, err := c.Get(ctx, "r", r.load)
					if err != nil {
						if ctx.Err() == nil {
							t.Error(err)
						}
						return
					}
					reads.Add(1)
					if n, _ := strconv.ParseInt(v, 10, 64); n < floor {
						stale.Add(1)
						t.Errorf("read %d after %d was invalidated", n, floor)
					}
				}
			})
		}
	}
	drops := func() (n int64) {
		for _, c := range caches {
			n += c.Stats().Drops
		}
		return n
	}
	for i := range times {
		must(t, r.write(ctx, write))
		was := reads.Load()
		if i%8 == 0 { // time to fill the cache; a load may wait for the next write
			for end := time.Now().Add(5 * time.Millisecond); reads.Load() < was+10 && time.Now().Before(end); {
				runtime.Gosched()
			}
		}
	}
	for end := time.Now().Add(30 * time.Second); drops() == 0 && time.Now().Before(end); {
		must(t, r.write(ctx, write))
	}
	cancel()
	all.Wait()
	if drops() == 0 || reads.Load() == 0 {
		t.Errorf("%d loads were overtaken in %d reads: nothing was tested", drops(), reads.Load())
	}
}

// A Get after an invalidation never returns a value from before it.
//
// Promise: after Invalidate or Set has returned nil, a Get that begins later returns no older
// value, except from the local level of another process.
func TestInvalidateAgainstSlowLoads(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		for _, level := range []string{"no local level", "a local level", "stale and early"} {
			t.Run(level, func(t *testing.T) {
				name := func(o *options) {
					o.Name = string(level[0])
					if level == "stale and early" {
						o.TTL, o.StaleFor, o.Beta = 2*time.Millisecond, time.Minute, 1000
						o.LocalTTL = time.Millisecond
					}
				}
				a := e.users(name, func(o *options) {
					if level == "a local level" {
						o.Local = 100
					}
				})
				r := newRegister(t)
				caches := []*cache.Cache[string, string]{a, e.users(name), e.users(name)}
				n := 0
				races(t, r, caches, func(ctx context.Context) error {
					if n++; n%4 == 0 {
						return a.Set(ctx, "r", strconv.FormatInt(r.value.Load(), 10))
					}
					return a.Invalidate(ctx, "r")
				})
			})
		}
	})
}

// The same for an invalidation by tag.
//
// Promise: a tag invalidates all entries that have it, also entries that are being loaded.
func TestTagAgainstSlowLoad(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		tags := func(o *options) { o.Tags = func(_, _ string) []string { return []string{"odd", "numbers"} } }
		a := e.users(tags)
		races(t, newRegister(t), []*cache.Cache[string, string]{a, e.users(tags), e.users(tags)}, func(ctx context.Context) error {
			return a.InvalidateTag(ctx, "numbers")
		})
	})
}

// On a cluster the clock of the tag's node may be up to a second behind the clock of the entry's
// node.
//
// Promise: a tag invalidates all entries that have it, also entries that are being loaded.
func TestTagOnAnotherClock(t *testing.T) {
	t.Parallel()
	e := onCluster(t)
	conn := clienttest.Wrap(t, e.connect())
	clock := frozenclock.New(conn, wire.Scripts(), nil)
	client := e.ClientOn(struct {
		*frozenclock.Conn
		redoubt.Topology
	}{clock, conn})
	c := e.usersOn(client, func(o *options) { o.Tags = func(_, _ string) []string { return []string{"x"} } })
	tag := e.Prefix + ":{users:x}:tag"
	eventually(t, "the nodes are known", func() bool { return client.Node(tag) != "" })
	for i, found := 0, 0; found < 10; i++ {
		key := strconv.Itoa(i)
		if client.Node(e.key(key)) == client.Node(tag) {
			continue
		}
		found++
		gets(t, c, key, "old", func(ctx context.Context, _ string) (string, bool, error) {
			now := clock.Now()
			clock.Set(now.Add(-900 * time.Millisecond))
			defer clock.Set(now)
			return "old", true, c.InvalidateTag(ctx, "x")
		})
		if e.Redis.Exists(t.Context(), e.key(key)).Val() == 1 {
			t.Errorf("%s is kept: its tag was invalidated while it was loaded", key)
		}
		clock.Advance(time.Minute)
	}
}

const tagged = 300 // more than one page

// Promise: a tag invalidates all entries that have it, also entries that are being loaded.
func TestTags(t *testing.T) {
	everywhere(t, func(t *testing.T, e *env) {
		c := e.users(func(o *options) { o.Tags = func(k, _ string) []string { return []string{"all", k[:1]} } })
		s := newSource("v")
		for i := range tagged {
			key := string(rune('a'+i%3)) + strconv.Itoa(i)
			if i%2 == 0 {
				must(t, c.Set(t.Context(), key, "v"))
			} else {
				gets(t, c, key, "v", s.load)
			}
		}
		there := func(key string) bool { return e.Redis.Exists(t.Context(), e.key(key)).Val() == 1 }
		must(t, c.InvalidateTag(t.Context(), "b"))
		if there("b1") || there("b4") || there("b298") || !there("a0") || !there("c299") {
			t.Error("it is not those with the tag that are gone")
		}
		must(t, c.InvalidateTag(t.Context(), "all"))
		must(t, c.InvalidateTag(t.Context(), "nobody"))
		for i := range tagged {
			if key := string(rune('a'+i%3)) + strconv.Itoa(i); there(key) {
				t.Fatalf("%s is there", key)
			}
		}
		if n := e.Redis.Exists(t.Context(), e.Prefix+":{users:all}:tag").Val(); n != 0 {
			t.Error("the tag has members")
		}
	})
}

// Promise: of all callers in all processes, only one loads a missing key.
func TestGetManyIsOneLoad(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a, b := e.users(), e.users()
		var asked sync.Map
		load := func(ctx context.Context, keys []string) (map[string]string, error) {
			all := map[string]string{"not asked for": "x"}
			for _, k := range keys {
				if _, twice := asked.LoadOrStore(k, true); twice {
					t.Errorf("%s was loaded twice", k)
				}
				if k != "absent" {
					all[k] = "v" + k
				}
			}
			return all, ctx.Err()
		}
		gets(t, a, "single", "vsingle", func(ctx context.Context, k string) (string, bool, error) {
			all, err := load(ctx, []string{k})
			return all[k], true, err
		})
		var all sync.WaitGroup
		for i := range 12 {
			all.Go(func() {
				c := a
				if i%2 == 0 {
					c = b
				}
				keys := []string{"single", "absent", "single"}
				for j := range 60 {
					keys = append(keys, strconv.Itoa((i*7+j)%80))
				}
				got, err := c.GetMany(t.Context(), keys, load)
				if err != nil {
					t.Error(err)
				}
				for _, k := range keys {
					if v, found := got[k]; v != "v"+k && k != "absent" || found == (k == "absent") {
						t.Errorf("%s is %q, %v", k, v, found)
					}
				}
				if len(got) != 61 {
					t.Errorf("%d values", len(got))
				}
			})
		}
		all.Wait()
		if s := a.Stats(); s.Negatives+b.Stats().Negatives == 0 {
			t.Errorf("%+v", s)
		}
	})
}
