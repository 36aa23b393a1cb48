package bloom_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	wire "github.com/redoubt-go/redoubt/internal/wire/bloom"
)

// insert adds items in one call.
func (e *env) insert(c *wire.Chains, key string, s wire.ChainSpec, items []string) []int64 {
	e.T.Helper()
	status, became, err := c.Insert(e.T.Context(), key, &s, wire.HashItems(items))
	must(e.T, err)
	if status != wire.ChainDone {
		e.T.Fatalf("status %d", status)
	}
	return became
}

// missed counts the items that a chain denies.
func (e *env) missed(c *wire.Chains, key string, items []string) (n int) {
	e.T.Helper()
	in, err := c.Exists(e.T.Context(), key, wire.HashItems(items))
	must(e.T, err)
	if len(in) != len(items) {
		e.T.Fatalf("%d answers for %d items", len(in), len(items))
	}
	for _, i := range in {
		n += 1 - int(i)
	}
	return n
}

// fresh counts the items that were new.
func fresh(became []int64) (n int) {
	for _, b := range became {
		if b == wire.ItemNew {
			n++
		}
	}
	return n
}

// With any number of items and links, a call is a few commands, and no command looks at the bits of
// each item one by one.
func TestChainOfManyItems(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		counter := &clienttest.Counter{Conn: e.Conn}
		client, _ := e.on(counter)
		chains := wire.NewChains(client)
		items := numbered("", 10_000)
		for _, c := range []struct {
			name       string
			s          wire.ChainSpec
			low, high  int // how many of the items are new
			trips      int64
			exactLinks int
		}{
			// A link for each item, until the error rate is 0.
			{"ones", wire.ChainSpec{ErrorRate: 0.0001, Capacity: 1, Expansion: 1}, 1061, 1061, 6, 1061},
			{"default", wire.ChainSpec{ErrorRate: 0.01, Capacity: 100, Expansion: 2}, 9800, 10_000, 6, 7},
			{"one", wire.ChainSpec{ErrorRate: 0.01, Capacity: 100_000, Fixed: true}, 9990, 10_000, 6, 1},
		} {
			counter.Trips.Store(0)
			became := e.insert(chains, e.Prefix+c.name, c.s, items)
			if n := fresh(became); len(became) != len(items) || n < c.low || n > c.high {
				t.Errorf("%s: %d answers, %d are new, want %d to %d", c.name, len(became), n, c.low, c.high)
			}
			if n := counter.Trips.Swap(0); n > c.trips {
				t.Errorf("%s: %d round trips, want at most %d", c.name, n, c.trips)
			}
			if n := e.missed(chains, e.Prefix+c.name, items); c.name != "ones" && n > 0 {
				t.Errorf("%s: %d items are denied", c.name, n)
			}
			if n := counter.Trips.Load(); n > c.trips {
				t.Errorf("%s: %d round trips to look, want at most %d", c.name, n, c.trips)
			}
			_, info, err := wire.ReadHeader(e.Client.Do(t.Context(), wire.ChainHeaderCmd(e.Prefix+c.name)))
			must(t, err)
			if info.Links != c.exactLinks || info.Items != int64(fresh(became)) {
				t.Errorf("%s: %d links, %d items, want %d and as many as were new", c.name, info.Links, info.Items, c.exactLinks)
			}
		}
	})
}

