package lua

import (
	"strings"
	"sync/atomic"
)

// Sizes that the memory limit counts by; near enough to what Go allocates.
const (
	valueSize  = 24
	nodeSize   = 56
	tableSize  = 112
	strSize    = 48
	fnSize     = 64
	upvalSize  = 64
	frameSize  = 96
	threadSize = 256
	// The stack of Go: for one call of Lua nested through Go, and for one step of a
	// native that descends.
	callSize = 2 << 10
	goFrame  = 1 << 10
	// indexSize is what an entry of a table's index takes.
	indexSize = 80
)

// freeShare is how much memory a run may hold without reserving it.
const freeShare = 256 << 10

// memory is what one run holds, as it is counted.
type memory struct {
	mem      int // bytes alive at the last count, and those allocated since
	memNext  int // mem at which to count again
	memLimit int
	held     int      // bytes in buffers of natives that are running
	building []*table // tables that natives are filling
	roots    []value  // the functions of a [Library]
	texts    int      // bytes of their names and descriptions
	kept     int      // of a [Library]: bytes alive after the last recount
	shared   *shared  // nil: there are no other runs
	reserved int      // of shared
	refusals int
	epoch    uint32
}

// shared is what all runs of a Runtime may hold together.
type shared struct {
	used  atomic.Int64
	total int
	text  *str // the error of a run that would exceed total
}

// reserve makes want bytes the run's share, and reports whether so many are free. It gives
// back what the run no longer needs.
func (st *state) reserve(want int) bool {
	if st.shared == nil {
		return true
	}
	n := max(want-freeShare, 0) - st.reserved
	if st.lasts { // there may be many, for long
		n = want - st.reserved
	}
	for {
		used := st.shared.used.Load()
		if n > 0 && used+int64(n) > int64(st.shared.total) {
			return false
		}
		if st.shared.used.CompareAndSwap(used, used+int64(n)) {
			st.reserved += n
			return true
		}
	}
}

// release gives back what the run has reserved.
func (st *state) release() {
	if st.reserved > 0 {
		st.shared.used.Add(int64(-st.reserved))
		st.reserved = 0
	}
}

// Reserve makes n bytes that a [Host] keeps for its script a part of what all runs may hold
// together. It reports false, and does nothing, when they would hold too much. Release gives
// them back.
func (rt *Runtime) Reserve(n int) bool {
	if used := rt.shared.used.Add(int64(n)); used > int64(rt.shared.total) {
		rt.shared.used.Add(int64(-n))
		return false
	}
	return true
}

// Release gives back n bytes of what Reserve has reserved.
func (rt *Runtime) Release(n int) { rt.shared.used.Add(int64(-n)) }

// Held returns how many bytes all runs hold together, including reserved bytes, without the
// first 256 KiB of each run.
func (rt *Runtime) Held() int64 { return rt.shared.used.Load() }

// charge counts n bytes about to be allocated. It raises "not enough memory"
// when what is alive would pass the limit.
func (st *state) charge(n int) {
	if st.mem += n; st.mem > st.memNext {
		st.account(n)
	}
}

// hold counts n bytes of a buffer that a native is filling, which marking
// can't see. The native sets held back when it is done, protect when it fails.
func (st *state) hold(n int) {
	st.charge(n)
	st.held += n
}

// settle resets what natives hold to what it was before some of them began.
func (st *state) settle(held, building int) {
	st.held = held
	clear(st.building[building:])
	st.building = st.building[:building]
}

// room returns b with room for n more bytes. It counts the growth as held.
func (st *state) room(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	return st.regrow(b, n)
}

func (st *state) regrow(b []byte, n int) []byte {
	size := max(len(b)+n, 2*cap(b), 64)
	if cap(b) > 1<<20 {
		size = max(len(b)+n, cap(b)+cap(b)/4)
	}
	st.workBytes(len(b))
	st.hold(size)
	grown := append(make([]byte, 0, size), b...)
	if cap(b) > mostScratch { // else it may be scratch, which is not held
		st.held -= cap(b)
	}
	return grown
}

// account counts what is alive, to tell garbage from memory in use.
func (st *state) account(n int) {
	if n > st.memLimit {
		st.mem -= n
		st.outOfMemory(noMemory)
	}
	live := st.live() + st.held
	st.mem = live + n
	if st.mem > st.memLimit {
		st.mem = live
		st.outOfMemory(noMemory)
	}
	// Count again when as much as is alive has been allocated, or what is left,
	// at least after a sixteenth: the work stays proportionate.
	least := max(st.mem/16, 64<<10)
	next := st.mem + max(min(st.mem, st.memLimit-st.mem), st.memLimit/16, least)
	if !st.reserve(next) {
		if next = st.mem + least; !st.reserve(next) {
			st.mem = live
			st.outOfMemory(st.shared.text)
		}
	}
	st.memNext = next
}

// recount makes what a run of a state that lasts has left its share, so that garbage is not reserved for long.
func (st *state) recount() {
	spare := max(st.kept/2, 64<<10)
	if st.mem <= st.kept+spare && st.reserved <= st.kept+2*spare {
		return
	}
	st.kept = st.live()
	st.mem = st.kept
	st.memNext = max(st.kept, min(st.kept+max(st.kept/2, 64<<10), st.memLimit))
	st.reserve(st.memNext) // which is less than before, but for a little
}

var noMemory = constant("not enough memory")

func (st *state) outOfMemory(text *str) {
	if st.refusals++; st.refusals > 100 {
		st.abort(ErrMemory)
	}
	panic(&luaError{v: value{o: text}})
}

