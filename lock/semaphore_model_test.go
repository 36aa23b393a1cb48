package lock_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
	"github.com/redoubt-go/redoubt/lock"
)

// permits is what a semaphore says, in Go, beside the queue of a model.
type permits struct {
	held  map[string]*permit
	gone  map[string]int // 1: released; 0: ran out, or void
	fence int64
}

type permit struct {
	fence int64
	ttl   time.Duration
	label string
}

// first returns the permit that ends first.
func (p *permits) first() (first *permit) {
	for _, one := range p.held {
		if first == nil || one.ttl < first.ttl {
			first = one
		}
	}
	return first
}

// The scripts of a semaphore do what the model does, in any order of calls: the same
// replies, the same wake-ups, the same queue.
//
// Promise: At most limit permits of a semaphore are held at a time, with
// tokens that rise; the permits of dead holders come back.
func TestSemaphoreFollowsTheModel(t *testing.T) {
	eachServer(t, func(t *testing.T, e *env) {
		for seed := range uint64(8) {
			t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
				e := &permitEpisode{episode: newEpisode(t, e, seed)}
				e.permits = permits{held: map[string]*permit{}, gone: map[string]int{}}
				tag := e.env.Prefix + ":{" + t.Name() + "}:"
				e.keys, e.key = []string{tag + "sem", tag + "permits"}, tag+"sem"
				for i := range 40 {
					e.ids = append(e.ids, fmt.Sprint("more", i))
				}
				for range 250 {
					e.step()
					e.look()
					if t.Failed() {
						t.Fatalf("the last steps:\n%s", strings.Join(e.log[max(0, len(e.log)-12):], "\n"))
					}
				}
			})
		}
	})
}

type permitEpisode struct {
	*episode
	permits

	keys []string
	next int // ttls differ, so that the order in which permits end is known
}

func (e *permitEpisode) step() {
	id, waiter, limit := one(e.episode, e.ids), one(e.episode, e.waiters), 1+e.rng.IntN(4)
	if len(e.held) > 0 && e.rng.IntN(3) == 0 {
		id = one(e.episode, sortedIDs(e.held))
	}
	e.next++
	ttl := time.Duration(10+e.rng.IntN(1000))*time.Hour + time.Duration(e.next)*time.Minute
	switch n := e.rng.IntN(100); {
	case n < 45:
		if n < 15 {
			waiter = ""
		}
		e.acquire(id, ttl, waiter, limit)
	case n < 55:
		e.note("extend %s %v", id, ttl)
		held, left, err := wire.ReadExtend(e.c.Do(e.Context(), wire.PermitExtendCmd(e.keys, id, ttl)))
		must(e.T, err)
		p := e.held[id]
		if held != (p != nil) {
			e.Errorf("held is %v, want %v", held, p != nil)
		}
		if p != nil {
			p.ttl = max(p.ttl, ttl)
			e.near("the time left after an extension", left, p.ttl)
		}
	case n < 72:
		e.end("release", id, "", limit, false)
	case n < 78:
		e.end("void", id, "", limit, true)
	case n < 82 && len(e.held) > 0:
		e.force(one(e.episode, sortedIDs(e.held)))
	case n < 90:
		if len(e.queue) > 0 {
			waiter = one(e.episode, e.queue)
		}
		e.end("leave", "", waiter, limit, false)
	case len(e.held) > 0:
		id = one(e.episode, sortedIDs(e.held))
		e.note("%s runs out", id)
		must(e.T, e.env.Redis.Do(e.Context(), "ZADD", e.keys[1], 1, "="+id).Err())
		delete(e.held, id)
		e.gone[id] = 0
	}
}

func (e *permitEpisode) acquire(id string, ttl time.Duration, waiter string, limit int) {
	e.note("acquire %s %v %q of %d", id, ttl, waiter, limit)
	r := lock.Request{ID: id, TTL: ttl, Label: one(e.episode, []string{"", "of " + id})}
	var a wire.Attempt
	woken := e.woken(func() (err error) {
		a, err = wire.ReadAttempt(e.c.Do(e.Context(), wire.PermitCmd(e.keys, limit, wire.Request{ID: r.ID, TTL: r.TTL, Label: r.Label, Waiter: waiter})))
		return err
	})
	wake := ""
	want := wire.Attempt{Status: wire.Over, Token: e.fence, TTL: a.TTL}
	_, over := e.gone[id]
	switch mine := e.held[id]; {
	case mine != nil:
		want = wire.Attempt{Status: wire.Acquired, Token: mine.fence, TTL: a.TTL, Label: r.Label}
		e.near("the time left", a.TTL, mine.ttl)
	case over:
	case len(e.held) >= limit:
		first := e.first()
		want = wire.Attempt{Status: wire.Held, Token: first.fence, TTL: a.TTL, Label: first.label}
		e.near("the time left to the first", a.TTL, first.ttl)
		if waiter != "" && !slices.Contains(e.queue, waiter) {
			e.queue = append(e.queue, waiter)
		}
	default:
		if a.Token <= e.fence {
			e.Errorf("fence %d after %d", a.Token, e.fence)
		}
		want = wire.Attempt{Status: wire.Acquired, Token: a.Token, TTL: ttl, Label: r.Label}
		e.fence = a.Token
		e.held[id] = &permit{fence: a.Token, ttl: ttl, label: r.Label}
		e.leave(waiter)
		if waiter != "" && len(e.held) < limit {
			wake = e.wake()
		}
	}
	if a != want || woken != wake {
		e.Errorf("acquire: %+v and woke %q, want %+v and %q", a, woken, want, wake)
	}
}

