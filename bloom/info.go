package bloom

import (
	"context"
	"math"
	"strconv"

	"github.com/redoubt-go/redoubt"
)

// Info tells how full a filter is.
type Info struct {
	// Spec is what the filter is for.
	Spec Spec
	// Bytes is what the bits take, and Shards in how many keys they are.
	Bytes  int64
	Shards int
	// Hashes is how many bits an item sets.
	Hashes int
	// Lost is how many of the keys are gone: evicted, deleted, or never
	// replicated before a failover. For the items in them the answer is "maybe";
	// [Filter.Rebuild] brings them back.
	Lost int
	// FillRatio is how much of the bits is set, from 0 to 1, keys that are lost
	// not counted.
	FillRatio float64
	// Items is an estimate of how many different items are in, from the fill
	// ratio; those in keys that are lost are estimated to be as many as in others.
	Items int64
	// ErrorRate is an estimate of how often the answer for an item that was never
	// added is "maybe" now; a key that is lost counts in full.
	ErrorRate float64
	// Rebuilding says that a new generation is being filled.
	Rebuilding bool
}

// infoOf estimates from the number of bits that are set in what is not lost.
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
