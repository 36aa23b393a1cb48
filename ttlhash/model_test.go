package ttlhash_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/ttlhash"
)

// A model is what a hash is, in a few lines.
type model struct {
	now    time.Time
	fields map[string]modelField
	events map[string]int // how many each field is to make
}

type modelField struct {
	value    string
	deadline time.Time // zero: none
	event    bool
}

func (m *model) has(f string) bool { _, ok := m.fields[f]; return ok }

func (m *model) set(f, v string, ttl time.Duration, event bool) {
	m.fields[f] = modelField{v, m.deadline(ttl), event && ttl != ttlhash.Never}
}

func (m *model) deadline(ttl time.Duration) time.Time {
	if ttl == ttlhash.Never {
		return time.Time{}
	}
	return m.now.Add(ttl)
}

func (m *model) advance(d time.Duration) {
	m.now = m.now.Add(d)
	for f, v := range m.fields {
		if !v.deadline.IsZero() && !v.deadline.After(m.now) {
			if v.event {
				m.events[f]++
			}
			delete(m.fields, f)
		}
	}
}

// Random calls do what the model does, of processes with and without events, while
// time goes on; and when all is over nothing is left.
//
// Promise: A field is there until its deadline and gone afterwards, by the server's clock, for
// every call that the server decides.
//
// Promise: A field that expires makes at most one event, which all loops get; a field that is
// removed or replaced before makes none.
func TestScriptsFollowTheModel(t *testing.T) {
	emulating(t, func(t *testing.T, e *env) {
		for range 4 {
			t.Run("", func(t *testing.T) {
				e := *e
				e.T = t
				r := randtest.Rand(t)
				e.Prefix += fmt.Sprint("s", r.Uint64())
				c := e.freeze()
				plain, eventful := e.hashes, e.with(ttlhash.Options{Events: true})
				m := &model{now: c.Now(), fields: map[string]modelField{}, events: map[string]int{}}
				for step := range 500 {
					h, event := plain, false
					if r.IntN(3) == 0 {
						h, event = eventful, true
					}
					modelStep(t, r, m, h, e.with(ttlhash.Options{}), event, step)
					d := time.Duration(0)
					if r.IntN(4) == 0 {
						d = time.Duration(1+r.IntN(int(time.Second/time.Millisecond)<<r.IntN(6))) * time.Millisecond
					}
					c.Advance(d)
					m.advance(d)
				}
				// A sweep removes all fields with a deadline. The others are deleted.
				c.Advance(10 * time.Hour)
				m.advance(10 * time.Hour)
				_, err := plain.Sweep(t.Context(), "h")
				must(t, err)
				n, err := plain.Len(t.Context(), "h")
				must(t, err)
				if n != len(m.fields) {
					t.Errorf("%d fields are left, want %d", n, len(m.fields))
				}
				compareEvents(t, &e, m)
				for f := range m.fields {
					_, err := plain.Remove(t.Context(), "h", f)
					must(t, err)
				}
				if left := e.left("h"); !slices.Equal(left, []string{"ttlevents"}) && len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			})
		}
	})
}

// modelStep makes one random call, here and on the model. Fresh knows nothing of the
// time, which is moved by hand here.
func modelStep(t *testing.T, r *rand.Rand, m *model, h, fresh *ttlhash.Hashes, event bool, step int) {
	t.Helper()
	ctx := t.Context()
	f, value := fmt.Sprint("f", r.IntN(40)), fmt.Sprint(step)
	ttl := time.Duration(1+r.IntN(1000<<r.IntN(12))) * time.Millisecond
	if r.IntN(12) == 0 {
		ttl = ttlhash.Never
	}
	old, there := m.fields[f]
	check := func(err error, ok bool, got ...any) {
		t.Helper()
		must(t, err)
		if !ok {
			t.Fatalf("step %d, field %s with %+v at %v: got %.500s", step, f, old, m.now, fmt.Sprint(got...))
		}
	}
	switch r.IntN(12) {
	case 0, 1, 2:
		check(h.Set(ctx, "h", f, value, ttl), true)
		m.set(f, value, ttl, event)
	case 3:
		var items []ttlhash.Item
		for i := range 1 + r.IntN(40) {
			f := fmt.Sprint("f", r.IntN(40))
			items = append(items, ttlhash.Item{Field: f, Value: fmt.Sprint(step, i), TTL: ttl})
			m.set(f, fmt.Sprint(step, i), ttl, event)
		}
		check(h.SetMany(ctx, "h", items), true)
	case 4:
		set, err := h.SetIfAbsent(ctx, "h", ttlhash.Item{Field: f, Value: value, TTL: ttl})
		check(err, set == !there, set)
		if !there {
			m.set(f, value, ttl, event)
		}
	case 5:
		g := fmt.Sprint("f", r.IntN(40))
		set, err := h.SetIfPresent(ctx, "h", ttlhash.Item{Field: f, Value: value, TTL: ttl}, ttlhash.Item{Field: g, Value: value, TTL: ttl})
		check(err, set == (there && m.has(g)), set, g)
		if set {
			m.set(f, value, ttl, event)
			m.set(g, value, ttl, event)
		}
	case 6, 7:
		v, ok, err := h.Touch(ctx, "h", f, ttl)
		check(err, ok == there && v == old.value, v, ok)
		if there {
			m.set(f, old.value, ttl, old.event || event)
		}
	case 8:
		v, ok, err := h.Take(ctx, "h", f)
		check(err, ok == there && v == old.value, v, ok)
		delete(m.fields, f)
	case 9:
		n, err := h.Remove(ctx, "h", f, "f1", f)
		want := 0
		for _, g := range []string{f, "f1"} {
			if m.has(g) {
				want++
			}
			delete(m.fields, g)
		}
		check(err, n == want, n)
	case 10:
		got := map[string]ttlhash.Item{}
		for item, err := range fresh.All(ctx, "h", "") {
			must(t, err)
			got[item.Field] = item
		}
		ok := len(got) == len(m.fields)
		for f, v := range m.fields {
			left := ttlhash.Never
			if !v.deadline.IsZero() {
				left = v.deadline.Sub(m.now)
			}
			ok = ok && got[f] == ttlhash.Item{Field: f, Value: v.value, TTL: left}
		}
		check(nil, ok, got, m.fields)
	case 11:
		_, err := h.Sweep(ctx, "h")
		check(err, true)
	}
	old, there = m.fields[f]
	ms, ok, err := h.TTL(ctx, "h", f)
	check(err, ok == there && (!ok || old.deadline.IsZero() == (ms == ttlhash.Never) && (old.deadline.IsZero() || ms == old.deadline.Sub(m.now))), ms, ok)
}

// compareEvents compares the events of h with the events of the model. h may have fewer: it
// keeps 10,000.
func compareEvents(t *testing.T, e *env, m *model) {
	t.Helper()
	want, got := 0, map[string]int{}
	for _, n := range m.events {
		want += n
	}
	for e, err := range e.hashes.Expired(t.Context(), "h", "0") {
		must(t, err)
		if e.Field == "end" {
			break
		}
		got[e.Field]++
		if want--; want == 0 {
			break
		}
		if want < 0 {
			t.Fatalf("%+v is one too many", e)
		}
	}
	for f, n := range m.events {
		if got[f] != n {
			t.Errorf("%s made %d events, want %d", f, got[f], n)
		}
	}
}
