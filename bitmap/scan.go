package bitmap

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"slices"

	"github.com/redoubt-go/redoubt"
)

// Count returns how many bits are set in the map. See [Maps.CountRange].
func (ms *Maps) Count(ctx context.Context, name string) (int64, error) {
	return ms.CountRange(ctx, name, 0, MaxOffset)
}

// CountRange returns how many bits are set from one offset to another, both included. Two round
// trips, and another for every 1,024 shards, of 262,144 bits each, in which bits are set. Bits that
// are set meanwhile may count or not.
func (ms *Maps) CountRange(ctx context.Context, name string, from, to uint64) (n int64, err error) {
	m, pieces, err := ms.pieces(ctx, name, from, to)
	if err != nil {
		return 0, err
	}
	for now := range slices.Chunk(pieces, inPipeline/2) {
		var cmds []redoubt.Cmd
		var masks []byte // for each command the mask of a single byte, or 0 for a BITCOUNT
		for _, p := range now {
			key := m.shard(p.shard, bitsPart)
			first, last := p.first/8, p.last/8
			edge := func(at int, mask byte) {
				cmds = append(cmds, read("GETRANGE", key, decimal(at), decimal(at)))
				masks = append(masks, mask)
			}
			head, tail := byte(0xff)>>(p.first%8), byte(0xff)<<(7-p.last%8)
			if first == last {
				edge(first, head&tail)
				continue
			}
			if head != 0xff {
				edge(first, head)
				first++
			}
			if tail != 0xff {
				edge(last, tail)
				last--
			}
			if first <= last {
				cmds = append(cmds, read("BITCOUNT", key, decimal(first), decimal(last)))
				masks = append(masks, 0)
			}
		}
		for i, r := range send(ctx, ms.client, cmds) {
			if masks[i] == 0 {
				count, err := r.Int()
				if err != nil {
					return 0, err
				}
				n += count
				continue
			}
			b, err := r.Text()
			if err != nil {
				return 0, err
			}
			if b != "" {
				n += int64(bits.OnesCount8(b[0] & masks[i]))
			}
		}
	}
	return n, nil
}

func read(name, key string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Name: name, Keys: []string{key}, Args: args, Flags: redoubt.ReadOnly}
}

// A piece is the part of a range that is in one shard.
type piece struct {
	shard       uint64
	first, last int // bits of the shard, both included
}

// pieces returns the parts of a range that lie in existing shards, in order. One round trip.
func (ms *Maps) pieces(ctx context.Context, name string, from, to uint64) (m sharded, pieces []piece, err error) {
	m, err = ms.of(name)
	err = errors.Join(err, checkOffsets([]uint64{from, to}))
	if from > to {
		err = errors.Join(err, fmt.Errorf("bitmap: the range from %d to %d is empty", from, to))
	}
	if err != nil {
		return m, nil, err
	}
	all, err := m.shards(ctx)
	for _, n := range all {
		if n < from>>logShard || n > to>>logShard {
			continue
		}
		p := piece{shard: n, last: shardSize - 1}
		if n == from>>logShard {
			p.first = int(from % shardSize)
		}
		if n == to>>logShard {
			p.last = int(to % shardSize)
		}
		pieces = append(pieces, p)
	}
	return m, pieces, err
}

// First returns the first set bit at from or after it, and false when there is none. Two round
// trips, and a few more when the first shards have no set bits any more.
func (ms *Maps) First(ctx context.Context, name string, from uint64) (offset uint64, ok bool, err error) {
	m, pieces, err := ms.pieces(ctx, name, from, MaxOffset)
	if err != nil {
		return 0, false, err
	}
	for most := 8; len(pieces) > 0; most = min(4*most, inPipeline/2) {
		now := pieces[:min(most, len(pieces))]
		pieces = pieces[len(now):]
		cmds := make([]redoubt.Cmd, 0, 2*len(now))
		for _, p := range now {
			key := m.shard(p.shard, bitsPart)
			cmds = append(cmds, read("GETRANGE", key, decimal(p.first/8), decimal(p.first/8)), read("BITPOS", key, "1", decimal(p.first/8+1)))
		}
		replies := send(ctx, ms.client, cmds)
		for i, p := range now {
			head, err := replies[2*i].Text()
			if err != nil {
				return 0, false, err
			}
			rest, err := replies[2*i+1].Int()
			if err != nil {
				return 0, false, err
			}
			begin := p.shard << logShard
			if head != "" && head[0]&(0xff>>(p.first%8)) != 0 {
				return begin + uint64(p.first/8*8+bits.LeadingZeros8(head[0]&(0xff>>(p.first%8)))), true, nil
			}
			if rest >= 0 {
				return begin + uint64(rest), true, nil
			}
		}
	}
	return 0, false, nil
}

// inRange is how many shards Range reads at once: half a megabyte.
const inRange = 16

// Range iterates over the bits that are set from one offset to another, both included, in order.
// The loop ends with the first error. A round trip, and another for every 16 shards, of 32 KiB at
// most.
func (ms *Maps) Range(ctx context.Context, name string, from, to uint64) iter.Seq2[uint64, error] {
	return func(yield func(uint64, error) bool) {
		m, pieces, err := ms.pieces(ctx, name, from, to)
		if err != nil {
			yield(0, err)
			return
		}
		for now := range slices.Chunk(pieces, inRange) {
			cmds := make([]redoubt.Cmd, len(now))
			for i, p := range now {
				cmds[i] = read("GETRANGE", m.shard(p.shard, bitsPart), decimal(p.first/8), decimal(p.last/8))
			}
			for i, r := range send(ctx, ms.client, cmds) {
				text, err := r.Text()
				if err != nil {
					yield(0, err)
					return
				}
				if !now[i].each(text, func(offset uint64) bool { return yield(offset, nil) }) {
					return
				}
			}
		}
	}
}

// each iterates over the set bits of p, given the bytes that p touches.
func (p piece) each(text string, yield func(uint64) bool) bool {
	for i := range len(text) {
		for b := text[i]; b != 0; {
			zeros := bits.LeadingZeros8(b)
			b &^= 0x80 >> zeros
			at := p.first/8*8 + 8*i + zeros
			if at >= p.first && at <= p.last && !yield(p.shard<<logShard+uint64(at)) {
				return false
			}
		}
	}
	return true
}
