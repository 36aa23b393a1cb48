package stream

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"unsafe"

	"github.com/redoubt-go/redoubt/internal/sizeclass"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

type modelEntry struct {
	id    ID
	pairs []string
}

type modelPending struct {
	consumer string
	time     int64
	count    uint64
}

type modelGroup struct {
	consumers map[string]bool
	pending   map[ID]modelPending
}

// A run does what a string of bytes says to a stream and to a model of slices and maps.
type run struct {
	t      testing.TB
	s      *Stream
	limits Limits
	in     []byte

	entries []modelEntry
	last    ID
	deleted ID
	added   uint64
	groups  map[string]*modelGroup
}

func newRun(t testing.TB, in []byte) *run {
	r := &run{t: t, s: New(), in: in, groups: map[string]*modelGroup{}}
	r.limits = Limits{Bytes: []int{4096, 100, 0, 300}[r.pick(4)], Entries: []int{100, 3, 0, 10}[r.pick(4)]}
	return r
}

func (r *run) pick(n int) int {
	if len(r.in) == 0 {
		return 0
	}
	b := r.in[0]
	r.in = r.in[1:]
	return int(b) % n
}

func (r *run) text() string {
	switch r.pick(4) {
	case 0:
		return []string{"", "0", "-0", "007", "127", "128", "-1", "4095", "4096", "-4096", "-4097", "32767", "32768", "8388608", "-8388609",
			"2147483648", "-2147483649", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "18446744073709551616", "-"}[r.pick(22)]
	case 1:
		return strings.Repeat("v", []int{1, 63, 64, 130, 4095, 4096}[r.pick(6)])
	}
	return fmt.Sprint(r.pick(256))
}

func (r *run) id() ID {
	if len(r.entries) > 0 && r.pick(4) > 0 {
		return r.entries[(r.pick(256)*256+r.pick(256))%len(r.entries)].id
	}
	return ID{uint64(r.pick(8)), uint64(r.pick(200))}
}

func (r *run) add() {
	id, _ := r.s.NextID(0)
	switch r.pick(8) {
	case 0:
		id.MS += uint64(r.pick(200))
	case 1:
		id.Seq += uint64(r.pick(200))
	}
	n := 1 + r.pick(3)
	var pairs []string
	for i := range n {
		name := fmt.Sprint("f", i)
		if r.pick(8) == 0 {
			name = r.text()
		}
		pairs = append(pairs, name, r.text())
	}
	if !r.s.Add(r.limits, id, bytesOf(pairs)) {
		r.t.Fatalf("%v was not added", id)
	}
	r.entries = append(r.entries, modelEntry{id, pairs})
	r.last = id
	r.added++
}

func bytesOf(all []string) (out [][]byte) {
	for _, s := range all {
		out = append(out, []byte(s))
	}
	return out
}

func (r *run) find(id ID) (int, bool) {
	return slices.BinarySearchFunc(r.entries, id, func(e modelEntry, id ID) int { return e.id.Compare(id) })
}

func (r *run) step() {
	switch op := r.pick(32); {
	case op < 12:
		r.add()
	case op < 16:
		id := r.id()
		at, there := r.find(id)
		if r.s.Delete(id) != there {
			r.t.Fatalf("Delete of %v says %v", id, !there)
		}
		if there {
			r.entries = slices.Delete(r.entries, at, at+1)
			if r.deleted.Less(id) {
				r.deleted = id
			}
		}
	case op == 16:
		r.trim()
	case op < 20:
		r.ranges()
	case op == 20:
		r.s = r.s.Clone(func(int) {})
	case op == 21:
		r.reload()
	default:
		r.group()
	}
	r.compare()
}

