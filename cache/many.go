package cache

import (
	"context"
	"errors"
	"time"

	"github.com/redoubt-go/redoubt"
)

// A BatchLoader asks the source for several keys. A key that is not in the result counts as one
// that the source does not have, and the cache remembers that. Keys that were not asked for are
// ignored. ctx is as for a [Loader].
type BatchLoader[K comparable, V any] func(ctx context.Context, keys []K) (map[K]V, error)

// many makes a batch of a BatchLoader.
func many[K comparable, V any](load BatchLoader[K, V]) batch[K, V] {
	return func(ctx context.Context, keys []K) []outcome[V] {
		values, err := load(ctx, keys)
		outs := make([]outcome[V], len(keys))
		for i, k := range keys {
			outs[i].v, outs[i].found = values[k]
			outs[i].err = err
		}
		return outs
	}
}

// GetMany returns the values for keys. Keys that the source does not have are not in the result. It
// is Get for each key, with one load for all keys that this caller has to load. With an error the
// result has the values that were found.
//
// One round trip to each server for cached keys, and three more for keys that are loaded.
func (c *Cache[K, V]) GetMany(ctx context.Context, keys []K, load BatchLoader[K, V]) (map[K]V, error) {
	found := make(map[K]V, len(keys))
	var left []place[K]
	var errs []error
	asked := make(map[K]bool, len(keys))
	for _, key := range keys {
		if asked[key] {
			continue
		}
		asked[key] = true
		if c.local != nil {
			if e := c.local.get(key); e != nil {
				c.counters.local[e.stripe%localCounters].Add(1)
				if e.found {
					found[key] = e.v
				}
				continue
			}
		}
		p, err := c.place(key)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		left = append(left, p)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	batch := many(load)
	for len(left) > 0 {
		var err error
		if left, err = c.getMany(ctx, left, batch, found); err != nil {
			return found, err
		}
	}
	return found, nil
}

// getMany adds values to found and returns the keys that have to be looked up again.
func (c *Cache[K, V]) getMany(ctx context.Context, ps []place[K], load batch[K, V], found map[K]V) (again []place[K], err error) {
	if c.ctx.Err() != nil {
		return nil, redoubt.ErrClosed
	}
	began := time.Now()
	states, err := c.readMany(ctx, ps)
	if err != nil {
		return nil, err
	}
	type joined struct {
		f      *lookup[K, V]
		number int
		leads  bool
	}
	var lookups []joined
	var led []*lookup[K, V]
	var stale []place[K]
	var seen []string
	for i, p := range ps {
		s := states[i]
		if s.again {
			stale, seen = append(stale, p), append(seen, s.seen)
		}
		if s.good {
			if s.found {
				found[p.key] = s.v
			}
			continue
		}
		if !c.may(ctx, p) {
			continue
		}
		f, number, leads, joinErr := c.join(p, s)
		if joinErr != nil {
			err = joinErr // lookups that this caller leads already must still be led
			break
		}
		if leads {
			led = append(led, f)
		}
		lookups = append(lookups, joined{f, number, leads})
	}
	if len(led) > 0 {
		go c.lead(context.WithoutCancel(ctx), led, load)
	}
	c.refresh(ctx, stale, seen, load)
	errs := []error{err}
	for _, j := range lookups {
		a, ok, err := c.await(ctx, j.f, j.number)
		switch {
		case err != nil:
			if len(errs) == 1 { // all keys of a batch have the same error
				errs = append(errs, err)
			}
		case !ok:
			again = append(again, j.f.place)
		default:
			if a.found {
				found[j.f.key] = a.v
			}
			if !j.leads {
				c.emit(ctx, Event{Kind: Waited, Key: j.f.text, Took: time.Since(began)})
			}
		}
	}
	return again, errors.Join(errs...)
}

// readMany reads entries in one round trip to each server.
func (c *Cache[K, V]) readMany(ctx context.Context, ps []place[K]) ([]state[V], error) {
	epochs, cmds := make([]uint64, len(ps)), make([]redoubt.Cmd, len(ps))
	for i, p := range ps {
		epochs[i] = c.local.epoch(p.text)
		cmds[i] = c.readCmd(p.entry, i == 0 && !c.clock.known())
	}
	sent := c.clock.mono()
	replies := c.send(ctx, cmds)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	states := make([]state[V], len(ps))
	for i, r := range replies {
		if e, err := c.readReply(r, sent); err == nil {
			states[i] = c.judge(ctx, ps[i], e, epochs[i])
		} else if a, ok := c.oldLocal(ctx, ps[i]); ok {
			states[i] = state[V]{answer: a, good: true}
		}
	}
	return states, nil
}
