package bitmap

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/bitmap"
)

// An Operation combines maps into one.
type Operation uint8

const (
	// And has the bits that are set in all maps.
	And Operation = iota + 1
	// Or has the bits that are set in any.
	Or
	// Xor has the bits that are set in an odd number of them.
	Xor
	// AndNot has the bits that are set in the first map and in none of the others.
	AndNot
)

func (op Operation) String() string {
	switch op {
	case And:
		return "AND"
	case Or:
		return "OR"
	case Xor:
		return "XOR"
	case AndNot:
		return "ANDNOT"
	}
	return fmt.Sprintf("Operation(%d)", uint8(op))
}

// maxMaps is how many maps a call combines at most.
const maxMaps = 256

// workPart ends the key in which a script counts. The script deletes it.
const workPart = "work"

// Combine replaces the map called name by a combination of maps, and returns how many bits it has.
// The map may be one of the sources too, unless op is Xor: repeating that after an error would give
// another result.
//
// Combine works shard by shard. On one server each shard is a BITOP there. In a cluster, BITOP
// needs all keys in one slot, so the shards are read, combined here and written. A few round trips
// for the indexes, and one for every 1,024 shards; in a cluster two for every 16. Each shard
// changes atomically, the map does not. After an error the call can be repeated.
func (ms *Maps) Combine(ctx context.Context, name string, op Operation, maps ...string) (count int64, err error) {
	m, err := ms.of(name)
	if op == Xor && slices.Contains(maps, name) {
		err = errors.Join(err, fmt.Errorf("bitmap: %q is both the result and a source of an Xor, which could not be repeated after an error", name))
	}
	sources, e := ms.sources(op, maps)
	if err = errors.Join(err, e); err != nil {
		return 0, err
	}
	all, err := shards(ctx, ms.client, append(sources, m))
	if err != nil {
		return 0, err
	}
	before, wanted := all[len(sources)], plan(op, all[:len(sources)])
	if len(wanted) > 0 {
		until, err := m.register(ctx, wanted)
		if err != nil {
			return 0, err
		}
		if count, err = ms.combine(ctx, op, &m, until, sources, wanted); err != nil {
			return 0, err
		}
		// Tell the index again, as write does.
		again, err := m.register(ctx, wanted)
		if err == nil && again != until {
			err = m.expire(ctx, wanted, again)
		}
		if err != nil {
			return 0, err
		}
	}
	stale := slices.DeleteFunc(before, func(n uint64) bool {
		_, found := slices.BinarySearch(wanted, n)
		return found
	})
	return count, m.drop(ctx, stale)
}

// CountOf returns how many bits a combination of maps would have, and stores nothing. It takes the
// round trips of Combine.
func (ms *Maps) CountOf(ctx context.Context, op Operation, maps ...string) (int64, error) {
	sources, err := ms.sources(op, maps)
	if err != nil {
		return 0, err
	}
	all, err := shards(ctx, ms.client, sources)
	if err != nil {
		return 0, err
	}
	return ms.combine(ctx, op, nil, 0, sources, plan(op, all))
}

func (ms *Maps) sources(op Operation, maps []string) (sources []sharded, err error) {
	if op < And || op > AndNot {
		err = fmt.Errorf("bitmap: the operation is %v; want And, Or, Xor or AndNot", op)
	}
	if len(maps) == 0 || len(maps) > maxMaps {
		err = errors.Join(err, fmt.Errorf("bitmap: the call combines %d maps; want 1 to %d", len(maps), maxMaps))
	}
	for _, name := range maps {
		m, e := ms.of(name)
		err = errors.Join(err, e)
		sources = append(sources, m)
	}
	return sources, err
}

// plan returns the shards in which the result may have bits, in order.
func plan(op Operation, all [][]uint64) (wanted []uint64) {
	in := map[uint64]int{}
	for _, s := range all {
		for _, n := range s {
			in[n]++
		}
	}
	switch op {
	case AndNot:
		return slices.Clone(all[0])
	case And:
		for n, maps := range in {
			if maps == len(all) {
				wanted = append(wanted, n)
			}
		}
	case Or, Xor:
		for n := range in {
			wanted = append(wanted, n)
		}
	}
	slices.Sort(wanted)
	return wanted
}

