// Command bench measures Redoubt beside its peers: the same redis-server, the
// same run, interleaved rounds, medians. It writes one line a measurement to a
// raw file and prints a table of medians and ratios.
//
//	go run . -suite ratelimit # decisions of rate limits, against peers' libraries
//	go run . -suite locks     # lock and unlock of a free lock, against peers' libraries
//	go run . -suite handover  # one lock that many processes wait for
//	go run . -suite queue     # messages put, consumed, due and given back, against peers' libraries
//	go run . -suite stock     # one item sold to many, against a lock around a count
//	go run . -suite bloom     # Bloom filters against a script and pipelines of bit commands
//	go run . -suite bitmap    # sharded bitmaps against SETBIT, BITCOUNT and BITOP on one key
//	go run . -suite geo       # a million members in cells against GEOSEARCH on one key
//	go run . -suite hll       # visitors counted, against PFADD
//	go run . -suite cache     # hits, a cold key and an expiry storm, against peers' libraries
//	go run . -suite ttlhash   # hashes whose fields expire: reads, writes, sweeping, bytes
//	go run . -suite serve     # redoubt serve against its back end
//	go run . -suite proxy     # redoubt serve --pools against nutcracker
//	go run . -suite memcached # the same in front of memcached
//	go run . -suite engine    # the embedded engine against redis-server
//	go run . -suite calls     # the primitives on an engine in the process, against the library on redis-server
//	go run . -suite cores     # what a second core brings to the embedded engine; engine includes it
//	go run . -suite memory    # what a million of each type takes, beside redis-server
//	go run . -suite lua       # our Lua interpreter beside others in pure Go
//	go run . -suite pollers   # a small server on our poll loop, on others, and on goroutines
//
// All of it takes long; -rounds 1 -duration 200ms gives a first impression.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"
)

type config struct {
	rounds   int
	duration time.Duration
	callers  []int
	chosen   bool // rounds or duration were asked for
	raw      *log.Logger
	dir      string // of the raw file
}

func main() {
	suite := flag.String("suite", "all", "ratelimit, locks, handover, queue, stock, bloom, bitmap, geo, hll, ttlhash, scan, cache, serve, proxy, memcached, engine (with cores), calls, cores, memory, lua, pollers, or all")
	rounds := flag.Int("rounds", 7, "interleaved rounds of each measurement")
	duration := flag.Duration("duration", time.Second, "length of one measurement")
	out := flag.String("out", "", "raw output file; default results/SUITE-DATE.txt")
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "rounds" || f.Name == "duration" })
	if *out == "" {
		*out = fmt.Sprintf("results/%s-%s.txt", *suite, time.Now().UTC().Format("2006-01-02"))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if os.Getenv(workerQueue) != "" {
		if err := runQueueWorker(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "bench: worker:", err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(workerPoller) != "" {
		if err := runPollerServer(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "bench: server:", err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(workerLibrary) != "" {
		if err := runWorker(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "bench: worker:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(ctx, *suite, *out, config{rounds: *rounds, duration: *duration, callers: []int{1, 16, 256}, chosen: chosen}); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, suite, out string, cfg config) error {
	suites := map[string][]func(context.Context, config) error{
		"ratelimit": {benchRateLimit},
		"locks":     {benchLocks},
		"handover":  {benchHandover},
		"queue":     {benchQueue},
		"stock":     {benchStock},
		"bloom":     {benchBloom},
		"bitmap":    {benchBitmap},
		"geo":       {benchGeo},
		"hll":       {benchHLL},
		"ttlhash":   {benchTTLHash},
		"scan":      {benchScan},
		"cache":     {benchCache},
		"serve":     {benchServe},
		"proxy":     {benchProxy},
		"memcached": {benchMemcached},
		"engine":    {benchEngineSocket, benchEngineCores},
		"calls":     {benchCalls},
		"cores":     {benchEngineCores},
		"memory":    {benchMemory},
		"lua":       {benchLua},
		"pollers":   {benchPollers},
	}
	suites["all"] = slices.Concat(suites["ratelimit"], suites["locks"], suites["handover"], suites["queue"], suites["stock"], suites["bloom"], suites["bitmap"], suites["geo"], suites["hll"], suites["ttlhash"], suites["scan"], suites["cache"], suites["serve"], suites["proxy"], suites["memcached"], suites["engine"], suites["calls"], suites["memory"], suites["lua"], suites["pollers"])
	todo, ok := suites[suite]
	if !ok {
		return fmt.Errorf("unknown suite %q: want ratelimit, locks, handover, queue, stock, bloom, bitmap, geo, hll, ttlhash, scan, cache, serve, proxy, memcached, engine, calls, cores, memory, lua, pollers or all", suite)
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil { //nolint:gosec // results are for everybody
		return err
	}
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	cfg.raw, cfg.dir = log.New(file, "", 0), filepath.Dir(out)
	cfg.printf("# %s", machine(ctx))
	for _, f := range todo {
		if err := f(ctx, cfg); err != nil {
			return err
		}
	}
	return nil
}

// printf writes a line to the raw file and to the terminal.
func (c config) printf(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	fmt.Println(line)
	c.raw.Print(line)
}

// progress shows on the terminal what is being measured; "" clears it.
func (c config) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "\r\033[K"+format, args...)
}

func machine(ctx context.Context) string {
	server, _ := exec.CommandContext(ctx, "redis-server", "--version").Output()
	var deps []string
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			for _, want := range []string{"go-redis/v9", "redis_rate", "redislock", "redsync", "rueidis", "throttled/v2", "ulule/limiter", "x/time", "asynq", "delayqueue", "go-redis/cache", "jetcache", "gocache", "otter", "gopher-lua", "go-lua", "netpoll", "gnet"} {
				if strings.Contains(d.Path, want) {
					deps = append(deps, d.Path+"@"+d.Version)
				}
			}
		}
	}
	return fmt.Sprintf("%s %s/%s, %d CPUs, %s, %s, %s", time.Now().UTC().Format(time.DateTime), runtime.GOOS, runtime.GOARCH,
		runtime.NumCPU(), runtime.Version(), strings.Join(strings.Fields(string(server))[2:3], ""), strings.Join(deps, " "))
}
