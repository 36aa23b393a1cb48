package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"

	"github.com/redoubt-go/redoubt/stock"
)

// A seller sells one unit of its item and reports whether it did. ctx ends with the measurement.
type seller struct {
	name string
	sell func(ctx context.Context) (bool, error)
	// left reads how many units are left, with nobody selling.
	left func(ctx context.Context) (int64, error)
}

// plenty is more than can be sold in a measurement.
const plenty = 1_000_000_000

// benchStock sells one item to many buyers at once: by reserve and commit, and as most code for flash
// sales does, with a lock around reading, checking and writing the count.
func benchStock(ctx context.Context, cfg config) error {
	p, err := startPeers(ctx)
	if err != nil {
		return err
	}
	defer p.close()

	items, err := stock.New(p.ours, stock.Options{})
	if err != nil {
		return err
	}
	if _, err := items.Set(ctx, "item", plenty); err != nil {
		return err
	}
	sellers := []seller{{
		name: "redoubt/stock",
		sell: func(ctx context.Context) (bool, error) {
			r, _, err := items.Reserve(context.WithoutCancel(ctx), "item", 1)
			if err != nil || r == nil {
				return false, err
			}
			return true, items.Commit(context.WithoutCancel(ctx), "item", r.ID)
		},
		left: func(ctx context.Context) (int64, error) {
			i, err := items.Info(ctx, "item")
			return i.Total - i.Sold, err
		},
	}}

	if _, err := items.Set(ctx, "held", plenty); err != nil {
		return err
	}
	sellers = append(sellers, seller{
		name: "redoubt/stock, Reserve alone",
		sell: func(ctx context.Context) (bool, error) {
			r, _, err := items.Reserve(context.WithoutCancel(ctx), "held", 1)
			return r != nil, err
		},
		left: func(ctx context.Context) (int64, error) {
			i, err := items.Info(ctx, "held")
			return i.Available, err
		},
	})

	const ttl = 30 * time.Second
	readCheckWrite := func(ctx context.Context, key string) (bool, error) {
		left, err := p.plain.Get(ctx, key).Int64()
		if err != nil || left <= 0 {
			return false, err
		}
		return true, p.plain.Set(ctx, key, left-1, 0).Err()
	}
	locked := func(name string, lock func(ctx context.Context, key string) (unlock func(ctx context.Context) error, err error)) error {
		key := "item:" + name
		sellers = append(sellers, seller{
			name: name,
			sell: func(ctx context.Context) (sold bool, err error) {
				unlock, err := lock(ctx, key+":lock")
				if unlock == nil {
					return false, err
				}
				own := context.WithoutCancel(ctx)
				sold, err = readCheckWrite(own, key)
				return sold, errors.Join(err, unlock(own))
			},
			left: func(ctx context.Context) (int64, error) {
				// A waiter that was told to stop may have left its lock.
				p.admin.Del(ctx, key+":lock")
				return p.plain.Get(ctx, key).Int64()
			},
		})
		return p.plain.Set(ctx, key, plenty, 0).Err()
	}
	rs := redsync.New(redsyncredis.NewPool(p.plain))
	err = locked("lock-read-write, redsync", func(ctx context.Context, key string) (func(context.Context) error, error) {
		m := rs.NewMutex(key, redsync.WithExpiry(ttl))
		if err := m.LockContext(ctx); err != nil {
			return nil, nil //nolint:nilerr // it was busy for all its tries: nothing is sold
		}
		return func(ctx context.Context) error {
			_, err := m.UnlockContext(ctx)
			return err
		}, nil
	})
	locker := redislock.New(p.plain)
	for _, every := range []time.Duration{100 * time.Millisecond, time.Millisecond} {
		err = errors.Join(err, locked(fmt.Sprintf("lock-read-write, redislock at %v", every), func(ctx context.Context, key string) (func(context.Context) error, error) {
			l, err := locker.Obtain(ctx, key, ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(every)})
			switch {
			case errors.Is(err, redislock.ErrNotObtained) || ctx.Err() != nil:
				return nil, nil //nolint:nilerr // it was busy until the end: nothing is sold
			case err != nil:
				return nil, err
			}
			return l.Release, nil
		}))
	}
	if err != nil {
		return err
	}
	for _, callers := range []int{50, 256, 1} {
		for _, how := range []string{sale, again} {
			if err := cfg.compareSellers(ctx, how, callers, sellers); err != nil {
				return err
			}
		}
	}
	return nil
}

