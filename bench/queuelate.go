package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The parameters of messages that are due at a time.
const (
	lateMessages = 500
	lateWindow   = 8 * time.Second // the due times are spread over it
	latePatience = 10 * time.Second
	lateAhead    = time.Second // time from the put to the first due time
	burstEvery   = 5 * time.Millisecond
)

// latenesses measures how late messages arrive after they are due, without other load and at half
// of the load that each library sustains.
func (b *queueBench) latenesses(ctx context.Context) error {
	for _, half := range []bool{false, true} {
		err := b.each(ctx, 0, func(lib int, u queueUser) error {
			name, load, rate := queueLibraries[lib].name, "idle", 0.
			if err := u.putAt(ctx, payload(time.Now()), time.Now()); errors.Is(err, errors.ErrUnsupported) {
				return nil
			}
			if err := b.rdb.FlushAll(ctx).Err(); err != nil {
				return err
			}
			if half {
				b.progress("what %s sustains", name)
				sustained, err := b.sustained(ctx, u)
				if err != nil {
					return err
				}
				rate = sustained / 2
				load = "half load"
				b.progress("")
				b.printf("put and consumed at once  %-14s %8.0f/s", name, sustained)
				b.recordOnce("put and consumed at once", queueWorkers, "messages/s", name, sustained)
				if err := b.rdb.FlushAll(ctx).Err(); err != nil {
					return err
				}
			}
			b.progress("lateness, %s, %s", load, name)
			late, err := b.lateness(ctx, u, rate)
			if err != nil {
				return err
			}
			early, _ := slices.BinarySearch(late, 0)
			at := func(part float64) time.Duration { return late[min(int(part*float64(len(late))), len(late)-1)] }
			b.progress("")
			b.printf("lateness, %-9s %-14s p50 %10v  p90 %10v  p99 %10v  max %10v  early %d of %d, by %v at most", load, name,
				at(.5).Round(10*time.Microsecond), at(.9).Round(10*time.Microsecond), at(.99).Round(10*time.Microsecond), late[len(late)-1].Round(10*time.Microsecond), early, len(late), max(0, -late[0]).Round(time.Millisecond))
			b.recordOnce("lateness p99, "+load, 0, "ms", name, at(.99).Seconds()*1000)
			b.late = append(b.late, curve{name + ", " + load, late})
			b.raw.Printf("raw\tlateness\t%s\t%s\t%v", load, name, late)
			if lib == 0 {
				limit := 10.
				if half {
					limit = 25
				}
				b.goals.add("lateness p99, "+load+", ms", at(.99).Seconds()*1000, atMost, limit)
				b.goals.add("early messages, "+load, float64(early), atMost, 0)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// lateness returns the delays in ascending order. rate is the number of other messages that are put
// and consumed each second meanwhile.
func (b *queueBench) lateness(ctx context.Context, u queueUser, rate float64) ([]time.Duration, error) {
	var mu sync.Mutex
	var late []time.Duration
	all := make(chan struct{})
	stop, err := u.consume(queueWorkers, func(text string) {
		if text == noTime {
			return
		}
		d := time.Since(timeIn(text))
		mu.Lock()
		defer mu.Unlock()
		if late = append(late, d); len(late) == lateMessages {
			close(all)
		}
	})
	if err != nil {
		return nil, err
	}
	loading, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var loadErr error
	wg.Go(func() { loadErr = steady(loading, u, rate) })
	start := time.Now().Add(lateAhead)
	for i := 0; i < lateMessages && err == nil; i++ {
		at := start.Add(rand.N(lateWindow))
		err = u.putAt(ctx, payload(at), at)
	}
	if err == nil {
		select {
		case <-all:
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(lateAhead + lateWindow + latePatience):
			mu.Lock()
			err = fmt.Errorf("%d of %d messages came", len(late), lateMessages)
			mu.Unlock()
		}
	}
	cancel()
	wg.Wait()
	err = errors.Join(err, loadErr, stop())
	slices.Sort(late)
	return late, err
}

// noTime marks messages that are only load.
var noTime = payload(time.Unix(0, 1))

// steady puts rate messages each second, in bursts, with enough callers.
func steady(ctx context.Context, u queueUser, rate float64) error {
	if rate == 0 {
		return nil
	}
	const callers = 8
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			tick := time.NewTicker(callers * burstEvery)
			defer tick.Stop()
			start, put := time.Now().Add(time.Duration(i)*burstEvery), 0
			for ctx.Err() == nil {
				<-tick.C
				due := int(rate/callers*time.Since(start).Seconds()) - put
				if due <= 0 {
					continue
				}
				due = min(due, 1000)
				texts := slices.Repeat([]string{noTime}, due)
				if err := u.putMany(context.WithoutCancel(ctx), texts); err != nil {
					errs[i] = err
					return
				}
				put += due
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// sustained returns how many messages each second can be put and consumed at the same time.
func (b *queueBench) sustained(ctx context.Context, u queueUser) (perSecond float64, err error) {
	const backlog, length = 5000, 4 * time.Second
	var put, handled atomic.Int64
	stop, err := u.consume(queueWorkers, func(string) { handled.Add(1) })
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	const callers = 8
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			texts := slices.Repeat([]string{noTime}, queueMany)
			for ctx.Err() == nil && errs[i] == nil {
				if put.Load()-handled.Load() > backlog {
					time.Sleep(time.Millisecond)
					continue
				}
				put.Add(queueMany)
				errs[i] = u.putMany(context.WithoutCancel(ctx), texts)
			}
		})
	}
	time.Sleep(length / 4)
	began, before := time.Now(), handled.Load()
	<-ctx.Done()
	perSecond = float64(handled.Load()-before) / time.Since(began).Seconds()
	wg.Wait()
	return perSecond, errors.Join(errors.Join(errs...), stop())
}
