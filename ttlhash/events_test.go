package ttlhash_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/ttlhash"
)

// A listener collects the events of h.
type listener struct {
	mu     sync.Mutex
	events []ttlhash.Event
	done   chan error
}

func listen(ctx context.Context, h *ttlhash.Hashes, after string) *listener {
	l := &listener{done: make(chan error, 1)}
	go func() {
		for e, err := range h.Expired(ctx, "h", after) {
			if err != nil {
				l.done <- err
				return
			}
			l.mu.Lock()
			l.events = append(l.events, e)
			l.mu.Unlock()
		}
	}()
	return l
}

// values returns the values by field; a field that came twice has two.
func (l *listener) values() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := map[string]string{}
	for _, e := range l.events {
		v[e.Field] += e.Value
	}
	return v
}

// Each expired field makes one event with its value. All listeners get it, and a listener can
// resume from any event. The model checks that a deleted or replaced field makes none.
//
// Promise: A field that expires makes at most one event, which all loops get; a field that is
// removed or replaced before makes none.
func TestEvents(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		h := e.with(ttlhash.Options{Events: true})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		one, two := listen(ctx, h, "0"), listen(ctx, e.hashes, "0")
		want := map[string]string{}
		began := e.now()
		for i := range 50 {
			f := fmt.Sprint("f", i)
			must(t, h.Set(ctx, "h", f, "v"+f, time.Duration(100+i)*time.Millisecond))
			want[f] = "v" + f
		}
		must(t, h.Set(ctx, "h", "extended", "v", 100*time.Millisecond))
		// A client without events keeps a field's event when it extends the field.
		_, _, err := e.hashes.Touch(ctx, "h", "extended", 300*time.Millisecond)
		must(t, err)
		must(t, e.hashes.Set(ctx, "h", "no event", "v", 100*time.Millisecond))
		want["extended"] = "v"
		all := func(l *listener) func() bool { return func() bool { return maps.Equal(l.values(), want) } }
		await.Until(t, time.Minute, "one hears all", all(one))
		await.Until(t, time.Minute, "two hears all", all(two))
		await.Always(t, 200*time.Millisecond, "no more comes", all(one))
		one.mu.Lock()
		for i, event := range one.events {
			if event.Deadline.Before(began.Add(50*time.Millisecond)) || event.Deadline.After(e.now()) {
				t.Errorf("%+v", event)
			}
			if i > 0 && event.ID <= one.events[i-1].ID {
				t.Errorf("%s after %s", event.ID, one.events[i-1].ID)
			}
		}
		middle := one.events[30].ID
		one.mu.Unlock()
		rest := listen(ctx, h, middle)
		await.Until(t, time.Minute, "who goes on hears the rest", func() bool { return len(rest.values()) == 20 })
		cancel()
		for _, l := range []*listener{one, two, rest} {
			is(t, <-l.done, context.Canceled)
		}
	})
}

// From now on is what comes later only; and a field that is over and set anew before
// anybody swept it was over all the same.
//
// Promise: A field that expires makes at most one event, which all loops get; a field that is
// removed or replaced before makes none.
func TestEventsFromNowOn(t *testing.T) {
	emulating(t, func(t *testing.T, e *env) {
		c := e.freeze()
		h := e.with(ttlhash.Options{Events: true})
		ctx := t.Context()
		must(t, h.Set(ctx, "h", "before", "1", time.Second))
		c.Advance(10 * time.Second)
		_, err := h.Sweep(ctx, "h")
		must(t, err)
		must(t, h.Set(ctx, "h", "f", "old", time.Second))
		c.Advance(time.Second)
		// It is over, and no sweep looks at it yet: an event's field is filed by 128 ms.
		must(t, h.Set(ctx, "h", "f", "new", time.Second))
		_, ok, err := h.Take(ctx, "h", "f")
		must(t, err)
		if !ok {
			t.Error("the new one is not there")
		}
		must(t, h.Set(ctx, "h", "f", "old too", time.Second))
		c.Advance(time.Second)
		_, err = h.Remove(ctx, "h", "f")
		must(t, err)
		var got []string
		bounded, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		for e, err := range h.Expired(bounded, "h", "0") {
			must(t, err)
			if got = append(got, e.Field+" "+e.Value); len(got) == 3 {
				break
			}
		}
		if s := fmt.Sprint(got); s != "[before 1 f old f old too]" {
			t.Error(s)
		}
		// A field that is deleted and set again in one moment is twice in a chunk.
		must(t, h.Set(ctx, "h", "twice", "1", time.Second))
		_, err = h.Remove(ctx, "h", "twice")
		must(t, err)
		must(t, h.Set(ctx, "h", "twice", "2", time.Second))
		c.Advance(10 * time.Second)
		_, err = h.Sweep(ctx, "h")
		must(t, err)
		if n := e.Redis.ZCard(ctx, e.Key("h", "ttlevents")).Val(); n != 4 {
			t.Errorf("%d events, want 4", n)
		}
		l := listen(ctx, h, "")
		await.Until(t, time.Minute, "a later one comes", func() bool {
			must(t, h.Set(ctx, "h", "later", "2", time.Second))
			c.Advance(10 * time.Second)
			return len(l.values()) > 0
		})
		if v := l.values(); len(v) != 1 || v["later"] == "" {
			t.Errorf("%v", v)
		}
	})
}

// Many sweepers at once make each event once.
//
// Promise: A field that expires makes at most one event, which all loops get; a field that is
// removed or replaced before makes none.
func TestEventsAreMadeOnce(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		h := e.with(ttlhash.Options{Events: true})
		ctx := t.Context()
		var items []ttlhash.Item
		want := map[string]string{}
		for i := range 1000 {
			f := fmt.Sprint("f", i)
			items = append(items, ttlhash.Item{Field: f, Value: "v", TTL: 50 * time.Millisecond})
			want[f] = "v"
		}
		must(t, h.SetMany(ctx, "h", items))
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for end := time.Now().Add(time.Minute); time.Now().Before(end); {
					if _, err := h.Sweep(ctx, "h"); err != nil {
						t.Error(err)
						return
					}
					if n, err := h.Len(ctx, "h"); err != nil || n == 0 {
						return
					}
				}
			})
		}
		wg.Wait()
		l := listen(ctx, h, "0")
		await.Until(t, time.Minute, "all events", func() bool { return maps.Equal(l.values(), want) })
	})
}
