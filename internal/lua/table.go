package lua

import (
	"math"
	"math/bits"
	"slices"
)

// A table has an array part for keys 1..len(arr) and a hash part, chained
// within one slice of a power of two. Sizes, growth and collisions follow
// Lua 5.1 exactly, because scripts see them: in the order of pairs, in the
// border that # finds, and so in the bytes of cjson and cmsgpack.
type table struct {
	arr      []value
	nodes    []node
	index    map[any]int32 // where each key is in nodes, once a chain was long
	meta     *table
	lastFree int32
	absent   uint8 // metamethods known to be missing from this table as a metatable
	readonly bool
	long     bool // a chain is long: the next key that is added makes the index
	id       uint32
	mark     uint32
}

type node struct {
	key, val value
	next     int32 // index+1 of the next node of the chain, 0 at its end
	prev     int32 // index+1 of the one before, 0 at its beginning
}

const maxBits = 26

// longKey is the length beyond which looking for a string counts as work: it is hashed, and
// compared with the key that is equal.
const longKey = 128

// slotFor is the main position of a key.
func (t *table) slotFor(k *value) int {
	switch x := k.o.(type) {
	case *str:
		return int(x.hash()) & (len(t.nodes) - 1)
	case number:
		return t.slotNum(k.n)
	case truth:
		return 1 & (len(t.nodes) - 1)
	case lie:
		return 0
	case *table:
		return t.slotMod(x.id)
	case *luaFn:
		return t.slotMod(x.id)
	case *goFn:
		return t.slotMod(x.id)
	case *thread:
		return t.slotMod(x.id)
	}
	return 0
}

func (t *table) slotMod(h uint32) int {
	return int(h % uint32((len(t.nodes)-1)|1))
}

func (t *table) slotNum(n float64) int {
	if n == 0 {
		return 0
	}
	b := math.Float64bits(n)
	return t.slotMod(uint32(b) + uint32(b>>32))
}

func (t *table) getStr(s *str) *value {
	if len(t.nodes) == 0 {
		return nil
	}
	nd := &t.nodes[int(s.hash())&(len(t.nodes)-1)]
	if x, ok := nd.key.o.(*str); ok && x == s {
		return &nd.val
	}
	return t.getStrIn(nd, s)
}

// getStrIn goes over the chain that begins with nd.
func (t *table) getStrIn(nd *node, s *str) *value {
	for range longChain {
		if x, ok := nd.key.o.(*str); ok && (x == s || x.s == s.s) {
			return &nd.val
		}
		if nd.next == 0 {
			return nil
		}
		nd = &t.nodes[nd.next-1]
	}
	return t.far(&value{o: s})
}

func (t *table) getNum(n float64) *value {
	if len(t.nodes) == 0 {
		return nil
	}
	nd := &t.nodes[t.slotNum(n)]
	for left := longChain; ; left-- {
		if nd.key.n == n && nd.key.isNum() {
			return &nd.val
		}
		if nd.next == 0 {
			return nil
		}
		if left == 0 {
			k := num(n)
			return t.far(&k)
		}
		nd = &t.nodes[nd.next-1]
	}
}

func (t *table) getInt(i int) *value {
	if uint(i-1) < uint(len(t.arr)) {
		return &t.arr[i-1]
	}
	return t.getNum(float64(i))
}

// find returns the slot of a key, nil when there is none. A key that was
// removed may still have a slot, which holds nil.
func (t *table) find(k *value) *value {
	switch x := k.o.(type) {
	case *str:
		return t.getStr(x)
	case number:
		if i := int(int32(toInt64(k.n))); float64(i) == k.n && uint(i-1) < uint(len(t.arr)) {
			return &t.arr[i-1]
		}
		return t.getNum(k.n)
	case nil:
		return nil
	}
	if len(t.nodes) == 0 {
		return nil
	}
	nd := &t.nodes[t.slotFor(k)]
	for range longChain {
		if rawEqual(&nd.key, k) {
			return &nd.val
		}
		if nd.next == 0 {
			return nil
		}
		nd = &t.nodes[nd.next-1]
	}
	return t.far(k)
}

func (t *table) get(k value) value {
	if p := t.find(&k); p != nil {
		return *p
	}
	return vNil
}

func (t *table) field(s *str) value {
	if p := t.getStr(s); p != nil {
		return *p
	}
	return vNil
}

