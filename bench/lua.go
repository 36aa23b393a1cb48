package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redoubt-go/redoubt/internal/lua"
)

// luaPrograms are small scripts as Redis runs them: KEYS and ARGV are new in each run,
// and redis.call answers at once, so the time is the interpreter's.
var luaPrograms = []struct{ title, source string }{
	{"GCRA", `
local now = tonumber(ARGV[1])
local interval = tonumber(ARGV[2])
local burst = tonumber(ARGV[3])
local tat = tonumber(redis.call('GET', KEYS[1]) or now)
if tat < now then tat = now end
local new = tat + interval
local allow = new - burst * interval
if allow > now then return {0, 0, allow - now, tat - now} end
redis.call('SET', KEYS[1], string.format('%.0f', new), 'PX', math.ceil((new - now) / 1000) + 1)
redis.call('PEXPIRE', KEYS[1], 60000)
return {1, math.floor((now - allow) / interval), -1, new - now}`},
	{"return 1", `return 1`},
	{"arithmetic, 1000 rounds", `local s = 0 for i = 1, 1000 do s = s + i % 7 * 2 - i / 3 end return s`},
	{"fib(15)", `local function fib(n) if n < 2 then return n end return fib(n-1) + fib(n-2) end return fib(15)`},
	{"concat, 100 times", `local s = '' for i = 1, 100 do s = s .. i .. ',' end return #s`},
	{"table of 100", `local t = {} for i = 1, 100 do t[#t+1] = i * 2 end
local s = 0 for _, v in ipairs(t) do s = s + v end
for k, v in pairs({a=1, b=2, c=3}) do s = s + v end
return s`},
	{"fields, 500 rounds", `local t = {x=1, y=2} for i = 1, 500 do t.x = t.x + t.y end return t.x`},
}

var (
	luaKeys = []string{"limit:42"}
	luaArgs = []string{"1732147200123456", "100000", "10"}
)

// An interpreter compiles a script once. run runs it with KEYS and ARGV, in a state in
// which no run sees the globals of another, and returns the integers of its reply, which
// are valid until the next run.
type interpreter struct {
	name    string
	compile func(ctx context.Context, source string) (run func() ([]int64, error), err error)
}

// interpreters take part in the suite "lua"; ours is first. Ours does in each run what
// Redis demands and the peers can't do:
//
//   - It bounds the run's memory, and that of all runs. Neither peer counts bytes.
//     gopher-lua's SetMx reads the heap of the whole process every 100 ms and exits the
//     process above its limit.
//   - It bounds steps and time, inside library functions too. gopher-lua looks at a context
//     before each instruction, and go-lua calls a hook after so many; the contenders
//     "stoppable" do that. One string.rep runs to its end on both.
//   - It prints numbers as Redis does, %.14g, as does go-lua. gopher-lua prints 1/3 with 16
//     digits and 2^60 as an integer. Commands get %.17g from ours alone.
//   - Globals and libraries are read only. With the peers a run gets an environment of its
//     own in front of the globals, but it could still change a library's table.
//
// gopher-lua is Lua 5.1, as Redis'. go-lua is 5.2 without patterns (string.gsub, gmatch)
// and coroutines.
var interpreters = []interpreter{
	{"internal/lua", compileOurs},
	{"gopher-lua", func(ctx context.Context, source string) (func() ([]int64, error), error) {
		return compileGopher(ctx, source, false)
	}},
	{"gopher-lua, stoppable", func(ctx context.Context, source string) (func() ([]int64, error), error) {
		return compileGopher(ctx, source, true)
	}},
	{"go-lua", func(ctx context.Context, source string) (func() ([]int64, error), error) {
		return compileShopify(ctx, source, false)
	}},
	{"go-lua, stoppable", func(ctx context.Context, source string) (func() ([]int64, error), error) {
		return compileShopify(ctx, source, true)
	}},
}

// A luaCost is the cost of one run: processor time, with garbage collection, and allocations.
type luaCost struct{ ns, bytes, allocs float64 }

// benchLua measures our Lua interpreter beside other interpreters in pure Go.
func benchLua(ctx context.Context, cfg config) error {
	for _, p := range luaPrograms {
		runs := make([]func() ([]int64, error), len(interpreters))
		var want []int64
		for i, in := range interpreters {
			run, err := in.compile(ctx, p.source)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", p.title, in.name, err)
			}
			got, err := run()
			if err != nil {
				return fmt.Errorf("%s, %s: %w", p.title, in.name, err)
			}
			if runs[i] = run; i == 0 {
				want = slices.Clone(got)
			} else if !slices.Equal(got, want) {
				return fmt.Errorf("%s: %s returns %v, ours %v", p.title, in.name, got, want)
			}
		}
		if err := cfg.compareInterpreters(ctx, p.title, runs); err != nil {
			return err
		}
	}
	return nil
}

