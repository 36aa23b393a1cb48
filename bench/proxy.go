package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// benchProxy measures redoubt serve --pools beside nutcracker, with its default
// buffers and with small ones, and beside a direct connection to a server: with a pool of one
// server, and with a pool of three.
func benchProxy(ctx context.Context, cfg config) error {
	start := func(ctx context.Context) (target, func(), error) { return startRedis(ctx) }
	return cfg.besideNutcracker(ctx, start, config.proxyPool, "goals, against the better nutcracker of each figure")
}

// besideNutcracker measures pools of one server and of three, and prints the missed goals.
func (c config) besideNutcracker(
	ctx context.Context, start func(context.Context) (target, func(), error),
	pool func(config, context.Context, []target) ([]string, error), goals string,
) error {
	if !c.chosen {
		c.rounds = 5
	}
	var servers []target
	for range 3 {
		s, stop, err := start(ctx)
		if err != nil {
			return err
		}
		defer stop()
		servers = append(servers, s)
	}
	var missed []string
	for _, n := range []int{1, 3} {
		m, err := pool(c, ctx, servers[:n])
		if err != nil {
			return err
		}
		missed = append(missed, m...)
	}
	c.printf("# %s; missed: %d", goals, len(missed))
	for _, m := range missed {
		c.printf("goal\t%s", m)
	}
	return nil
}

// proxyPool measures all proxies in front of the same servers, and returns the missed goals.
func (c config) proxyPool(ctx context.Context, servers []target) (missed []string, err error) {
	all, stop, err := startContenders(ctx, true, servers)
	if err != nil {
		return nil, err
	}
	defer stop()

	mset := "MSET" + strings.Repeat(" key:__rand_int__ xxx", 10)
	for _, l := range c.loads() {
		for _, w := range []workload{
			{title: "SET", words: []string{"SET", "key:__rand_int__", "xxx"}},
			{title: "GET", words: []string{"GET", "key:__rand_int__"}},
			{title: "MSET of 10", words: strings.Fields(mset)},
		} {
			title := fmt.Sprintf("%s, %d back ends", w.title, len(servers))
			cell, err := c.proxyCell(title, l, all, func(t target) (result, error) {
				t.words = w.words
				return c.redisBenchmark(ctx, t, l)
			})
			if err != nil {
				return nil, err
			}
			missed = append(missed, cell.missed(w.title, l, len(servers))...)
		}
	}
	if mb := c.printMemory(all, len(servers)); mb > 64 {
		missed = append(missed, fmt.Sprintf("RSS %.0f MB, want at most 64", mb))
	}
	return missed, nil
}

// startContenders starts all proxies in front of servers. The first server is measured too.
func startContenders(ctx context.Context, redis bool, servers []target) (all []target, stop func(), err error) {
	pool := poolFile{redis: redis}
	for _, s := range servers {
		pool.servers = append(pool.servers, s.addr)
	}
	all = make([]target, proxyContenders)
	all[isDirect] = servers[0]
	all[isDirect].name = "direct"
	var stops []func()
	stop = func() {
		for _, f := range stops {
			f()
		}
	}
	for i, start := range map[int]func() (target, func(), error){
		isRedoubt:  func() (target, func(), error) { return startServePool(ctx, pool) },
		isDefault:  func() (target, func(), error) { return startNutcracker(ctx, pool) },
		isSmallBuf: func() (target, func(), error) { return startNutcracker(ctx, pool, "-m", "512") },
	} {
		t, f, err := start()
		if err != nil {
			stop()
			return nil, nil, err
		}
		stops = append(stops, f)
		all[i] = t
	}
	all[isSmallBuf].name = "nutcracker -m 512"
	return all, stop, nil
}

// printMemory prints the memory of all proxies now, in MB, and returns ours.
func (c config) printMemory(all []target, servers int) (ours float64) {
	for i, t := range all {
		mb := float64(rss(t.pid, "VmRSS:")) / (1 << 20)
		c.printf("%d back ends, after -c 500 -P 16  %-18s %6.1f MB", servers, t.name, mb)
		if i == isRedoubt {
			ours = mb
		}
	}
	return ours
}

// The proxies to measure.
const (
	isRedoubt = iota
	isDefault
	isSmallBuf
	isDirect
	proxyContenders
)

