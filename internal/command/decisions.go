package command

import (
	"strings"
	"sync/atomic"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
)

// A Decided counts what rate limits decided.
type Decided struct{ Allowed, Denied uint64 }

// Decisions are what the commands of rate limits decided in this process. Names and Keys have the ones with
// the most decisions, about a thousand each at most.
type Decisions struct {
	All   Decided
	Names map[string]Decided // limits
	Keys  map[string]Decided // keys of CL.THROTTLE, which are no names
}

// decisions count Decisions.
type decisions struct {
	allowed, denied atomic.Uint64
	by              [len(countedLimits)][2]atomic.Uint64 // allowed and denied by command
	names, keys     *tally
	policies        byName[[2]atomic.Uint64] // allowed and denied
}

func newDecisions() *decisions { return &decisions{names: newTally(), keys: newTally()} }

// add counts a decision of a command about a name or key of one of the tallies.
func (d *decisions) add(by int, to *tally, name string, allowed bool) { //nolint:revive // it says which count
	all, column := &d.allowed, 0
	if !allowed {
		all, column = &d.denied, 1
	}
	all.Add(1)
	d.by[by][column].Add(1)
	to.add(name, column)
	if policy, _, ok := strings.Cut(name, ":"); ok {
		d.policies.of(policy)[column].Add(1)
	}
}

// limit counts a decision about the name of a call.
func (d *decisions) limit(c limitCall, allowed bool) { //nolint:revive // it says which count
	d.add(c.by, d.names, c.name, allowed)
}

// throttle counts a decision about a key of CL.THROTTLE.
func (d *decisions) throttle(key string, allowed bool) { //nolint:revive // it says which count
	d.add(0, d.keys, key, allowed)
}

// Decisions returns what the commands of rate limits have decided in this process.
func (env *Env) Decisions() Decisions {
	d := env.decisions
	return Decisions{Decided{d.allowed.Load(), d.denied.Load()}, decided(d.names), decided(d.keys)}
}

func decided(t *tally) map[string]Decided {
	all := map[string]Decided{}
	t.all(func(name string, n [2]uint64) {
		all[name] = Decided{n[0], n[1]}
	})
	return all
}

// planCounted is planDecision for a call that takes tokens, and counts what it decides.
func (env *Env) planCounted(c limitCall, cmd redoubt.Cmd, read func(redoubt.Reply) (wire.Decision, error), err error) Plan {
	if c.n < 1 {
		return planDecision(cmd, read, err)
	}
	return planDecision(cmd, func(r redoubt.Reply) (wire.Decision, error) {
		d, err := read(r)
		if err == nil {
			env.decisions.limit(c, d.Allowed)
		}
		return d, err
	}, err)
}
