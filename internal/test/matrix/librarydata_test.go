package matrix

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/cache"
	"github.com/redoubt-go/redoubt/internal/test/await"
	queuewire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

func messages(t *testing.T, c *redoubt.Client) *queue.Queue[string] {
	t.Helper()
	q, err := queue.New[string](c, queue.Options{Lease: lease})
	must(t, err)
	return q
}

// consume runs a consumer until the test ends, and hands out what it gets.
func consume(t *testing.T, q *queue.Queue[string], name string) <-chan *queue.Delivery[string] {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	got, ended := make(chan *queue.Delivery[string], 100), make(chan error, 1)
	go func() {
		ended <- q.Run(ctx, name, func(_ context.Context, d *queue.Delivery[string]) error {
			got <- d
			return nil
		}, queue.RunOptions{Concurrency: 2})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return got
}

func next[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(prompt):
		t.Fatalf("not within %v: %s", prompt, what)
	}
	return v
}

func (l *library) queueBlock(t *testing.T, name string) {
	q := messages(t, l.a)
	got := consume(t, messages(t, l.b), name)
	for i := range 5 {
		_, err := q.Put(t.Context(), name, fmt.Sprint(i))
		must(t, err)
		if d := next(t, "a message", got); d.Value != fmt.Sprint(i) {
			t.Errorf("got %q, want %d", d.Value, i)
		}
	}
	await.Soon(t, "the queue is empty", func() bool {
		s, err := q.Info(t.Context(), name)
		must(t, err)
		return s.Ready+s.Running+s.Due+s.Dead == 0
	})
}

func (l *library) queueDelay(t *testing.T, name string) {
	const delay = 300 * time.Millisecond
	q := messages(t, l.a)
	got := consume(t, messages(t, l.b), name)
	began := time.Now()
	_, err := q.PutRequest(t.Context(), name, queue.Request[string]{Value: "later", Delay: delay})
	must(t, err)
	_, err = q.Put(t.Context(), name, "now")
	must(t, err)
	for range 2 {
		d := next(t, "a message", got)
		if took := time.Since(began); d.Value == "later" && took < delay {
			t.Errorf("got it after %v, want it after %v", took, delay)
		}
	}
}

func (l *library) queueCrash(t *testing.T, name string) {
	q := messages(t, l.a)
	id, err := q.Put(t.Context(), name, "work")
	must(t, err)
	keys, err := queuewire.KeysOf(l.a, name)
	must(t, err)
	p, err := queuewire.Take(t.Context(), l.a, keys, queuewire.Pump{Consumer: "dead", Take: queuewire.NewTake(), N: 1, Lease: 300 * time.Millisecond})
	must(t, err)
	if len(p.Taken) != 1 || p.Taken[0].ID != id {
		t.Fatalf("%+v", p)
	}
	if d := next(t, "the message of a dead consumer", consume(t, messages(t, l.b), name)); d.ID != id || d.Attempt != 2 {
		t.Errorf("%q, attempt %d", d.ID, d.Attempt)
	}
}

// A source is what a cache loads from.
type source struct {
	value atomic.Value
	loads atomic.Int64
	slow  func() // called in each load; may be nil
}

func (s *source) load(context.Context, string) (string, bool, error) {
	s.loads.Add(1)
	if s.slow != nil {
		s.slow()
	}
	v, _ := s.value.Load().(string)
	return v, true, nil
}

func cached(t *testing.T, c *redoubt.Client, name string, local int) *cache.Cache[string, string] {
	t.Helper()
	x, err := cache.New(c, cache.Options[string, string]{
		Name: name, TTL: time.Hour, Local: local, LocalTTL: time.Hour, NoEarlyRefresh: true,
		Lease: lease, LoadTimeout: lease, Timeout: prompt, Codec: cache.Text(),
		Tags: func(key, _ string) []string { return []string{"group-" + key[:1]} },
	})
	must(t, err)
	t.Cleanup(func() { _ = x.Close() })
	return x
}

func got(t *testing.T, c *cache.Cache[string, string], key string, s *source) string {
	t.Helper()
	v, _, err := c.Get(t.Context(), key, s.load)
	must(t, err)
	return v
}

// answersLocally returns once a cache answers by its local level.
func answersLocally(t *testing.T, c *cache.Cache[string, string], key string, s *source) {
	t.Helper()
	await.Soon(t, "the local level answers", func() bool {
		was := c.Stats().LocalHits
		got(t, c, key, s)
		return c.Stats().LocalHits > was
	})
}

func (l *library) cacheLocal(t *testing.T, name string) {
	a, b, s := cached(t, l.a, name, 100), cached(t, l.b, name, 100), &source{}
	s.value.Store("old")
	for i := range 8 { // on all servers
		key := fmt.Sprint(i)
		answersLocally(t, b, key, s)
		answersLocally(t, a, key, s)
	}
	s.value.Store("new")
	for i := range 8 {
		key := fmt.Sprint(i)
		must(t, a.Invalidate(t.Context(), key))
		if v := got(t, a, key, s); v != "new" {
			t.Errorf("%q where it was invalidated", v)
		}
		await.Until(t, prompt, "the other has heard of it", func() bool { return got(t, b, key, s) == "new" })
	}
}

func (l *library) cacheTags(t *testing.T, name string) {
	a, b, s := cached(t, l.a, name, 0), cached(t, l.b, name, 100), &source{}
	s.value.Store("old")
	for _, key := range []string{"x1", "x2", "y1"} {
		answersLocally(t, b, key, s)
	}
	s.value.Store("new")
	must(t, a.InvalidateTag(t.Context(), "group-x"))
	for _, key := range []string{"x1", "x2"} {
		if v := got(t, a, key, s); v != "new" {
			t.Errorf("%s is %q", key, v)
		}
		await.Until(t, prompt, "the other has heard of it", func() bool { return got(t, b, key, s) == "new" })
	}
	if v := got(t, a, "y1", s); v != "old" {
		t.Errorf("y1, of another tag, is %q", v)
	}
}

func (l *library) cacheCold(t *testing.T, name string) {
	a, b := cached(t, l.a, name, 0), cached(t, l.b, name, 0)
	loading, open := make(chan struct{}, 100), make(chan struct{})
	s := &source{slow: func() {
		loading <- struct{}{}
		select {
		case <-open:
		case <-t.Context().Done():
		}
	}}
	s.value.Store("v")
	get := func(c *cache.Cache[string, string]) {
		if v, _, err := c.Get(within(t), "cold", s.load); v != "v" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
	}
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	for range 10 {
		wg.Go(func() { get(a) })
	}
	next(t, "a load", loading)
	for range 10 {
		wg.Go(func() { get(b) })
	}
	key, err := l.a.Key(name+":cold", "cache")
	must(t, err)
	await.Soon(t, "the other process waits", func() bool {
		entry, err := l.a.Do(t.Context(), redoubt.Cmd{Name: "GET", Keys: []string{key}, Flags: redoubt.ReadOnly}).Text()
		must(t, err)
		return strings.Contains(entry, "PUBLISH")
	})
	close(open)
	wg.Wait()
	if n := s.loads.Load(); n != 1 {
		t.Errorf("%d loads", n)
	}
}
