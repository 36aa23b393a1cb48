package scan

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
)

// Bulk configures Delete and Expire. The zero value changes all keys and reports nothing meanwhile.
type Bulk struct {
	// DryRun counts the keys and changes nothing.
	DryRun bool
	// Spread is for Expire: each key gets up to this much more, at random, so that not all keys expire at
	// once. Not negative.
	Spread time.Duration
	// Each is called with the keys of each page after they were changed, on the goroutine that called
	// Delete or Expire. May be nil.
	Each func(keys []string)
}

// Done is the result of a bulk operation.
type Done struct {
	Found   int64 // keys that match
	Changed int64 // deleted, or given an expiry; 0 in a dry run
}

// Delete deletes the keys that an iterator yields, by UNLINK in one pipeline per page, on all nodes of a
// cluster at the same time. It also deletes a key whose value has changed since the scan found it.
//
// After an error, [redoubt.ErrUnknownOutcome] included, Done may lack the last page of each node. Call
// Delete again, or resume with the Token of keys: these pages are repeated, and nothing is left out.
func (s *Scanner) Delete(ctx context.Context, keys *Iterator[string], b Bulk) (Done, error) {
	return s.bulk(ctx, keys, b, func(key string) redoubt.Cmd {
		return redoubt.Cmd{Name: "UNLINK", Keys: []string{key}}
	})
}

// Expire sets a time to live of ttl on the keys that an iterator yields, whatever expiry they had, by
// PEXPIRE in pipelines. ttl is at least a millisecond and is truncated to whole milliseconds. Errors are
// as in [Scanner.Delete].
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

// maxTTL, twice with Spread, is within the range of a Duration and of a server.
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

// change sends one command per key and returns the replies.
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
