package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	ratelimitwire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
	"github.com/redoubt-go/redoubt/ratelimit"
)

// benchEngineSocket measures redoubt serve on the embedded engine beside redis-server, and beside a Valkey if one is given.
func benchEngineSocket(ctx context.Context, cfg config) error {
	programs := []string{"redis-server"}
	if cfg.valkey != "" {
		programs = append(programs, cfg.valkey)
	}
	var peers []target
	for _, program := range programs {
		peer, stop, err := startServer(ctx, program)
		if err != nil {
			return err
		}
		defer stop()
		peer.name = filepath.Base(program)
		peers = append(peers, peer)
	}
	serve, stopServe, err := startServe(ctx)
	if err != nil {
		return err
	}
	defer stopServe()
	all := append([]target{serve}, peers...)
	scripts, err := loadScripts(ctx, all...)
	if err != nil {
		return err
	}
	for _, c := range append(commands(), scripts...) {
		if c.data != nil {
			for _, t := range all {
				t.words = c.data
				if _, err := cfg.redisBenchmark(ctx, t, load{50, 16}); err != nil {
					return err
				}
			}
		}
		for _, l := range cfg.loads() {
			for i := range all {
				all[i].words = c.words
			}
			if err := cfg.compareServers(ctx, c.title, l, all[0], all[1:]...); err != nil {
				return err
			}
		}
	}
	return nil
}

type workload struct {
	title string
	words []string
	data  []string // a command that makes what the words read, nil for none
}

// commands returns the commands of redis-benchmark's own tests, and reads of each type.
func commands() []workload {
	line := func(title, words string) workload { return workload{title: title, words: strings.Fields(words)} }
	read := func(title, data, words string) workload {
		return workload{title, strings.Fields(words), strings.Fields(data)}
	}
	return []workload{
		line("PING", "PING"),
		line("SET", "SET key:__rand_int__ xxx"),
		line("GET", "GET key:__rand_int__"),
		line("INCR", "INCR counter:__rand_int__"),
		line("LPUSH", "LPUSH mylist xxx"),
		line("RPUSH", "RPUSH mylist xxx"),
		line("LPOP", "LPOP mylist"),
		line("RPOP", "RPOP mylist"),
		line("SADD", "SADD myset element:__rand_int__"),
		line("HSET", "HSET myhash element:__rand_int__ xxx"),
		line("SPOP", "SPOP myset"),
		line("ZADD", "ZADD myzset __rand_int__ element:__rand_int__"),
		line("ZPOPMIN", "ZPOPMIN myzset"),
		read("LRANGE of 100", "RPUSH range xxx", "LRANGE range 0 99"),
		line("MSET of 10 keys", "MSET"+strings.Repeat(" key:__rand_int__ xxx", 10)),
		line("MGET of 10 keys", "MGET"+strings.Repeat(" key:__rand_int__", 10)),
		read("HGET", "HSET hash:__rand_int__ a 1 b 2 c 3 d 4 e 5", "HGET hash:__rand_int__ c"),
		line("HGETALL of 5", "HGETALL hash:__rand_int__"),
		read("SISMEMBER", "SADD set:__rand_int__ a b c d e", "SISMEMBER set:__rand_int__ c"),
		line("SMEMBERS of 5", "SMEMBERS set:__rand_int__"),
		read("ZSCORE", "ZADD zset:__rand_int__ 1 a 2 b 3 c 4 d 5 e", "ZSCORE zset:__rand_int__ c"),
		line("ZRANGE of 5", "ZRANGE zset:__rand_int__ 0 -1 WITHSCORES"),
		line("LINDEX", "LINDEX range 50"),
		read("XADD", "XADD stream * field value", "XADD stream MAXLEN ~ 10000 * field value"),
		line("XRANGE of 10", "XRANGE stream - + COUNT 10"),
	}
}

// loops are scripts as people write them. The engine has no Go function for them.
var loops = []struct{ title, source, args string }{
	{"arithmetic, 100 rounds", `
local a, b = 0, tonumber(ARGV[1])
for i = 1, 100 do a = (a * 31 + i * b) % 1000003 end
return a`, "1 {x}:__rand_int__ 7"},
	{"hash, read-modify-write", `
local stock = tonumber(redis.call('HGET', KEYS[1], 'stock') or ARGV[1])
if stock <= 0 then stock = tonumber(ARGV[1]) end
redis.call('HSET', KEYS[1], 'stock', stock - 1, 'last', ARGV[2])
return stock`, "1 stock:__rand_int__ 100 me"},
	{"strings and cjson", `
local order = cjson.decode(ARGV[1])
order.items[#order.items + 1] = 'wrapping'
local parts = {}
for i, item in ipairs(order.items) do parts[i] = i .. '=' .. string.upper(item) end
order.label = table.concat(parts, ';')
redis.call('SET', KEYS[1], cjson.encode(order))
return order.label`, `1 order:__rand_int__ {"id":42,"items":["book","pen"],"total":12.5}`},
}

