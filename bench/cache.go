package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/redis/go-redis/v9"
	"github.com/wcharczuk/go-chart/v2"
	"github.com/wcharczuk/go-chart/v2/drawing"
)

const (
	cachedKeys     = 10_000
	cacheProcesses = 16 // in a cold-key storm, with 64 callers each
	cacheCallers   = 64
	coldLoad       = 50 * time.Millisecond

	// An expiry storm has more callers than keys, so that callers that wait for one load leave
	// enough others for the other keys. Each key is read 20 times a second.
	stormProcesses = 4 // with 128 callers each
	stormCallers   = 128
	stormKeys      = 500
	stormTTL       = 5 * time.Second // jetcache-go takes less than one second for an hour
	stormLength    = 12 * time.Second
	stormLoad      = 20 * time.Millisecond
	stormPace      = 50 * time.Millisecond
	stormBucket    = 100 * time.Millisecond
)

var cachedValue = strings.Repeat("v", 100)

// benchCache measures caches before a source.
func benchCache(ctx context.Context, cfg config) error {
	if !cfg.chosen {
		cfg.rounds, cfg.duration = 5, 500*time.Millisecond
	}
	p, err := startPeers(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	b := &cacheBench{config: cfg, addr: p.addr, rdb: p.admin}
	parts := []func(context.Context) error{b.localHits, b.remoteHits, b.coldKey}
	if !cfg.isBrief() { // the storm waits for real TTLs
		parts = append(parts, b.expiry)
	}
	for _, measure := range parts {
		if err := b.rdb.FlushAll(ctx).Err(); err != nil {
			return err
		}
		if err := measure(ctx); err != nil {
			return err
		}
	}
	b.printGoals(b.goals.list)
	return nil
}

type cacheBench struct {
	config

	addr  string
	rdb   *redis.Client
	goals goals
}

func cachedKey(i int) string { return fmt.Sprintf("user:%08d", i) }

// quick is a source that costs nothing.
func quick(context.Context, string) (string, error) { return cachedValue, nil }

// open opens all libraries on an empty server. close closes them.
func (b *cacheBench) open(s cacheSetup) (users []cacheUser, closeAll func(), err error) {
	closeAll = func() {
		for _, u := range users {
			u.close()
		}
	}
	s.addr = b.addr
	for _, lib := range cacheLibraries {
		u, err := lib.open(s)
		if err != nil {
			closeAll()
			return nil, nil, fmt.Errorf("%s: %w", lib.name, err)
		}
		users = append(users, u)
	}
	return users, closeAll, nil
}

// hotKeys fit into the caches of a processor.
const hotKeys = 256

// localHits reads keys in the process, by one caller: all of them in turn, so that each comes from
// memory, or a few of them.
func (b *cacheBench) localHits(ctx context.Context) error {
	users, closeAll, err := b.open(cacheSetup{local: 2 * cachedKeys, ttl: time.Hour, load: quick})
	if err != nil {
		return err
	}
	defer closeAll()
	keys := make([]string, cachedKeys)
	for i := range keys {
		keys[i] = cachedKey(i)
	}
	var readers []localReader
	for i, u := range users {
		if strings.Contains(cacheLibraries[i].name, ", ") { // the other modes are for keys outside the process
			continue
		}
		readers = append(readers, localReader{cacheLibraries[i].name, u.get})
	}
	for _, alone := range []struct {
		name    string
		options otter.Options[string, string]
	}{
		{"otter", otter.Options[string, string]{MaximumSize: 2 * cachedKeys}},
		{"otter, with an expiry", otter.Options[string, string]{MaximumSize: 2 * cachedKeys, ExpiryCalculator: otter.ExpiryWriting[string, string](time.Hour)}},
	} {
		o := otter.Must(&alone.options)
		readers = append(readers, localReader{alone.name, func(_ context.Context, key string) (string, error) {
			v, ok := o.GetIfPresent(key)
			if !ok {
				v = strings.Clone(cachedValue)
				o.Set(key, v)
			}
			return v, nil
		}})
	}
	// The caches keep every loaded value. In turns: entries stored one after the other lie side by
	// side, and a lookup would be faster than in real use.
	for range 5 {
		for _, k := range keys {
			for _, r := range readers {
				if _, err := r.get(ctx, k); err != nil {
					return fmt.Errorf("%s: %w", r.name, err)
				}
			}
		}
	}
	before := redisMeter(b.rdb)(ctx).commands
	for _, set := range [][]string{keys, keys[:hotKeys]} {
		if err := b.localHitsOf(ctx, fmt.Sprintf("local hit, %d keys", len(set)), set, readers); err != nil {
			return err
		}
	}
	b.raw.Printf("raw\tlocal hit\t%.0f commands on the server meanwhile", redisMeter(b.rdb)(ctx).commands-before)
	return nil
}

// A localReader reads a key that is in the process.
type localReader struct {
	name string
	get  func(ctx context.Context, key string) (string, error)
}

func (b *cacheBench) localHitsOf(ctx context.Context, what string, keys []string, readers []localReader) error {
	times, allocations := make([][]float64, len(readers)), make([][]float64, len(readers))
	for round := range b.rounds {
		for i := range readers {
			k := (i + round) % len(readers)
			b.progress("%s, round %d of %d, %s", what, round+1, b.rounds, readers[k].name)
			ns, allocs, err := timeOf(ctx, b.duration, keys, readers[k].get)
			if err != nil {
				return fmt.Errorf("%s: %w", readers[k].name, err)
			}
			b.raw.Printf("raw\t%s\t%s\t%.1f ns\t%.3f allocations", what, readers[k].name, ns, allocs)
			times[k], allocations[k] = append(times[k], ns), append(allocations[k], allocs)
		}
	}
	b.progress("")
	b.recordRounds(what, 1, "ns", namesOf(readers, func(r localReader) string { return r.name }), times)
	for i, r := range readers {
		ratios := make([]float64, b.rounds)
		for round := range ratios {
			ratios[round] = times[0][round] / times[i][round]
		}
		b.printf("%-21s  %-32s %8.1f ns  %.2f allocations  ours/this %.2f", what, r.name, medianOf(times[i]), medianOf(allocations[i]), medianOf(ratios))
		if strings.HasPrefix(r.name, "otter") {
			b.goals.add("time of a "+what+", to "+r.name, medianOf(ratios), atMost, 1.3)
		}
	}
	b.goals.add("allocations of a "+what, medianOf(allocations[0]), atMost, 0)
	return nil
}

// timeOf returns what one call takes.
func timeOf(ctx context.Context, d time.Duration, keys []string, get func(ctx context.Context, key string) (string, error)) (ns, allocs float64, err error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	calls, began := 0, time.Now()
	for ; time.Since(began) < d; calls += len(keys) {
		for _, k := range keys {
			if v, err := get(ctx, k); err != nil || len(v) != len(cachedValue) {
				return 0, 0, errors.Join(err, fmt.Errorf("%d bytes", len(v)))
			}
		}
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	// The rest of the process allocates a little, too.
	allocs = float64((after.Mallocs-before.Mallocs)*100/uint64(calls)) / 100 //nolint:gosec // more than 0
	return float64(took.Nanoseconds()) / float64(calls), allocs, nil
}

// remoteHits reads keys that are on the server.
func (b *cacheBench) remoteHits(ctx context.Context) error {
	users, closeAll, err := b.open(cacheSetup{remote: true, ttl: time.Hour, load: quick})
	if err != nil {
		return err
	}
	defer closeAll()
	var cs []contender
	for i, u := range users {
		if name := cacheLibraries[i].name; !strings.HasSuffix(name, "StaleFor") && !strings.HasSuffix(name, "refresh") {
			class := "peers as they come"
			switch {
			case i == 0:
				class = ""
			case strings.HasSuffix(name, "AutoPipeline"):
				class = "peers on AutoPipeline"
			}
			cs = append(cs, contender{name: name, class: class, before: func(ctx context.Context) error { return b.fill(ctx, u) }, op: func(ctx context.Context, _ int) error {
				v, err := u.get(ctx, cachedKey(rand.IntN(cachedKeys)))
				if err == nil && len(v) != len(cachedValue) {
					err = fmt.Errorf("%d bytes", len(v))
				}
				return err
			}})
		}
	}
	for _, callers := range b.callers {
		samples, err := b.compare(ctx, "remote hit", redisMeter(b.rdb), callers, cs)
		if err != nil {
			return err
		}
		if callers != 256 {
			continue
		}
		for _, class := range []string{"peers as they come", "peers on AutoPipeline"} {
			least := 0.
			for i := range cs {
				if ratio := ratioOf(samples[0], samples[i]); cs[i].class == class && (least == 0 || ratio < least) {
					least = ratio
				}
			}
			b.goals.add("remote hits of 256 callers to the best of the "+class, least, atLeast, 1.5)
		}
	}
	return nil
}

// fill makes sure that all keys are there as a library keeps them.
func (b *cacheBench) fill(ctx context.Context, u cacheUser) error {
	if err := b.rdb.FlushAll(ctx).Err(); err != nil {
		return err
	}
	if err := readAll(ctx, u, cachedKeys); err != nil {
		return err
	}
	// Some store what was loaded in the background.
	for end := time.Now().Add(5 * time.Second); ; {
		n, err := b.rdb.DBSize(ctx).Result()
		if err != nil || n >= cachedKeys || time.Now().After(end) {
			return err
		}
	}
}

// readAll reads the first n keys, by many callers.
func readAll(ctx context.Context, u cacheUser, n int) error {
	const callers = 32
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := caller; i < n && errs[caller] == nil; i += callers {
				_, errs[caller] = u.get(ctx, cachedKey(i))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// coldKey lets all callers of all processes ask for one key that is not there.
func (b *cacheBench) coldKey(ctx context.Context) error {
	for _, lib := range cacheLibraries {
		var loads, p99s, worst []float64
		for round := range b.rounds {
			b.progress("cold key, round %d of %d, %s", round+1, b.rounds, lib.name)
			if err := b.rdb.FlushAll(ctx).Err(); err != nil {
				return err
			}
			n, waits, err := b.storm(ctx, lib, fmt.Sprint("cold", round))
			if err != nil {
				return fmt.Errorf("%s: %w", lib.name, err)
			}
			p99, most := waits[len(waits)*99/100], waits[len(waits)-1]
			b.raw.Printf("raw\tcold key\t%s\t%d loads\tp50 %v\tp99 %v\tmax %v", lib.name, n, waits[len(waits)/2], p99, most)
			loads, p99s, worst = append(loads, float64(n)), append(p99s, p99.Seconds()*1000), append(worst, most.Seconds()*1000)
		}
		b.progress("")
		for _, f := range []struct {
			title, unit string
			rounds      []float64
		}{{"cold key", "loads", loads}, {"cold key, wait p99", "ms", p99s}} {
			b.recordRounds(f.title, cacheProcesses*cacheCallers, f.unit, []string{lib.name}, [][]float64{f.rounds})
		}
		b.printf("cold key, %d processes of %d callers, a load of %v  %-30s %3.0f loads  wait p99 %6.1f ms, max %6.1f ms",
			cacheProcesses, cacheCallers, coldLoad, lib.name, medianOf(loads), medianOf(p99s), medianOf(worst))
		if lib.name == cacheLibraries[0].name {
			b.goals.add("loads of a cold key", slices.Max(loads), atMost, 1)
		}
	}
	return nil
}

// storm returns how often the source was asked, and how long each caller waited.
func (b *cacheBench) storm(ctx context.Context, lib cacheLibrary, key string) (loads int64, waits []time.Duration, err error) {
	var n atomic.Int64
	slow := func(context.Context, string) (string, error) {
		n.Add(1)
		<-time.After(coldLoad)
		return cachedValue, nil
	}
	users, closeAll, err := b.processes(lib, cacheProcesses, cacheSetup{addr: b.addr, ttl: time.Minute, load: slow})
	if err != nil {
		return 0, nil, err
	}
	defer closeAll()
	for i, u := range users { // connections are open, scripts loaded
		if _, err := u.get(ctx, fmt.Sprint("warm", key, i%2)); err != nil {
			return 0, nil, err
		}
	}
	n.Store(0)
	waits = make([]time.Duration, cacheProcesses*cacheCallers)
	errs := make([]error, len(waits))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range waits {
		wg.Go(func() {
			<-start
			began := time.Now()
			_, errs[i] = users[i%cacheProcesses].get(ctx, key)
			waits[i] = time.Since(began)
		})
	}
	close(start)
	wg.Wait()
	slices.Sort(waits)
	return n.Load(), waits, errors.Join(errs...)
}

// processes opens a library once for each process.
func (b *cacheBench) processes(lib cacheLibrary, n int, s cacheSetup) (users []cacheUser, closeAll func(), err error) {
	closeAll = func() {
		for _, u := range users {
			u.close()
		}
	}
	for range n {
		u, err := lib.open(s)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		users = append(users, u)
	}
	return users, closeAll, nil
}

// expiry lets keys that were stored at once expire while they are read, and draws how often the source is asked.
func (b *cacheBench) expiry(ctx context.Context) error {
	graph := stormChart()
	for _, lib := range cacheLibraries {
		if strings.HasSuffix(lib.name, "AutoPipeline") { // that changes nothing here
			continue
		}
		if err := b.rdb.FlushAll(ctx).Err(); err != nil {
			return err
		}
		b.progress("expiry storm, %s", lib.name)
		loads, waits, err := b.expiryOf(ctx, lib)
		if err != nil {
			return fmt.Errorf("%s: %w", lib.name, err)
		}
		b.progress("")
		xs, ys, sum := make([]float64, len(loads)), make([]float64, len(loads)), int64(0)
		for j, n := range loads {
			xs[j], ys[j] = (time.Duration(j) * stormBucket).Seconds(), float64(n)
			sum += n
		}
		b.printf("expiry storm  %-30s %5d loads, at most %4.0f in %v  wait p50 %v  p99 %v  max %v", lib.name, sum, slices.Max(ys), stormBucket,
			waits[len(waits)/2].Round(10*time.Microsecond), waits[len(waits)*99/100].Round(10*time.Microsecond), waits[len(waits)-1].Round(10*time.Microsecond))
		b.recordOnce("expiry storm", stormProcesses*stormCallers, "loads", lib.name, float64(sum))
		b.recordOnce("expiry storm, wait p99", stormProcesses*stormCallers, "ms", lib.name, waits[len(waits)*99/100].Seconds()*1000)
		b.raw.Printf("raw\texpiry storm\t%s\t%v", lib.name, loads)
		addStorm(&graph, lib.name, xs, ys)
	}
	graph.Elements = []chart.Renderable{chart.LegendThin(&graph)}
	return drawSVG(filepath.Join(b.dir, "cache-expiry.svg"), graph)
}

// stormChart is the picture of the storm without its lines.
func stormChart() chart.Chart {
	graph := chart.Chart{
		Title:      fmt.Sprintf("Loads in each %v: %d keys with a TTL of %v, read by %d processes", stormBucket, stormKeys, stormTTL, stormProcesses),
		TitleStyle: chart.Style{FontSize: 11},
		Width:      1000, Height: 460,
		Background:     chart.Style{Padding: chart.Box{Top: 100, Left: 20, Right: 20, Bottom: 20}},
		XAxis:          chart.XAxis{Name: "seconds since they were stored", ValueFormatter: chart.FloatValueFormatter},
		YAxis:          chart.YAxis{AxisType: chart.YAxisSecondary, ValueFormatter: chart.IntValueFormatter}, // on the left
		YAxisSecondary: chart.YAxis{Style: chart.Hidden()},
	}
	for s := 0; s <= int(stormLength.Seconds()); s++ {
		graph.XAxis.Ticks = append(graph.XAxis.Ticks, chart.Tick{Value: float64(s), Label: fmt.Sprint(s)})
	}
	return graph
}

// addStorm draws the line of one library.
func addStorm(graph *chart.Chart, name string, xs, ys []float64) {
	color := drawing.ColorFromHex(stormColors[len(graph.Series)%len(stormColors)])
	graph.Series = append(graph.Series, chart.ContinuousSeries{Name: name, XValues: xs, YValues: ys, Style: chart.Style{StrokeWidth: 2, StrokeColor: color}})
}

var stormColors = []string{"0a5fd9", "6fb1ff", "d62728", "ff7f0e", "2ca02c", "9467bd", "444444"}

// expiryOf returns the loads in each bucket of time, and the waits in order.
func (b *cacheBench) expiryOf(ctx context.Context, lib cacheLibrary) (loads []int64, waits []time.Duration, err error) {
	buckets := make([]atomic.Int64, stormLength/stormBucket)
	var began atomic.Int64 // when the keys were stored, in ns
	load := func(context.Context, string) (string, error) {
		if start := began.Load(); start > 0 {
			buckets[min(int(time.Duration(time.Now().UnixNano()-start)/stormBucket), len(buckets)-1)].Add(1)
			<-time.After(stormLoad)
		}
		return cachedValue, nil
	}
	users, closeAll, err := b.processes(lib, stormProcesses, cacheSetup{addr: b.addr, ttl: stormTTL, load: load})
	if err != nil {
		return nil, nil, err
	}
	defer closeAll()
	if err := readAll(ctx, users[0], stormKeys); err != nil {
		return nil, nil, err
	}
	start := time.Now()
	began.Store(start.UnixNano())
	all, errs := make([][]time.Duration, stormProcesses*stormCallers), make([]error, stormProcesses*stormCallers)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			<-time.After(rand.N(stormPace)) // or all would ask at once
			pace := time.NewTicker(stormPace)
			defer pace.Stop()
			for errs[i] == nil && time.Since(start) < stormLength {
				asked := time.Now()
				_, errs[i] = users[i%stormProcesses].get(ctx, cachedKey(rand.IntN(stormKeys)))
				all[i] = append(all[i], time.Since(asked))
				<-pace.C
			}
		})
	}
	wg.Wait()
	waits = slices.Concat(all...)
	slices.Sort(waits)
	loads = make([]int64, len(buckets))
	for i := range buckets {
		loads[i] = buckets[i].Load()
	}
	return loads, waits, errors.Join(errs...)
}
