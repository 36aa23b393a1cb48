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

// rwEpisode drives a reader/writer lock and its model side by side. The embedded
// model is that of the writers and the queue.
type rwEpisode struct {
	*episode

	keys     []string
	readIDs  []string
	reading  map[string]time.Duration // readers, with the time until each lease ends
	gone     map[string]int           // readers that are over: 1 released, 0 not, ranOut
	claimBy  string                   // "": no claim
	claimFor int64                    // the fence that the claim is for
	forced   int64                    // the fence of the holder that lost the lock by force
}

// ranOut is a reader that ran out: it is forgotten when others found a group
// before any has joined the old one.
const ranOut = 2

// left is the time left to whoever holds the lock.
func (e *rwEpisode) left() (left time.Duration) {
	left = e.ttl
	for _, ttl := range e.reading {
		left = max(left, ttl)
	}
	return left
}

func (e *rwEpisode) claimed() bool { return e.claimBy != "" && e.claimFor == e.fence }

// The scripts of a reader/writer lock do what the model does, together with the scripts
// of a Mutex, in any order of calls: the same replies, the same wake-ups.
//
// Promise: No writer holds an RWMutex or a Mutex together with readers or
// another writer; readers carry the token of the last writer, and a dead
// reader is in the way until its own lease ends.
func TestRWFollowsTheModel(t *testing.T) {
	eachServer(t, func(t *testing.T, e *env) {
		for seed := range uint64(10) {
			t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
				e := &rwEpisode{episode: newEpisode(t, e, seed), reading: map[string]time.Duration{}, gone: map[string]int{}}
				tag := e.env.Prefix + ":{" + t.Name() + "}:"
				e.keys = []string{tag + "lock", tag + "readers", tag + "labels"}
				for i := range 40 {
					e.readIDs = append(e.readIDs, fmt.Sprint("reader", i))
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

func (e *rwEpisode) step() {
	id, waiter := one(e.episode, e.readIDs), one(e.episode, e.waiters)
	ttl := time.Duration(2+e.rng.IntN(1000)) * time.Minute
	if len(e.reading) > 0 && e.rng.IntN(3) == 0 {
		id = e.someReader()
	}
	write := e.rng.IntN(3) == 0
	if write {
		id = one(e.episode, e.ids)
	}
	if e.rng.IntN(4) == 0 {
		waiter = ""
	}
	switch n := e.rng.IntN(100); {
	case n < 40 && write:
		if len(e.reading) > 0 { // which the model of a Mutex doesn't know
			e.writeBusy(id, ttl, waiter)
		} else {
			e.acquire(id, ttl, waiter)
		}
	case n < 40:
		e.read(id, ttl, waiter)
	case n < 48:
		e.note("claim %s", id)
		n, err := e.c.Do(e.Context(), wire.ClaimCmd([]string{e.key}, id, 3*time.Second)).Array()
		must(e.T, err)
		if held := e.left() > 0; (n[0] == int64(1)) != held {
			e.Errorf("claimed is %v, want %v", n[0], held)
		} else if held {
			e.claimBy, e.claimFor = id, e.fence
			// A test may take longer than the claim.
			must(e.T, e.env.Redis.HSet(e.Context(), e.key, "claim", time.Now().Add(time.Hour).UnixMicro()).Err())
		}
	case n < 51:
		e.note("the claim ends")
		if e.claimBy != "" {
			must(e.T, e.env.Redis.HSet(e.Context(), e.key, "claim", 1).Err())
			e.claimBy = ""
		}
	case n < 60:
		e.note("extend %s %v", id, ttl)
		held, left, err := wire.ReadExtend(e.c.Do(e.Context(), wire.RWExtendCmd(e.keys, id, ttl)))
		must(e.T, err)
		_, want := e.reading[id]
		if want {
			e.reading[id] = max(e.reading[id], ttl)
			e.near("the time left to a reader", left, e.reading[id])
		} else if want = id == e.id && e.ttl > 0; want {
			e.ttl = max(e.ttl, ttl)
			e.near("the time left to a writer", left, e.ttl)
		}
		if held != want {
			e.Errorf("held is %v, want %v", held, want)
		}
	case n < 80:
		if e.ttl > 0 && n < 70 {
			id = e.id // else most releases would do nothing
		}
		e.end("release", id, "", "0")
	case n < 85 && write:
		e.end("void", id, "", "1")
	case n < 85:
		e.end("void", id, "", "2")
	case n < 93:
		if len(e.queue) > 0 && e.rng.IntN(3) > 0 { // else it may have been woken
			waiter = one(e.episode, e.queue)
		}
		if e.rng.IntN(2) == 0 {
			id = e.claimBy
		} else {
			id = ""
		}
		e.end("leave", id, waiter, "0")
	case n < 96:
		e.force(e.fence - int64(n%3/2)) // or an older one
	case n < 98:
		e.note("all run out")
		if e.left() > 0 {
			must(e.T, e.env.Redis.HSet(e.Context(), e.key, "until", 1).Err())
			e.ttl = 0
			for id := range e.reading {
				delete(e.reading, id) // whose id may come back when others read
				must(e.T, e.env.Redis.ZRem(e.Context(), e.keys[1], id).Err())
			}
		}
	case len(e.reading) > 1:
		id = e.someReader()
		if e.reading[id] == e.left() {
			return // it would take the lock along
		}
		e.note("%s runs out", id)
		must(e.T, e.env.Redis.Do(e.Context(), "ZADD", e.keys[1], 1, id).Err())
		delete(e.reading, id)
		e.gone[id] = ranOut
	}
}

func (e *rwEpisode) someReader() string {
	var ids []string
	for id := range e.reading {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return one(e.episode, ids)
}

// writeBusy is an acquire of a Mutex that finds readers.
func (e *rwEpisode) writeBusy(id string, ttl time.Duration, waiter string) {
	e.note("write %s %q", id, waiter)
	a, err := wire.ReadAttempt(e.c.Do(e.Context(), wire.AcquireCmd([]string{e.key}, wire.Request{ID: id, TTL: ttl, Waiter: waiter})))
	must(e.T, err)
	want := wire.Held
	if id == e.last || id == e.void {
		want = wire.Over
	} else if waiter != "" && !slices.Contains(e.queue, waiter) {
		e.queue = append(e.queue, waiter)
	}
	if a.Status != want || a.Token != e.fence {
		e.Errorf("write: %+v, want status %d and fence %d", a, want, e.fence)
	}
	if want == wire.Held {
		e.near("the time left to the readers", a.TTL, e.left())
	}
}

func (e *rwEpisode) read(id string, ttl time.Duration, waiter string) {
	e.note("read %s %v %q", id, ttl, waiter)
	var a wire.Attempt
	r := lock.Request{ID: id, TTL: ttl}
	woken := e.woken(func() (err error) {
		a, err = wire.ReadAttempt(e.c.Do(e.Context(), wire.ReadCmd(e.keys, wire.Request{ID: r.ID, TTL: r.TTL, Label: r.Label, Waiter: waiter})))
		return err
	})
	want, wake := wire.Over, ""
	mine, holds := e.reading[id]
	_, over := e.gone[id]
	switch {
	case holds:
		want = wire.Acquired
		e.near("the time left", a.TTL, mine)
	case over:
	case e.ttl > 0 || e.claimed():
		want = wire.Held
		if e.left() == 0 && waiter != "" {
			// The lock is left to the writer that claims it: whoever stands first
			// is woken, unless that is this one.
			wake = e.wakeUpTo(waiter)
		}
		if waiter != "" && !slices.Contains(e.queue, waiter) {
			e.queue = append(e.queue, waiter)
		}
	default:
		want = wire.Acquired
		if e.fence == 0 {
			e.fence = a.Token
		}
		founds := len(e.reading) == 0
		for id, how := range e.gone {
			if how == ranOut && founds {
				delete(e.gone, id)
			} else if how == ranOut {
				e.gone[id] = 0
			}
		}
		e.reading[id] = ttl
		if founds {
			// The fields of the last writer belong to the readers now.
			e.id = ""
		}
		e.leave(waiter)
		if waiter != "" {
			wake = e.wake()
		}
	}
	if a.Status != want || a.Token != e.fence || woken != wake {
		e.Errorf("read: %+v and woke %q, want status %d, fence %d and %q", a, woken, want, e.fence, wake)
	}
}

func (e *rwEpisode) wakeUpTo(waiter string) (woken string) {
	for tries := 0; tries < 64 && len(e.queue) > 0 && woken == "" && e.queue[0] != waiter; tries++ {
		if strings.Contains(e.queue[0], alive) {
			woken = e.queue[0]
		}
		e.queue = e.queue[1:]
	}
	return woken
}

func (e *rwEpisode) end(what, id, waiter, void string) {
	e.note("%s %s %q %s", what, id, waiter, void)
	var released bool
	woken := e.woken(func() (err error) {
		released, err = wire.ReadRelease(e.c.Do(e.Context(), wire.RWReleaseCmd(e.keys, id, waiter, void)))
		return err
	})
	_, reads := e.reading[id]
	_, over := e.gone[id]
	want := false
	switch {
	case id != "" && id == e.id && e.ttl > 0:
		e.ttl, e.last, want = 0, id, true
	case reads:
		delete(e.reading, id)
		e.gone[id], want = 1, true
	case id == e.last && id != "":
		want = true
	case over:
		want = e.gone[id] == 1
	case void == "1":
		e.void = id
	case void == "2":
		e.gone[id] = 0
	}
	wake := e.left() == 0
	if id != "" && id == e.claimBy {
		e.claimBy = ""
		wake = wake || len(e.reading) > 0
	}
	if id == "" && waiter != "" && !slices.Contains(e.queue, waiter) {
		wake = wake || len(e.reading) > 0
	}
	e.leave(waiter)
	who := ""
	if wake {
		who = e.wake()
	}
	if released != want || woken != who {
		e.Errorf("%s: %v and woke %q, want %v and %q", what, released, woken, want, who)
	}
}

// force takes the lock away from all holders with fence.
func (e *rwEpisode) force(fence int64) {
	e.note("force %d of %d", fence, e.fence)
	var released bool
	woken := e.woken(func() (err error) {
		released, err = wire.ReadRelease(e.c.Do(e.Context(), wire.RWReleaseCmd(e.keys, fmt.Sprint(fence), "", "3")))
		return err
	})
	want := fence > 0 && e.forced == fence
	if e.left() > 0 && fence == e.fence {
		e.forced, want = fence, true
		e.ttl = 0
		for id := range e.reading {
			delete(e.reading, id)
			e.gone[id] = ranOut
		}
	}
	who := ""
	if e.left() == 0 {
		who = e.wake()
	}
	if released != want || woken != who {
		e.Errorf("force: %v and woke %q, want %v and %q", released, woken, want, who)
	}
}

func (e *rwEpisode) look() {
	info, err := wire.ReadInfo(e.c.Do(e.Context(), wire.InfoCmd(must1(wire.RWKeys(e.c, e.Name())))))
	must(e.T, err)
	mode, count := lock.Free, 0
	switch {
	case e.ttl > 0:
		mode, count = lock.Exclusive, 1
	case len(e.reading) > 0:
		mode, count = lock.Shared, len(e.reading)
	}
	if lock.Mode(info.Mode) != mode || info.Count != int64(count) || len(info.Holders) != count || info.Token != e.fence || info.Waiters != int64(len(e.queue)) {
		e.Errorf("info %+v, want %v, %d holders, %d waiting, fence %d", info, mode, count, len(e.queue), e.fence)
	}
	if count > 0 {
		e.near("the time left to the last", info.Holders[count-1].TTL, e.left())
		if left := e.env.Redis.PTTL(e.Context(), e.key).Val(); left < e.left() {
			e.Errorf("the key lives for %v, the lease for %v", left, e.left())
		}
	}
}