// Where a chain is too large for a round, scripts set bits at given positions. The result is the
// same as with scripts that compute the positions, even if the chain changes meanwhile.
func TestChainSetsPositions(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		sets, hook := 0, func() {}
		h := &hooked{Conn: e.Conn}
		h.before = func(cmd redoubt.Cmd) {
			if cmd.Script != nil && cmd.Script.Name() == "bloom.chain_set" {
				sets++
				hook()
			}
		}
		client, _ := e.on(h)
		chains := wire.NewChains(client)
		// 5.5 MB, more than a round writes.
		s := wire.ChainSpec{ErrorRate: 0.01, Capacity: 4_000_000, Expansion: 2}
		items := append(numbered("", 1000), "7", "8")
		key, other := e.Prefix+"ours", e.Prefix+"others"
		reserve := func(key string, capacity int64) {
			cmd, err := wire.ChainReserveCmd(key, wire.ChainSpec{ErrorRate: 0.01, Capacity: capacity, Expansion: 2})
			must(t, err)
			must(t, e.Client.Do(t.Context(), cmd).Err)
		}
		insert := func() (became []int64) { return e.insert(chains, key, s, items) }
		reserve(key, s.Capacity)
		got := insert()
		if sets < 4 {
			t.Errorf("%d scripts were given positions", sets)
		}
		var want []int64
		for some := range slices.Chunk(items, 50) {
			cmd, err := wire.ChainInsertCmd(other, &s, wire.HashItems(some))
			must(t, err)
			_, became, err := wire.ReadInserted(e.Client.Do(t.Context(), cmd))
			must(t, err)
			want = append(want, became...)
		}
		if !slices.Equal(got, want) {
			t.Error("other items are new than to scripts that compute the positions")
		}
		const random = 16 // bytes that differ at the end
		ours, others := e.Redis.Get(t.Context(), key).Val(), e.Redis.Get(t.Context(), other).Val()
		if len(ours) < random || ours[:len(ours)-random] != others[:max(len(others)-random, 0)] {
			t.Error("the chain is another than that of scripts that compute the positions")
		}
		if n := fresh(insert()); n > 0 {
			t.Errorf("%d are new the second time", n)
		}

		// Another chain takes its place: it gets the items from then on.
		sets = 0
		hook = func() {
			if sets == 2 {
				must(t, e.Redis.Del(t.Context(), key).Err())
				reserve(key, s.Capacity+100_000)
			}
		}
		must(t, e.Redis.Del(t.Context(), key).Err())
		reserve(key, s.Capacity)
		if n := fresh(insert()); n < 990 {
			t.Errorf("%d are new", n)
		}
		if n := e.missed(chains, key, items[300:]); sets < 3 || n > 0 {
			t.Errorf("%d sets, %d items are denied", sets, n)
		}

		// It has room for ten more, and grows.
		hook = func() {}
		must(t, e.Redis.Del(t.Context(), key).Err())
		reserve(key, s.Capacity)
		end := e.Redis.StrLen(t.Context(), key).Val()
		size := binary.LittleEndian.AppendUint64(nil, uint64(s.Capacity-10))
		for _, at := range []int64{end - 89, end - 52} {
			must(t, e.Redis.SetRange(t.Context(), key, at, string(size)).Err())
		}
		if n := fresh(insert()); n < 990 {
			t.Errorf("%d are new", n)
		}
		_, info, err := wire.ReadHeader(e.Client.Do(t.Context(), wire.ChainHeaderCmd(key)))
		must(t, err)
		if n := e.missed(chains, key, items); n > 0 || info.Links != 2 {
			t.Errorf("%d links, %d items are denied", info.Links, n)
		}
	})
}

// Changes of a chain during a round are not lost, and the round ends, however often they happen.
func TestChainChangesDuringRounds(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		s := wire.ChainSpec{ErrorRate: 1e-9, Capacity: 100, Expansion: 2}
		ours, others := numbered("ours", 700), numbered("others", 60)
		for what, change := range map[string]func(key string, n int){
			"adds": func(key string, n int) {
				cmd, err := wire.ChainInsertCmd(key, &s, wire.HashItems(others[n:n+1]))
				must(t, err)
				must(t, e.Client.Do(t.Context(), cmd).Err)
			},
			// As large as it was, and another.
			"makes it anew": func(key string, n int) {
				if n > 0 {
					return
				}
				must(t, e.Redis.Del(t.Context(), key).Err())
				e.insert(wire.NewChains(e.Client), key, s, others)
			},
			// As large as it was, with other bits.
			"loads a part": func(key string, n int) {
				if n > 0 {
					return
				}
				from := key + "from"
				e.insert(wire.NewChains(e.Client), from, s, others)
				parts, iters := e.dump(from)
				cmd, err := wire.ChainLoadCmd(key, iters[1], parts[1])
				must(t, err)
				must(t, e.Client.Do(t.Context(), cmd).Err)
			},
		} {
			key, n := e.Prefix+what, 0
			for i, item := range others { // the chain has the items that its makers give it
				e.insert(wire.NewChains(e.Client), key, s, []string{fmt.Sprint("first", i, item)})
			}
			h := &hooked{Conn: e.Conn}
			h.before = func(cmd redoubt.Cmd) {
				if cmd.Script != nil && cmd.Script.Name() == "bloom.chain_commit" {
					change(key, n)
					n++
				}
			}
			client, _ := e.on(h)
			chains := wire.NewChains(client)
			chains.InRounds()
			if n := fresh(e.insert(chains, key, s, ours)); n != len(ours) {
				t.Errorf("somebody %s: %d are new, want %d", what, n, len(ours))
			}
			if n < 1 {
				t.Errorf("somebody %s: no round was tried", what)
			}
			sofar := others
			if what == "adds" {
				sofar = others[:n]
			}
			if n := e.missed(chains, key, slices.Concat(ours, sofar)); n > 0 {
				t.Errorf("somebody %s: %d items are denied", what, n)
			}
		}
	})
}