func (r *run) trim() {
	t := Trimming{Approx: r.pick(2) == 0, ByID: r.pick(2) == 0}
	keep := len(r.entries)
	if t.ByID {
		t.MinID = r.id()
		at, _ := r.find(t.MinID)
		keep -= at
	} else {
		t.MaxLen = uint64(r.pick(256)) * uint64(r.pick(3))
		keep = min(keep, int(t.MaxLen))
	}
	if t.Approx && r.pick(2) == 0 {
		t.Limit = int64(r.pick(256))
	}
	n := int(r.s.Trim(t))
	switch {
	case !t.Approx && n != len(r.entries)-keep:
		r.t.Fatalf("Trim %+v of %d entries removes %d, want %d", t, len(r.entries), n, len(r.entries)-keep)
	case n > len(r.entries)-keep || t.Limit > 0 && n > int(t.Limit):
		r.t.Fatalf("Trim %+v of %d entries removes %d", t, len(r.entries), n)
	}
	r.entries = slices.Clone(r.entries[n:])
}

func (r *run) ranges() {
	from, to := r.id(), r.id()
	if r.pick(4) == 0 {
		from, to = ID{}, Largest
	}
	var want []modelEntry
	for _, e := range r.entries {
		if !e.id.Less(from) && !to.Less(e.id) {
			want = append(want, e)
		}
	}
	r.same(r.s.Range(from, to), want, r.pick(2) == 0)
	slices.Reverse(want)
	r.same(r.s.RangeBack(from, to), want, r.pick(2) == 0)
}

// same compares what a cursor gives. Without pairs it looks at some of them only.
func (r *run) same(c *Cursor, want []modelEntry, pairs bool) {
	r.t.Helper()
	for _, e := range want {
		if !c.Next() || c.ID() != e.id || c.Pairs() != len(e.pairs)/2 {
			r.t.Fatalf("the cursor is at %v with %d pairs, want %v with %q", c.ID(), c.Pairs(), e.id, e.pairs)
		}
		n := c.Pairs()
		if !pairs {
			n /= 2
		}
		for i := range n {
			if f, v := c.Pair(); string(f) != e.pairs[2*i] || string(v) != e.pairs[2*i+1] {
				r.t.Fatalf("%v has %q %q, want %q", e.id, f, v, e.pairs)
			}
		}
	}
	if c.Next() || c.Next() { //nolint:staticcheck // also the second time
		r.t.Fatalf("the cursor goes on to %v", c.ID())
	}
}

// reload makes the stream anew of its nodes.
func (r *run) reload() {
	s := New()
	r.s.EachNode(func(id ID, pack []byte) bool {
		if !s.AddNode(id, pack, nil) {
			r.t.Fatalf("node %v is refused: %q", id, pack)
		}
		return true
	})
	s.SetID(r.s.LastID(), r.s.EntriesAdded(), r.s.MaxDeletedID())
	r.s.EachGroup(func(g *Group) bool { g.clone(s, nil, nil); return true })
	if !s.Alike(r.s) {
		r.t.Fatal("the stream differs when made anew")
	}
	r.s = s
}

func (r *run) group() {
	name := fmt.Sprint("g", r.pick(3))
	m := r.groups[name]
	g := r.s.Group([]byte(name))
	if (m == nil) != (g == nil) {
		r.t.Fatalf("group %s is %v", name, g)
	}
	if g == nil {
		if r.s.AddGroup([]byte(name), ID{}, Unknown) == nil || r.s.AddGroup([]byte(name), ID{}, 0) != nil {
			r.t.Fatal("a group can't be made, or twice")
		}
		r.groups[name] = &modelGroup{map[string]bool{}, map[ID]modelPending{}}
		return
	}
	who := fmt.Sprint("c", r.pick(5))
	c := g.Consumer([]byte(who))
	if (c != nil) != m.consumers[who] {
		r.t.Fatalf("consumer %s is %v", who, c)
	}
	if c == nil {
		if c = g.AddConsumer([]byte(who), 5); c == nil || g.AddConsumer([]byte(who), 5) != nil {
			r.t.Fatal("a consumer can't be made, or twice")
		}
		m.consumers[who] = true
	}
	switch op := r.pick(128); {
	case op == 0:
		r.s.RemoveGroup([]byte(name))
		delete(r.groups, name)
	case op < 4:
		n := 0
		for id, p := range m.pending {
			if p.consumer == who {
				delete(m.pending, id)
				n++
			}
		}
		if got := g.RemoveConsumer(c); got != n {
			r.t.Fatalf("consumer %s had %d, want %d", who, got, n)
		}
		delete(m.consumers, who)
	case op < 90:
		for range 1 + r.pick(40) {
			p := Pending{ID: ID{uint64(r.pick(4)), uint64(r.pick(256))}, Consumer: c, Time: int64(r.pick(9)), Count: uint64(r.pick(9))}
			g.Put(p)
			m.pending[p.ID] = modelPending{who, p.Time, p.Count}
		}
	default:
		for range 1 + r.pick(60) {
			id := ID{uint64(r.pick(4)), uint64(r.pick(256))}
			_, there := m.pending[id]
			if g.Remove(id) != there {
				r.t.Fatalf("pending %v is %v", id, !there)
			}
			delete(m.pending, id)
		}
	}
}

