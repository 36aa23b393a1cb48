package fence_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/fence"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// Promise: A refused write has written nothing, and its error, which matches
// ErrStale, has the largest token seen.
func TestDo(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		g, key := e.guard(fence.Options{}), e.Prefix+"ledger"
		do := func(token int64, value string) error {
			return g.Do(t.Context(), "ledger", token, set(key, value)).Err
		}
		holds := func(token int64, value string) {
			t.Helper()
			got := e.Redis.Get(t.Context(), key).Val()
			info, err := g.Info(t.Context(), "ledger")
			must(t, err)
			if got != value || info.Token != token {
				t.Errorf("it holds %q and has seen %d, want %q and %d", got, info.Token, value, token)
			}
		}
		holds(0, "")
		must(t, do(7, "seven"))
		must(t, do(7, "seven again"))
		holds(7, "seven again")
		stale(t, do(6, "six"), 7)
		holds(7, "seven again")
		must(t, do(8, "eight"))
		stale(t, do(7, "late"), 8)
		holds(8, "eight")

		// Without a command, the token is remembered all the same.
		must(t, g.Accept(t.Context(), "ledger", fence.MaxToken))
		stale(t, g.Accept(t.Context(), "ledger", 8), fence.MaxToken)
		stale(t, do(fence.MaxToken-1, "one less"), fence.MaxToken)
		holds(fence.MaxToken, "eight")

		for _, want := range []bool{true, false} {
			if deleted, err := g.Delete(t.Context(), "ledger"); deleted != want || err != nil {
				t.Errorf("Delete reports %v, %v; want %v", deleted, err, want)
			}
		}
		must(t, do(1, "anew"))
		holds(1, "anew")
		// Another resource has seen nothing.
		must(t, g.Do(t.Context(), "other", 1, set(key, "x")).Err)
		if err := g.Do(t.Context(), "ledger", 0, set(key, "x")).Err; err == nil || errors.Is(err, fence.ErrStale) {
			t.Errorf("a token of 0: %v", err)
		}
	})
}

// Replies come back in order, whatever they are.
func TestReplies(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		g, p := e.guard(fence.Options{}), e.Prefix
		cmd := func(name string, key string, args ...string) redoubt.Cmd {
			return redoubt.Cmd{Name: name, Keys: []string{p + key}, Args: args}
		}
		replies, err := g.DoMany(t.Context(), "r", 5, []redoubt.Cmd{
			cmd("SET", "a", "x"), cmd("GET", "none"), cmd("RPUSH", "l", "1", "2"), cmd("LRANGE", "l", "0", "-1"),
			{Name: "MSET", Keys: nil, Args: []string{p + "m", "1", p + "n", "2"}},
			{Name: "MGET", Keys: []string{p + "m", p + "none", p + "n"}},
			cmd("OBJECT IDLETIME", "m"),
		})
		must(t, err)
		if n, err := replies[6].Int(); n != 0 || err != nil {
			t.Errorf("OBJECT IDLETIME gave %v", replies[6])
		}
		if !replies[1].IsNil() {
			t.Errorf("GET of nothing gave %v", replies[1])
		}
		for i, want := range map[int]string{0: "OK", 2: "2"} {
			if got, err := replies[i].Text(); got != want || err != nil {
				t.Errorf("reply %d is %v, want %s", i, replies[i], want)
			}
		}
		list, err1 := replies[3].Array()
		many, err2 := replies[5].Array()
		if err := errors.Join(err1, err2); err != nil || len(list) != 2 || list[1] != "2" || len(many) != 3 || many[1] != nil || many[2] != "2" {
			t.Errorf("arrays %v and %v, %v", list, many, err)
		}

		// One that fails leaves the others in place.
		replies, err = g.DoMany(t.Context(), "r", 6, []redoubt.Cmd{cmd("SET", "b", "1"), cmd("RPUSH", "b", "x"), cmd("SET", "c", "2")})
		if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") || len(replies) != 3 || replies[1].Err == nil || replies[2].Err != nil {
			t.Errorf("replies %v, error %v", replies, err)
		}
		if got := e.Redis.Get(t.Context(), p+"c").Val(); got != "2" {
			t.Errorf("the command behind it left %q", got)
		}
	})
}

