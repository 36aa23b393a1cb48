// Redissuite runs Redis' own Tcl tests against the embedded engine, which it
// serves on a loopback port for as long as that takes:
//
//	make redis-suite SUITE=/path/to/redis/source [UNITS="unit/type/list unit/sort"]
//
// A test that fails is either in known.txt, with the reason, or a fault; so is
// one in known.txt that passes. With -serve it listens and runs nothing, for a
// look by redis-cli.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine"
	"github.com/redoubt-go/redoubt/internal/engine/native"
	"github.com/redoubt-go/redoubt/server"
)

// units are the parts of the suite that concern what the engine has.
var units = []string{
	"unit/type/string", "unit/type/incr", "unit/type/list", "unit/type/list-2", "unit/type/list-3",
	"unit/type/set", "unit/type/zset", "unit/type/hash", "unit/type/stream", "unit/type/stream-cgroups",
	"unit/keyspace", "unit/scan", "unit/expire", "unit/multi", "unit/bitops", "unit/bitfield",
	"unit/hyperloglog", "unit/geo", "unit/pubsub", "unit/pubsubshard", "unit/sort", "unit/protocol",
	"unit/scripting", "unit/functions", "unit/tracking", "unit/dump",
	"unit/maxmemory", // the last: it leaves a limit behind
}

// serverUnits are about what the server has, and run only through it.
var serverUnits = []string{
	"unit/acl", "unit/acl-v2", "unit/auth", "unit/info", "unit/slowlog", "unit/latency-monitor", "unit/introspection", "unit/introspection-2", "unit/other", "unit/pause",
}

// excluded are the tags of tests that need what no embedded engine has: DEBUG, a limit that an empty engine is
// above. Replicas follow the engine through the server only.
const excluded = "-needs:debug -needs:pfdebug -needs:config-maxmemory -needs:save -large-memory"

func main() {
	source := flag.String("source", "", "directory of Redis 7.0's sources, which is only read")
	serve := flag.String("serve", "", "only listen, on this loopback address")
	limit := flag.Duration("limit", 5*time.Minute, "time for one unit, after which all goroutines are printed")
	through := flag.Bool("through", false, "run through package server, as redoubt serve does, in place of one command at a time")
	keep := flag.String("keep", "", "directory for the output of each unit")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *source, *serve, *keep, *limit, *through, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "redissuite:", err)
		os.Exit(1) //nolint:gocritic // stop only frees a signal
	}
}

func run(ctx context.Context, source, serve, keep string, limit time.Duration, through bool, only []string) error {
	begin := start
	if through {
		begin = startServer
	}
	if source == "" && serve == "" {
		return errors.New("say by -source where Redis' sources are, as in make redis-suite SUITE=/path/to/redis")
	}
	if serve != "" {
		ln, stop, err := begin(ctx, serve)
		if err != nil {
			return err
		}
		defer stop()
		fmt.Println("listening on", ln.Addr())
		<-ctx.Done()
		return nil
	}
	if len(only) == 0 {
		only = units
		if through {
			only = slices.Concat(serverUnits, units)
		}
	}
	known, err := readKnown(knownText, through)
	if err != nil {
		return err
	}
	dir, err := tree(source)
	defer os.RemoveAll(dir) //nolint:errcheck // of links
	if err != nil {
		return err
	}
	for _, c := range changes {
		fmt.Printf("%s: %s\n", c.file, c.why)
	}
	var faults []string
	var total outcome
	fmt.Printf("%-24s %6s %6s %6s %8s\n", "unit", "passed", "known", "failed", "excluded")
	for _, unit := range only {
		// An engine for each: a test that fails may leave a setting behind.
		ln, stop, err := begin(ctx, "")
		if err != nil {
			return err
		}
		_, port, _ := net.SplitHostPort(ln.Addr().String()) // it listens
		out, err := runUnit(ctx, dir, unit, port, limit, through)
		stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if keep != "" {
			name := filepath.Join(keep, strings.ReplaceAll(unit, "/", "-")+".txt")
			if err := os.WriteFile(name, out, 0o644); err != nil {
				return err
			}
		}
		o := parse(out)
		found := o.faults(unit, known)
		if err != nil {
			found = append(found, fmt.Sprintf("%s did not get to its end: %v\n%s", unit, err, tail(out)))
		}
		fmt.Printf("%-24s %6d %6d %6d %8d\n", unit, len(o.passed), len(o.failed)-o.unknown(unit, known), o.unknown(unit, known), o.ignored)
		faults = append(faults, found...)
		total.passed = append(total.passed, o.passed...)
	}
	fmt.Printf("%-24s %6d\n", "all", len(total.passed))
	for _, f := range faults {
		fmt.Println(f)
	}
	if len(faults) > 0 {
		return fmt.Errorf("%d faults", len(faults))
	}
	return nil
}

// start serves a new engine until stop is called.
func start(ctx context.Context, addr string) (ln net.Listener, stop func(), err error) {
	e, err := engine.New(engine.Options{Natives: native.All()})
	if err != nil {
		return nil, nil, err
	}
	if ln, err = listen(ctx, e, addr); err != nil {
		_ = e.Close()
		return nil, nil, err
	}
	return ln, func() { ln.Close(); _ = e.Close() }, nil
}

// startServer is start of a server with an engine.
func startServer(ctx context.Context, addr string) (ln net.Listener, stop func(), err error) {
	srv, err := server.New(ctx, server.Options{URL: "embedded:"})
	if err != nil {
		return nil, nil, err
	}
	ln, err = srv.Listen("tcp", cmp.Or(addr, "127.0.0.1:0"))
	if err != nil {
		return nil, nil, errors.Join(err, srv.Close())
	}
	go func() {
		if err := srv.Serve(ln); !errors.Is(err, server.ErrClosed) {
			fmt.Fprintln(os.Stderr, "redissuite:", err)
		}
	}()
	return ln, func() { _ = srv.Close() }, nil
}

// listen serves e to whoever connects, until the listener is closed.
func listen(ctx context.Context, e *engine.Engine, addr string) (net.Listener, error) {
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if a, ok := ln.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		ln.Close()
		return nil, fmt.Errorf("%s is not on the loopback: there is no password", addr)
	}
	go func() {
		if err := accept(ln, e); err != nil {
			fmt.Fprintln(os.Stderr, "redissuite: accept:", err)
		}
	}()
	return ln, nil
}

// runUnit returns what the harness wrote. It fails, and prints all goroutines,
// when the unit takes longer than limit.
func runUnit(ctx context.Context, dir, unit, port string, limit time.Duration, through bool) ([]byte, error) { //nolint:revive // the flag of the command
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tags := excluded
	if !through {
		tags += " -needs:repl"
	}
	cmd := exec.CommandContext(ctx, "tclsh", "tests/test_helper.tcl", "--host", "127.0.0.1", "--port", port,
		"--singledb", "--ignore-encoding", "--ignore-digest", "--clients", "1", "--durable", "--tags", tags, "--single", unit)
	cmd.Dir = dir
	// The harness starts a process for its test client, which keeps the pipe.
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if ctx.Err() != nil {
		if dump := pprof.Lookup("goroutine"); dump != nil {
			_ = dump.WriteTo(io.Writer(os.Stderr), 2)
		}
		return out.Bytes(), fmt.Errorf("%w after %v", ctx.Err(), limit)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && bytes.Contains(out.Bytes(), []byte("The End")) {
		err = nil // some test failed, which the output tells
	}
	return out.Bytes(), err
}

// tail returns the last lines of out.
func tail(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}
