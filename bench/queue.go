package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	queueWorkers = 64
	queuePayload = 100 // bytes
	queueMany    = 100
	queueLoaded  = 20_000 // messages that are consumed in one run
	queueKept    = 10_000 // messages whose size is measured
	queueRounds  = 3
)

// benchQueue measures queues with a handler that does nothing.
func benchQueue(ctx context.Context, cfg config) error {
	if !cfg.chosen {
		cfg.rounds, cfg.duration = queueRounds, time.Second/2
	}
	server, stop, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer stop()
	b := &queueBench{config: cfg, addr: server.addr, rdb: redis.NewClient(&redis.Options{Addr: server.addr})}
	defer func() { _ = b.rdb.Close() }()
	parts := []func(context.Context) error{b.puts, b.consumption, b.sizes}
	if !cfg.isBrief() { // these wait for real times
		deaths := b.startDeaths(ctx) // they take longest, and hardly any processor time
		parts = append(parts, b.latenesses, b.idleness, func(ctx context.Context) error { return b.endDeaths(ctx, deaths) }, b.plot)
	}
	for _, measure := range parts {
		if err := measure(ctx); err != nil {
			return err
		}
	}
	b.printGoals(b.goals.list)
	return nil
}

type queueBench struct {
	config

	addr  string
	rdb   *redis.Client
	goals goals

	late []curve
}

// each calls f with a user of each library on an empty server, in a round's order.
func (b *queueBench) each(ctx context.Context, round int, f func(lib int, u queueUser) error) error {
	for i := range queueLibraries {
		k := (i + round) % len(queueLibraries) // another one is first in each round
		if err := b.rdb.FlushAll(ctx).Err(); err != nil {
			return err
		}
		u, err := queueLibraries[k].open(b.addr, 0)
		if err == nil {
			err = f(k, u)
			u.close()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", queueLibraries[k].name, err)
		}
	}
	return nil
}

// payload returns a payload of queuePayload bytes. It begins with a time, in ns.
func payload(at time.Time) string {
	text := strconv.FormatInt(at.UnixNano(), 10)
	return text + strings.Repeat(".", queuePayload-len(text))
}

func timeIn(payload string) time.Time {
	n, _ := strconv.ParseInt(payload[:strings.IndexByte(payload, '.')], 10, 64)
	return time.Unix(0, n)
}

// puts measures putting alone, one message a call and many.
func (b *queueBench) puts(ctx context.Context) error {
	text := payload(time.Now())
	many := make([]string, queueMany)
	for i := range many {
		many[i] = text
	}
	for _, m := range []struct {
		title   string
		callers []int
		goal    float64
		op      func(u queueUser) func(context.Context, int) error
	}{
		{"put", []int{1, queueWorkers}, 1, func(u queueUser) func(context.Context, int) error {
			return func(ctx context.Context, _ int) error { return u.put(ctx, text) }
		}},
		{"put 100", []int{1, 8}, 5, func(u queueUser) func(context.Context, int) error {
			return func(ctx context.Context, _ int) error { return u.putMany(ctx, many) }
		}},
	} {
		for _, callers := range m.callers {
			cs := make([]contender, len(queueLibraries))
			for i, lib := range queueLibraries {
				u, err := lib.open(b.addr, 0)
				if err != nil {
					return err
				}
				defer u.close()
				cs[i] = contender{name: lib.name, op: m.op(u), before: func(ctx context.Context) error { return b.rdb.FlushAll(ctx).Err() }}
			}
			samples, err := b.compare(ctx, m.title, redisMeter(b.rdb), callers, cs)
			if err != nil {
				return err
			}
			b.goals.add(fmt.Sprintf("%s to asynq, %d callers", m.title, callers), ratioOf(samples[0], samples[1]), atLeast, m.goal)
		}
	}
	return b.rdb.FlushAll(ctx).Err()
}

func rateOf(s sample) float64 { return s.perSecond }

// ratioOf is the median of the ratios within a round.
func ratioOf(ours, theirs []sample) float64 {
	ratios := make([]float64, len(ours))
	for i := range ours {
		ratios[i] = ours[i].perSecond / theirs[i].perSecond
	}
	return medianOf(ratios)
}

