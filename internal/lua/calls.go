package lua

import "slices"

// A Call is a place in a script that calls redis.call or redis.pcall.
type Call struct {
	Args []CallArg
	Rest CallRest // what follows Args, of unknown number
}

// A CallArg is what is known of one argument.
type CallArg struct {
	Key   bool   // it is an element of KEYS, or the call fails
	Known bool   // it is Text
	Text  string // a constant of the script
}

// CallRest is a kind of arguments at the end of a [Call].
type CallRest uint8

// The kinds of [CallRest].
const (
	NoRest    CallRest = iota
	RestKeys           // elements of KEYS
	RestOther          // anything
)

// Calls returns every place that calls a command, found without running the
// script. It reports false when there may be others: the function, or KEYS, is
// then used in a way that is not followed, like being given to a function of
// the script or stored in a table.
//
// This is a forward data-flow analysis over the instructions of each function,
// to a fixed point. The values that are followed, redis, redis.call and KEYS,
// are never lost sight of: what would let one go where it is not followed makes
// the whole answer false.
//
// It is no type system: a helper that is given a key by its caller counts as
// one that uses anything.
func (p *Proto) Calls() (calls []Call, ok bool) {
	if p.main.cells() > mostCells {
		return nil, false
	}
	return p.main.calls(nil)
}

// mostCells bounds the memory and the time that Calls takes for long scripts.
const mostCells = 1 << 18

// cells is how many facts there are to know of a function and those inside.
func (p *proto) cells() int {
	n := len(p.code) * p.maxStack
	for _, inner := range p.protos {
		n += inner.cells()
	}
	return n
}

// A fact is what is known of the value in a register.
type fact struct {
	kind   factKind
	shared bool   // a function inside of this one may change it at any time
	text   string // of factText
}

type factKind uint8

const (
	factOther  factKind = iota // anything that need not be followed
	factText                   // a string constant
	factKey                    // an element of KEYS
	factUnpack                 // the function unpack
	factPairs                  // ipairs or pairs
	factWalk                   // the iterator of a loop over KEYS
	factKEYS                   // from here on: what is followed
	factRedis
	factCall
	factMixed // one of these, or not: good for nothing but to be written over
)

func (f fact) followed() bool { return f.kind >= factKEYS }

// plain are the globals that neither read nor change what is followed, and give
// no way to it by name.
var plain = []string{
	"ARGV", "string", "table", "math", "tonumber", "tostring", "type", "next", "select", "error", "assert",
	"cjson", "cmsgpack", "struct", "bit", "pcall", "xpcall", "rawequal", "rawget", "rawset", "unpack", "ipairs", "pairs",
}

// A flow is the analysis of one function.
type flow struct {
	p     *proto
	at    [][]fact     // before each instruction; nil: not reached
	todo  []int        // instructions whose facts have changed
	rest  map[int]fact // what an instruction left on the top, of unknown number
	found map[int]Call // by instruction
	lost  bool         // something followed went where it is not
}

func (p *proto) calls(found []Call) (calls []Call, ok bool) {
	f := &flow{p: p, at: make([][]fact, len(p.code)+1), rest: map[int]fact{}, found: map[int]Call{}}
	f.to(0, make([]fact, p.maxStack))
	for len(f.todo) > 0 && !f.lost {
		pc := f.todo[len(f.todo)-1]
		f.todo = f.todo[:len(f.todo)-1]
		f.step(pc, slices.Clone(f.at[pc]))
	}
	if f.lost {
		return nil, false
	}
	for pc := range p.code {
		if c, ok := f.found[pc]; ok {
			found = append(found, c)
		}
	}
	for _, inner := range p.protos {
		if found, ok = inner.calls(found); !ok {
			return nil, false
		}
	}
	return found, true
}

// to joins regs with what is known before the instruction at pc.
func (f *flow) to(pc int, regs []fact) {
	have := f.at[pc]
	if have == nil {
		f.at[pc] = slices.Clone(regs)
		f.todo = append(f.todo, pc)
		return
	}
	changed := false
	for r := range have {
		if both := join(have[r], regs[r]); both != have[r] {
			have[r], changed = both, true
		}
	}
	if changed {
		f.todo = append(f.todo, pc)
	}
}

// join is what is known of a value that is one or the other.
func join(x, y fact) fact {
	shared := x.shared || y.shared
	switch {
	case x.kind == y.kind && x.text == y.text:
		x.shared = shared
		return x
	case x.followed() || y.followed():
		return fact{kind: factMixed, shared: shared}
	}
	return fact{shared: shared}
}

// set writes a register.
func (f *flow) set(regs []fact, r int, v fact) {
	if v.shared = regs[r].shared; v.shared {
		f.lose(v)
		v = fact{shared: true}
	}
	regs[r] = v
}

// forget makes registers anything.
func (f *flow) forget(regs []fact, from, to int) {
	for r := from; r < min(to, len(regs)); r++ {
		f.set(regs, r, fact{})
	}
}

// lose is called with what goes where it is not followed.
func (f *flow) lose(v fact) { f.lost = f.lost || v.followed() }

// rk is what is known of a register or a constant.
func (f *flow) rk(regs []fact, x int) fact {
	if x < constBit {
		return regs[x]
	}
	return f.constant(x - constBit)
}

func (f *flow) constant(k int) fact {
	if s, ok := f.p.k[k].o.(*str); ok {
		return fact{kind: factText, text: s.s}
	}
	return fact{}
}
