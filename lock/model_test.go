package lock_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
	"github.com/redoubt-go/redoubt/lock"
)

// A model is what the hash of one lock says, in Go.
type model struct {
	id, label  string
	ttl        time.Duration // of the lease, when it was set; 0: over
	ranOut     bool          // it is over without having been released
	fence      int64
	last, void string
	queue      []string // waiters, the next to be woken first
}

func (m *model) over(id string) bool { return id == m.id || id == m.last || id == m.void }

// leave takes waiter out of the queue, and the last waiter takes its place. So no waiter
// falls back, and the queue has no gaps.
func (m *model) leave(waiter string) {
	i := slices.Index(m.queue, waiter)
	if i < 0 {
		return
	}
	end := len(m.queue) - 1
	m.queue[i] = m.queue[end]
	m.queue = m.queue[:end]
}

// wake takes those out of the queue that a release tries to wake, and returns
// the one that it reaches.
func (m *model) wake() (woken string) {
	for tries := 0; tries < 64 && len(m.queue) > 0 && woken == ""; tries++ {
		if strings.Contains(m.queue[0], alive) {
			woken = m.queue[0]
		}
		m.queue = m.queue[1:]
	}
	return woken
}

func (m *model) release(id, waiter string, void bool) (released bool, woken string) {
	switch {
	case id == m.id && (m.ttl > 0 || m.ranOut):
		m.ttl, m.ranOut, m.last, released = 0, false, id, true
	case id == m.last && id != "":
		released = true
	case void:
		m.void = id
	}
	m.leave(waiter)
	if m.ttl == 0 {
		woken = m.wake()
	}
	return released, woken
}

// alive is in the names of the channels that somebody listens to.
const alive = ":alive:"

// An episode drives one lock and its model side by side.
type episode struct {
	*testing.T
	*model

	rng     *rand.Rand
	env     *env
	c       *redoubt.Client
	key     string
	inbox   <-chan *redis.Message
	ids     []string
	waiters []string
	log     []string
}

