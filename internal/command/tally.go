package command

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/redoubt-go/redoubt"
)

const (
	tallySets = 256
	// tallyWays is how many names a set has. A new name takes the place of the name with the least heat.
	tallyWays = 4
	// tallyFades is how many new names halve the heat of a set. Without that, names that nobody uses any more keep
	// their places for good, and the busy names of today evict each other.
	tallyFades = 64
)

// A tally counts events of two kinds by name, for about a thousand names with the most events. An event of a
// known name takes no lock: it costs a hash of the name and one atomic addition. A new name locks its set.
type tally struct {
	seed maphash.Seed
	sets [tallySets]tallySet
}

type tallySet struct {
	names [tallyWays]atomic.Pointer[tallied]
	mu    sync.Mutex // to store names
	added int        // guarded by mu
}

// A tallied is what a tally counts of one name.
type tallied struct {
	name string
	n    [2]atomic.Uint64
	cold uint64 // the events that no longer count towards the heat; guarded by the mutex of the set
}

func newTally() *tally { return &tally{seed: maphash.MakeSeed()} }

// add counts an event of a kind, 0 or 1. It keeps name, unless that is longer than names are.
func (t *tally) add(name string, kind int) {
	if name == "" || len(name) > redoubt.MaxName {
		return
	}
	set := &t.sets[maphash.String(t.seed, name)%tallySets]
	if n := set.find(name); n != nil {
		n.n[kind].Add(1)
		return
	}
	set.insert(name, kind)
}

func (s *tallySet) find(name string) *tallied {
	for i := range s.names {
		if n := s.names[i].Load(); n != nil && n.name == name {
			return n
		}
	}
	return nil
}

// insert counts an event of a name that was not found. If the set is full, it forgets another name.
func (s *tallySet) insert(name string, kind int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.find(name); n != nil {
		n.n[kind].Add(1) // another goroutine was faster
		return
	}
	s.added++
	place, least := 0, uint64(0)
	for i := range s.names {
		n := s.names[i].Load()
		if n == nil {
			place = i
			break
		}
		sum := n.n[0].Load() + n.n[1].Load()
		heat := sum - n.cold
		if s.added%tallyFades == 0 {
			heat /= 2
			n.cold = sum - heat
		}
		if i == 0 || heat < least {
			place, least = i, heat
		}
	}
	n := &tallied{name: name}
	n.n[kind].Store(1)
	s.names[place].Store(n)
}

// all calls f once for each name with its counts.
func (t *tally) all(f func(name string, n [2]uint64)) {
	for i := range t.sets {
		s := &t.sets[i]
		s.mu.Lock()
		for j := range s.names {
			if n := s.names[j].Load(); n != nil {
				f(n.name, [2]uint64{n.n[0].Load(), n.n[1].Load()})
			}
		}
		s.mu.Unlock()
	}
}
