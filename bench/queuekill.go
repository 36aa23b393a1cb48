package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// The environment variables of a process that takes a message of the suite "queue" and keeps it,
// beside [workerAddr].
const workerQueue = "BENCH_WORKER_QUEUE"

// runQueueWorker takes a message, says so, and keeps it until it is killed.
func runQueueWorker(ctx context.Context) error {
	i := slices.IndexFunc(queueLibraries, func(l queueLibrary) bool { return l.name == os.Getenv(workerQueue) })
	if i < 0 {
		return fmt.Errorf("no library %q", os.Getenv(workerQueue))
	}
	u, err := queueLibraries[i].open(os.Getenv(workerAddr), killLease)
	if err != nil {
		return err
	}
	_, err = u.consume(1, func(string) {
		fmt.Println("has it")
		select {}
	})
	if err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// deaths are the times from kill -9 of a consumer until another consumer gets its message, by
// library.
type deaths struct {
	wg    sync.WaitGroup
	times [][]time.Duration
	errs  []error
}

// startDeaths kills consumers of each library, each on a server of its own. It runs beside the other
// measurements.
func (b *queueBench) startDeaths(ctx context.Context) *deaths {
	d := &deaths{times: make([][]time.Duration, len(queueLibraries)), errs: make([]error, len(queueLibraries))}
	for i, lib := range queueLibraries {
		if lib.back == 0 {
			continue
		}
		tries := 5
		if lib.back > time.Minute {
			tries = 1
		}
		d.wg.Go(func() {
			for range tries {
				took, err := redelivery(ctx, lib)
				if err != nil {
					d.errs[i] = fmt.Errorf("%s: %w", lib.name, err)
					return
				}
				d.times[i] = append(d.times[i], took)
			}
		})
	}
	return d
}

func redelivery(ctx context.Context, lib queueLibrary) (time.Duration, error) {
	server, stopServer, err := startRedis(ctx)
	if err != nil {
		return 0, err
	}
	defer stopServer()
	u, err := lib.open(server.addr, killLease)
	if err != nil {
		return 0, err
	}
	defer u.close()
	lost := payload(time.Now())
	if err := u.put(ctx, lost); err != nil {
		return 0, err
	}
	w, err := startWorker(ctx, workerAddr+"="+server.addr, workerQueue+"="+lib.name)
	if err != nil {
		return 0, err
	}
	defer w.kill()
	if err := w.await("has it"); err != nil {
		return 0, err
	}
	got := make(chan time.Time, 1)
	stop, err := u.consume(1, func(text string) {
		if text == lost {
			got <- time.Now()
		}
	})
	if err != nil {
		return 0, err
	}
	killed := time.Now()
	w.kill()
	// One library looks for lost messages only when another message is done.
	company := time.NewTicker(lib.back)
	defer company.Stop()
	limit := time.After(5 * lib.back)
	for err == nil {
		select {
		case at := <-got:
			return at.Sub(killed), stop()
		case <-company.C:
			err = u.put(ctx, payload(time.Now()))
		case <-limit:
			err = fmt.Errorf("not given to another within %v", 5*lib.back)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return 0, errors.Join(err, stop())
}

func (b *queueBench) endDeaths(_ context.Context, d *deaths) error {
	b.progress("waiting for the messages of killed consumers")
	d.wg.Wait()
	b.progress("")
	if err := errors.Join(d.errs...); err != nil {
		return err
	}
	for i, lib := range queueLibraries {
		if len(d.times[i]) == 0 {
			continue
		}
		longest := slices.Max(d.times[i])
		b.printf("after kill -9 of its consumer another has a message: %-14s %v at most of %d", lib.name, longest.Round(time.Millisecond), len(d.times[i]))
		b.recordOnce("kill -9 of a consumer to the next one", 0, "s", lib.name, longest.Seconds())
		b.raw.Printf("raw\tredelivery\t%s\t%v", lib.name, d.times[i])
		if i == 0 {
			b.goals.add("redelivery after kill -9 beyond the lease, s", (longest - killLease).Seconds(), atMost, 1)
		}
	}
	return nil
}

// idleness counts the calls of a consumer without messages, as reads of the server.
func (b *queueBench) idleness(ctx context.Context) error {
	const settling, length = 3 * time.Second, 30 * time.Second
	calls := make([]float64, len(queueLibraries))
	errs := make([]error, len(queueLibraries))
	var wg sync.WaitGroup
	b.progress("idle consumers, %v", length)
	for i, lib := range queueLibraries {
		wg.Go(func() {
			errs[i] = func() error {
				server, stopServer, err := startRedis(ctx)
				if err != nil {
					return err
				}
				defer stopServer()
				u, err := lib.open(server.addr, 0)
				if err != nil {
					return err
				}
				defer u.close()
				stop, err := u.consume(1, func(string) {})
				if err != nil {
					return err
				}
				rdb := redis.NewClient(&redis.Options{Addr: server.addr})
				defer func() { _ = rdb.Close() }()
				time.Sleep(settling)
				before, err := reads(ctx, rdb)
				time.Sleep(length)
				after, err2 := reads(ctx, rdb)
				calls[i] = (after - before - 1) / length.Seconds() // one call was this count
				return errors.Join(err, err2, stop())
			}()
		})
	}
	wg.Wait()
	b.progress("")
	for i, lib := range queueLibraries {
		b.recordOnce("an idle consumer's calls in a second", 0, "calls", lib.name, calls[i])
		b.printf("idle, one worker  %-14s %6.2f calls/s", lib.name, calls[i])
	}
	b.goals.add("calls/s of an idle consumer", calls[0], atMost, 0.3)
	return errors.Join(errs...)
}

// reads is how often the server has read from clients: once a call or pipeline.
func reads(ctx context.Context, rdb *redis.Client) (float64, error) {
	info, err := rdb.Info(ctx, "stats").Result()
	for line := range strings.Lines(info) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "total_reads_processed:"); ok {
			return strconv.ParseFloat(n, 64)
		}
	}
	return 0, errors.Join(errors.New("no total_reads_processed in INFO"), err)
}
