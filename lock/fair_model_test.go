package lock_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
)

// A fairModel is what the hash of one lock says of fair waiters, in Go.
type fairModel struct {
	id         string
	state      int // held, free, or just run out
	fence      int64
	granted    string // how the holder was woken that has not answered yet
	dead       string
	last, void string
	queue      []string          // ids
	entries    map[string]string // how to wake each
}

const (
	freed = iota
	taken
	justRanOut // less than 3 s ago
	ranOutLong // longer ago
)

// pop takes the first out of the queue.
func (m *fairModel) pop() (id, entry string) {
	id = m.queue[0]
	m.queue = m.queue[1:]
	return id, m.entries[id]
}

// grant hands a free lock to the first in the queue whose process lives, unless
// that is self, and returns what is published.
func (m *fairModel) grant(key, self string) (told []string) {
	for len(m.queue) > 0 && m.queue[0] != self && m.state != taken {
		id, entry := m.pop()
		if entry == m.dead || !strings.Contains(entry, alive) {
			continue
		}
		m.id, m.state, m.granted = id, taken, entry
		told = append(told, entry+" "+key+" "+id+"!")
		if len(m.queue) > 0 && m.queue[0] != self {
			if next := m.entries[m.queue[0]]; strings.Contains(next, alive) {
				told = append(told, next+" "+key+" "+m.queue[0])
			}
		}
	}
	return told
}

func (m *fairModel) over(id string) bool {
	return id == m.last || id == m.void || id == m.id && m.granted == ""
}

func (m *fairModel) ask(key, id, entry string) (want wire.Status, told []string) {
	switch {
	case m.state == taken && id == m.id && m.granted == "":
		return wire.Acquired, nil
	case m.over(id):
		return wire.Over, nil
	}
	if entry == m.dead {
		m.dead = ""
	}
	if m.state == taken && id == m.id {
		m.granted = ""
		return wire.Acquired, nil
	}
	if m.state != taken {
		if m.granted != "" && id != m.id {
			m.dead = m.granted
		}
		told = m.grant(key, id)
		if m.state != taken {
			if len(m.queue) > 0 { // it is the first
				m.pop()
			}
			m.id, m.state, m.granted = id, taken, ""
			return wire.Acquired, told
		}
	}
	if !slices.Contains(m.queue, id) {
		m.queue = append(m.queue, id)
		m.entries[id] = entry
	}
	return wire.Held, told
}

func (m *fairModel) end(key, id string, void bool) (released bool, told []string) {
	switch {
	case id == m.id && m.state != freed:
		m.state, m.last, released = freed, id, true
		if void {
			m.granted = ""
		}
	case id == m.last:
		released = true
	case void:
		m.void = id
	}
	if void {
		m.queue = slices.DeleteFunc(m.queue, func(o string) bool { return o == id })
	}
	if m.state != taken {
		told = m.grant(key, "")
	}
	return released, told
}