// The arrival of the buyers.
const (
	// All buyers come at once, each buys one unit and leaves, and the next wave comes when all
	// have theirs, as in a flash sale.
	sale = "sale"
	// Every caller buys again and again. The last holder of a lock mostly gets it again while the
	// others sleep, so most of the time nobody competes.
	again = "again"
)

// compareSellers measures every seller in turn. It prints medians with the ratios to our two
// sellers, which are the first: reserve and commit, and Reserve alone, for which a buyer waits.
func (c config) compareSellers(ctx context.Context, how string, callers int, sellers []seller) error {
	run := c.sell
	if how == sale {
		run = c.sellInWaves
	}
	rates := make([][]float64, len(sellers))
	for round := range c.rounds {
		for i := range sellers {
			k := (i + round) % len(sellers) // another one is first in each round
			c.progress("stock %s, %d buyers, round %d of %d, %s", how, callers, round+1, c.rounds, sellers[k].name)
			rate, err := run(ctx, callers, sellers[k])
			if err != nil {
				return fmt.Errorf("%s: %w", sellers[k].name, err)
			}
			c.raw.Printf("raw\tstock %s\t%d buyers\t%s\t%.0f sold/s", how, callers, sellers[k].name, rate)
			rates[k] = append(rates[k], rate)
		}
	}
	c.progress("")
	c.recordRounds("stock, "+how, callers, "sold/s", namesOf(sellers, func(s seller) string { return s.name }), rates)
	for i, s := range sellers {
		var whole, alone []float64
		for round := range c.rounds {
			whole = append(whole, rates[0][round]/rates[i][round])
			alone = append(alone, rates[1][round]/rates[i][round])
		}
		c.printf("stock %-6s %4d buyers  %-34s %9.0f sold/s  ours/this %8.2f  Reserve alone/this %8.2f",
			how, callers, s.name, medianOf(rates[i]), medianOf(whole), medianOf(alone))
	}
	return nil
}

// sell lets callers buy again and again for a while.
func (c config) sell(ctx context.Context, callers int, s seller) (perSecond float64, err error) {
	timed, cancel := context.WithTimeout(ctx, c.duration)
	defer cancel()
	return count(ctx, s, func() (sold int64, err error) {
		each := make([]int64, callers)
		errs := make([]error, callers)
		var wg sync.WaitGroup
		for caller := range callers {
			wg.Go(func() {
				for timed.Err() == nil {
					ok, err := s.sell(timed)
					if ok {
						each[caller]++
					}
					if err != nil && timed.Err() == nil {
						errs[caller] = err
						return
					}
				}
			})
		}
		wg.Wait()
		for _, n := range each {
			sold += n
		}
		return sold, errors.Join(errs...)
	})
}

// sellInWaves lets one buyer for each caller come at once, and the next wave when each has a unit, for
// a while.
func (c config) sellInWaves(ctx context.Context, callers int, s seller) (perSecond float64, err error) {
	return count(ctx, s, func() (sold int64, err error) {
		for start := time.Now(); time.Since(start) < c.duration; {
			errs := make([]error, callers)
			var wg sync.WaitGroup
			for caller := range callers {
				wg.Go(func() {
					for ok := false; !ok && errs[caller] == nil; {
						ok, errs[caller] = s.sell(ctx)
					}
				})
			}
			wg.Wait()
			if err := errors.Join(errs...); err != nil {
				return sold, err
			}
			sold += int64(callers)
		}
		return sold, nil
	})
}

// count checks that the units left and the units sold add up.
func count(ctx context.Context, s seller, sell func() (int64, error)) (perSecond float64, err error) {
	before, err := s.left(ctx)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	sold, err := sell()
	took := time.Since(start)
	if err != nil {
		return 0, err
	}
	after, err := s.left(ctx)
	if err != nil {
		return 0, err
	}
	if sold != before-after {
		return 0, fmt.Errorf("%d were sold, and the count fell by %d", sold, before-after)
	}
	return float64(sold) / took.Seconds(), nil
}
