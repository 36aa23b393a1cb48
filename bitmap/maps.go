package bitmap

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/bitmap"
)

const (
	// mapPart ends the key of a map's index, and bitsPart that of a shard.
	mapPart  = "map"
	bitsPart = "bits"

	// MaxOffset is the largest offset of a map: databases have ids up to it.
	MaxOffset = 1<<63 - 1

	// MaxMapName is the longest name of a map, in bytes. It is shorter than the names of other
	// primitives, because a shard's name is made of it.
	MaxMapName = redoubt.MaxName - 32

	// A shard takes 32 KiB at most. When the first bit is set far out in a string, the server fills
	// all bytes before it with zeros, so large shards make sparse maps large. Small shards make
	// dense maps slow, because each is a command to count.
	logShard  = 18
	shardSize = 1 << logShard

	// inScript is how many offsets one script takes, so that it holds up a server for well under a
	// millisecond.
	inScript = 1000
	// inPipeline is how many commands a pipeline sends, which bounds the memory of the replies.
	inPipeline = 1024
)

// Options configure [Maps]. There is nothing to choose yet.
type Options struct{}

// Maps are the bitmaps on a server, each with a name. A map is a set of numbers from 0 to
// [MaxOffset], such as the ids of the users who were active on a day. Make one and use it for every
// name. It keeps no state and need not be closed. All methods may be called by many goroutines at
// once.
type Maps struct {
	client *redoubt.Client
}

// New returns the Maps of client. It sends nothing.
func New(client *redoubt.Client, _ Options) (*Maps, error) {
	if client == nil {
		return nil, errors.New("bitmap: client is nil")
	}
	return &Maps{client: client}, nil
}

// A sharded is one map on the server.
type sharded struct {
	client *redoubt.Client
	name   string
	index  string // the hash that lists the shards
}

func (ms *Maps) of(name string) (sharded, error) {
	if len(name) > MaxMapName {
		return sharded{}, fmt.Errorf("%w: it has %d bytes; want 1 to %d", redoubt.ErrInvalidName, len(name), MaxMapName)
	}
	index, err := ms.client.Key(name, mapPart)
	return sharded{client: ms.client, name: name, index: index}, err
}

// shard returns the key of one shard. Each shard has a hash tag of its own, so shards are in
// different slots. The part of the tag after the last colon has no colon, so no other name has the
// same key.
func (m sharded) shard(n uint64, part string) string {
	key, err := m.client.Key(m.name+":"+strconv.FormatUint(n, 10), part)
	if err != nil {
		panic("bitmap: " + err.Error()) // of has checked the name
	}
	return key
}

// Set sets bits. It returns how many were not set before. One round trip to each server, and three
// more when a shard, of 262,144 bits, is made.
//
// The bits of one shard are set together, a thousand at a time. They are sent once: after an error
// some may be set. Setting them again does no harm, but then they do not count as changed.
func (ms *Maps) Set(ctx context.Context, name string, offsets ...uint64) (changed int64, err error) {
	return ms.write(ctx, name, "1", offsets)
}

// Remove clears bits. It returns how many were set before. For the rest it is like Set.
func (ms *Maps) Remove(ctx context.Context, name string, offsets ...uint64) (changed int64, err error) {
	return ms.write(ctx, name, "0", offsets)
}

func (ms *Maps) write(ctx context.Context, name, bit string, offsets []uint64) (changed int64, err error) {
	m, err := ms.of(name)
	if err = errors.Join(err, checkOffsets(offsets)); err != nil {
		return 0, err
	}
	parts := split(offsets)
	n, absent, err := m.set(ctx, bit, parts, "0", 0)
	changed += n
	if err != nil || len(absent) == 0 || bit == "0" {
		return changed, err
	}
	// Tell the index of new shards before they are made, so that it knows every shard, and again
	// after that, in case the map was deleted in between.
	shards := shardsOf(absent)
	until, err := m.register(ctx, shards)
	if err != nil {
		return changed, err
	}
	n, _, err = m.set(ctx, bit, absent, "1", until)
	if changed += n; err != nil {
		return changed, err
	}
	again, err := m.register(ctx, shards)
	if err == nil && again != until {
		err = m.expire(ctx, shards, again)
	}
	return changed, err
}