var move = redoubt.NewScript("move", `
local n = tonumber(redis.call('GET', KEYS[1]) or 0)
if n < tonumber(ARGV[1]) then return nil end
redis.call('DECRBY', KEYS[1], ARGV[1])
return {redis.call('INCRBY', KEYS[2], ARGV[1]), #KEYS, #ARGV} -- without a newline behind it`)

// Promise: A refused write has written nothing, and its error, which matches
// ErrStale, has the largest token seen.
func TestScript(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		g := e.guard(fence.Options{})
		from, to := e.Prefix+"from", e.Prefix+"to"
		run := func(token int64, n string) redoubt.Reply {
			return g.Do(t.Context(), "accounts", token, redoubt.Cmd{Script: move, Keys: []string{from, to}, Args: []string{n}})
		}
		if reply := run(3, "10"); !reply.IsNil() {
			t.Errorf("reply %v, want nil", reply)
		}
		must(t, e.Redis.Set(t.Context(), from, 30, 0).Err())
		var n [3]int64
		must(t, run(3, "10").Ints(n[:]))
		if n != [3]int64{10, 2, 1} {
			t.Errorf("%v, want 10 and the script's own keys and arguments", n)
		}
		must(t, run(4, "10").Err)
		stale(t, run(3, "10").Err, 4)
		if got := e.Redis.Get(t.Context(), to).Val(); got != "20" {
			t.Errorf("%s moved, want 20", got)
		}
	})
}

// Many writers with tokens in any order. A write is behind the writes that were
// written with a smaller token, and before what was with a larger one.
//
// Promise: The tokens of accepted writes never fall, among all processes and
// whatever the network loses.
func TestConcurrentWriters(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		const writers, tokens = 6, 60
		log := e.Prefix + "log"
		var wg sync.WaitGroup
		for i := range writers {
			g := e.guardOn(clienttest.Dial(t, e.Addr), fence.Options{})
			wg.Go(func() {
				for n := range int64(tokens) {
					token := 1 + (n*7+int64(i))%tokens/2 + n/2
					err := g.Do(t.Context(), "log", token, redoubt.Cmd{Name: "RPUSH", Keys: []string{log}, Args: []string{itoa(token)}}).Err
					if err != nil && !errors.Is(err, fence.ErrStale) {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		var last int64
		var written []int64
		must(t, e.Redis.LRange(t.Context(), log, 0, -1).ScanSlice(&written))
		for _, token := range written {
			if token < last {
				t.Errorf("%d was written after %d", token, last)
			}
			last = token
		}
		if len(written) < 10 || len(written) == writers*tokens {
			t.Errorf("%d of %d were written: the test shows nothing", len(written), writers*tokens)
		}
	})
}

func TestKeep(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		key := e.Prefix + ":{r}:fence"
		forever, hour := e.guard(fence.Options{}), e.guard(fence.Options{Keep: time.Hour})
		must(t, forever.Accept(t.Context(), "r", 5))
		if ttl := e.Redis.PTTL(t.Context(), key).Val(); ttl != -1 {
			t.Errorf("it is remembered for %v", ttl)
		}
		for range 2 { // also when it has been seen before
			must(t, hour.Accept(t.Context(), "r", 6))
			if ttl := e.Redis.PTTL(t.Context(), key).Val(); ttl <= 59*time.Minute || ttl > time.Hour {
				t.Errorf("it is remembered for %v", ttl)
			}
			must(t, e.Redis.PExpire(t.Context(), key, time.Minute).Err())
		}
		stale(t, hour.Accept(t.Context(), "r", 5), 6)
	})
}

// A command that is idempotent is sent again after a lost reply, others are not.
//
// Promise: Commands are sent again after a lost reply only if their flags
// allow it.
func TestLostReplies(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		proxy := faultnet.New(t, e.Addr)
		g, key := e.guardOn(clienttest.Dial(t, proxy.Addr()), fence.Options{}), e.Prefix+"n"
		must(t, g.Accept(t.Context(), "r", 1)) // the script is loaded
		proxy.SwallowNextReply()
		must(t, g.Do(t.Context(), "r", 2, set(key, "2")).Err)
		proxy.SwallowNextReply()
		must(t, g.Accept(t.Context(), "r", 3))
		proxy.SwallowNextReply()
		_, err := g.DoMany(t.Context(), "r", 4, []redoubt.Cmd{set(key, "4"), {Name: "INCR", Keys: []string{key}}})
		if !errors.Is(err, redoubt.ErrUnknownOutcome) {
			t.Errorf("INCR: %v", err)
		}
		stale(t, g.Do(t.Context(), "r", 3, set(key, "3")).Err, 4)
		if got := e.Redis.Get(t.Context(), key).Val(); got != "5" {
			t.Errorf("it holds %s, want 5", got)
		}
		if n := proxy.Stats().Swallowed; n != 3 {
			t.Errorf("%d replies were lost, want 3", n)
		}
	})
}

