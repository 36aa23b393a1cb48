package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// handoverWaiters is how many callers of each process wait.
const handoverWaiters = 20

// handoverProcesses is how many processes wait.
func (c config) handoverProcesses() int {
	if c.isBrief() {
		return 5
	}
	return 50
}

// A handover is how one library hands a lock over.
type handover struct {
	perSecond float64
	// From the call of a release to the return of the next acquire in another process. Without a
	// queue, a caller that releases the lock and acquires it again is often faster than the waiters.
	p50, p99 time.Duration
	kept     float64       // the part of hand-overs within one process
	commands float64       // that clients sent, for each hand-over
	ping     time.Duration // the median round trip meanwhile
	holders  int           // processes that had the lock at all
}

// benchHandover lets a thousand callers in fifty processes wait for one lock, take
// it, and give it back after a millisecond. The processes are this program again.
func benchHandover(ctx context.Context, cfg config) error {
	server, stop, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer stop()
	rdb := redis.NewClient(&redis.Options{Addr: server.addr})
	defer func() { _ = rdb.Close() }()
	idle, err := pings(ctx, rdb, time.Second/4, 0)
	if err != nil {
		return err
	}
	callers := handoverWaiters * cfg.handoverProcesses()
	cfg.printf("handover   %d waiters in %d processes; a round trip without them: p50 %v", callers, cfg.handoverProcesses(), idle)
	results := make([][]handover, len(waitingLibraries))
	for round := range cfg.rounds {
		for i := range waitingLibraries {
			k := (i + round) % len(waitingLibraries)
			name := waitingLibraries[k]
			cfg.progress("hand-over, round %d of %d, %s", round+1, cfg.rounds, name)
			h, err := cfg.handOver(ctx, rdb, server.addr, name)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			cfg.raw.Printf("raw\thandover\t%s\t%.0f/s\tp50 %v\tp99 %v\t%.2f commands\tround trip %v\t%.0f%% kept\t%d processes had it",
				name, h.perSecond, h.p50, h.p99, h.commands, h.ping, 100*h.kept, h.holders)
			results[k] = append(results[k], h)
		}
	}
	cfg.progress("")
	cfg.recordRounds("hand-over", callers, "hand-overs/s", waitingLibraries, figures(results, func(h handover) float64 { return h.perSecond }))
	cfg.recordRounds("from a release to the next lease, p50", callers, "us", waitingLibraries, figures(results, func(h handover) float64 { return float64(h.p50) / 1e3 }))
	cfg.recordRounds("from a release to the next lease, p99", callers, "us", waitingLibraries, figures(results, func(h handover) float64 { return float64(h.p99) / 1e3 }))
	cfg.recordRounds("commands for a hand-over", callers, "commands", waitingLibraries, figures(results, func(h handover) float64 { return h.commands }))
	for i, name := range waitingLibraries {
		of := func(get func(handover) float64) float64 { return median(results[i], get) }
		at := func(get func(handover) time.Duration) time.Duration {
			return time.Duration(of(func(h handover) float64 { return float64(get(h)) })).Round(time.Microsecond)
		}
		cfg.printf("handover   %-24s %6.0f/s  p50 %10v  p99 %10v  %6.2f commands each  round trip meanwhile %8v  %3.0f%% kept  %2.0f processes had it",
			name, of(func(h handover) float64 { return h.perSecond }),
			at(func(h handover) time.Duration { return h.p50 }), at(func(h handover) time.Duration { return h.p99 }),
			of(func(h handover) float64 { return h.commands }), at(func(h handover) time.Duration { return h.ping }),
			100*of(func(h handover) float64 { return h.kept }), of(func(h handover) float64 { return float64(h.holders) }))
	}
	return nil
}

