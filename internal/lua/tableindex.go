package lua

// longChain is how many nodes of a chain a lookup goes over. A script can easily make keys
// that collide, and every key must be where C Lua has it. So an index beside the nodes
// finds what lies farther.
const longChain = 64

func (t *table) far(k *value) *value {
	if i := t.farIndex(k); i >= 0 {
		return &t.nodes[i].val
	}
	return nil
}

// farIndex finds k in a long chain. Before there is an index, no chain is much longer than
// longChain, because whoever adds a key makes the index first.
func (t *table) farIndex(k *value) int {
	if t.index != nil {
		if i, ok := t.index[indexKey(k)]; ok {
			return int(i)
		}
		return -1
	}
	t.long = true
	for i := t.slotFor(k); ; {
		nd := &t.nodes[i]
		if rawEqual(&nd.key, k) {
			return i
		}
		if nd.next == 0 {
			return -1
		}
		i = int(nd.next - 1)
	}
}

// stepsToIndex is what it takes to add one key to an index.
const stepsToIndex = 16

// makeIndex is stopped like any other work. It sets the index only when that is whole.
func (t *table) makeIndex(st *state) {
	index := map[any]int32{} // without a size: room for all keys would be cleared at once
	for i := range t.nodes {
		if i%stretch == 0 {
			st.work(stepsToIndex * min(stretch, len(t.nodes)-i))
		}
		if key := &t.nodes[i].key; key.o != nil {
			index[indexKey(key)] = int32(i)
		}
	}
	t.index = index
}

// indexKey returns a key that Go's maps compare as Lua compares k.
func indexKey(k *value) any {
	switch x := k.o.(type) {
	case number:
		return k.n
	case *str:
		return x.s
	}
	return k.o
}