// slot returns where the value of k is kept, making room for it.
// k is neither nil nor NaN.
func (t *table) slot(st *state, k value) *value {
	t.absent = 0
	if p := t.find(&k); p != nil {
		return p
	}
	return t.insert(st, k)
}

// insert adds a key that is not there.
func (t *table) insert(st *state, k value) *value {
	if t.long && t.index == nil {
		st.charge(indexSize * len(t.nodes))
		t.makeIndex(st)
	}
	return t.place(st, k)
}

// refill is slot for a resize, which must not fail half way: what the index takes is
// counted late.
func (t *table) refill(st *state, k value) *value {
	if p := t.find(&k); p != nil {
		return p
	}
	if t.long && t.index == nil {
		t.makeIndex(st)
		st.mem += indexSize * len(t.index)
	}
	return t.place(st, k)
}

func (t *table) slotInt(st *state, i int) *value {
	if uint(i-1) < uint(len(t.arr)) {
		return &t.arr[i-1]
	}
	return t.slot(st, num(float64(i)))
}

func (t *table) setField(st *state, name string, v value) {
	*t.slot(st, value{o: libName(name)}) = v
}

// place puts a key in a slot. When its main position is taken by a key that does not
// belong there, that key moves; else the new one does.
func (t *table) place(st *state, k value) *value {
	if len(t.nodes) == 0 {
		t.rehash(st, k)
		return t.slot(st, k)
	}
	mp := t.slotFor(&k)
	if t.nodes[mp].val.o != nil {
		free := t.freeSlot()
		if free < 0 {
			t.rehash(st, k)
			return t.slot(st, k)
		}
		other := t.slotFor(&t.nodes[mp].key)
		if other != mp {
			moved := &t.nodes[free]
			*moved = t.nodes[mp]
			t.nodes[moved.prev-1].next = int32(free + 1)
			if moved.next != 0 {
				t.nodes[moved.next-1].prev = int32(free + 1)
			}
			if t.index != nil {
				t.index[indexKey(&moved.key)] = int32(free)
			}
			t.nodes[mp] = node{}
		} else {
			after := t.nodes[mp].next
			t.nodes[free].next, t.nodes[free].prev = after, int32(mp+1)
			if after != 0 {
				t.nodes[after-1].prev = int32(free + 1)
			}
			t.nodes[mp].next = int32(free + 1)
			mp = free
		}
	}
	if t.index != nil {
		st.mem += indexSize // counted late: a resize must not fail half way
		if old := &t.nodes[mp].key; old.o != nil {
			delete(t.index, indexKey(old))
		}
		t.index[indexKey(&k)] = int32(mp)
	}
	t.nodes[mp].key = k
	return &t.nodes[mp].val
}

func (t *table) freeSlot() int {
	for t.lastFree > 0 {
		t.lastFree--
		if t.nodes[t.lastFree].key.o == nil {
			return int(t.lastFree)
		}
	}
	return -1
}

// arrayKey is k as a candidate for the array part, else 0.
func arrayKey(k *value) int {
	if k.isNum() {
		if i := int(int32(toInt64(k.n))); float64(i) == k.n && i >= 1 && i <= 1<<maxBits {
			return i
		}
	}
	return 0
}

func ceilLog2(x int) int {
	if x <= 1 {
		return 0
	}
	return bits.Len(uint(x - 1))
}

// rehash chooses new sizes for a table that has no room for k: the largest
// array that is more than half full, and a hash part for the rest.
func (t *table) rehash(st *state, k value) {
	st.workSlow(len(t.arr) + 4*len(t.nodes))
	var nums [maxBits + 1]int // nums[i]: keys in (2^(i-1), 2^i]
	inArray, total := 0, 0
	for i := range t.arr {
		if t.arr[i].o != nil {
			nums[ceilLog2(i+1)]++
			inArray++
		}
	}
	total = inArray
	for i := range t.nodes {
		if t.nodes[i].val.o != nil {
			if j := arrayKey(&t.nodes[i].key); j > 0 {
				nums[ceilLog2(j)]++
				inArray++
			}
			total++
		}
	}
	if j := arrayKey(&k); j > 0 {
		nums[ceilLog2(j)]++
		inArray++
	}
	total++
	size, used, sum := 0, 0, 0
	for i, p := 0, 1; i <= maxBits && p/2 < inArray; i, p = i+1, p*2 {
		if nums[i] > 0 {
			sum += nums[i]
			if sum > p/2 {
				size, used = p, sum
			}
		}
		if sum == inArray {
			break
		}
	}
	t.resize(st, size, total-used)
}

