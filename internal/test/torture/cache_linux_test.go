package torture

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/cache"
)

const (
	cacheName = "torture"
	localTTL  = 5 * time.Second
	// lag is how far a local level may be behind, as package cache says.
	lag = 100 * time.Millisecond
)

// source returns a loader of a worker. The source of a key is a file, which only one worker writes.
func (w *worker) source() cache.Loader[string, int64] {
	return func(_ context.Context, key string) (int64, bool, error) {
		text, err := os.ReadFile(filepath.Join(w.Dir, key))
		if errors.Is(err, fs.ErrNotExist) {
			return 0, false, nil
		}
		n, _ := strconv.ParseInt(string(text), 10, 64) // Its writer renames whole files.
		return n, err == nil, err
	}
}

// cacheKey returns the key that a worker writes in this epoch, or the one of some epochs ago. Nobody invalidates an
// earlier key again, so a local level that has missed something keeps it.
func (w *worker) cacheKey(worker int, ago int64) string {
	return fmt.Sprintf("%s-%d-%d", w.Tag, worker, (now()-w.Began)/int64(epoch)-ago)
}

// anyCacheKey returns a key of any worker, of this epoch or of one of the two before.
func (w *worker) anyCacheKey(rng *mathrand.Rand) string {
	return w.cacheKey(1+rng.IntN(w.Worker+2), rng.Int64N(3))
}

// cache writes values to the source, and reads the values of all workers through the cache.
func (l *library) cache(ctx context.Context, w *worker) {
	rng := w.random(caches)
	value, load := int64(0), w.source()
	for ctx.Err() == nil {
		within, cancel := within(ctx)
		var err error
		if rng.IntN(3) == 0 {
			value++
			mine := w.cacheKey(w.Worker, 0)
			file := filepath.Join(w.Dir, mine)
			if err = os.WriteFile(file+".new", strconv.AppendInt(nil, value, 10), 0o600); err == nil {
				err = os.Rename(file+".new", file)
			}
			if err != nil {
				panic(err)
			}
			by := rng.IntN(2)
			e := w.pen.begin(event{Primitive: caches, Name: mine, What: invalidated, N: value, M: int64(by)})
			err = []*cache.Cache[string, int64]{l.cached, l.kept}[by].Invalidate(within, mine)
			w.pen.end(e, sent(err))
		} else {
			key := w.anyCacheKey(rng)
			e := w.pen.begin(event{Primitive: caches, Name: key, What: got})
			e.N, _, err = l.cached.Get(within, key, load)
			w.pen.end(e, err)
		}
		cancel()
		if err == nil {
			w.worked(caches)
		} else {
			w.failed(ctx, caches, err)
		}
		w.pause(ctx, rng, 50*time.Millisecond)
	}
}

// readLocal reads the values of all workers through the local level.
func (l *library) readLocal(ctx context.Context, w *worker) {
	rng := w.random(localLevels)
	load := w.source()
	heard := &echoes{client: l.client, channel: fmt.Sprintf("%s-echo-%d", w.Tag, w.Worker), arrived: make(chan string, 16), of: map[string][]echo{}}
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() { heard.listen(ctx, w) })
	for ctx.Err() == nil {
		within, cancel := within(ctx)
		key := w.anyCacheKey(rng)
		e := event{Primitive: caches, Name: key, What: got, M: 1, Until: heard.until(key), Call: now()}
		var err error
		e.N, _, err = l.kept.Get(within, key, load)
		cancel()
		if err == nil {
			e.Return = now()
			w.pen.note(e)
			w.worked(localLevels)
		} else {
			w.failed(ctx, localLevels, err)
		}
		w.pause(ctx, rng, 10*time.Millisecond)
	}
}

// Echoes are messages of a worker to itself, by the server of a key. The messages of a server come in their order, on
// one connection for all channels: with an echo the local level has all invalidations that the server sent before.
type echoes struct {
	client  *redoubt.Client
	channel string
	arrived chan string

	mu sync.Mutex
	of map[string][]echo // by key
}

// An echo was sent at one time, and heard at another.
type echo struct{ sent, heard int64 }

var echoScript = redoubt.NewScript("torture.echo", "return redis.call('PUBLISH', ARGV[1], ARGV[2])")

// listen sends echoes until ctx ends.
func (s *echoes) listen(ctx context.Context, w *worker) {
	rng := w.random("echo")
	for subscribed := false; ctx.Err() == nil; w.pause(ctx, rng, 20*time.Millisecond) {
		within, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		if subscribed {
			s.send(within, w.anyCacheKey(rng))
		} else {
			_, err := s.client.Subscribe(within, s.channel, func(text string, _ bool) {
				select {
				case s.arrived <- text:
				default: // It is the echo of an earlier call.
				}
			})
			subscribed = err == nil
		}
		cancel()
	}
}

// send sends an echo, and returns once it is heard.
func (s *echoes) send(ctx context.Context, key string) {
	at, err := s.client.Key(cacheName+":"+key, "echo")
	if err != nil {
		panic(err) // a valid name
	}
	sent := now()
	text := strconv.FormatInt(sent, 10)
	if err := s.client.Do(ctx, redoubt.Cmd{Script: echoScript, Keys: []string{at}, Args: []string{s.channel, text}}).Err; err != nil {
		return
	}
	for {
		select {
		case arrived := <-s.arrived:
			if arrived == text {
				s.mu.Lock()
				s.of[key] = append(s.of[key], echo{sent, now()})
				s.mu.Unlock()
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// until returns the time to which the worker has heard what the server of a key publishes, 0 if it doesn't know.
func (s *echoes) until(key string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range slices.Backward(s.of[key]) {
		if e.heard+int64(lag) < now() {
			return e.sent
		}
	}
	return 0
}

// caches checks that no Get gave a value from before an acknowledged invalidation that came before the Get. A local
// level may miss invalidations that its process has not heard of yet, for the time that it keeps a value.
func (v *verdict) caches(histories map[string][]event) {
	reads := map[int][]int64{} // by worker: the times at which it read its local level
	for _, events := range histories {
		for _, e := range events {
			if e.What == got && e.M == 1 {
				reads[e.Worker] = append(reads[e.Worker], e.Call)
			}
		}
	}
	for _, calls := range reads {
		slices.Sort(calls)
	}
	for name, events := range histories {
		v.judged++
		for _, e := range events {
			if e.What != got || e.Return == 0 {
				continue
			}
			i := slices.IndexFunc(events, func(i event) bool { return i.What == invalidated && i.N > e.N && missed(i, e, reads[e.Worker]) })
			if i >= 0 {
				v.fault(caches, name, "a Get gave a value that was invalidated: %v, after %v", e, events[i])
				break
			}
		}
	}
}

// missed reports whether a Get had to know of an invalidation.
func missed(i, get event, reads []int64) bool {
	switch {
	case i.Return == 0 || i.Return >= get.Call:
		return false
	case get.M == 0, i.Worker == get.Worker && i.M == 1: // from the server, or by the same Cache
		return true
	default:
		return i.Return < get.Until || watched(reads, i.Return, get.Call) > localTTL+callsTake
	}
}

// callsTake is how old a value may be when a local level gets it: the calls to the server took that long.
const callsTake = 2 * time.Second

// watched returns how long a worker has read its local level between two times. A standstill doesn't count.
func watched(reads []int64, from, to int64) time.Duration {
	sum, last := int64(0), from
	at, _ := slices.BinarySearch(reads, from)
	for _, call := range reads[at:] {
		if call > to {
			break
		}
		sum += min(call-last, int64(50*time.Millisecond))
		last = call
	}
	return time.Duration(sum)
}
