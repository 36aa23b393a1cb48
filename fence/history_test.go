package fence_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/fence"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/faults"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// A write to a register with a token, or a read: of its value, when the token is
// 0, or of the largest token, when it is −1.
type event struct{ token, value int64 }

// An answer, or nothing when the call failed: then it may have had its
// effect, at any later time too.
type answer struct {
	known    bool
	accepted bool
	n        int64 // what was read, or the largest token of a write that was refused
}

// register is a value and the largest token seen.
type register struct{ token, value int64 }

// A register that no write with a smaller token than the largest seen gets
// through to.
var registerModel = porcupine.Model{
	Init: func() any { return register{} },
	Step: func(state, input, output any) (bool, any) {
		s, e, a := state.(register), input.(event), output.(answer)
		want := answer{known: true}
		switch {
		case e.token == 0:
			want.n = s.value
		case e.token < 0:
			want.n = s.token
		case e.token < s.token:
			want.n = s.token
		default:
			want.accepted = true
			s = register(e)
		}
		return !a.known || a == want, s
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// A history is what several processes did, with times since its beginning.
type history struct {
	began  time.Time
	tokens atomic.Int64
	values atomic.Int64

	mu     sync.Mutex
	ops    []porcupine.Operation
	counts map[string]int
}

func (h *history) add(process int, e event, a answer, call, ret time.Time) {
	op := porcupine.Operation{ClientId: process, Input: e, Output: a, Call: int64(call.Sub(h.began)), Return: math.MaxInt64}
	if !ret.IsZero() {
		op.Return = int64(ret.Sub(h.began))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
	switch {
	case !a.known:
		h.counts["unknown"]++
	case e.token > 0 && a.accepted:
		h.counts["accepted"]++
	case e.token > 0:
		h.counts["stale"]++
	}
}

// Several processes write to a register over networks that delay, cut, hold back
// and swallow, each with tokens that others overtake. Whatever order the answers
// came in, there is an order in which the accepted tokens never fall.
//
// HISTORY=10m go test -run TestHistory -timeout 1h ./fence runs it for ten
// minutes on each back end instead of two seconds.
//
// Promise: The tokens of accepted writes never fall, among all processes and
// whatever the network loses.
func TestHistory(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		const n = 4
		var processes []*process
		for i := range n {
			proxy := faultnet.New(t, e.Addr)
			rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr(), MaxRetries: -1, ReadTimeout: patience})
			clienttest.Watch(t, rdb)
			t.Cleanup(func() { _ = rdb.Close() })
			processes = append(processes, &process{id: i, proxy: proxy, rdb: rdb, guard: e.guardOn(rdb, fence.Options{})})
		}
		wanted := []string{"unknown", "accepted", "stale"}
		faults.Rounds(t, 2*time.Second, wanted, func(t *testing.T, round uint64, total map[string]int) {
			h := &history{began: time.Now(), counts: map[string]int{}}
			name := fmt.Sprint(e.Prefix, "r", round)
			var wg sync.WaitGroup
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			for i, p := range processes {
				seed := round*n + uint64(i)
				wg.Go(func() { p.disturb(ctx, rand.New(rand.NewPCG(seed, 1))) })
				wg.Go(func() { p.work(ctx, rand.New(rand.NewPCG(seed, 2)), h, name) })
			}
			wg.Wait()
			cancel()
			result, info := porcupine.CheckOperationsVerbose(registerModel, h.ops, time.Minute)
			if result != porcupine.Ok {
				file := filepath.Join(t.ArtifactDir(), "history.html")
				must(t, porcupine.VisualizePath(registerModel, info, file))
				t.Errorf("the history is not that of a fenced register: %s; with -artifacts it is kept in %s", result, file)
			}
			for what, n := range h.counts {
				total[what] += n
			}
		})
	})
}

const patience = 100 * time.Millisecond

// A process of the history has connections of its own.
type process struct {
	id    int
	proxy *faultnet.Proxy
	rdb   *redis.Client
	guard *fence.Guard
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func upTo(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }

// disturb disturbs the network of the process until ctx ends.
func (p *process) disturb(ctx context.Context, rng *rand.Rand) {
	heal := func() {
		p.proxy.Heal()
		p.proxy.Delay(0)
	}
	defer heal()
	for ctx.Err() == nil {
		switch rng.IntN(6) {
		case 0:
			p.proxy.Delay(upTo(rng, patience/10))
		case 1:
			p.proxy.Cut()
		case 2:
			p.proxy.Blackhole(faultnet.ToClient)
		case 3:
			p.proxy.Blackhole(faultnet.ToServer)
		case 4:
			p.proxy.SwallowNextReply("EVALSHA")
		}
		pause(ctx, upTo(rng, patience/2))
		heal()
		pause(ctx, upTo(rng, patience))
	}
}

// work takes a token, as a lock would give it, and writes with it for a while,
// also when others have taken theirs.
func (p *process) work(ctx context.Context, rng *rand.Rand, h *history, name string) {
	for ctx.Err() == nil {
		token := h.tokens.Add(1)
		for range 1 + rng.IntN(5) {
			pause(ctx, upTo(rng, patience/20))
			switch rng.IntN(5) {
			case 0:
				p.read(ctx, h, event{token: 0}, func() (int64, error) {
					n, err := p.rdb.Get(ctx, name).Int64()
					if errors.Is(err, redis.Nil) {
						return 0, nil
					}
					return n, err
				})
			case 1:
				p.read(ctx, h, event{token: -1}, func() (int64, error) {
					info, err := p.guard.Info(ctx, name)
					return info.Token, err
				})
			default:
				p.write(ctx, rng, h, name, event{token, h.values.Add(1)})
			}
		}
	}
}

func (p *process) read(_ context.Context, h *history, e event, get func() (int64, error)) {
	call := time.Now()
	if n, err := get(); err == nil {
		h.add(p.id, e, answer{known: true, n: n}, call, time.Now())
	}
}

func (p *process) write(ctx context.Context, rng *rand.Rand, h *history, name string, e event) {
	cmd := set(name, itoa(e.value))
	once := rng.IntN(2) == 0
	if once {
		cmd.Flags = 0
	}
	if rng.IntN(8) == 0 { // an impatient one
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, upTo(rng, patience/10))
		defer cancel()
	}
	call := time.Now()
	err := p.guard.Do(ctx, name, e.token, cmd).Err
	ret := time.Now()
	stale, refused := errors.AsType[*fence.StaleError](err)
	switch {
	case refused:
		if !once { // it may have been sent twice, and the first let through
			h.add(p.id, e, answer{}, call, time.Time{})
		}
		h.add(p.id, e, answer{known: true, n: stale.Current}, call, ret)
	case err == nil:
		h.add(p.id, e, answer{known: true, accepted: true}, call, ret)
	case errors.Is(err, redoubt.ErrUnknownOutcome) || !once:
		h.add(p.id, e, answer{}, call, time.Time{})
	}
}