// fill puts n messages: one a call, with one caller for each worker, or many a call.
func fill(ctx context.Context, u queueUser, n int, many bool) error {
	size, callers := 1, queueWorkers
	if many {
		size, callers = queueMany, 8
	}
	texts := make([]string, size)
	for i := range texts {
		texts[i] = payload(time.Now())
	}
	var put atomic.Int64
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for errs[i] == nil && put.Add(int64(size)) <= int64(n) {
				if many {
					errs[i] = u.putMany(ctx, texts)
				} else {
					errs[i] = u.put(ctx, texts[0])
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// consumption measures workers that consume the messages of a queue, from their start until the last
// message is handled. It counts the commands of putting and of consuming.
func (b *queueBench) consumption(ctx context.Context) error {
	meter, loaded := redisMeter(b.rdb), b.amount(queueLoaded)
	samples := make([][]sample, len(queueLibraries))
	putting := make([][]sample, len(queueLibraries))
	for round := range b.rounds {
		err := b.each(ctx, round, func(lib int, u queueUser) error {
			name := queueLibraries[lib].name
			b.progress("consume, round %d of %d, %s", round+1, b.rounds, name)
			empty := meter(ctx)
			if err := fill(ctx, u, loaded, false); err != nil {
				return err
			}
			full := meter(ctx)
			var handled atomic.Int64
			done := make(chan struct{})
			start := time.Now()
			stop, err := u.consume(queueWorkers, func(string) {
				if handled.Add(1) == int64(loaded) {
					close(done)
				}
			})
			if err != nil {
				return err
			}
			select {
			case <-done:
			case <-ctx.Done():
				err = ctx.Err()
			case <-time.After(time.Minute):
				err = fmt.Errorf("%d of %d messages were handled in a minute", handled.Load(), loaded)
			}
			took := time.Since(start)
			if err := errors.Join(err, stop()); err != nil {
				return err
			}
			end := meter(ctx)
			per := func(a, b float64) float64 { return (b - a) / float64(loaded) }
			s := sample{perSecond: float64(loaded) / took.Seconds(), commands: per(full.commands, end.commands), scripts: per(full.scripts, end.scripts), serverUS: 1e6 * per(full.cpu, end.cpu)}
			p := sample{commands: per(empty.commands, full.commands), serverUS: 1e6 * per(empty.cpu, full.cpu)}
			b.raw.Printf("raw\tconsume\t%s\t%.0f/s\t%.3f commands\t%.3f scripts\t%.2f server us\tput before: %.3f commands\t%.2f server us",
				name, s.perSecond, s.commands, s.scripts, s.serverUS, p.commands, p.serverUS)
			samples[lib], putting[lib] = append(samples[lib], s), append(putting[lib], p)
			return nil
		})
		if err != nil {
			return err
		}
	}
	b.progress("")
	b.recordRounds("consume", queueWorkers, "messages/s", namesOf(queueLibraries, func(l queueLibrary) string { return l.name }), figures(samples, rateOf))
	commands := func(s sample) float64 { return s.commands }
	for i, lib := range queueLibraries {
		b.printf("consume  %d workers  %-14s %8.0f/s  ours/this %5.2f  commands a message: %5.2f to put, %5.2f to consume  server us %5.1f to put, %5.1f to consume", queueWorkers,
			lib.name, median(samples[i], rateOf), ratioOf(samples[0], samples[i]), median(putting[i], commands), median(samples[i], commands),
			median(putting[i], func(s sample) float64 { return s.serverUS }), median(samples[i], func(s sample) float64 { return s.serverUS }))
	}
	b.goals.add("consume to asynq", ratioOf(samples[0], samples[1]), atLeast, 4)
	b.goals.add("commands a message, put and consumed", median(samples[0], commands)+median(putting[0], commands), atMost, 7)
	return nil
}

// sizes asks for the memory of messages that are ready, for later, and at work.
func (b *queueBench) sizes(ctx context.Context) error {
	for _, state := range []string{"ready", "due later", "at work"} {
		err := b.each(ctx, 0, func(lib int, u queueUser) error {
			if state == "at work" && queueLibraries[lib].back == 0 {
				return nil // it keeps no such messages
			}
			each, err := b.size(ctx, u, state)
			if errors.Is(err, errors.ErrUnsupported) {
				return nil
			}
			if err != nil {
				return err
			}
			b.recordOnce("a message that is "+state, 0, "B", queueLibraries[lib].name, each)
			b.printf("bytes a message, %-10s %-14s %6.0f", state, queueLibraries[lib].name, each)
			if lib == 0 {
				b.goals.add("bytes a message, "+state, each, atMost, 330)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// size returns the memory of one message in a state.
func (b *queueBench) size(ctx context.Context, u queueUser, state string) (bytes float64, err error) {
	switch state {
	case "ready":
		if err := fill(ctx, u, queueKept, true); err != nil {
			return 0, err
		}
		return b.memory(ctx, queueKept)
	case "due later":
		for range queueKept {
			if err := u.putAt(ctx, payload(time.Now()), time.Now().Add(time.Hour)); err != nil {
				return 0, err
			}
		}
		return b.memory(ctx, queueKept)
	}
	const n = 1000 // as many workers
	if err := fill(ctx, u, n, true); err != nil {
		return 0, err
	}
	var working atomic.Int64
	all, release := make(chan struct{}), make(chan struct{})
	stop, err := u.consume(n, func(string) {
		if working.Add(1) == n {
			close(all)
		}
		<-release
	})
	if err != nil {
		return 0, err
	}
	select {
	case <-all:
		bytes, err = b.memory(ctx, n)
	case <-time.After(20 * time.Second):
		err = fmt.Errorf("%d of %d messages at work", working.Load(), n)
	}
	close(release)
	return bytes, errors.Join(err, stop())
}

// memory returns the memory of all keys, divided by n.
func (b *queueBench) memory(ctx context.Context, n int) (bytes float64, err error) {
	keys, err := b.rdb.Keys(ctx, "*").Result()
	if err != nil {
		return 0, err
	}
	cmds, err := b.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.MemoryUsage(ctx, key, 0)
		}
		return nil
	})
	for _, cmd := range cmds {
		bytes += float64(cmd.(*redis.IntCmd).Val())
	}
	return bytes / float64(n), err
}
