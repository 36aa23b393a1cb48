// Command bench measures Redoubt beside its peers: the same redis-server, the
// same run, interleaved rounds, medians. It writes one line a measurement to a
// raw file and prints a table of medians and ratios.
//
//	go run . -suite ratelimit # one suite; suites, below, lists them
//	go run . -suite compare   # all suites with peers, and docs/benchmarks.md from their results
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
	"strings"
	"syscall"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/benchmarks"
)

type config struct {
	rounds   int
	duration time.Duration
	callers  []int
	chosen   bool // rounds or duration were asked for
	full     bool
	valkey   string // a program, "" for none
	raw      *log.Logger
	dir      string // of the raw file

	results *benchmarks.Results
	suite   string // as the results call it
	stage   string // begins each line of progress
	grown   int    // see benchmarks.Record.Size
}

// A suite is a set of measurements; one with peers is part of "compare".
type suite struct {
	name  string
	peers bool
	run   func(context.Context, config) error
}

var suites = []suite{
	{"ratelimit", true, benchRateLimit}, // decisions of rate limits, against peers' libraries
	{"locks", true, benchLocks},         // lock and unlock of a free lock, against peers' libraries
	{"handover", true, benchHandover},   // one lock that many processes wait for
	{"queue", true, benchQueue},         // messages put, consumed, due and given back, against peers' libraries
	{"stock", true, benchStock},         // one item sold to many, against a lock around a count
	{"bloom", true, benchBloom},         // Bloom filters against a script and pipelines of bit commands
	{"bitmap", true, benchBitmap},       // sharded bitmaps against SETBIT, BITCOUNT and BITOP on one key
	{"geo", true, benchGeo},             // a million members in cells against GEOSEARCH on one key
	{"hll", true, benchHLL},             // visitors counted, against PFADD
	{"ttlhash", true, benchTTLHash},     // hashes whose fields expire: reads, writes, sweeping, bytes
	{"scan", true, benchScan},           // keys listed and measured, on one server and on a cluster
	{"cache", true, benchCache},         // hits, a cold key and an expiry storm, against peers' libraries
	{"serve", true, benchServe},         // redoubt serve against its back end
	{"proxy", true, benchProxy},         // redoubt serve --pools against nutcracker
	{"memcached", true, benchMemcached}, // the same in front of memcached
	{"engine", true, benchEngineSocket}, // the embedded engine against redis-server
	{"cores", false, benchEngineCores},  // a second core of the embedded engine
	{"calls", true, benchCalls},         // the primitives on an engine in the process, against the library on redis-server
	{"memory", true, benchMemory},       // a million of each type, beside redis-server
	{"lua", true, benchLua},             // our Lua interpreter beside others in pure Go
	{"pollers", true, benchPollers},     // a small server on our poll loop, on others, and on goroutines
	{"growth", true, benchGrowth},       // callers, keys, shards and the round trip as they grow; bytes of each object
}

func main() {
	names := strings.Join(append(namesOf(suites, func(s suite) string { return s.name }), "compare", "all"), ", ")
	chosen := flag.String("suite", "all", names)
	rounds := flag.Int("rounds", 7, "interleaved rounds of each measurement")
	duration := flag.Duration("duration", time.Second, "length of one measurement; below 100ms the data sets are a hundredth")
	out := flag.String("out", "", "raw output file; default results/SUITE-DATE.txt, or .tsv for compare")
	only := flag.String("only", "", "with -suite compare: the suites to measure, with commas; the file keeps its results of the others")
	from := flag.String("from", "", "with -suite compare: write docs/benchmarks.md from this file of results and measure nothing")
	note := flag.String("note", "", "with -suite compare: a remark for docs/benchmarks.md")
	valkey := flag.String("valkey", "", "with -suite engine: a valkey-server to measure too")
	full := flag.Bool("full", false, "growth with 10,000,000 keys too")
	flag.Parse()
	cfg := config{rounds: *rounds, duration: *duration, callers: []int{1, 16, 256}, full: *full, valkey: *valkey, results: &benchmarks.Results{}}
	flag.Visit(func(f *flag.Flag) { cfg.chosen = cfg.chosen || f.Name == "rounds" || f.Name == "duration" })
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for variable, work := range map[string]func(context.Context) error{workerQueue: runQueueWorker, workerPoller: runPollerServer, workerLibrary: runWorker} {
		if os.Getenv(variable) != "" {
			if err := work(ctx); err != nil {
				fmt.Fprintln(os.Stderr, "bench: worker:", err)
				os.Exit(1)
			}
			return
		}
	}
	if *out == "" {
		ending := "txt"
		if *chosen == "compare" {
			ending = "tsv"
		}
		*out = fmt.Sprintf("results/%s-%s.%s", *chosen, time.Now().UTC().Format(time.DateOnly), ending)
	}
	var err error
	switch {
	case *chosen != "compare":
		err = run(ctx, *chosen, *out, cfg)
	case *from != "":
		err = benchmarks.Write("..", *from)
	default:
		m := comparison{out: *out, note: *note}
		if *only != "" {
			m.only = strings.Split(*only, ",")
		}
		err = m.run(ctx, cfg)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, name, out string, cfg config) error {
	var todo []suite
	for _, s := range suites {
		if name == "all" || name == s.name {
			todo = append(todo, s)
		}
	}
	if len(todo) == 0 {
		return fmt.Errorf("unknown suite %q: -help lists them", name)
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
	cfg.printf("# %s, %s", machine(ctx), versions())
	for _, s := range todo {
		cfg.suite = s.name
		if err := s.run(ctx, cfg); err != nil {
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
	if format != "" {
		format = strings.ReplaceAll(c.stage, "%", "%%") + format
	}
	fmt.Fprintf(os.Stderr, "\r\033[K"+format, args...)
}

// machine tells the date, the machine, and the versions of Go and of redis-server.
func machine(ctx context.Context) string {
	server, _ := exec.CommandContext(ctx, "redis-server", "--version").Output()
	version := strings.TrimPrefix(strings.Join(strings.Fields(string(server))[2:3], ""), "v=")
	return fmt.Sprintf("%s UTC, %s/%s, %d CPUs, %s, redis-server %s", time.Now().UTC().Format(time.DateTime), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), version)
}

// versions tells the versions of the peers.
func versions() string {
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
	return strings.Join(deps, ", ")
}
