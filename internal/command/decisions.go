package command

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
)

const (
	decisionShards = 16
	// namesPerShard bounds the names that a shard counts. When there are more, the half with the fewest
	// decisions is forgotten.
	namesPerShard = 64
)

// A Decided counts what rate limits decided.
type Decided struct{ Allowed, Denied uint64 }

func (d *Decided) add(allowed bool) { //nolint:revive // it says which count
	if allowed {
		d.Allowed++
	} else {
		d.Denied++
	}
}

// decisions count what the commands of rate limits decided in this process. The names are in shards, so
// that cores rarely meet.
type decisions struct {
	seed            maphash.Seed
	allowed, denied atomic.Uint64
	shards          [decisionShards]struct {
		sync.Mutex

		names map[string]*Decided
		_     [40]byte // a cache line each
	}
}

// total counts a decision about a key of CL.THROTTLE, which is no name.
func (d *decisions) total(allowed bool) { //nolint:revive // it says which count
	if allowed {
		d.allowed.Add(1)
	} else {
		d.denied.Add(1)
	}
}

// add counts a decision about a name.
func (d *decisions) add(name string, allowed bool) { //nolint:revive // it says which count
	d.total(allowed)
	s := &d.shards[maphash.String(d.seed, name)%decisionShards]
	s.Lock()
	defer s.Unlock()
	n := s.names[name]
	if n == nil {
		if len(s.names) >= namesPerShard {
			forget(s.names)
		}
		if s.names == nil {
			s.names = map[string]*Decided{}
		}
		n = &Decided{}
		s.names[name] = n
	}
	n.add(allowed)
}

// forget removes the half of names with the fewest decisions.
func forget(names map[string]*Decided) {
	list := slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		x, y := names[a], names[b]
		return cmp.Compare(x.Allowed+x.Denied, y.Allowed+y.Denied)
	})
	for _, name := range list[:len(list)/2] {
		delete(names, name)
	}
}

// Decisions returns what the commands of rate limits have decided in this process, and the names with the
// most decisions, about a thousand at most.
func (env *Env) Decisions() (all Decided, names map[string]Decided) {
	d := env.decisions
	names = map[string]Decided{}
	for i := range d.shards {
		s := &d.shards[i]
		s.Lock()
		for name, n := range s.names {
			names[name] = *n
		}
		s.Unlock()
	}
	return Decided{d.allowed.Load(), d.denied.Load()}, names
}

// planCounted is planDecision for a call that takes tokens, and counts what it decides.
func (env *Env) planCounted(c limitCall, cmd redoubt.Cmd, read func(redoubt.Reply) (wire.Decision, error), err error) Plan {
	if c.n < 1 {
		return planDecision(cmd, read, err)
	}
	return planDecision(cmd, func(r redoubt.Reply) (wire.Decision, error) {
		d, err := read(r)
		if err == nil {
			env.decisions.add(c.name, d.Allowed)
		}
		return d, err
	}, err)
}