func (e *permitEpisode) end(what, id, waiter string, limit int, void bool) {
	e.note("%s %s%q of %d", what, id, waiter, limit)
	var released bool
	woken := e.woken(func() (err error) {
		released, err = wire.ReadRelease(e.c.Do(e.Context(), wire.PermitReleaseCmd(e.keys, limit, id, waiter, void)))
		return err
	})
	want, wake := e.gone[id] == 1, ""
	freed := e.held[id] != nil
	switch _, over := e.gone[id]; {
	case freed:
		delete(e.held, id)
		e.gone[id], want = 1, true
	case void && !over:
		e.gone[id] = 0
	}
	room := freed || waiter != "" && len(e.held) < limit
	e.leave(waiter)
	if room {
		wake = e.wake()
	}
	if released != want || woken != wake {
		e.Errorf("%s: %v and woke %q, want %v and %q", what, released, woken, want, wake)
	}
}

// force takes a permit away, and is repeated.
func (e *permitEpisode) force(id string) {
	e.note("force %s", id)
	for i := range 2 {
		var released bool
		woken := e.woken(func() (err error) {
			released, err = wire.ReadRelease(e.c.Do(e.Context(), wire.PermitForceCmd(e.keys, "="+id)))
			return err
		})
		wake := ""
		if i == 0 {
			delete(e.held, id)
			e.gone[id] = 0
			wake = e.wake()
		}
		if !released || woken != wake {
			e.Errorf("force: %v and woke %q, want %q", released, woken, wake)
		}
	}
}

// woken runs do and returns the waiters that it wakes.
func (e *episode) woken(do func() error) string {
	must(e.T, do())
	mark := e.env.Prefix + e.Name() + ":mark"
	must(e.T, e.env.Redis.Publish(e.Context(), mark, "").Err())
	var woken []string
	for m := range e.inbox {
		if m.Channel == mark {
			break
		}
		woken = append(woken, "PUBLISH "+m.Channel)
		if m.Payload != e.key {
			e.Errorf("woken for %q, want %q", m.Payload, e.key)
		}
	}
	return strings.Join(woken, ", ")
}

func (e *permitEpisode) look() {
	info, err := wire.ReadSemaphoreInfo(e.c.Do(e.Context(), wire.SemaphoreInfoCmd(e.keys)))
	must(e.T, err)
	if info.Taken != int64(len(e.held)) || info.Token != e.fence || info.Waiters != int64(len(e.queue)) || len(info.Holders) != len(e.held) {
		e.Errorf("info %+v, want %d taken, %d waiting, fence %d", info, len(e.held), len(e.queue), e.fence)
	}
	hash := e.env.Redis.HGetAll(e.Context(), e.key).Val()
	var head, tail int
	_, _ = fmt.Sscan(hash["head"], &head)
	_, _ = fmt.Sscan(hash["tail"], &tail)
	for i, waiter := range e.queue {
		if place := fmt.Sprint(head + 1 + i); hash[place] != waiter || hash[waiter] != place {
			e.Errorf("the place %s has %q, want %q", place, hash[place], waiter)
		}
	}
	// Only leases that ran out may still be there.
	fields := 2 * len(e.queue)
	for _, f := range []string{"head", "tail", "fence"} {
		if _, ok := hash[f]; ok {
			fields++
		}
	}
	for id, p := range e.held {
		if hash["="+id] != fmt.Sprint(p.fence) || hash[fmt.Sprint(p.fence)] != p.label {
			e.Errorf("the permit %s has token %s and label %q, want %+v", id, hash["="+id], hash[fmt.Sprint(p.fence)], p)
		}
	}
	for f := range hash {
		id, isID := strings.CutPrefix(f, "=")
		if !isID {
			continue
		}
		fields++
		if _, ok := hash[hash[f]]; ok {
			fields++
		}
		if released := e.gone[id] == 1; released {
			e.Errorf("a released permit has left %q", f)
		}
	}
	if len(hash) != fields {
		e.Errorf("the hash has %d fields, want %d: %q", len(hash), fields, hash)
	}
}

func sortedIDs(held map[string]*permit) (ids []string) {
	for id := range held {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func must1[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}
