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

// untilField is the field of the index that says when the map expires.
const untilField = "until"

// register tells the index that the map has these shards. It returns when the map expires, in ms
// since 1970; 0 is never.
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

// shards returns the shards of each map, in order. One round trip.
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

// Delete deletes the map called name. It reports whether the map existed. A few round trips; after
// an error it can be repeated. Bits that are set meanwhile may be deleted or not.
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

// drop deletes shards. It marks each shard in the index before it deletes the shard, and removes
// the mark after that unless another process has made the shard anew.
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

// maxTime is the latest time that a server is told.
var maxTime = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// ExpireAt sets when the map called name expires as a whole, including bits that are set later;
// with the zero time the map never expires. It reports whether the map exists: a map in which no
// bit was ever set does not. Two round trips. Use it for a map that is made for each day.
func (ms *Maps) ExpireAt(ctx context.Context, name string, at time.Time) (ok bool, err error) {
	m, err := ms.of(name)
	until := int64(0)
	if !at.IsZero() {
		until = at.UnixMilli()
		if until <= 0 || at.After(maxTime) {
			err = errors.Join(err, fmt.Errorf("bitmap: the time to expire is %v; want one after 1970 and before %v", at, maxTime))
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

// expire sets when shards expire, in ms since 1970; 0 is never.
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