// resize moves every pair to parts of the given sizes.
func (t *table) resize(st *state, narr, nhash int) {
	oldArr, oldNodes := t.arr, t.nodes
	lg := ceilLog2(nhash)
	if lg > maxBits {
		st.fail("table overflow")
	}
	grow := 0
	if narr > len(oldArr) {
		grow += (narr - len(oldArr)) * valueSize
	}
	if nhash > 0 {
		grow += nodeSize << lg
	}
	if t.index != nil {
		grow += indexSize * nhash // it is likely to be needed again
	}
	st.charge(grow)
	st.workBytes(valueSize * narr)
	st.keepWhole()
	if narr != len(oldArr) {
		t.arr = make([]value, narr)
		copy(t.arr, oldArr)
	}
	t.nodes, t.index, t.long, t.lastFree = nil, nil, false, 0
	if nhash > 0 {
		t.nodes = make([]node, 1<<lg)
		t.lastFree = int32(1) << lg
	}
	for i := narr; i < len(oldArr); i++ {
		if i%stretch == stretch-1 {
			st.work(stretch)
		}
		if oldArr[i].o != nil {
			*t.refill(st, num(float64(i+1))) = oldArr[i]
		}
	}
	for i, oldNode := range slices.Backward(oldNodes) {
		if i%stretch == stretch-1 {
			st.work(stretch)
		}
		if oldNode.val.o != nil {
			*t.refill(st, oldNode.key) = oldNode.val
		}
	}
	st.mayEnd()
}

// length finds a border: an i with t[i] and not t[i+1].
func (t *table) length(st *state) int {
	j := len(t.arr)
	if j > 0 && t.arr[j-1].o == nil {
		i := 0
		for j-i > 1 {
			m := (i + j) / 2
			if t.arr[m-1].o == nil {
				j = m
			} else {
				i = m
			}
		}
		return i
	}
	if len(t.nodes) == 0 {
		return j
	}
	has := func(i int) bool { p := t.getInt(i); return p != nil && p.o != nil }
	i := j
	j++
	for has(j) {
		i = j
		j *= 2
		if j > math.MaxInt32-2 {
			i = 1
			for has(i) {
				st.work(1)
				i++
			}
			return i - 1
		}
	}
	for j-i > 1 {
		m := (i + j) / 2
		if has(m) {
			i = m
		} else {
			j = m
		}
	}
	return i
}

// next returns the pair after key k, or ok = false at the end.
// found is false for a key that is not in the table.
func (t *table) next(st *state, k *value) (key, val value, ok, found bool) {
	i := 0
	if k.o != nil {
		i = t.position(k)
		if i < 0 {
			return vNil, vNil, false, false
		}
	}
	for from := i; i < len(t.arr); i++ {
		if t.arr[i].o != nil {
			st.workSlow(i - from)
			return num(float64(i + 1)), t.arr[i], true, true
		}
		if i-from == stretch {
			st.workSlow(i - from)
			from = i
		}
	}
	i -= len(t.arr)
	for from := i; i < len(t.nodes); i++ {
		if t.nodes[i].val.o != nil {
			st.workSlow(i - from)
			return t.nodes[i].key, t.nodes[i].val, true, true
		}
		if i-from == stretch {
			st.workSlow(2 * stretch)
			from = i
		}
	}
	st.workSlow(min(len(t.arr)+len(t.nodes), stretch))
	return vNil, vNil, false, true
}

// position is the index after that of k in the order of traversal.
func (t *table) position(k *value) int {
	if i := arrayKey(k); i > 0 && i <= len(t.arr) {
		return i
	}
	if len(t.nodes) == 0 {
		return -1
	}
	i := t.slotFor(k)
	for range longChain {
		if rawEqual(&t.nodes[i].key, k) {
			return len(t.arr) + i + 1
		}
		if t.nodes[i].next == 0 {
			return -1
		}
		i = int(t.nodes[i].next - 1)
	}
	if i = t.farIndex(k); i < 0 {
		return -1
	}
	return len(t.arr) + i + 1
}
