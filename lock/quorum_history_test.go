package lock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/faults"
	"github.com/redoubt-go/redoubt/internal/test/slow"
	"github.com/redoubt-go/redoubt/lock"
)

// Processes use a few locks on independent masters. The way of each process to any
// of them is delayed, cut, held back or swallows replies, to several at once too.
// There is an order in which one lock could have given all answers, and tokens rise.
//
// Promise: A lease of a Quorum lasts while a majority of the masters is
// reachable, whatever happens to the others and their clocks, and no two are
// valid at a time; masters that return hold it again.
//
// Promise: The tokens of a Quorum rise strictly, whatever the clocks of the
// masters show.
func TestQuorumHistory(t *testing.T) {
	for _, n := range []int{3, 5} {
		for _, kind := range []string{"redis", "engine"} {
			t.Run(fmt.Sprint(kind, n), func(t *testing.T) {
				if n > 3 {
					slow.Test(t, "histories on more masters")
				}
				t.Parallel()
				m := startMasters(t, kind, n)
				total := map[string]int{}
				missing := func() (what []string) {
					for _, w := range []string{acquired, extended, lost} {
						if total[w] == 0 {
							what = append(what, w)
						}
					}
					return what
				}
				began := time.Now()
				ttl := 300 * time.Millisecond
				for round := uint64(0); round < 3 || round < 20 && total[acquired] < 40 || len(missing()) > 0 && time.Since(began) < faults.Patience; round++ {
					h := &history{began: time.Now(), known: map[event]bool{}}
					// The clients and proxies of a round end with it.
					t.Run(fmt.Sprint(round), func(t *testing.T) { m.historyOf(t, h, round, ttl) })
					got := h.check(t, "quorum", lockModel)
					for what, n := range got {
						total[what] += n
					}
					if got[acquired] == 0 { // a machine that is so busy needs more time
						ttl = min(2*ttl, 5*time.Second)
					}
					if n := h.doubles(); n > 0 {
						t.Errorf("%d double holds", n)
					}
				}
				t.Log(total)
				for _, what := range missing() {
					t.Errorf("nothing was %s: the test shows nothing", what)
				}
			})
		}
	}
}

func (m *masters) historyOf(t *testing.T, h *history, round uint64, ttl time.Duration) {
	t.Helper()
	const processes = 4
	names := []string{fmt.Sprint("a", round), fmt.Sprint("b", round)}
	ctx, cancel := context.WithTimeout(t.Context(), 5*ttl)
	defer cancel()
	var wg sync.WaitGroup
	for i := range processes {
		own := m.behindProxies(t) // so that the others see other masters
		q := own.quorum(true, lock.Options{TTL: ttl, NoRenew: i%2 == 0})
		for j, p := range own.proxies {
			rng := rand.New(rand.NewPCG(round, uint64(100*i+j)))
			wg.Go(func() { disturb(ctx, p, rng, ttl) })
		}
		rng := rand.New(rand.NewPCG(round, uint64(100*i+99)))
		wg.Go(func() {
			for ctx.Err() == nil {
				contend(ctx, h, i, q, names[rng.IntN(len(names))], rng, ttl)
			}
		})
	}
	wg.Wait()
}

func disturb(ctx context.Context, p *faultnet.Proxy, rng *rand.Rand, ttl time.Duration) {
	defer p.Heal()
	for ctx.Err() == nil {
		switch rng.IntN(6) {
		case 0:
			p.Delay(upTo(rng, ttl/6))
		case 1:
			p.Cut()
		case 2:
			p.Blackhole(faultnet.ToClient)
		case 3:
			p.Blackhole(faultnet.ToServer)
		case 4:
			p.SwallowNextReply("EVALSHA")
		}
		pause(upTo(rng, ttl), ctx.Done())
		p.Heal()
		p.Delay(0)
		pause(upTo(rng, 8*ttl), ctx.Done())
	}
}

// contend acquires a lock once, uses it and ends it.
func contend(ctx context.Context, h *history, process int, q *lock.Quorum, name string, rng *rand.Rand, ttl time.Duration) {
	within, cancel := context.WithTimeout(ctx, ttl/10+upTo(rng, 2*ttl))
	defer cancel()
	call := time.Now()
	lease, err := q.Acquire(within, name)
	e := event{name: name, what: lost}
	if err != nil {
		h.add(process, e, call, time.Now())
		return
	}
	e = event{name: name, what: acquired, fence: lease.Token(), id: lease.ID()}
	h.add(process, e, call, time.Now())
	for rng.IntN(2) == 0 {
		pause(upTo(rng, ttl/4), lease.Done(), ctx.Done())
		call := time.Now()
		if lease.Extend(ctx, ttl) == nil {
			e.what = extended
			h.add(process, e, call, time.Now())
		}
	}
	stays := rng.IntN(5) == 0 // until the lease is over, if nobody renews it
	if stays {
		pause(2*ttl, lease.Done(), ctx.Done())
	}
	call = time.Now()
	ret := time.Time{}
	if err := lease.Release(ctx); err == nil {
		ret = time.Now()
	}
	if d := lease.Deadline(); d.Before(call) {
		call = d
	}
	e.what = ended
	h.add(process, e, call, ret)
}