// A part is what one command works on: some bits of one shard.
type part struct {
	shard  uint64
	places []int // the indexes of the offsets in the caller's slice
	args   []string
}

// split returns the parts of offsets, in the order of the shards.
func split(offsets []uint64) []*part {
	open := map[uint64]*part{}
	var parts []*part
	for i, o := range offsets {
		p := open[o>>logShard]
		if p == nil || len(p.places) == inScript {
			p = &part{shard: o >> logShard}
			open[p.shard] = p
			parts = append(parts, p)
		}
		p.places = append(p.places, i)
		p.args = append(p.args, strconv.FormatUint(o%shardSize, 10))
	}
	slices.SortStableFunc(parts, func(a, b *part) int { return compare(a.shard, b.shard) })
	return parts
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func shardsOf(parts []*part) (shards []uint64) {
	for _, p := range parts {
		shards = append(shards, p.shard)
	}
	return slices.Compact(shards)
}

func checkOffsets(offsets []uint64) error {
	for _, o := range offsets {
		if o > MaxOffset {
			return fmt.Errorf("bitmap: offset %d is out of range; want 0 to %d", o, uint64(MaxOffset))
		}
	}
	return nil
}

// set runs map_set.lua for each part. It returns the parts whose shard does not exist.
func (m sharded) set(ctx context.Context, bit string, parts []*part, create string, until int64) (changed int64, absent []*part, err error) {
	for now := range slices.Chunk(parts, inPipeline) {
		cmds := make([]redoubt.Cmd, len(now))
		for i, p := range now {
			args := append([]string{bit, create, decimal(until)}, p.args...)
			cmds[i] = wire.MapSetCmd(m.shard(p.shard, bitsPart), args...)
		}
		for i, r := range send(ctx, m.client, cmds) {
			var n [2]int64
			if e := r.Ints(n[:]); e != nil {
				err = errors.Join(err, e)
				continue
			}
			if changed += n[1]; n[0] == 0 {
				absent = append(absent, now[i])
			}
		}
		if err != nil {
			return changed, absent, err
		}
	}
	return changed, absent, nil
}

// Get reports whether a bit is set. One round trip, one GETBIT.
func (ms *Maps) Get(ctx context.Context, name string, offset uint64) (bool, error) {
	m, err := ms.of(name)
	if err = errors.Join(err, checkOffsets([]uint64{offset})); err != nil {
		return false, err
	}
	bit, err := ms.client.Do(ctx, redoubt.Cmd{
		Name: "GETBIT", Keys: []string{m.shard(offset>>logShard, bitsPart)},
		Args: []string{strconv.FormatUint(offset%shardSize, 10)}, Flags: redoubt.ReadOnly,
	}).Int()
	return bit == 1, err
}

// GetMany is Get for several bits. One round trip to each server, and one command for each shard.
func (ms *Maps) GetMany(ctx context.Context, name string, offsets []uint64) ([]bool, error) {
	m, err := ms.of(name)
	if err = errors.Join(err, checkOffsets(offsets)); err != nil {
		return nil, err
	}
	set := make([]bool, len(offsets))
	for now := range slices.Chunk(split(offsets), inPipeline) {
		cmds := make([]redoubt.Cmd, len(now))
		for i, p := range now {
			var args []string
			for _, o := range p.args {
				args = append(args, "GET", "u1", o)
			}
			cmds[i] = redoubt.Cmd{Name: "BITFIELD_RO", Keys: []string{m.shard(p.shard, bitsPart)}, Args: args, Flags: redoubt.ReadOnly}
		}
		for i, r := range send(ctx, m.client, cmds) {
			got := make([]int64, len(now[i].places))
			if err := r.Ints(got); err != nil {
				return nil, err
			}
			for j, place := range now[i].places {
				set[place] = got[j] == 1
			}
		}
	}
	return set, nil
}

// List iterates over the names of maps that match a pattern: see [Calendars.List].
func (ms *Maps) List(ctx context.Context, match string) iter.Seq2[string, error] {
	return ms.client.Names(ctx, mapPart, "hash", match)
}
