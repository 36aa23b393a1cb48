package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"golang.org/x/sys/unix"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/lock"
)

// The environment of a worker process of the suite "handover".
const (
	workerAddr    = "BENCH_WORKER_ADDR"
	workerLibrary = "BENCH_WORKER_LIBRARY"
)

// waitingLibraries are the libraries of the suite "handover"; ours is first.
var waitingLibraries = []string{"redoubt/lock", "redoubt/lock, Fair", "rueidislock, majority 1", "redislock", "redsync"}

// heldFor is how long a holder keeps the lock: so long that all others wait for a wake-up, and no
// caller gets the lock by luck.
const heldFor = time.Millisecond

// settle bounds the wait before the measurement for a process whose callers never get the lock:
// by then all have tried once.
const settle = 2 * time.Second

// A hold is the time from the return of an acquire to the call of its release, on the clock that
// all processes of a machine share.
type hold struct{ Acquired, Released int64 }

// monotonic is CLOCK_MONOTONIC in ns.
func monotonic() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}

// runWorker is the main function of a worker process. Many callers wait for the lock until the
// suite stops them. Then the worker prints its holds.
func runWorker(ctx context.Context) error {
	acquire, err := waiting(os.Getenv(workerAddr), os.Getenv(workerLibrary))
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	fmt.Println("ready")
	if !lines.Scan() {
		return lines.Err()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var stopped atomic.Bool
	had := make(chan struct{}, 1) // a caller of this process has had the lock
	holds := make([][]hold, handoverWaiters)
	errs := make(chan error, handoverWaiters)
	var wg sync.WaitGroup
	for i := range handoverWaiters {
		wg.Go(func() {
			for !stopped.Load() {
				release, err := acquire(ctx)
				if release == nil {
					if err != nil && !stopped.Load() {
						errs <- err
						return
					}
					continue // it has given up waiting, and begins anew
				}
				h := hold{Acquired: monotonic()}
				time.Sleep(heldFor)
				h.Released = monotonic()
				if err := release(context.WithoutCancel(ctx)); err != nil && !stopped.Load() {
					errs <- err
					return
				}
				holds[i] = append(holds[i], h)
				select {
				case had <- struct{}{}:
				default:
				}
			}
		})
	}
	select {
	case <-had:
	case <-time.After(settle):
	}
	fmt.Println("waiting")
	if !lines.Scan() {
		return lines.Err()
	}
	stopped.Store(true)
	cancel()
	var all []hold
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
	}
	for _, h := range holds {
		all = append(all, h...)
	}
	return json.NewEncoder(os.Stdout).Encode(all)
}

// waiting returns a function that acquires the one lock with a library. Without an error and
// without a release, the library has given up waiting.
func waiting(addr, library string) (func(context.Context) (func(context.Context) error, error), error) {
	const name, ttl = "contended", lockTTL
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	switch library {
	case "redislock":
		l := redislock.New(rdb)
		return func(ctx context.Context) (func(context.Context) error, error) {
			// The retries of its documentation.
			got, err := l.Obtain(ctx, name, ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)})
			if err != nil {
				return nil, nil //nolint:nilerr // a ctx without deadline is capped at the ttl
			}
			return got.Release, nil
		}, nil
	case "redsync":
		rs := redsync.New(redsyncredis.NewPool(rdb))
		return func(ctx context.Context) (func(context.Context) error, error) {
			m := rs.NewMutex(name, redsync.WithExpiry(ttl))
			if err := m.LockContext(ctx); err != nil {
				return nil, nil //nolint:nilerr // it was busy for all its tries
			}
			return func(ctx context.Context) error {
				_, err := m.UnlockContext(ctx)
				return err
			}, nil
		}, nil
	case "rueidislock, majority 1":
		l, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: []string{addr}}, KeyMajority: 1,
		})
		return func(ctx context.Context) (func(context.Context) error, error) {
			_, cancel, err := l.WithContext(ctx, name)
			if err != nil {
				return nil, err
			}
			return func(context.Context) error {
				cancel()
				return nil
			}, nil
		}, err
	}
	conn, err := goredis.Open(context.Background(), "redis://"+addr) // ends with the process
	if err != nil {
		return nil, err
	}
	client, err := redoubt.New(conn, redoubt.Options{})
	if err != nil {
		return nil, err
	}
	locks, err := lock.New(client, lock.Options{TTL: ttl, Fair: library == "redoubt/lock, Fair"})
	return func(ctx context.Context) (func(context.Context) error, error) {
		lease, err := locks.Acquire(ctx, name)
		if err != nil {
			return nil, err
		}
		return lease.Release, nil
	}, err
}
