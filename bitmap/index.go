package bitmap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/bitmap"
)

// untilField is when the map expires, in the index.
const untilField = "until"

// register notes in the index that there are these shards. It returns when the map
// expires, in ms since 1970, 0 for never.
func (m sharded) register(ctx context.Context, shards []uint64) (until int64, err error) {
	for now := range slices.Chunk(shards, inScript) {
		var reply [1]int64
		err := m.client.Do(ctx, wire.MapIndexCmd(m.index, numbers(now)...)).Ints(reply[:])
		if err != nil {
			return 0, err
		}
		until = reply[0]
	}
	return until, nil
}

func numbers(shards []uint64) (args []string) {
	for _, n := range shards {
		args = append(args, strconv.FormatUint(n, 10))
	}
	return args
}

// shards returns which shards each map has, in order. One round trip.
func shards(ctx context.Context, client *redoubt.Client, maps []sharded) ([][]uint64, error) {
	cmds := make([]redoubt.Cmd, len(maps))
	for i, m := range maps {
		cmds[i] = redoubt.Cmd{Name: "HKEYS", Keys: []string{m.index}, Flags: redoubt.ReadOnly}
	}
	all := make([][]uint64, len(maps))
	for i, r := range send(ctx, client, cmds) {
		fields, err := r.Array()
		if err == nil {
			all[i], err = parseShards(maps[i].name, fields)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func parseShards(name string, fields []any) (shards []uint64, err error) {
	for _, f := range fields {
		if f == untilField {
			continue
		}
		text, err := redoubt.Reply{Val: f}.Text()
		n, e := strconv.ParseUint(text, 10, 64)
		if err = errors.Join(err, e); err != nil || n > MaxOffset>>logShard {
			return nil, fmt.Errorf("bitmap: the map %q has a shard %q, which this program does not understand", name, text)
		}
		shards = append(shards, n)
	}
	slices.Sort(shards)
	return shards, nil
}

func (m sharded) shards(ctx context.Context) ([]uint64, error) {
	all, err := shards(ctx, m.client, []sharded{m})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// Delete deletes the map called name. It reports whether there was one. A few round
// trips; when it fails half-way it can be repeated. Bits that are set meanwhile may be
// deleted or not.
func (ms *Maps) Delete(ctx context.Context, name string) (deleted bool, err error) {
	m, err := ms.of(name)
	if err != nil {
		return false, err
	}
	all, err := m.shards(ctx)
	if err != nil || len(all) == 0 {
		return false, err
	}
	return true, m.drop(ctx, all)
}

// drop deletes shards. The index says of each that it is going before it goes, and
// forgets it unless somebody has made it anew.
func (m sharded) drop(ctx context.Context, shards []uint64) error {
	for now := range slices.Chunk(shards, inScript) {
		var fields []string
		cmds := make([]redoubt.Cmd, len(now))
		for i, n := range now {
			fields = append(fields, strconv.FormatUint(n, 10), "0")
			cmds[i] = redoubt.Cmd{Name: "UNLINK", Keys: []string{m.shard(n, bitsPart)}, Flags: redoubt.Idempotent}
		}
		going := redoubt.Cmd{Name: "HSET", Keys: []string{m.index}, Args: fields, Flags: redoubt.Idempotent}
		if r := m.client.Do(ctx, going); r.Err != nil {
			return r.Err
		}
		if err := failed(send(ctx, m.client, cmds)); err != nil {
			return err
		}
		if r := m.client.Do(ctx, wire.MapDropCmd(m.index, numbers(now)...)); r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// failed returns the first error.
func failed(replies []redoubt.Reply) error {
	for _, r := range replies {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// maxTime is the latest that a server is told.
var maxTime = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// ExpireAt lets the map called name expire as a whole, whatever is set in it later; with
// the zero time it doesn't expire any more. It reports whether there is such a map: one
// in which no bit was ever set there isn't. Two round trips. A map for each day should
// have an end.
func (ms *Maps) ExpireAt(ctx context.Context, name string, at time.Time) (ok bool, err error) {
	m, err := ms.of(name)
	until := int64(0)
	if !at.IsZero() {
		until = at.UnixMilli()
		if until <= 0 || at.After(maxTime) {
			err = errors.Join(err, fmt.Errorf("bitmap: %v is no time to expire; want one after 1970 and before %v", at, maxTime))
		}
	}
	if err != nil {
		return false, err
	}
	fields, err := ms.client.Do(ctx, wire.MapExpireCmd(m.index, decimal(until))).Array()
	if err != nil {
		return false, err
	}
	all, err := parseShards(name, fields)
	if err != nil || len(all) == 0 {
		return false, err
	}
	return true, m.expire(ctx, all, until)
}

// expire lets shards expire, in ms since 1970, 0 for never.
func (m sharded) expire(ctx context.Context, shards []uint64, until int64) error {
	for now := range slices.Chunk(shards, inPipeline) {
		cmds := make([]redoubt.Cmd, len(now))
		for i, n := range now {
			cmds[i] = redoubt.Cmd{Name: "PERSIST", Keys: []string{m.shard(n, bitsPart)}, Flags: redoubt.Idempotent}
			if until > 0 {
				cmds[i].Name, cmds[i].Args = "PEXPIREAT", []string{decimal(until)}
			}
		}
		if err := failed(send(ctx, m.client, cmds)); err != nil {
			return err
		}
	}
	return nil
}