// A proxyCell is one command under one load: the median of the ratios within a round, to the
// nutcracker beside which ours is slower.
type proxyCell struct {
	title           string
	rate, p99, cpus float64
}

// proxyCell measures one command under one load, all in turn.
func (c config) proxyCell(title string, l load, all []target, once func(t target) (result, error)) (proxyCell, error) {
	var results [proxyContenders][]result
	var rates, p99s, cpus [proxyContenders][]float64
	for round := range c.rounds {
		var now [proxyContenders]result
		for i := range all {
			k := (i + round) % len(all) // another one is first in each round
			t := all[k]
			c.progress("%s -c %d -P %d, round %d of %d, %s", title, l.clients, l.pipeline, round+1, c.rounds, t.name)
			r, err := once(t)
			if err != nil {
				return proxyCell{}, err
			}
			c.raw.Printf("raw\t%s\t-c %d -P %d\t%s\t%.0f/s\tp50 %s\tp99 %s ms\t%.2f us", title, l.clients, l.pipeline, t.name, r.perSecond, r.p50, r.p99, r.cpu)
			now[k] = r
			results[k] = append(results[k], r)
		}
		for _, k := range []int{isDefault, isSmallBuf} {
			us, peer := now[isRedoubt], now[k]
			rates[k] = append(rates[k], us.perSecond/peer.perSecond)
			p99s[k] = append(p99s[k], us.p99ms()/peer.p99ms())
			cpus[k] = append(cpus[k], us.cpu/peer.cpu)
		}
	}
	c.progress("")
	names := append([]string{"redoubt serve --pools"}, namesOf(all[1:], func(t target) string { return t.name })...)
	for _, f := range []struct {
		what, unit string
		get        func(result) float64
	}{{"", "op/s", func(r result) float64 { return r.perSecond }}, {", p99", "ms", result.p99ms}, {", processor", "us", func(r result) float64 { return r.cpu }}} {
		c.recordRounds(fmt.Sprintf("%s, pipeline of %d%s", title, l.pipeline, f.what), l.clients, f.unit, names, figures(results[:], f.get))
	}
	for k, t := range all {
		c.printf("%-24s -c %-3d -P %-2d  %-18s %8.0f/s  p99 %7.3f ms  %6.2f us/command", title, l.clients, l.pipeline, t.name,
			median(results[k], func(r result) float64 { return r.perSecond }), median(results[k], result.p99ms),
			median(results[k], func(r result) float64 { return r.cpu }))
	}
	cell := proxyCell{
		title: title, rate: min(medianOf(rates[isDefault]), medianOf(rates[isSmallBuf])),
		p99:  max(medianOf(p99s[isDefault]), medianOf(p99s[isSmallBuf])),
		cpus: max(medianOf(cpus[isDefault]), medianOf(cpus[isSmallBuf])),
	}
	c.printf("%-24s -c %-3d -P %-2d  to the better nutcracker: rate %.2f, p99 %.2f, us/command %.2f", title, l.clients, l.pipeline, cell.rate, cell.p99, cell.cpus)
	return cell, nil
}

// missed returns the goals that were not reached.
func (cell proxyCell) missed(command string, l load, servers int) (texts []string) {
	want, most := 1.0, 0.95
	if l.pipeline > 1 {
		want, most = 1.4, 0.5
		if l.clients > 50 {
			want = 2
		}
	}
	if strings.HasPrefix(command, "MSET") {
		if want = 1.2; servers > 1 {
			want = 1.5
		}
	}
	miss := func(what string, got, want float64) {
		texts = append(texts, fmt.Sprintf("%s -c %d -P %d: %s %.2f, want %.2f", cell.title, l.clients, l.pipeline, what, got, want))
	}
	if cell.rate < want {
		miss("rate", cell.rate, want)
	}
	if cell.p99 > 1 {
		miss("p99", cell.p99, 1)
	}
	if cell.cpus > most {
		miss("us/command", cell.cpus, most)
	}
	return texts
}

// p99ms is p99 as a number.
func (r result) p99ms() float64 {
	ms, err := strconv.ParseFloat(r.p99, 64)
	if err != nil {
		return math.NaN()
	}
	return ms
}
