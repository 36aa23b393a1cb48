package ratelimit_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
)

// throttle runs CL.THROTTLE.
func throttle(t *testing.T, c *redoubt.Client, key string, a [4]int64) ([5]int64, error) {
	t.Helper()
	th, err := wire.NewThrottle(a[0], a[1], a[2], a[3])
	if err != nil {
		return [5]int64{}, err
	}
	return th.Reply(c.Do(t.Context(), th.Cmd(key)))
}

// The replies of the real module, taken down from it, and other cases written
// in the same way.
//
// Promise: CL.THROTTLE on the same key decides alike, and keys that redis-cell
// has written go on.
func TestThrottleVectors(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		text, err := os.ReadFile("testdata/throttle.txt")
		must(t, err)
		n, calls := 0, 0
		for line := range strings.Lines(string(text)) {
			n++
			line, _, _ = strings.Cut(line, "#")
			call, want, _ := strings.Cut(line, "->")
			word := strings.Fields(call)
			switch {
			case len(word) == 0:
			case word[0] == "advance":
				d, err := time.ParseDuration(word[1])
				must(t, err)
				e.Clock.Advance(d)
			case word[0] == "DEL":
				must(t, e.Redis.Del(t.Context(), e.Prefix+word[1]).Err())
			case word[0] == "CL.THROTTLE":
				a := [4]int64{3: 1}
				for i, s := range word[2:] {
					a[i], err = strconv.ParseInt(s, 10, 64)
					must(t, err)
				}
				reply, err := throttle(t, e.Client, e.Prefix+word[1], a)
				got := strings.Join(strings.Fields(fmt.Sprint(reply)), ", ")
				if err != nil {
					got = err.Error()
				}
				if got != strings.TrimSpace(want) {
					t.Errorf("line %d: %s-> %s; want%s", n, call, got, want)
				}
				calls++
			default:
				t.Fatalf("line %d: %s", n, line)
			}
		}
		if calls < 40 {
			t.Errorf("%d calls", calls)
		}
	})
}

// randomCall returns arguments that meet often: bursts run out, intervals are
// below a µs and above an hour, limits shrink and grow, a few are refused.
func randomCall(r *rand.Rand) [4]int64 {
	pickFrom := func(s ...int64) int64 { return s[r.IntN(len(s))] }
	a := [4]int64{
		pickFrom(0, 1, 4, 15, r.Int64N(1000)),
		pickFrom(1, 3, 7, 30, 1111, 2500, 600_000, 1_000_000, 999_999_999, 1+r.Int64N(5_000_000)),
		pickFrom(1, 1, 2, 10, 60, 3600, 1_000_000),
		pickFrom(0, 1, 1, 1, 1, 2, 5, -1, -3, r.Int64N(1000)),
	}
	if r.IntN(20) == 0 {
		extreme := []int64{0, -1, -5, math.MaxInt64, math.MinInt64, 1 << 53, 1 << 33, 10_000_000_000}
		a[r.IntN(4)] = extreme[r.IntN(len(extreme))]
	}
	return a
}

// pause returns a time to let pass, none to some hours.
func pause(r *rand.Rand) time.Duration {
	return time.Duration(r.Int64N(int64(math.Pow(10, float64(1+r.IntN(10)))))) * time.Microsecond
}

// The unchanged script agrees with the specification over long histories, in
// which keys expire by the script's PX.
func TestThrottleAgreesWithModel(t *testing.T) {
	t.Parallel()
	const calls = 60_000
	client, m := withTime(t)
	_, err := throttle(t, client, "k", [4]int64{0, 1, 1, 0}) // a script that is missing runs after its pipeline
	must(t, err)
	r, model, steps := randtest.Rand(t), newCell(), randtest.Watch(t)
	now := time.Unix(1_760_000_000, 0)
	limited := 0
	for done := 0; done < calls; {
		d := pause(r)
		now = now.Add(d)
		m.advance(d)
		at := num(now.UnixNano())
		for key, tat := range model.tats {
			// Whether a key that is past its time is still there shows in the
			// reply to a refusal, and nobody promises either.
			if pttl(t, client, key) == -2 {
				if more(tat, at) {
					t.Fatalf("%v: the key expired %v ns early", key, minus(tat, at))
				}
				delete(model.tats, key)
			}
		}
		// A TAT a thousand years ahead would refuse all else to the end.
		if fresh := "k" + strconv.Itoa(r.IntN(25)); r.IntN(2) == 0 {
			must(t, client.Do(t.Context(), redoubt.Cmd{Name: "DEL", Keys: []string{fresh}}).Err)
			delete(model.tats, fresh)
		}
		var (
			cmds  []redoubt.Cmd
			ths   []wire.Throttle
			wants [][5]int64
		)
		for range 1 + r.IntN(60) {
			key, a := "k"+strconv.Itoa(r.IntN(25)), randomCall(r)
			want, wantErr := model.throttle(key, at, a[0], a[1], a[2], a[3])
			th, err := wire.NewThrottle(a[0], a[1], a[2], a[3])
			if !sameError(err, wantErr) {
				t.Fatalf("%v: %v; want %v", a, err, wantErr)
			}
			if done++; err == nil {
				cmds, ths, wants = append(cmds, th.Cmd(key)), append(ths, th), append(wants, want)
			}
		}
		steps.Begin(func() string { return fmt.Sprintf("%d calls: %v", len(cmds), cmds) })
		for i, reply := range client.Pipeline(t.Context(), cmds) {
			got, err := ths[i].Reply(reply)
			must(t, err)
			if got != wants[i] {
				t.Fatalf("at %v, call %d of %+v: %v; want %v", at, i, cmds, got, wants[i])
			}
			limited += int(got[0])
		}
		for key := range model.tats {
			if pttl(t, client, key) == -1 {
				t.Fatalf("%v does not expire", key)
			}
		}
	}
	if limited < calls/10 || limited > calls*9/10 {
		t.Errorf("%d of %d calls were limited: the test is one-sided", limited, calls)
	}
}

