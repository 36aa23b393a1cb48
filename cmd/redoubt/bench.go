package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/bloom"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/queue"
	"github.com/redoubt-go/redoubt/ratelimit"
	"github.com/redoubt-go/redoubt/stock"
)

// A measurement is the JSON form of one line of bench. Times are in µs.
type measurement struct {
	Name      string  `json:"name"`
	Calls     int     `json:"calls"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
	Most      float64 `json:"max_us"`
}

// A workload is an operation that bench repeats.
type workload struct {
	name    string
	prepare func(ctx context.Context) error
	call    func(ctx context.Context, caller, i int) error
	clean   func(ctx context.Context) error
}

type benchFlags struct {
	serverFlags

	callers int
	time    time.Duration
	only    []string
	asJSON  bool
}

// Each caller uses a name of its own, or the names of many in turn.
const (
	benchNames   = 1024
	mostCallers  = 10_000
	leastMeasure = 100 * time.Millisecond
)

func newBench() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench URL",
		Short: "Measure the main operations on your own server",
		Long: `Run the main operations one after the other on the server that URL names, each with
--callers callers for --time, and print calls a second and the times of calls. SET and
GET are there for comparison: they are what the server can do at most. A caller begins
its next call when the last has ended, so times don't show how long calls would queue
at a rate that the server can't keep up with.

It loads the server: think before you run it on one that others use. It writes keys
that begin with the prefix, which are gone when it ends, or a minute later.

Exit codes: 0 measured; 64 wrong usage; 69 no server, or the connection was lost;
128+n ended by signal n.`,
		Example: "  redoubt bench redis://10.0.0.5:6379\n  redoubt bench redis-cluster://10.0.1.1:6379 --callers 256 --only lock,queue",
		Args:    one("URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.callers < 1 || f.callers > mostCallers:
				return usagef("callers is %d; want 1 to %d", f.callers, mostCallers)
			case f.time < leastMeasure || f.time > time.Hour:
				return usagef("time is %v; want %v to 1h", f.time, leastMeasure)
			}
			f.backend = args[0]
			ctx, signalled, stop := untilInterrupted()
			defer stop()
			err := f.with(ctx, cmd.ErrOrStderr(), func(ctx context.Context, client *redoubt.Client) error {
				return f.run(ctx, cmd, client)
			})
			if code := signalled(); code != 0 && err != nil {
				return failf(code, "interrupted")
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&f.callers, "callers", 16, "`number` of callers at once")
	flags.DurationVar(&f.time, "time", 2*time.Second, "for how long each operation is measured")
	flags.StringSliceVar(&f.only, "only", nil, "measure these `operations` only: a list of "+strings.Join(workloadNames(), ", "))
	flags.StringVar(&f.prefix, "prefix", "redoubt-bench", "prefix of all keys that it writes")
	f.password.flags(flags, "password of the server, if the URL has none")
	jsonFlag(flags, &f.asJSON, "print a JSON array")
	onThisLine(flags, "callers", "time", "only", "json", "prefix")
	return cmd
}

func workloadNames() []string {
	return []string{"set", "get", "lock", "limit", "queue", "stock", "bloom"}
}

func (f *benchFlags) run(ctx context.Context, cmd *cobra.Command, client *redoubt.Client) error {
	work, err := f.workloads(client)
	if err != nil {
		return err
	}
	all, err := f.measureAll(ctx, work, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if f.asJSON {
		return printJSON(cmd.OutOrStdout(), all)
	}
	return printMeasurements(cmd.OutOrStdout(), all)
}

// measureAll shows a bar on stderr if that is a terminal.
func (f *benchFlags) measureAll(ctx context.Context, work []workload, stderr io.Writer) (all []measurement, err error) {
	progress := func(string, float64) {}
	if isTerminal(stderr) {
		bar := progressbar.NewOptions64(int64(len(work))*int64(f.time), progressbar.OptionSetWriter(lineWriter{stderr}),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(true))
		progress = func(name string, parts float64) {
			bar.Describe(name)
			_ = bar.Set64(int64(parts * float64(f.time))) // an error in drawing must not end the command
		}
		defer func() { _ = bar.Clear() }()
	}
	for i, w := range work {
		m, err := f.measure(ctx, w, func(part float64) { progress(w.name, float64(i)+part) })
		if err != nil {
			return nil, serverFault(w.name, err)
		}
		all = append(all, m)
	}
	return all, nil
}

// measure repeats an operation until its time is over. It calls progress with the part of the time that has passed.
func (f *benchFlags) measure(ctx context.Context, w workload, progress func(part float64)) (m measurement, err error) {
	if w.clean != nil {
		defer func() { // even after ^C
			clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			defer cancel()
			err = errors.Join(err, w.clean(clean))
		}()
	}
	if w.prepare != nil {
		if err := w.prepare(ctx); err != nil {
			return m, err
		}
	}
	begun := time.Now()
	times := make([][]time.Duration, f.callers)
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for caller := range f.callers {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil && failed.Load() == nil && time.Since(begun) < f.time; i++ {
				from := time.Now()
				if err := w.call(ctx, caller, i); err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
				times[caller] = append(times[caller], time.Since(from))
			}
		})
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		progress(min(1, time.Since(begun).Seconds()/f.time.Seconds()))
		select {
		case <-tick.C:
			continue
		case <-done:
		}
		tick.Stop()
		break
	}
	took := time.Since(begun)
	switch err := failed.Load(); {
	case ctx.Err() != nil:
		return m, ctx.Err()
	case err != nil:
		return m, *err
	}
	return measurementOf(w.name, took, slices.Concat(times...)), nil
}

func measurementOf(name string, took time.Duration, times []time.Duration) measurement {
	slices.Sort(times)
	at := func(part float64) float64 {
		if len(times) == 0 {
			return 0
		}
		return float64(times[int(part*float64(len(times)-1))]) / 1e3
	}
	return measurement{
		Name: name, Calls: len(times), Seconds: took.Seconds(), PerSecond: float64(len(times)) / took.Seconds(),
		P50: at(.5), P99: at(.99), Most: at(1),
	}
}

// The plot shows times from 10 µs to 10 s, a decade in six columns.
const (
	plotFrom    = 10.0
	plotDecades = 6
	plotDecade  = 6
)

// plot draws the times of an operation's calls: a block at the median, a line to the 99th percentile, dots to the longest.
func plot(m measurement) string {
	at := func(us float64) int {
		return int(max(0, min(plotDecades*plotDecade-1, math.Log10(max(us, plotFrom)/plotFrom)*plotDecade)))
	}
	row := []rune(strings.Repeat(" ", plotDecades*plotDecade))
	for i := at(m.P50); i <= at(m.Most); i++ {
		row[i] = '·'
	}
	for i := at(m.P50); i <= at(m.P99); i++ {
		row[i] = '─'
	}
	row[at(m.P50)] = '█'
	return strings.TrimRight(string(row), " ")
}

func printMeasurements(out io.Writer, all []measurement) error {
	var scale strings.Builder
	for _, mark := range []string{"10µs", "100µs", "1ms", "10ms", "100ms", "1s"} {
		_, _ = fmt.Fprintf(&scale, "%-*s", plotDecade, mark)
	}
	t := newTable(out)
	_, _ = fmt.Fprintf(t, "OPERATION\tCALLS/S\tP50\tP99\tMAX\t%s\n", strings.TrimSpace(scale.String()))
	for _, m := range all {
		_, _ = fmt.Fprintf(t, "%s\t%.0f\t%s\t%s\t%s\t%s\n", m.Name, m.PerSecond, micros(m.P50), micros(m.P99), micros(m.Most), plot(m))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, "\n█ the median, ─ up to the 99th percentile, · up to the longest; the scale is logarithmic")
	return err
}

func micros(us float64) string {
	d := time.Duration(us * 1e3)
	switch {
	case d >= 100*time.Millisecond:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}

// workloads returns the operations that --only chooses.
func (f *benchFlags) workloads(client *redoubt.Client) ([]workload, error) {
	for _, name := range f.only {
		if !slices.Contains(workloadNames(), name) {
			return nil, usagef("only has %q; want a list of %s", name, strings.Join(workloadNames(), ", "))
		}
	}
	var all []workload
	for _, name := range workloadNames() {
		if len(f.only) > 0 && !slices.Contains(f.only, name) {
			continue
		}
		made, err := workloadsOf(client, name)
		if err != nil {
			return nil, err
		}
		all = append(all, made...)
	}
	return all, nil
}

func workloadsOf(client *redoubt.Client, name string) ([]workload, error) {
	switch name {
	case "set", "get":
		return plainWorkload(client, name), nil
	case "lock":
		return lockWorkload(client)
	case "limit":
		return limitWorkload(client)
	case "queue":
		return queueWorkload(client)
	case "stock":
		return stockWorkload(client)
	}
	return bloomWorkload(client)
}

func benchName(i int) string { return strconv.Itoa(i % benchNames) }

// plainWorkload has values of 100 bytes, which expire.
func plainWorkload(client *redoubt.Client, name string) []workload {
	value := strings.Repeat("x", 100)
	return []workload{{name: strings.ToUpper(name), call: func(ctx context.Context, caller, i int) error {
		key, err := client.Key(benchName(caller*31+i), "value")
		if err != nil {
			return err
		}
		if name == "set" {
			return client.Do(ctx, redoubt.Cmd{Name: "SET", Keys: []string{key}, Args: []string{value, "EX", "60"}, Flags: redoubt.Idempotent}).Err
		}
		return client.Do(ctx, redoubt.Cmd{Name: "GET", Keys: []string{key}, Flags: redoubt.ReadOnly}).Err
	}}}
}

func lockWorkload(client *redoubt.Client) ([]workload, error) {
	locks, err := lock.New(client, lock.Options{})
	return []workload{{name: "lock: acquire and release", call: func(ctx context.Context, caller, _ int) error {
		l, err := locks.Acquire(ctx, strconv.Itoa(caller))
		if err != nil {
			return err
		}
		return l.Release(ctx)
	}}}, err
}

func limitWorkload(client *redoubt.Client) ([]workload, error) {
	limits, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerMinute(1_000_000)})
	return []workload{{name: "limit: allow", call: func(ctx context.Context, caller, i int) error {
		_, err := limits.Allow(ctx, benchName(caller*31+i))
		return err
	}}}, err
}

// queueWorkload puts messages, and then puts and handles them in turn.
func queueWorkload(client *redoubt.Client) ([]workload, error) {
	const name = "messages"
	q, err := queue.New[[]byte](client, queue.Options{Codec: queue.Bytes{}})
	payload := []byte(strings.Repeat("x", 100))
	forget := func(ctx context.Context) error {
		if _, err := q.RemovePending(ctx, name); err != nil {
			return err
		}
		keys, err := wire.KeysOf(client, name)
		if err != nil {
			return err
		}
		return client.Do(ctx, redoubt.Cmd{Name: "DEL", Keys: keys[:], Flags: redoubt.Idempotent}).Err
	}
	return []workload{
		{name: "queue: put", call: func(ctx context.Context, _, _ int) error {
			_, err := q.Put(ctx, name, payload)
			return err
		}, clean: forget},
		{name: "queue: put, take and settle", call: func(ctx context.Context, _, _ int) error {
			if _, err := q.Put(ctx, name, payload); err != nil {
				return err
			}
			_, err := q.Work(ctx, name, func(context.Context, *queue.Delivery[[]byte]) error { return nil }, queue.RunOptions{Concurrency: 1})
			return err
		}, clean: forget},
	}, err
}

func stockWorkload(client *redoubt.Client) ([]workload, error) {
	items, err := stock.New(client, stock.Options{})
	return []workload{{
		name: "stock: reserve and commit",
		prepare: func(ctx context.Context) error {
			for i := range benchNames {
				if _, err := items.Set(ctx, benchName(i), stock.MaxUnits); err != nil {
					return err
				}
			}
			return nil
		},
		call: func(ctx context.Context, caller, i int) error {
			name := benchName(caller*31 + i)
			r, short, err := items.Reserve(ctx, name, 1)
			if err != nil {
				return err
			}
			if short != nil {
				return errors.New("the item is sold out")
			}
			return items.Commit(ctx, name, r.ID)
		},
		clean: func(ctx context.Context) error {
			for i := range benchNames {
				if _, err := items.Delete(ctx, benchName(i)); err != nil {
					return err
				}
			}
			return nil
		},
	}}, err
}

func bloomWorkload(client *redoubt.Client) ([]workload, error) {
	filters, err := bloom.New(client, bloom.Options{})
	var filter *bloom.Filter
	return []workload{{
		name: "bloom: add",
		prepare: func(ctx context.Context) (err error) {
			filter, err = filters.Open(ctx, "filter", bloom.Spec{Capacity: 1_000_000, ErrorRate: .01})
			return err
		},
		call: func(ctx context.Context, caller, i int) error {
			_, err := filter.Add(ctx, strconv.Itoa(caller*1_000_000+i))
			return err
		},
		clean: func(ctx context.Context) error {
			_, err := filters.Delete(ctx, "filter")
			return err
		},
	}}, err
}
