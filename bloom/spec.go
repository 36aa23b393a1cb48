package bloom

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

const (
	// MaxCapacity is the largest capacity of a filter.
	MaxCapacity = 10_000_000_000
	// MinErrorRate and MaxErrorRate bound the error rate of a filter. Below a millionth, blocks of
	// 512 bits would take far more memory than other filters.
	MinErrorRate = 1e-6
	MaxErrorRate = 0.5
)

// A Spec says what a filter is for.
type Spec struct {
	// Capacity is how many different items the filter is for: 1 to [MaxCapacity]. A filter takes
	// more items too, but then the error rate rises.
	Capacity int64
	// ErrorRate is how often [Filter.MayContain] may return true for items that were never added,
	// once Capacity items are in: 0.01 is one in a hundred. From [MinErrorRate] to [MaxErrorRate].
	ErrorRate float64
}

func (s Spec) String() string {
	return fmt.Sprintf("%d items at %v", s.Capacity, s.ErrorRate)
}

// check joins the faults of s.
func (s Spec) check() error {
	var errs []error
	if s.Capacity < 1 || s.Capacity > MaxCapacity {
		errs = append(errs, fmt.Errorf("bloom: capacity is %d; want 1 to %d", s.Capacity, int64(MaxCapacity)))
	}
	if !(s.ErrorRate >= MinErrorRate && s.ErrorRate <= MaxErrorRate) { // not a number is neither
		errs = append(errs, fmt.Errorf("bloom: error rate is %v; want %v to %v", s.ErrorRate, MinErrorRate, MaxErrorRate))
	}
	return errors.Join(errs...)
}

// A layout says how the bits of a filter are divided. It is computed once, when the filter is made,
// and kept with the filter: another machine may compute another last place.
type layout struct {
	blocks int64 // of all shards; a multiple of shards
	shards int
	hashes int // the number of bits of an item
}

// shardBytes is the largest size of a shard; if there are several shards, each has at least half of
// it. A server fills a new key with zeros, and copies a key when its slot moves. Each takes it a
// millisecond or two, in which it does nothing else.
const shardBytes = 4 << 20

// perShard is the number of blocks of each shard.
func (l layout) perShard() int64 { return l.blocks / int64(l.shards) }

// shardLen is the length of a shard in bytes.
func (l layout) shardLen() int64 { return l.perShard() * blockBytes }

// layoutFor returns the smallest layout whose error rate is at most the one of s.
func layoutFor(s Spec) layout {
	// A hundredth of the error rate is left for chance: of a hundred filters that aim at the exact
	// rate, fifty would miss it by a little.
	want := 0.99 * s.ErrorRate
	best, hashes := 0.0, 0
	for k := 1; k <= maxHashes; k++ {
		low, high := 0.0, float64(blockBits)
		if best > 0 {
			if falsePositives(best, k) >= want {
				continue // it holds no more than the best
			}
			low = best
		}
		for high-low > 1e-4*low+1e-9 {
			if mid := (low + high) / 2; falsePositives(mid, k) < want {
				low = mid
			} else {
				high = mid
			}
		}
		best, hashes = low, k
	}
	blocks := int64(math.Ceil(float64(s.Capacity) / best))
	shards := (blocks*blockBytes + shardBytes - 1) / shardBytes
	per := (blocks + shards - 1) / shards
	return layout{blocks: per * shards, shards: int(shards), hashes: hashes}
}

// falsePositives is the error rate of blocks that hold load items on average, each with k bits, by
// Putze, Sanders and Singler, Cache-, Hash- and Space-Efficient Bloom Filters (2007): the number of
// items in a block is a Poisson variable. Another term accounts for the spread in the number of
// bits that these items set; at k = 6 it is a hundredth of the error rate.
func falsePositives(load float64, k int) float64 {
	const m = blockBits
	reach := 8*math.Sqrt(load) + 12
	first := math.Max(0, math.Floor(load-reach))
	lg, _ := math.Lgamma(first + 1)
	p := math.Exp(first*math.Log(load) - load - lg)
	if load == 0 {
		return 0
	}
	one := math.Pow(1-1.0/m, float64(k)) // a bit that is clear is still so after an item
	two := math.Pow(1-2.0/m, float64(k)) // and two bits
	sum, clear, both := 0.0, math.Pow(one, first), math.Pow(two, first)
	for n := first; n <= load+reach; n++ {
		if set := m * (1 - clear); set > 0 {
			variance := m*clear + m*(m-1)*both - m*m*clear*clear
			sum += p * math.Pow(set/m, float64(k)) * (1 + float64(k*(k-1))/2*variance/(set*set))
		}
		p *= load / (n + 1)
		clear *= one
		both *= two
	}
	return math.Min(sum, 1)
}

// load estimates how many items a block holds on average, from the part of all bits that is set.
func (l layout) load(fill float64) float64 {
	return -math.Log1p(-math.Min(fill, 1-1e-9)) / (1 - math.Pow(1-1.0/blockBits, float64(l.hashes)))
}

// A generation is one set of shards of a filter, with an id of its own.
type generation struct {
	id   string
	spec Spec
	layout
}

// text returns the form in which the server keeps the generation.
func (g generation) text() string {
	return fmt.Sprintf("%d %s %s %d %d %d", g.spec.Capacity, rate(g.spec.ErrorRate), g.id, g.blocks, g.shards, g.hashes)
}

func rate(e float64) string { return strconv.FormatFloat(e, 'g', -1, 64) }

// parseGeneration reads the result of text.
func parseGeneration(s string) (g generation, err error) {
	n, err := fmt.Sscanf(s, "%d %g %s %d %d %d", &g.spec.Capacity, &g.spec.ErrorRate, &g.id, &g.blocks, &g.shards, &g.hashes)
	if err != nil || n != 6 || strings.Count(s, " ") != 5 || g.spec.check() != nil || g.blocks < 1 || g.shards < 1 ||
		g.blocks%int64(g.shards) != 0 || g.hashes < 1 || g.hashes > maxHashes {
		return generation{}, fmt.Errorf("bloom: the filter has the description %q on the server, which this program does not understand", s)
	}
	return g, nil
}