// Step by step from any state, on every back end: the reply, and what is
// stored. States are far apart, so that carries and borrows all come up.
func TestThrottleStepsAgreeWithModel(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		r := randtest.Rand(t)
		key := e.Prefix + "k"
		_, err := throttle(t, e.Client, key, [4]int64{0, 1, 1, 0}) // a script that is missing runs after its pipeline
		must(t, err)
		for range thorough(3000, 300) { // of 20 steps
			e.Clock.Set(time.UnixMicro(r.Int64N(4_000_000_000_000_000)))
			now := num(e.Clock.Now().UnixMicro() * 1000)
			var (
				cmds  []redoubt.Cmd
				ths   []wire.Throttle
				wants []string
			)
			for len(ths) < 20 {
				a, model := randomCall(r), newCell()
				before := redoubt.Cmd{Name: "DEL", Keys: []string{key}}
				if tat := randomTAT(r, now); tat != nil {
					model.tats["k"] = tat
					before = redoubt.Cmd{Name: "SET", Keys: []string{key}, Args: []string{tat.String()}}
				}
				want, wantErr := model.throttle("k", now, a[0], a[1], a[2], a[3])
				th, err := wire.NewThrottle(a[0], a[1], a[2], a[3])
				if !sameError(err, wantErr) {
					t.Fatalf("%v: %v; want %v", a, err, wantErr)
				}
				if err == nil {
					cmds = append(cmds, before, th.Cmd(key), redoubt.Cmd{Name: "GET", Keys: []string{key}})
					ths = append(ths, th)
					wants = append(wants, fmt.Sprint(want, " stored ", model.tats["k"]))
				}
			}
			replies := e.Client.Pipeline(t.Context(), cmds)
			for i, th := range ths {
				reply, err := th.Reply(replies[3*i+1])
				must(t, err)
				var stored *big.Int
				if r := replies[3*i+2]; !r.IsNil() {
					text, err := r.Text()
					must(t, err)
					stored, _ = new(big.Int).SetString(text, 10)
				}
				if got := fmt.Sprint(reply, " stored ", stored); got != wants[i] {
					t.Fatalf("at %v: %+v\n got %s\nwant %s", now, cmds[3*i:3*i+2], got, wants[i])
				}
			}
		}
	})
}

// randomTAT returns a state before or after now, by one ns to decades, or none.
func randomTAT(r *rand.Rand, now *big.Int) *big.Int {
	if r.IntN(5) == 0 {
		return nil
	}
	ahead := r.Int64N(int64(math.Pow(10, float64(1+r.IntN(18)))))
	if r.IntN(4) == 0 {
		ahead = -ahead
	}
	return later(zero, plus(now, num(ahead)))
}

// Whatever the numbers: no panic, the errors and the arithmetic of the model.
func FuzzThrottle(f *testing.F) {
	f.Add(int64(15), int64(30), int64(60), int64(1), int64(1_760_000_000_000_000_000), int64(0))
	f.Add(int64(0), int64(1111), int64(1), int64(-1), int64(1), int64(-900))
	f.Add(int64(math.MaxInt64), int64(1), int64(math.MaxInt64), int64(math.MinInt64), int64(0), int64(math.MaxInt64))
	f.Add(int64(-1), int64(-1), int64(-1), int64(0), int64(math.MaxInt64), int64(math.MinInt64))
	f.Fuzz(func(t *testing.T, burst, count, period, quantity, now, ahead int64) {
		model := newCell()
		model.tats["k"] = plus(num(now), num(ahead))
		want, wantErr := model.throttle("k", num(now), burst, count, period, quantity)
		th, err := wire.NewThrottle(burst, count, period, quantity)
		if !sameError(err, wantErr) {
			t.Fatalf("error %v; want %v", err, wantErr)
		}
		if err != nil {
			return
		}
		got, err := th.Reply(script(th.Cmd("k").Args, ahead))
		must(t, err)
		if got != want {
			t.Fatalf("%v; want %v", got, want)
		}
	})
}

// script is gcra.lua in Go, from the tat − now that it finds.
func script(args []string, ahead int64) redoubt.Reply {
	pair := func(s, ns string) *big.Int {
		a, _ := new(big.Int).SetString(s, 10)
		b, _ := new(big.Int).SetString(ns, 10)
		return plus(times(a, num(1e9)), b)
	}
	inc, tolerance := pair(args[2], args[3]), pair(args[4], args[5])
	allowed, reset := int64(1), plus(num(max(ahead, 0)), inc)
	if more(reset, tolerance) {
		allowed, reset = 0, num(ahead)
	}
	if allowed == 1 {
		reset = later(reset, zero)
	}
	s, ns := new(big.Int).DivMod(reset, num(1e9), new(big.Int)) // rounds down
	return redoubt.Reply{Val: []any{allowed, int64(0), s.Int64(), ns.Int64()}}
}