// compareInterpreters measures one program on all interpreters in turn, and prints
// medians with the time of each peer to ours, the median of the ratios within a round.
func (c config) compareInterpreters(ctx context.Context, title string, runs []func() ([]int64, error)) error {
	costs := make([][]luaCost, len(runs))
	for round := range c.rounds {
		for i := range runs {
			if err := ctx.Err(); err != nil {
				return err
			}
			k := (i + round) % len(runs) // another one is first in each round
			name := interpreters[k].name
			c.progress("%s, round %d of %d, %s", title, round+1, c.rounds, name)
			cost, err := costOfRun(c.duration, runs[k])
			if err != nil {
				return fmt.Errorf("%s, %s: %w", title, name, err)
			}
			c.raw.Printf("raw\t%s\t%s\t%.1f ns/op\t%.0f B/op\t%.2f allocs/op", title, name, cost.ns, cost.bytes, cost.allocs)
			costs[k] = append(costs[k], cost)
		}
	}
	c.progress("")
	c.recordRounds(title, 0, "ns", namesOf(interpreters, func(in interpreter) string { return in.name }), figures(costs, func(l luaCost) float64 { return l.ns }))
	for k := range runs {
		ratios := make([]float64, c.rounds)
		for round := range ratios {
			ratios[round] = costs[k][round].ns / costs[0][round].ns
		}
		c.printf("%-24s %-22s %9.0f ns/op %7.0f B/op %6.1f allocs/op  this/ours %.2f", title, interpreters[k].name,
			median(costs[k], func(l luaCost) float64 { return l.ns }), median(costs[k], func(l luaCost) float64 { return l.bytes }),
			median(costs[k], func(l luaCost) float64 { return l.allocs }), medianOf(ratios))
	}
	return nil
}

// costOfRun runs a compiled script for a while.
func costOfRun(d time.Duration, run func() ([]int64, error)) (luaCost, error) {
	const between = 64 // runs between two readings of the clock
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	used, start, n := processorTime(), time.Now(), 0
	for time.Since(start) < d {
		for range between {
			if _, err := run(); err != nil {
				return luaCost{}, err
			}
		}
		n += between
	}
	used = processorTime() - used
	runtime.ReadMemStats(&after)
	per := float64(n)
	return luaCost{
		ns:     float64(used.Nanoseconds()) / per,
		bytes:  float64(after.TotalAlloc-before.TotalAlloc) / per,
		allocs: float64(after.Mallocs-before.Mallocs) / per,
	}, nil
}

// processorTime returns the processor time that this process has used.
func processorTime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts)
	return time.Duration(ts.Nano())
}

// stubGet is the reply to GET in all programs. SET is answered with OK, and another
// command with 1.
const stubGet = "1732147200123456"

// compileOurs compiles a script for our interpreter, with the engine's settings.
func compileOurs(_ context.Context, source string) (func() ([]int64, error), error) {
	script, err := lua.Compile("user_script", source)
	if err != nil {
		return nil, err
	}
	rt, err := lua.NewRuntime(lua.Options{})
	if err != nil {
		return nil, err
	}
	inv := lua.Invocation{Host: stubHost{}, Keys: luaKeys, Args: luaArgs, Interrupt: new(lua.Interrupt)}
	w := &integers{}
	return func() ([]int64, error) {
		w.all = w.all[:0]
		err := rt.Run(script, inv, w)
		return w.all, err
	}, nil
}

type stubHost struct{}

// Call implements lua.Host.
func (stubHost) Call(args [][]byte, r *lua.Reply) {
	switch string(args[0]) {
	case "GET":
		r.BulkString(stubGet)
	case "SET":
		r.Status("OK")
	default:
		r.Int(1)
	}
}

// integers is a lua.Writer of replies that are integers or arrays of these.
type integers struct {
	lua.Writer // nil: no program replies with anything else

	all []int64
}

// Int implements lua.Writer.
func (w *integers) Int(n int64) { w.all = append(w.all, n) }

// Array implements lua.Writer.
func (w *integers) Array(int) {}

// Error implements lua.Writer. Run returns the error too.
func (w *integers) Error(string) {}
