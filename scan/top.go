package scan

import (
	"cmp"
	"container/heap"
	"slices"
)

// A top keeps the n biggest keys that it is given, in a heap with the smallest on top.
type top struct {
	n    int
	keys []Key
	size func(Key) int64
}

func (t *top) Len() int           { return len(t.keys) }
func (t *top) Less(i, j int) bool { return t.size(t.keys[i]) < t.size(t.keys[j]) }
func (t *top) Swap(i, j int)      { t.keys[i], t.keys[j] = t.keys[j], t.keys[i] }
func (t *top) Push(x any)         { t.keys = append(t.keys, x.(Key)) }
func (t *top) Pop() any {
	last := t.keys[len(t.keys)-1]
	t.keys = t.keys[:len(t.keys)-1]
	return last
}

func (t *top) add(k Key) {
	switch {
	case len(t.keys) < t.n:
		heap.Push(t, k)
	case t.size(k) > t.size(t.keys[0]):
		t.keys[0] = k
		heap.Fix(t, 0)
	}
}

// sorted returns the keys, the biggest first.
func (t *top) sorted() []Key {
	list := slices.Clone(t.keys)
	slices.SortFunc(list, func(a, b Key) int {
		return cmp.Or(cmp.Compare(t.size(b), t.size(a)), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// heavy finds the heaviest of many prefixes in bounded memory: Metwally, Agrawal, El Abbadi: Efficient
// Computation of Frequent and Top-k Elements in Data Streams, 2005. When there is no room, a new prefix
// replaces the lightest one and takes over its weight, which is its greatest error.
type heavy struct {
	n     int
	items map[string]*Prefix
	order lightest
}

// lightest is a heap of the prefixes, by weight.
type lightest struct {
	list  []*Prefix
	place map[*Prefix]int
}

func (l *lightest) Len() int           { return len(l.list) }
func (l *lightest) Less(i, j int) bool { return l.list[i].Weight < l.list[j].Weight }
func (l *lightest) Swap(i, j int) {
	l.list[i], l.list[j] = l.list[j], l.list[i]
	l.place[l.list[i]], l.place[l.list[j]] = i, j
}

func (l *lightest) Push(x any) {
	l.place[x.(*Prefix)] = len(l.list)
	l.list = append(l.list, x.(*Prefix))
}

func (l *lightest) Pop() any {
	last := l.list[len(l.list)-1]
	l.list = l.list[:len(l.list)-1]
	delete(l.place, last)
	return last
}

func newHeavy(n int) *heavy {
	return &heavy{n: n, items: map[string]*Prefix{}, order: lightest{place: map[*Prefix]int{}}}
}

func (h *heavy) add(name string, weight int64) {
	if p := h.items[name]; p != nil {
		p.Keys++
		p.Weight += weight
		heap.Fix(&h.order, h.order.place[p])
		return
	}
	p := &Prefix{Name: name, Keys: 1, Weight: weight}
	if len(h.items) >= h.n {
		least := heap.Pop(&h.order).(*Prefix)
		delete(h.items, least.Name)
		p.MaxError = least.Weight
		p.Weight += least.Weight
	}
	h.items[name] = p
	heap.Push(&h.order, p)
}

// first returns the n heaviest, the heaviest first.
func (h *heavy) first(n int) []Prefix {
	list := make([]Prefix, 0, len(h.items))
	for _, p := range h.items {
		list = append(list, *p)
	}
	slices.SortFunc(list, func(a, b Prefix) int { return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Name, b.Name)) })
	return list[:min(n, len(list))]
}