// loadScripts loads the scripts on all servers and returns the commands that
// run them.
func loadScripts(ctx context.Context, servers ...target) ([]workload, error) {
	call, err := ratelimitwire.NewThrottle(15, 30, 60, 1)
	if err != nil {
		return nil, err
	}
	cmd := call.Cmd("bench:__rand_int__")
	args := strings.Join(append(append([]string{strconv.Itoa(len(cmd.Keys))}, cmd.Keys...), cmd.Args...), " ")
	sources := []struct{ title, source, args string }{
		{"EVALSHA GCRA", cmd.Script.Source(), args},
		// With another digest the engine runs it as Lua.
		{"EVALSHA GCRA in Lua", cmd.Script.Source() + "\n-- any script\n", args},
	}
	for _, l := range loops {
		sources = append(sources, struct{ title, source, args string }{"EVALSHA " + l.title, l.source, l.args})
	}
	var all []workload
	for _, s := range sources {
		digest := ""
		for _, t := range servers {
			rdb := redis.NewClient(&redis.Options{Addr: t.addr})
			digest, err = rdb.ScriptLoad(ctx, s.source).Result()
			_ = rdb.Close()
			if err != nil {
				return nil, fmt.Errorf("%s at %s: %w", s.title, t.addr, err)
			}
		}
		all = append(all, workload{title: s.title, words: append([]string{"EVALSHA", digest}, strings.Fields(s.args)...)})
	}
	return all, nil
}

// allow returns the operation of callers that have a limit each.
func allow(conn redoubt.Conn) (func(ctx context.Context, caller int) error, error) {
	client, err := redoubt.New(conn, redoubt.Options{})
	if err != nil {
		return nil, err
	}
	limits, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.Limit{Rate: 1_000_000, Period: time.Second, Burst: 1_000_000}})
	if err != nil {
		return nil, err
	}
	names := make([]string, 256)
	for i := range names {
		names[i] = "caller:" + strconv.Itoa(i)
	}
	return func(ctx context.Context, caller int) error {
		_, err := limits.Allow(ctx, names[caller])
		return err
	}, nil
}

// leastCoreRounds is the least number of rounds: other work on the machine costs two cores more
// than one.
const leastCoreRounds = 15

// benchEngineCores measures how much a second core adds for calls on unrelated keys, and for
// arithmetic, which shows what the machine can give.
func benchEngineCores(ctx context.Context, cfg config) error {
	e, err := engine.Open(ctx, engine.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }()
	gcra, err := allow(e)
	if err != nil {
		return err
	}
	const callers, each = 2, 1024
	var sets, gets [callers][each]redoubt.Cmd
	for c := range callers {
		for i := range each {
			key := []string{"caller:" + strconv.Itoa(c) + ":" + strconv.Itoa(i)}
			sets[c][i] = redoubt.Cmd{Name: "SET", Keys: key, Args: []string{"0123456789abcdef0123456789abcdef"}}
			gets[c][i] = redoubt.Cmd{Name: "GET", Keys: key}
		}
	}
	cores := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(cores)
	work := []struct {
		name          string
		op            func(caller, i int) error
		rates         [2][]float64
		ratios, yield []float64
	}{
		{name: "arithmetic", op: arithmetic},
		{name: "SET", op: func(caller, i int) error { return e.Do(ctx, sets[caller][i%each]).Err }},
		{name: "GET", op: func(caller, i int) error { return e.Do(ctx, gets[caller][i%each]).Err }},
		{name: "GCRA", op: func(caller, _ int) error { return gcra(ctx, caller) }},
	}
	rounds := max(cfg.rounds, leastCoreRounds)
	for round := range rounds {
		for w := range work {
			w := &work[w]
			cfg.progress("%s on 1 and 2 cores, round %d of %d", w.name, round+1, rounds)
			var rs [2]float64
			for i := range rs {
				k := (i + round) % 2
				runtime.GOMAXPROCS(1 + k)
				if rs[k], err = throughput(callers, cfg.duration, w.op); err != nil {
					return err
				}
				w.rates[k] = append(w.rates[k], rs[k])
			}
			cfg.raw.Printf("raw\t%s\t1 core %.0f/s\t2 cores %.0f/s", w.name, rs[0], rs[1])
			w.ratios = append(w.ratios, rs[1]/rs[0])
			w.yield = append(w.yield, rs[1]/rs[0]/work[0].ratios[round])
		}
	}
	cfg.progress("")
	for _, w := range work {
		slices.Sort(w.ratios)
		cfg.printf("%-10s in process, 2 callers: 1 core %9.0f/s  2 cores %9.0f/s  ratio %.2f (half of %d rounds: %.2f to %.2f)  of what arithmetic gains %.2f",
			w.name, medianOf(w.rates[0]), medianOf(w.rates[1]), medianOf(w.ratios), rounds,
			w.ratios[rounds/4], w.ratios[rounds-1-rounds/4], medianOf(w.yield))
	}
	return ctx.Err()
}

// arithmetic takes about as long as a command, and no memory.
func arithmetic(_, i int) error {
	x := uint64(i) //nolint:gosec // any number will do
	for range 300 {
		x = x*6364136223846793005 + 1442695040888963407
	}
	if x == 1 {
		return errors.New("so that it is not left out")
	}
	return nil
}

// throughput is how many operations the callers do in a second.
func throughput(callers int, d time.Duration, op func(caller, i int) error) (float64, error) {
	var total atomic.Int64
	errs := make([]error, callers)
	start := time.Now()
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			n := 0
			for ; n%256 != 0 || time.Since(start) < d; n++ {
				if errs[caller] = op(caller, n); errs[caller] != nil {
					return
				}
			}
			total.Add(int64(n))
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return float64(total.Load()) / time.Since(start).Seconds(), nil
}