func (r *run) compare() {
	r.t.Helper()
	first := ID{}
	if len(r.entries) > 0 {
		first = r.entries[0].id
	}
	top, ok := r.s.TopID()
	if r.s.Len() != len(r.entries) || r.s.LastID() != r.last || r.s.MaxDeletedID() != r.deleted || r.s.EntriesAdded() != r.added ||
		r.s.FirstID() != first || ok != (len(r.entries) > 0) || ok && top != r.entries[len(r.entries)-1].id {
		r.t.Fatalf("%d entries, last %v, top %v, first %v, want %d, %v, first %v", r.s.Len(), r.s.LastID(), top, r.s.FirstID(), len(r.entries), r.last, first)
	}
	for name, m := range r.groups {
		r.compareGroup(r.s.Group([]byte(name)), m)
	}
	if r.s.Groups() != len(r.groups) {
		r.t.Fatalf("%d groups, want %d", r.s.Groups(), len(r.groups))
	}
	if want := r.s.measured(); r.s.Bytes() != want {
		r.t.Fatalf("it takes %d bytes by its own count, %d by another", r.s.Bytes(), want)
	}
}

func (r *run) compareGroup(g *Group, m *modelGroup) {
	r.t.Helper()
	ids := make([]ID, 0, len(m.pending))
	for id := range m.pending {
		ids = append(ids, id)
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i].Less(ids[j]) })
	i := 0
	check := func(p Pending) bool {
		if i >= len(ids) || p.ID != ids[i] || (modelPending{p.Consumer.Name(), p.Time, p.Count}) != m.pending[p.ID] {
			r.t.Fatalf("pending entry %d of %d is %+v of %s", i, len(ids), p, p.Consumer.Name())
		}
		i++
		return true
	}
	g.EachPending(ID{}, Largest, check)
	if i != len(ids) || g.Pending() != len(ids) || g.Consumers() != len(m.consumers) {
		r.t.Fatalf("%d pending, %d by its own count, want %d", i, g.Pending(), len(ids))
	}
	from := ID{uint64(r.pick(4)), uint64(r.pick(256))}
	i = sort.Search(len(ids), func(i int) bool { return !ids[i].Less(from) })
	g.EachPending(from, Largest, check)
	if p, ok := g.FirstPending(); ok != (len(ids) > 0) || ok && p.ID != ids[0] {
		r.t.Fatalf("the first pending is %v, %v", p.ID, ok)
	}
	names, sum := []string{}, 0
	g.EachConsumer(func(c *Consumer) bool {
		names = append(names, c.Name())
		n := 0
		c.EachPending(ID{}, Largest, func(p Pending) bool {
			if m.pending[p.ID].consumer != c.Name() || p.Consumer != c {
				r.t.Fatalf("%v is pending for %s", p.ID, c.Name())
			}
			n++
			return true
		})
		if n != c.Pending() {
			r.t.Fatalf("%d pending of %s, %d by its own count", n, c.Name(), c.Pending())
		}
		sum += n
		return m.consumers[c.Name()]
	})
	if !sort.StringsAreSorted(names) || len(names) != len(m.consumers) || sum != len(ids) {
		r.t.Fatalf("consumers %q have %d pending, want %d", names, sum, len(ids))
	}
}