// handOver is one round of one library.
func (c config) handOver(ctx context.Context, rdb *redis.Client, addr, library string) (h handover, err error) {
	if err := rdb.FlushAll(ctx).Err(); err != nil {
		return h, err
	}
	workers := make([]*worker, 0, c.handoverProcesses())
	defer func() {
		for _, w := range workers {
			w.kill()
		}
	}()
	for range c.handoverProcesses() {
		w, err := startWorker(ctx, workerAddr+"="+addr, workerLibrary+"="+library)
		if err != nil {
			return h, err
		}
		workers = append(workers, w)
	}
	for _, w := range workers {
		if err := w.await("ready"); err != nil {
			return h, err
		}
	}
	tell := func(word string) {
		for _, w := range workers {
			_, _ = io.WriteString(w.in, word+"\n")
		}
	}
	tell("go")
	for _, w := range workers { // each has had the lock once: the queue is complete
		if err := w.await("waiting"); err != nil {
			return h, err
		}
	}
	before, since := sentCommands(ctx, rdb, library), monotonic()
	if h.ping, err = pings(ctx, rdb, max(c.duration, time.Second/2), 5*time.Millisecond); err != nil {
		return h, err
	}
	until, after := monotonic(), sentCommands(ctx, rdb, library)
	tell("stop")
	type owned struct {
		hold

		process int
	}
	var holds []owned
	for process, w := range workers {
		var mine []hold
		if err := json.NewDecoder(w.out).Decode(&mine); err != nil {
			return h, fmt.Errorf("what a process had: %w", err)
		}
		in := false
		for _, hd := range mine {
			if hd.Acquired >= since && hd.Released <= until {
				holds = append(holds, owned{hd, process})
				in = true
			}
		}
		if in {
			h.holders++
		}
	}
	slices.SortFunc(holds, func(a, b owned) int { return cmp.Compare(a.Acquired, b.Acquired) })
	var gaps []time.Duration
	for i := 1; i < len(holds); i++ {
		gap := time.Duration(holds[i].Acquired - holds[i-1].Released)
		if gap < 0 {
			return h, fmt.Errorf("two had the lock at once, for %v", -gap)
		}
		if holds[i].process != holds[i-1].process {
			gaps = append(gaps, gap)
		}
	}
	n := float64(len(holds) - 1)
	if n < 1 || len(gaps) == 0 {
		return h, fmt.Errorf("%d hand-overs in %v, %d of them to another process", len(holds), c.duration, len(gaps))
	}
	slices.Sort(gaps)
	h.perSecond = n / time.Duration(until-since).Seconds()
	h.p50, h.p99 = gaps[len(gaps)/2], gaps[len(gaps)*99/100]
	h.kept = 1 - float64(len(gaps))/n
	h.commands = (after - before) / n
	return h, nil
}

// sentCommands is how many commands for locks clients have sent: scripts, and for
// redsync SET, which the other libraries' scripts call.
func sentCommands(ctx context.Context, rdb *redis.Client, library string) float64 {
	scripts, sets := sent(ctx, rdb)
	if library == "redsync" {
		return scripts.number + sets.number
	}
	return scripts.number
}

// pings measures round trips for a time, with a pause after each.
func pings(ctx context.Context, rdb *redis.Client, d, pause time.Duration) (p50 time.Duration, err error) {
	var all []time.Duration
	for start := time.Now(); time.Since(start) < d; {
		before := time.Now()
		if err := rdb.Ping(ctx).Err(); err != nil {
			return 0, err
		}
		all = append(all, time.Since(before))
		if pause > 0 {
			time.Sleep(pause)
		}
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

// A worker is a process with waiters.
type worker struct {
	cmd  *exec.Cmd
	in   io.Writer
	out  *bufio.Reader
	once sync.Once
}

// startWorker starts this program with more of an environment.
func startWorker(ctx context.Context, env ...string) (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	return &worker{cmd: cmd, in: in, out: bufio.NewReader(out)}, cmd.Start()
}

// await reads the worker's next line.
func (w *worker) await(want string) error {
	got, err := w.out.ReadString('\n')
	if err != nil || strings.TrimSpace(got) != want {
		return fmt.Errorf("a process said %q, want %q: %w", got, want, err)
	}
	return nil
}

func (w *worker) kill() {
	w.once.Do(func() {
		_ = w.cmd.Process.Kill()
		_ = w.cmd.Wait()
	})
}
