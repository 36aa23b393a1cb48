package engine

// An expiryHeap holds the items of one database of one shard that have a time
// to live, the earliest first.
type expiryHeap []*item

func (h expiryHeap) less(i, j int) bool { return h[i].val.expire < h[j].val.expire }

func (h expiryHeap) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].aux, h[j].aux = int32(i), int32(j)
}

func (h expiryHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(i, parent) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h expiryHeap) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h.less(child+1, child) {
			child++
		}
		if !h.less(child, i) {
			return
		}
		h.swap(i, child)
		i = child
	}
}

// set gives it a deadline in Unix ms, or takes it away with 0.
func (h *expiryHeap) set(it *item, at int64) {
	switch {
	case at == 0 && it.aux < 0:
		it.val.expire = 0
	case at == 0:
		h.drop(it)
	case it.aux < 0:
		it.val.expire = at
		it.aux = int32(len(*h))
		*h = append(*h, it)
		h.up(len(*h) - 1)
	default:
		it.val.expire = at
		h.up(int(it.aux))
		h.down(int(it.aux))
	}
}

func (h *expiryHeap) drop(it *item) {
	it.val.expire = 0
	if it.aux < 0 {
		return
	}
	i, last := int(it.aux), len(*h)-1
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	it.aux = -1
	if i < last {
		h.up(i)
		h.down(i)
	}
}