// measured is the size by a walk.
func (s *Stream) measured() int64 {
	n := int64(unsafe.Sizeof(*s)) + s.nodes.bytes()
	each(&s.nodes, place{}, func(m node) bool { n += sizeclass.Of(cap(m.pack)); return true })
	if s.groups == nil {
		return n
	}
	n += int64(unsafe.Sizeof(*s.groups)) + s.groups.byName.bytes()
	s.EachGroup(func(g *Group) bool {
		n += g.fixedBytes() + g.pending.bytes() + g.consumers.bytes()
		g.EachConsumer(func(c *Consumer) bool { n += c.fixedBytes() + c.pending.bytes(); return true })
		return true
	})
	return n
}

// TestAgainstModel does random changes to a stream and to a model.
func TestAgainstModel(t *testing.T) {
	rnd := randtest.Rand(t)
	steps := randtest.Watch(t)
	for i := range 20 {
		steps.Begin(func() string { return fmt.Sprint("stream ", i) })
		in := make([]byte, 8000)
		for j := range in {
			in[j] = byte(rnd.Uint32())
		}
		r := newRun(t, in)
		for len(r.in) > 0 {
			r.step()
		}
		steps.End()
	}
}

func FuzzStream(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	f.Add(bytes.Repeat([]byte{1, 200, 3, 16}, 40))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := newRun(t, in[:min(len(in), 2000)])
		for len(r.in) > 0 {
			r.step()
		}
	})
}

// FuzzNode wants a listpack that AddNode takes to work in any order of uses.
func FuzzNode(f *testing.F) {
	s := New()
	for i := range 9 {
		s.Add(DefaultLimits, ID{7, uint64(i + 1)}, bytesOf([]string{"a", fmt.Sprint(i * 1000), strings.Repeat("b", i*20), "c"}))
	}
	s.Delete(ID{7, 4})
	s.EachNode(func(_ ID, pack []byte) bool { f.Add(pack[headBytes : len(pack)-1]); return true })
	f.Fuzz(func(t *testing.T, elements []byte) {
		id := ID{7, 1}
		pack := finish(append([]byte{0, 0, 0, 0, 0xff, 0xff}, elements...), 0)
		s := New()
		if !s.AddNode(id, pack, nil) {
			return
		}
		top, ok := s.TopID()
		if !ok {
			top = id
		}
		s.SetID(ID{1 << 63, 0}, uint64(s.Len()), ID{})
		var ids []ID
		for c := s.Range(ID{}, Largest); c.Next(); {
			ids = append(ids, c.ID())
			for range c.Pairs() {
				c.Pair()
			}
		}
		n := 0
		for c := s.RangeBack(ID{}, Largest); c.Next(); n++ {
			if c.ID() != ids[len(ids)-1-n] {
				t.Fatalf("back %v, forward %v", c.ID(), ids)
			}
			for range c.Pairs() {
				c.Pair()
			}
		}
		if n != len(ids) || n != s.Len() || n > 0 && ids[n-1] != top {
			t.Fatalf("%d forward, %d back, %d in all", len(ids), n, s.Len())
		}
		c := s.Clone(nil)
		c.Trim(Trimming{MaxLen: uint64(n / 2)})
		if s.Add(DefaultLimits, ID{1 << 63, 1}, bytesOf([]string{"x", "y"})); s.Len() != n+1 {
			t.Fatal("not added")
		}
		for _, id := range ids {
			if !s.Delete(id) {
				t.Fatalf("%v is not there", id)
			}
		}
		if s.Bytes() != s.measured() || c.Bytes() != c.measured() {
			t.Fatal("the size is wrong")
		}
	})
}
