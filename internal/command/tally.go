package command

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/redoubt-go/redoubt"
)

const (
	tallySets = 256
	// tallyWays is how many names a set has. A new name takes the place of the name with the fewest events.
	tallyWays = 4
)

// A tally counts events of two kinds by name, for about a thousand names with the most events. It has no
// lock: an event of a known name costs a hash of the name and one atomic addition.
type tally struct {
	seed maphash.Seed
	sets [tallySets][tallyWays]atomic.Pointer[tallied]
}

// A tallied is what a tally counts of one name.
type tallied struct {
	name string
	n    [2]atomic.Uint64
}

func newTally() *tally { return &tally{seed: maphash.MakeSeed()} }

// add counts an event of a kind, 0 or 1. It keeps name, unless that is longer than names are.
func (t *tally) add(name string, kind int) {
	if name == "" || len(name) > redoubt.MaxName {
		return
	}
	set := &t.sets[maphash.String(t.seed, name)%tallySets]
	for {
		place, fewest := 0, uint64(0)
		for i := range set {
			n := set[i].Load()
			if n == nil {
				place = i
				break
			}
			if n.name == name {
				n.n[kind].Add(1)
				return
			}
			if sum := n.n[0].Load() + n.n[1].Load(); i == 0 || sum < fewest {
				place, fewest = i, sum
			}
		}
		old := set[place].Load()
		if old != nil && old.name == name {
			continue // another goroutine was faster
		}
		n := &tallied{name: name}
		n.n[kind].Store(1)
		if set[place].CompareAndSwap(old, n) {
			return
		}
	}
}

// all calls f for each name with its counts. While others count, f may get a name twice, with a part of
// its counts each time.
func (t *tally) all(f func(name string, n [2]uint64)) {
	for i := range t.sets {
		for j := range t.sets[i] {
			if n := t.sets[i][j].Load(); n != nil {
				f(n.name, [2]uint64{n.n[0].Load(), n.n[1].Load()})
			}
		}
	}
}