// Promise: when several callers add an item at once, it is new to one of them.
func TestChainAddersTogether(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		s := wire.ChainSpec{ErrorRate: 1e-9, Capacity: 10, Expansion: 1}
		items, key := numbered("", 300), e.Prefix+"k"
		chains := wire.NewChains(e.Client)
		var (
			wg    sync.WaitGroup
			heard [4]int
		)
		for g := range heard {
			wg.Go(func() {
				for from := 0; from < len(items); from += 100 {
					at := (from + 100*g) % len(items)
					_, became, err := chains.Insert(t.Context(), key, &s, wire.HashItems(items[at:at+100]))
					if err != nil {
						t.Error(err)
					}
					heard[g] += fresh(became)
				}
			})
		}
		wg.Wait()
		_, info, err := wire.ReadHeader(e.Client.Do(t.Context(), wire.ChainHeaderCmd(key)))
		must(t, err)
		if n := heard[0] + heard[1] + heard[2] + heard[3]; int64(n) != info.Items || n < 280 {
			t.Errorf("%v heard that an item is new: %d in all, want %d", heard, n, info.Items)
		}
		if n := e.missed(chains, key, items); n > 0 {
			t.Errorf("%d items are denied", n)
		}
	})
}

// A part of a dump that is larger than one step writes arrives whole.
func TestChainLoadsLargeParts(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		s := wire.ChainSpec{ErrorRate: 0.001, Capacity: 1_400_000, Fixed: true}
		items, chains := numbered("", 3000), wire.NewChains(e.Client)
		e.insert(chains, e.Prefix+"from", s, items)
		parts, iters := e.dump(e.Prefix + "from")
		whole, to := "", e.Prefix+"to"
		for _, p := range parts[1:] {
			whole += p
		}
		cmd, err := wire.ChainLoadCmd(to, 1, parts[0])
		must(t, err)
		must(t, e.Client.Do(t.Context(), cmd).Err)
		for _, c := range []struct {
			iter int64
			data string
			want wire.ChainStatus
		}{
			{iters[len(iters)-1], whole, wire.ChainDone},
			{iters[len(iters)-1] + 1, whole, wire.ChainTooLong},
			{2 * iters[len(iters)-1], whole, wire.ChainUnknownPart},
		} {
			if wire.LoadsAtOnce(c.iter, c.data) {
				t.Errorf("%d bytes are loaded in one step", len(c.data))
			}
			status, err := chains.Load(t.Context(), to, c.iter, c.data)
			must(t, err)
			if status != c.want {
				t.Errorf("iterator %d: status %d, want %d", c.iter, status, c.want)
			}
		}
		if n := e.missed(chains, to, items); n > 0 {
			t.Errorf("%d items are denied", n)
		}
		if status, err := chains.Load(t.Context(), e.Prefix+"none", 1<<23, whole); status != wire.ChainMissing || err != nil {
			t.Errorf("without a filter: status %d, %v", status, err)
		}
	})
}