// The scripts hand a lock on as the model does, whatever comes in whatever order.
//
// Promise: With Fair, waiters are served in the order in which they queued,
// across all processes, by two commands each; no later caller gets in between,
// and a dead waiter delays the others by 3 s at most.
func TestFairScriptsFollowTheModel(t *testing.T) {
	eachServer(t, func(t *testing.T, e *env) {
		for seed := range uint64(8) {
			t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
				e := newFairEpisode(t, e, seed)
				for range 400 {
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

type fairEpisode struct {
	*testing.T
	*fairModel

	rng     *rand.Rand
	env     *env
	c       *redoubt.Client
	key     string
	mark    string
	inbox   <-chan *redis.Message
	entry   []string
	counter int
	log     []string
}

func newFairEpisode(t *testing.T, on *env, seed uint64) *fairEpisode {
	e := &fairEpisode{T: t, fairModel: &fairModel{entries: map[string]string{}}, rng: rand.New(rand.NewPCG(seed, 3)), env: on, c: on.newClient()}
	e.key = on.key(t.Name())
	e.mark = on.Prefix + t.Name() + ":mark"
	channels := []string{e.mark}
	for i := range 4 {
		channels = append(channels, fmt.Sprint(on.Prefix, t.Name(), alive, i))
		e.entry = append(e.entry, "PUBLISH "+channels[i+1], fmt.Sprint("PUBLISH ", on.Prefix, t.Name(), ":gone:", i))
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

// some is the id of a holder, of a waiter or of a stranger.
func (e *fairEpisode) some() string {
	if n := len(e.queue); n > 0 && e.rng.IntN(3) > 0 {
		return e.queue[e.rng.IntN(n)]
	}
	if e.id != "" && e.rng.IntN(3) > 0 {
		return e.id
	}
	return fmt.Sprint("id", e.counter-e.rng.IntN(10))
}

func (e *fairEpisode) step() {
	ctx, was := e.Context(), e.fence
	switch n := e.rng.IntN(100); {
	case n < 55:
		id, entry := e.some(), e.entry[e.rng.IntN(len(e.entry))]
		if n < 35 {
			e.counter++
			id = fmt.Sprint("id", e.counter)
		} else if known := e.entries[id]; known != "" {
			entry = known
		}
		e.log = append(e.log, fmt.Sprintf("ask %s %q", id, entry))
		a, err := wire.ReadAttempt(e.c.Do(ctx, wire.FairCmd([]string{e.key}, wire.Request{ID: id, TTL: time.Minute, Waiter: entry})))
		must(e.T, err)
		want, told := e.ask(e.key, id, entry)
		if a.Status != want {
			e.Errorf("ask: %+v, want status %d", a, want)
		}
		e.fence = a.Token
		if want == wire.Acquired && e.state == taken && a.TTL < 59*time.Second {
			e.Errorf("acquired for %v, want a minute", a.TTL)
		}
		e.told(told)
	case n < 65:
		id := fmt.Sprint("plain", e.rng.IntN(1000))
		e.log = append(e.log, "a caller that doesn't ask in order, "+id)
		a, err := wire.ReadAttempt(e.c.Do(ctx, wire.AcquireCmd([]string{e.key}, wire.Request{ID: id, TTL: time.Minute})))
		must(e.T, err)
		want := wire.Held
		switch {
		case e.state == taken && id == e.id:
			want = wire.Acquired
		case e.over(id):
			want = wire.Over
		case e.state != taken && (e.state != justRanOut || len(e.queue) == 0):
			want = wire.Acquired
			e.id, e.state, e.granted = id, taken, ""
		}
		if a.Status != want {
			e.Errorf("acquire: %+v, want status %d", a, want)
		}
		e.fence = a.Token
		e.told(nil)
	case n < 88:
		id, void := e.some(), e.rng.IntN(3) > 0
		e.log = append(e.log, fmt.Sprintf("release %s, void: %v", id, void))
		cmd := wire.ReleaseCmd([]string{e.key}, id, "", false)
		if void {
			cmd = wire.FairReleaseCmd([]string{e.key}, id, "", true)
		}
		released, err := wire.ReadRelease(e.c.Do(ctx, cmd))
		must(e.T, err)
		want, told := e.end(e.key, id, void)
		if released != want {
			e.Errorf("released is %v, want %v", released, want)
		}
		e.fence, err = e.env.Redis.HGet(ctx, e.key, "fence").Int64()
		if err != nil {
			e.fence = 0
		}
		e.told(told)
	default:
		if e.state != taken {
			return
		}
		ago := time.Millisecond
		if e.state = justRanOut; n > 95 {
			ago, e.state = 4*time.Second, ranOutLong
		}
		e.log = append(e.log, fmt.Sprint("the lease ran out ", ago, " ago"))
		must(e.T, e.env.Redis.HSet(ctx, e.key, "until", time.Now().Add(-ago).UnixMicro()).Err())
	}
	if e.fence < was {
		e.Errorf("the fence fell from %d to %d", was, e.fence)
	}
}

// told compares what was published with what the model says.
func (e *fairEpisode) told(want []string) {
	e.Helper()
	must(e.T, e.env.Redis.Publish(e.Context(), e.mark, "").Err())
	var got []string
	for m := range e.inbox {
		if m.Channel == e.mark {
			break
		}
		got = append(got, "PUBLISH "+m.Channel+" "+m.Payload)
	}
	if !slices.Equal(got, want) {
		e.Errorf("published %q, want %q", got, want)
	}
}

// look compares the hash with the model.
func (e *fairEpisode) look() {
	hash := e.env.Redis.HGetAll(e.Context(), e.key).Val()
	if e.fence == 0 {
		return
	}
	want := map[string]string{}
	for i, id := range e.queue {
		before, behind := "", ""
		if i > 0 {
			before = "=" + e.queue[i-1]
		}
		if i < len(e.queue)-1 {
			behind = "=" + e.queue[i+1]
		}
		want["="+id] = fmt.Sprintf("%q", []string{e.entries[id], e.key + " " + id + "!", before, behind})
		hash["="+id] = fmt.Sprintf("%q", node(hash["="+id], i == 0))
	}
	if n := len(e.queue); n > 0 {
		want["fair_first"], want["fair_last"], want["fair"] = "="+e.queue[0], "="+e.queue[n-1], fmt.Sprint(n)
	}
	if e.dead != "" {
		want["dead"] = e.dead
	}
	if e.state == freed && e.granted == "" && hash["granted"] == hash["fence"] {
		e.Errorf("the lock is free, and granted to %q", hash["granted_to"])
	}
	if e.id != hash["id"] {
		e.Errorf("the holder is %q, want %q", hash["id"], e.id)
	}
	maps.DeleteFunc(hash, func(field, _ string) bool {
		return slices.Contains([]string{"id", "until", "fence", "label", "last", "void", "granted", "granted_to"}, field)
	})
	if !maps.Equal(hash, want) {
		e.Errorf("the queue on the server is %q, want %q", hash, want)
	}
	if left := e.env.Redis.PTTL(e.Context(), e.key).Val(); left < 59*time.Second {
		e.Errorf("the key lives for %v, want a minute or more", left)
	}
}

// node reads the entry of a waiter. The entries before the first are gone.
func node(packed string, first bool) (parts []string) {
	for len(packed) >= 2 {
		n := int(packed[0])<<8 | int(packed[1])
		if 2+n > len(packed) {
			break
		}
		parts, packed = append(parts, packed[2:2+n]), packed[2+n:]
	}
	if first && len(parts) == 4 {
		parts[2] = ""
	}
	return parts
}
