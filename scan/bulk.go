package scan

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
)

// Bulk says how many keys are deleted or given an expiry. The zero value does it and
// tells nothing meanwhile.
type Bulk struct {
	// DryRun counts the keys and changes nothing.
	DryRun bool
	// Spread is for Expire: each key gets up to so much more, at random, so that not all
	// go at the same moment. Not negative.
	Spread time.Duration
	// Each is called with the keys of each page after what was done to them, from the
	// goroutine that called Delete or Expire. May be nil.
	Each func(keys []string)
}

// Done is what came of a bulk operation.
type Done struct {
	Found   int64 // keys that match
	Changed int64 // deleted, or given an expiry; 0 in a dry run
}

// Delete deletes what keys gives, by UNLINK in a pipeline for each page, at all nodes of
// a cluster at the same time. A key that has another value by then than when it was
// found is deleted too.
//
// After an error, one that matches [redoubt.ErrUnknownOutcome] among them, the Done that
// is returned may lack what was done of the last page of each node. Call it again, or go
// on with the Token of keys: these pages are repeated, and nothing is left out.
func (s *Scanner) Delete(ctx context.Context, keys *Iterator[string], b Bulk) (Done, error) {
	return s.bulk(ctx, keys, b, func(key string) redoubt.Cmd {
		return redoubt.Cmd{Name: "UNLINK", Keys: []string{key}}
	})
}

// Expire has what keys gives expire after ttl from when the server hears of it, by
// PEXPIRE in pipelines like those of [Scanner.Delete], whatever expiry a key had. ttl is
// at least a millisecond, and cut to whole ones. Errors are as those of Delete.
func (s *Scanner) Expire(ctx context.Context, keys *Iterator[string], ttl time.Duration, b Bulk) (Done, error) {
	if ttl < time.Millisecond || ttl > maxTTL {
		return Done{}, fmt.Errorf("%w: ttl is %v; want %v to %v", ErrInvalidOption, ttl, time.Millisecond, maxTTL)
	}
	return s.bulk(ctx, keys, b, func(key string) redoubt.Cmd {
		d := ttl
		if b.Spread > 0 {
			d += rand.N(b.Spread) //nolint:gosec // spreads load
		}
		return redoubt.Cmd{Name: "PEXPIRE", Keys: []string{key}, Args: []string{strconv.FormatInt(d.Milliseconds(), 10)}, Flags: redoubt.Idempotent}
	})
}

// maxTTL and maxTTL more for Spread are within what a Duration and a server hold.
const maxTTL = 100 * 365 * 24 * time.Hour

func (s *Scanner) bulk(ctx context.Context, keys *Iterator[string], b Bulk, cmd func(key string) redoubt.Cmd) (done Done, err error) {
	if b.Spread < 0 || b.Spread > maxTTL {
		return done, fmt.Errorf("%w: Spread is %v; want 0 to %v", ErrInvalidOption, b.Spread, maxTTL)
	}
	var change job
	if !b.DryRun {
		change = func(ctx context.Context, keys []string) ([]int64, error) { return s.change(ctx, keys, cmd) }
	}
	err = keys.walk.run(ctx, change, func(p *page) (bool, error) {
		var fresh []string
		for i, key := range p.mark.left() {
			if !keys.seen.add(key) {
				continue
			}
			if fresh = append(fresh, key); change != nil {
				done.Changed += p.result[i]
			}
		}
		keys.seen.keep()
		done.Found += int64(len(fresh))
		if b.Each != nil && len(fresh) > 0 {
			b.Each(fresh)
		}
		return true, nil
	})
	return done, err
}

// change sends one command for each key and returns what they answer.
func (s *Scanner) change(ctx context.Context, keys []string, cmd func(key string) redoubt.Cmd) ([]int64, error) {
	cmds := make([]redoubt.Cmd, len(keys))
	for i, key := range keys {
		cmds[i] = cmd(key)
	}
	changed := make([]int64, len(keys))
	for i, r := range s.client.Pipeline(ctx, cmds) {
		var err error
		if changed[i], err = r.Int(); err != nil {
			return nil, err
		}
	}
	return changed, nil
}