func TestBadInput(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		g, key := e.guard(fence.Options{}), e.Prefix+"k"
		for what, call := range map[string]func() error{
			"a token of 0":   func() error { return g.Accept(t.Context(), "r", 0) },
			"a negative one": func() error { return g.Accept(t.Context(), "r", -1) },
			"one too large":  func() error { return g.Accept(t.Context(), "r", fence.MaxToken+1) },
			"no name":        func() error { return g.Accept(t.Context(), "", 1) },
			"a command that blocks": func() error {
				return g.Do(t.Context(), "r", 1, redoubt.Cmd{Name: "BLPOP", Keys: []string{key}, Args: []string{"0"}, Flags: redoubt.Blocking}).Err
			},
			"a command without a name": func() error { return g.Do(t.Context(), "r", 1, redoubt.Cmd{}).Err },
			"a script among others": func() error {
				_, err := g.DoMany(t.Context(), "r", 1, []redoubt.Cmd{{Script: move}, set(key, "x")})
				return err
			},
			"too many words": func() error {
				return g.Do(t.Context(), "r", 1, redoubt.Cmd{Name: "DEL", Keys: make([]string, fence.MaxWords)}).Err
			},
			"keep": func() error { _, err := fence.New(nil, fence.Options{Keep: 1}); return err },
			"keep of a century": func() error {
				_, err := fence.New(nil, fence.Options{Keep: fence.MaxKeep + 1})
				return err
			},
		} {
			if err := call(); err == nil || errors.Is(err, fence.ErrStale) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if info, err := g.Info(t.Context(), "r"); info != (fence.Info{}) || err != nil {
			t.Errorf("it has seen %+v, %v", info, err)
		}
		// As many words as are allowed.
		args := make([]string, fence.MaxWords-2)
		must(t, g.Do(t.Context(), "r", 1, redoubt.Cmd{Name: "RPUSH", Keys: []string{key}, Args: args}).Err)
		if n := e.Redis.LLen(t.Context(), key).Val(); n != fence.MaxWords-2 {
			t.Errorf("%d words arrived", n)
		}
	})
}

// The keys are in the slot of the resource.
func TestCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	client := clienttest.Open(t, cluster.URL())
	g, err := fence.New(client, fence.Options{})
	must(t, err)
	for i := range int64(20) {
		name := "ledger:" + itoa(i)
		_, err := g.DoMany(t.Context(), name, 10, []redoubt.Cmd{set(name, "x"), set("{"+name+"}:total", "1")})
		must(t, err)
		stale(t, g.Do(t.Context(), name, 9, set(name, "late")).Err, 10)
	}
	if err := g.Do(t.Context(), "ledger:1", 10, set("elsewhere", "x")).Err; !redoubt.IsCode(err, "CROSSSLOT") {
		t.Errorf("a key of another slot: %v", err)
	}
}