// closure makes a native that has values of its own.
func (st *state) closure(name string, fn native, ups ...value) value {
	st.charge(fnSize + valueSize*len(ups))
	return value{o: &goFn{name: name, fn: fn, ups: ups, id: st.newID()}}
}

// beginTable makes a table that counts while a decoder fills it, though no script can reach
// it yet. endTable ends that.
func (st *state) beginTable() *table {
	t := st.newTable(0, 0)
	st.building = append(st.building, t)
	return t
}

func (st *state) endTable() {
	last := len(st.building) - 1
	st.building[last] = nil
	st.building = st.building[:last]
}

// Strings.

func (st *state) str(s string) value {
	st.charge(strSize + len(s))
	return value{o: &str{s: s}}
}

func (st *state) bytes(b []byte) value {
	st.charge(strSize + len(b))
	st.workBytes(len(b))
	return value{o: &str{s: string(b)}}
}

// smallParent is the size of a string that a part of it may keep alive.
const smallParent = 64

// part makes a string of s, a part of parent. It copies s unless parent is small: without a
// copy s would keep all of parent alive.
func (st *state) part(parent, s string) value {
	if len(parent) <= smallParent || len(s) == len(parent) {
		return st.str(s)
	}
	return st.copied(s)
}

func (st *state) copied(s string) value {
	st.charge(strSize + len(s))
	st.workBytes(len(s))
	return value{o: &str{s: strings.Clone(s)}}
}

// live is the size of everything that the run can reach.
func (st *state) live() int {
	st.epoch++
	m := marker{st: st, epoch: st.epoch}
	m.thread(st.main)
	m.thread(st.cur)
	// Read-only tables lead to no other tables, except that globals lead to these two.
	m.table(&st.keys.t)
	m.table(&st.args.t)
	m.bytes += st.texts
	for i := range st.roots {
		m.value(&st.roots[i])
	}
	m.bytes += len(st.building) * goFrame
	for _, t := range st.building {
		m.table(t)
	}
	m.value(&st.reply.v)
	for i := range st.reply.open {
		a := &st.reply.open[i]
		m.table(a.t)
		m.value(&a.key)
	}
	m.bytes += cap(st.argBuf) + cap(st.argv)*valueSize
	for len(m.todo) > 0 {
		t := m.todo[len(m.todo)-1]
		m.todo = m.todo[:len(m.todo)-1]
		m.scan(t)
	}
	return m.bytes
}

// A marker walks reachable objects. Work is kept on a list, not on Go's
// stack, so that long chains are no danger.
type marker struct {
	st    *state
	epoch uint32
	bytes int
	todo  []any
}

func (m *marker) value(v *value) {
	switch x := v.o.(type) {
	case *str:
		if !x.shared && x.mark != m.epoch {
			x.mark = m.epoch
			m.bytes += strSize + len(x.s)
		}
	case *table:
		m.table(x)
	case *luaFn:
		if x.mark != m.epoch {
			x.mark = m.epoch
			m.bytes += fnSize + 8*len(x.ups)
			m.todo = append(m.todo, x)
		}
	case *goFn:
		if x.mark != m.epoch {
			x.mark = m.epoch
			m.bytes += fnSize + valueSize*len(x.ups)
			m.todo = append(m.todo, x)
		}
	case *thread:
		m.thread(x)
	}
}

func (m *marker) values(list []value) {
	for len(list) > 0 {
		n := min(len(list), stretch)
		m.st.workSlow(2 * n)
		for i := range n {
			m.value(&list[i])
		}
		list = list[n:]
	}
}

func (m *marker) table(t *table) {
	if t != nil && !t.readonly && t.mark != m.epoch {
		t.mark = m.epoch
		m.bytes += tableSize + cap(t.arr)*valueSize + len(t.nodes)*nodeSize + len(t.index)*indexSize
		m.todo = append(m.todo, t)
	}
}

func (m *marker) thread(l *thread) {
	if l.mark != m.epoch {
		l.mark = m.epoch
		m.bytes += threadSize + len(l.stack)*valueSize + l.frames*frameSize
		if l.resumed || l == m.st.main {
			m.bytes += l.ccalls * callSize
		}
		m.todo = append(m.todo, l)
	}
}

func (m *marker) upval(u *upval) {
	if u.mark != m.epoch {
		u.mark = m.epoch
		m.bytes += upvalSize
		m.value(u.v)
		if u.owner != nil {
			m.thread(u.owner) // whose stack it keeps alive
		}
	}
}

func (m *marker) scan(o any) {
	m.st.work(1)
	switch x := o.(type) {
	case *table:
		m.table(x.meta)
		m.values(x.arr)
		for nodes := x.nodes; len(nodes) > 0; {
			n := min(len(nodes), stretch)
			m.st.workSlow(4 * n)
			for i := range n {
				m.value(&nodes[i].key)
				m.value(&nodes[i].val)
			}
			nodes = nodes[n:]
		}
	case *luaFn:
		if c := x.p.loaded; c != nil && c.mark != m.epoch {
			c.mark = m.epoch
			m.bytes += c.size
		}
		for _, u := range x.ups {
			m.upval(u)
		}
	case *goFn:
		m.values(x.ups)
	case *thread:
		// Values above the frame's top are left over from earlier calls, and so are the
		// frames that follow. They are cleared, so that they keep nothing alive. Natives'
		// own values are below top.
		top := min(max(x.top, x.ci.top), len(x.stack))
		m.values(x.stack[:top])
		clear(x.stack[top:])
		for f := x.ci.next; f != nil && (f.cl != nil || f.nat != nil); f = f.next {
			f.cl, f.nat = nil, nil
		}
		for u := x.open; u != nil; u = u.next {
			m.upval(u)
		}
	}
}