// combine makes the shards of to. If to is nil it only counts their bits.
func (ms *Maps) combine(ctx context.Context, op Operation, to *sharded, until int64, sources []sharded, wanted []uint64) (count int64, err error) {
	onServer := ms.onServer(op, to, sources)
	for now := range slices.Chunk(wanted, inPipeline) {
		if !onServer {
			n, err := ms.combineInProcess(ctx, op, to, until, sources, now)
			if err != nil {
				return 0, err
			}
			count += n
			continue
		}
		n, err := ms.combineOnServer(ctx, op, to, until, sources, now)
		if redoubt.IsCode(err, "CROSSSLOT") { // it is a cluster
			onServer = false
			n, err = ms.combineInProcess(ctx, op, to, until, sources, now)
		}
		if err != nil {
			return 0, err
		}
		count += n
	}
	return count, nil
}

// onServer reports whether a server can combine the maps by itself.
func (ms *Maps) onServer(op Operation, to *sharded, sources []sharded) bool {
	if op == AndNot && to != nil && slices.ContainsFunc(sources[1:], func(s sharded) bool { return s.name == to.name }) {
		return false // the script writes the result before it has read all
	}
	return ms.client.Node(sources[0].index) == ""
}

// combineOnServer combines the shards on the server.
func (ms *Maps) combineOnServer(ctx context.Context, op Operation, to *sharded, until int64, sources []sharded, wanted []uint64) (count int64, err error) {
	cmds := make([]redoubt.Cmd, len(wanted))
	for i, n := range wanted {
		key, keep := sources[0].shard(n, workPart), "0"
		if to != nil {
			key, keep = to.shard(n, bitsPart), "1"
		}
		keys := []string{key}
		for _, s := range sources {
			keys = append(keys, s.shard(n, bitsPart))
		}
		cmds[i] = wire.MapCombineCmd(keys, op.String(), keep, decimal(until))
	}
	for _, r := range send(ctx, ms.client, cmds) {
		var n [1]int64
		if err := r.Ints(n[:]); err != nil {
			return 0, err
		}
		count += n[0]
	}
	return count, nil
}

// combineInProcess reads the shards, combines them in this process, and writes the result.
func (ms *Maps) combineInProcess(ctx context.Context, op Operation, to *sharded, until int64, sources []sharded, wanted []uint64) (count int64, err error) {
	for now := range slices.Chunk(wanted, max(inRange/len(sources), 1)) {
		var reads, writes []redoubt.Cmd
		for _, n := range now {
			for _, s := range sources {
				reads = append(reads, read("GETRANGE", s.shard(n, bitsPart), "0", "-1"))
			}
		}
		replies := send(ctx, ms.client, reads)
		for i, n := range now {
			result := make([]byte, 0, shardSize/8)
			for j := range sources {
				text, err := replies[i*len(sources)+j].Text()
				if err != nil {
					return 0, err
				}
				if j == 0 {
					result = append(result, text...)
				} else {
					result = op.apply(result, text)
				}
			}
			for _, b := range result {
				count += int64(bits.OnesCount8(b))
			}
			if to == nil {
				continue
			}
			w := redoubt.Cmd{Name: "UNLINK", Keys: []string{to.shard(n, bitsPart)}, Flags: redoubt.Idempotent}
			if len(result) > 0 {
				w.Name, w.Args = "SET", []string{string(result)}
				if until > 0 {
					w.Args = append(w.Args, "PXAT", decimal(until))
				}
			}
			writes = append(writes, w)
		}
		if err := failed(send(ctx, ms.client, writes)); err != nil {
			return 0, err
		}
	}
	return count, nil
}

// apply returns a op b, in the memory of a. The shorter of the two counts as padded with zeros.
func (op Operation) apply(a []byte, b string) []byte {
	if len(a) < len(b) {
		a = append(a, strings.Repeat("\x00", len(b)-len(a))...)
	}
	for i := range a {
		var other byte
		if i < len(b) {
			other = b[i]
		}
		switch op {
		case And:
			a[i] &= other
		case Or:
			a[i] |= other
		case Xor:
			a[i] ^= other
		case AndNot:
			a[i] &^= other
		}
	}
	return a
}
