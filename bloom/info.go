package bloom

import (
	"context"
	"math"
	"strconv"

	"github.com/redoubt-go/redoubt"
)

// Info describes a filter and how full it is.
type Info struct {
	// Spec is the capacity and error rate of the filter.
	Spec Spec
	// Bytes is the size of the bits, and Shards the number of their keys.
	Bytes  int64
	Shards int
	// Hashes is how many bits an item sets.
	Hashes int
	// Lost is how many keys are lost: evicted, deleted, or not replicated before a failover. Their
	// items get "maybe". [Filter.Rebuild] restores the keys.
	Lost int
	// FillRatio is the part of the bits that is set, from 0 to 1, without lost keys.
	FillRatio float64
	// Items estimates how many different items were added, from the fill ratio. It assumes as many
	// in a lost key as in another.
	Items int64
	// ErrorRate estimates how often an item that was never added gets "maybe" now. A lost key
	// counts in full.
	ErrorRate float64
	// Rebuilding says that a new generation is being filled.
	Rebuilding bool
}

// infoOf estimates from the number of set bits in keys that are not lost.
func infoOf(g generation, set int64, lost int) Info {
	i := Info{Spec: g.spec, Bytes: g.blocks * blockBytes, Shards: g.shards, Hashes: g.hashes, Lost: lost}
	there := float64(g.shards-lost) / float64(g.shards)
	if lost == g.shards {
		i.ErrorRate = 1
		return i
	}
	i.FillRatio = float64(set) / (float64(g.blocks) * blockBits * there)
	load := g.load(i.FillRatio)
	i.Items = int64(math.Round(load * float64(g.blocks)))
	i.ErrorRate = (1 - there) + there*falsePositives(load, g.hashes)
	return i
}

// Info reads what the filter is and counts its bits, which takes the server a millisecond for each
// key. It changes nothing. Two round trips.
func (f *Filter) Info(ctx context.Context) (Info, error) {
	s, err := f.read(ctx)
	if err != nil {
		return Info{}, err
	}
	g, rebuilding := s.current, s.next != nil
	if rebuilding && s.filled {
		g, rebuilding = *s.next, false // the keys of current may be deleted already
	}
	var cmds []redoubt.Cmd
	for shard := range g.shards {
		key := []string{f.keys.shard(g.id, shard)}
		cmds = append(cmds,
			redoubt.Cmd{Name: "STRLEN", Keys: key, Flags: redoubt.ReadOnly},
			redoubt.Cmd{Name: "BITCOUNT", Keys: key, Args: []string{"0", strconv.FormatInt(g.shardLen()-1, 10)}, Flags: redoubt.ReadOnly})
	}
	replies, set, lost := f.client.Pipeline(ctx, cmds), int64(0), 0
	for i := 0; i < len(replies); i += 2 {
		length, err := replies[i].Int()
		if err != nil {
			return Info{}, err
		}
		if length < g.shardLen() {
			lost++
			continue
		}
		n, err := replies[i+1].Int()
		if err != nil {
			return Info{}, err
		}
		set += n
	}
	info := infoOf(g, set, lost)
	info.Rebuilding = rebuilding
	return info, nil
}
