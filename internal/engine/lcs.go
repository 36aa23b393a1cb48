package engine

// cmdLcs finds the longest common subsequence of two strings by dynamic
// programming.
func cmdLcs(c *call) {
	x, y := c.read(c.args[1]), c.read(c.args[2])
	if x != nil && x.val.kind() != kindString || y != nil && y.val.kind() != kindString {
		c.err("ERR The specified keys must contain string values")
		return
	}
	var onlyLen, idx, withLen bool
	var least int64
	for i := 3; i < len(c.args); i++ {
		switch a := c.args[i]; {
		case is(a, "idx"):
			idx = true
		case is(a, "len"):
			onlyLen = true
		case is(a, "withmatchlen"):
			withLen = true
		case is(a, "minmatchlen") && i+1 < len(c.args):
			i++
			n, ok := c.argInt(c.args[i])
			if !ok {
				return
			}
			least = max(n, 0)
		default:
			c.syntax()
			return
		}
	}
	if idx && onlyLen {
		c.err("ERR If you want both the length and indexes, please just use IDX.")
		return
	}
	var a, b []byte
	if x != nil {
		a = x.val.bytes()
	}
	if y != nil {
		b = y.val.bytes()
	}
	if uint64(len(a)+1)*uint64(len(b)+1) > maxString/4 {
		c.err("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len")
		return
	}
	if !c.noBlock {
		a, b = clone(a), clone(b)
	}
	c.unlocked(func() { c.lcs(a, b, onlyLen, idx, withLen, least) })
}

// lcs keeps two rows of the table of lengths, and of the others one bit for each place, which
// says whether the way back goes up or left. The shorter string is the row.
func (c *call) lcs(a, b []byte, onlyLen, idx, withLen bool, least int64) {
	swapped, tie := len(b) > len(a), uint32(0)
	if swapped {
		a, b, tie = b, a, 1 // of two ways that are as good, the way back takes that of a shorter b
	}
	above, row := make([]uint32, len(b)+1), make([]uint32, len(b)+1)
	var ups []uint64
	if !onlyLen {
		ups = make([]uint64, (len(a)*len(b)+63)/64)
	}
	for i, x := range a {
		at := i * len(b)
		for from := 0; from < len(b); from += stepsPerCheck {
			to := min(from+stepsPerCheck, len(b))
			for j := from; j < to; j++ {
				switch up, left := above[j+1], row[j]; {
				case x == b[j]:
					row[j+1] = above[j] + 1
				case up+tie > left:
					row[j+1] = up
					if ups != nil {
						ups[(at+j)>>6] |= 1 << ((at + j) & 63)
					}
				default:
					row[j+1] = left
				}
			}
			c.work(1 + (to-from)/4)
		}
		above, row = row, above
	}
	length := above[len(b)]
	if onlyLen {
		c.int(int64(length))
		return
	}
	common := make([]byte, length)
	var start later
	if idx {
		c.mapHead(2)
		c.str("matches")
		start = c.begin()
	}
	count := 0
	emit := func(a1, a2, b1, b2 int) {
		if n := int64(a2 - a1 + 1); n >= least {
			count++
			if swapped {
				a1, a2, b1, b2 = b1, b2, a1, a2
			}
			if withLen {
				c.array(3)
			} else {
				c.array(2)
			}
			c.array(2)
			c.int(int64(a1))
			c.int(int64(a2))
			c.array(2)
			c.int(int64(b1))
			c.int(int64(b2))
			if withLen {
				c.int(n)
			}
		}
	}
	left := length
	i, j := len(a), len(b)
	const none = -1
	a1, a2, b1, b2 := none, 0, 0, 0
	for i > 0 && j > 0 {
		c.work(1)
		flush := false
		if a[i-1] == b[j-1] {
			left--
			common[left] = a[i-1]
			if a1 == none {
				a1, a2, b1, b2 = i-1, i-1, j-1, j-1
			} else {
				a1--
				b1--
			}
			flush = a1 == 0 || b1 == 0
			i--
			j--
		} else {
			if at := (i-1)*len(b) + j - 1; ups[at>>6]>>(at&63)&1 == 1 {
				i--
			} else {
				j--
			}
			flush = a1 != none
		}
		if flush {
			if idx {
				emit(a1, a2, b1, b2)
			}
			a1 = none
		}
	}
	if idx {
		c.end(start, count)
		c.str("len")
		c.int(int64(length))
		return
	}
	c.bulk(common)
}