// The scripts do what the model does, in any order of calls: the same replies, the same
// wake-ups and the same queue, which has neither gaps nor strangers.
func TestScriptsFollowTheModel(t *testing.T) {
	eachServer(t, func(t *testing.T, e *env) {
		for seed := range uint64(8) {
			t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
				e := newEpisode(t, e, seed)
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

func newEpisode(t *testing.T, on *env, seed uint64) *episode {
	e := &episode{T: t, model: &model{}, rng: rand.New(rand.NewPCG(seed, 0)), env: on, c: on.newClient()}
	e.key = on.key(t.Name())
	prefix := on.Prefix + t.Name()
	// The more waiters, the less often the queue is empty. Waiters of an odd seed
	// are mostly dead, more than one release tries.
	n, dead := 2+e.rng.IntN(8), 0
	if seed%2 == 1 {
		dead = 90
	}
	channels := []string{prefix + ":mark"}
	for i := range n {
		channels = append(channels, fmt.Sprint(prefix, alive, i))
		e.waiters = append(e.waiters, "PUBLISH "+channels[i+1])
	}
	for i := range dead {
		e.waiters = append(e.waiters, fmt.Sprint("PUBLISH ", prefix, ":dead:", i))
	}
	for i := range 6 {
		e.ids = append(e.ids, fmt.Sprint("id", i))
	}
	sub := on.Redis.Subscribe(t.Context(), channels...)
	t.Cleanup(func() { _ = sub.Close() })
	for range channels {
		_, err := sub.Receive(t.Context())
		must(t, err)
	}
	e.inbox = sub.Channel()
	return e
}

func one[E any](e *episode, of []E) E { return of[e.rng.IntN(len(of))] }

func (e *episode) note(format string, args ...any) {
	e.log = append(e.log, fmt.Sprintf(format, args...))
}

func (e *episode) step() {
	id, waiter := one(e, e.ids), one(e, e.waiters)
	ttl := time.Duration(2+e.rng.IntN(1000)) * time.Minute
	switch n := e.rng.IntN(100); {
	case n < 45:
		if n < 10 {
			waiter = ""
		}
		e.acquire(id, ttl, waiter)
	case n < 55:
		e.note("extend %s %v", id, ttl)
		held, left, err := wire.ReadExtend(e.c.Do(e.Context(), wire.ExtendCmd([]string{e.key}, id, ttl)))
		must(e.T, err)
		want := id == e.id && e.ttl > 0
		if held != want {
			e.Errorf("held is %v, want %v", held, want)
		}
		if want {
			e.ttl = max(e.ttl, ttl)
			e.near("the time left after an extension", left, e.ttl)
		}
	case n < 65:
		if e.ttl > 0 && n < 62 {
			id = e.id // else most releases would do nothing
		}
		e.end("release", wire.ReleaseCmd([]string{e.key}, id, "", false), id, "", false)
	case n < 72:
		e.end("void", wire.ReleaseCmd([]string{e.key}, id, "", true), id, "", true)
	case n < 90:
		if len(e.queue) > 0 && n < 87 {
			waiter = one(e, e.queue)
		}
		e.end("leave", wire.ReleaseCmd([]string{e.key}, "", waiter, false), "", waiter, false)
	case n < 95:
		e.note("the lease runs out")
		if e.ttl > 0 {
			must(e.T, e.env.Redis.HSet(e.Context(), e.key, "until", 1).Err())
			e.ttl, e.ranOut = 0, true
		}
	case n < 97:
		e.note("a clock that is a day behind")
		if e.fence > 0 {
			e.fence = time.Now().Add(24 * time.Hour).UnixMicro()
			must(e.T, e.env.Redis.HSet(e.Context(), e.key, "fence", e.fence).Err())
			left := e.env.Redis.PTTL(e.Context(), e.key).Val()
			must(e.T, e.env.Redis.PExpire(e.Context(), e.key, max(left, 24*time.Hour+time.Minute)).Err())
		}
	case n < 98:
		e.note("the key is gone")
		must(e.T, e.env.Redis.Del(e.Context(), e.key).Err())
		*e.model = model{}
	default:
		for _, waiter := range e.waiters {
			e.acquire(id, ttl, waiter)
		}
	}
}

func (e *episode) acquire(id string, ttl time.Duration, waiter string) {
	e.note("acquire %s %v %q", id, ttl, waiter)
	label := "of " + id
	a, err := wire.ReadAttempt(e.c.Do(e.Context(), wire.AcquireCmd([]string{e.key}, wire.Request{ID: id, TTL: ttl, Label: label, Waiter: waiter})))
	must(e.T, err)
	want := wire.Attempt{Status: wire.Over, Token: e.fence, TTL: a.TTL}
	switch {
	case e.ttl > 0:
		if id == e.id {
			want.Status = wire.Acquired
		} else if !e.over(id) {
			want.Status = wire.Held
			if waiter != "" && !slices.Contains(e.queue, waiter) {
				e.queue = append(e.queue, waiter)
			}
		}
		if want.Status != wire.Over {
			want.Label = e.label
			e.near("the time left", a.TTL, e.ttl)
		}
	case !e.over(id):
		if a.Token <= e.fence {
			e.Errorf("fence %d after %d", a.Token, e.fence)
		}
		want.Status, want.Token, want.Label = wire.Acquired, a.Token, label
		e.id, e.ttl, e.ranOut, e.fence, e.label = id, ttl, false, a.Token, label
		e.leave(waiter)
		if a.TTL != ttl {
			e.Errorf("acquired for %v, want %v", a.TTL, ttl)
		}
	}
	if a != want {
		e.Errorf("acquire: %+v, want %+v", a, want)
	}
}

// end runs one of the commands that are release.lua, and returns the waiters that it wakes.
func (e *episode) end(what string, cmd redoubt.Cmd, id, waiter string, void bool) {
	e.note("%s %s%q", what, id, waiter)
	released, err := wire.ReadRelease(e.c.Do(e.Context(), cmd))
	must(e.T, err)
	want, wake := e.release(id, waiter, void)
	if released != want {
		e.Errorf("%s: released is %v, want %v", what, released, want)
	}
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
	if got := strings.Join(woken, ", "); got != wake {
		e.Errorf("%s woke %q, want %q", what, got, wake)
	}
}

func (e *episode) near(what string, got, want time.Duration) {
	e.Helper()
	if got > want || got < want-time.Minute {
		e.Errorf("%s is %v, want %v or a little less", what, got, want)
	}
}

// look compares the hash and what Info says with the model.
func (e *episode) look() {
	info, err := wire.ReadInfo(e.c.Do(e.Context(), wire.InfoCmd(must1(wire.RWKeys(e.c, e.Name())))))
	must(e.T, err)
	want := wire.Info{Token: e.fence, Waiters: int64(len(e.queue))}
	left := time.Duration(0)
	if e.ttl > 0 && len(info.Holders) == 1 {
		left = info.Holders[0].TTL
		want.Mode, want.Count = int64(lock.Exclusive), 1
		want.Holders = []wire.Holder{{Token: e.fence, Since: time.UnixMicro(e.fence), TTL: left, Label: e.label}}
		e.near("the time left to the holder", left, e.ttl)
	}
	if !reflect.DeepEqual(info, want) {
		e.Errorf("info %+v, want %+v", info, want)
	}

	hash := e.env.Redis.HGetAll(e.Context(), e.key).Val()
	for field, want := range map[string]string{"id": e.id, "last": e.last, "void": e.void} {
		if hash[field] != want {
			e.Errorf("%s is %q, want %q", field, hash[field], want)
		}
	}
	head, _ := strconv.Atoi(hash["head"])
	tail, _ := strconv.Atoi(hash["tail"])
	if tail-head != len(e.queue) {
		e.Errorf("head %d and tail %d of a queue of %d", head, tail, len(e.queue))
	}
	queue := map[string]string{}
	for i, waiter := range e.queue {
		place := strconv.Itoa(head + 1 + i)
		queue[place], queue[waiter] = waiter, place
	}
	for _, field := range []string{"id", "until", "fence", "label", "last", "void"} {
		delete(hash, field)
	}
	if len(e.queue) > 0 {
		delete(hash, "head")
		delete(hash, "tail")
	}
	if !maps.Equal(hash, queue) {
		e.Errorf("the queue on the server is %q, want %q", hash, queue)
	}

	if e.fence == 0 && e.void == "" {
		return // there is no key
	}
	// It outlives the lease and the fence by a minute.
	least := max(left, time.Until(time.UnixMicro(e.fence)), 0) + 50*time.Second
	if keeps := e.env.Redis.PTTL(e.Context(), e.key).Val(); keeps < least {
		e.Errorf("the key lives for %v, want %v", keeps, least)
	}
}
