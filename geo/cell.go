package geo

import (
	"slices"
	"strconv"
	"sync"
)

// An address is the place of a member as one number: the zone in 2 bits, the score without its last 6
// bits, which gives squares of 5 by 3 metres, and 16 bits of the member's hash. With the hash, a cell can
// be split wherever its members are.
type address uint64

const (
	hashBits  = 16
	zoneShift = 62
)

func addressOf(p place, member string) address {
	return address(p.zone)<<zoneShift | address(p.score>>(scoreBits+hashBits-zoneShift))<<hashBits | address(hashOf(member)&(1<<hashBits-1))
}

// hashOf is FNV-1a, mixed so that all bits depend on the last byte too.
func hashOf(member string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(member) {
		h = (h ^ uint64(member[i])) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// A cell is the members with the addresses from first to last. They are under one hash tag.
type cell struct{ first, last address }

// whole returns the first cell of a zone.
func whole(zone uint8) cell {
	first := address(zone) << zoneShift
	return cell{first, first + (1<<zoneShift - 1)}
}

func (c cell) zone() uint8 { return uint8(c.first >> zoneShift) } //nolint:gosec // 2 bits

// parts returns what a cell is split into.
func (c cell) parts(at address) (left, right cell) { return cell{c.first, at - 1}, cell{at, c.last} }

func (c cell) String() string {
	return strconv.FormatUint(uint64(c.first), 16) + "-" + strconv.FormatUint(uint64(c.last), 16)
}

// A cells knows into which cells the globe was split, as far as this process has learned: the reply of a
// cell that was split says where.
type cells struct {
	mu  sync.RWMutex
	all []cell // by their first address; never changed, but replaced
	old []cell // cells that were split, each before its parts
}

func newCells() *cells {
	cs := &cells{}
	cs.forget()
	return cs
}

// forget resets cs to the cells of a new index.
func (cs *cells) forget() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.all, cs.old = nil, nil
	for zone := range uint8(zones) {
		cs.all = append(cs.all, whole(zone))
	}
}

// split returns the cells that were split, each after its parts.
func (cs *cells) split() []cell {
	cs.mu.RLock()
	defer cs.mu.RUnlock()
	old := slices.Clone(cs.old)
	slices.Reverse(old)
	return old
}

func (cs *cells) now() []cell {
	cs.mu.RLock()
	defer cs.mu.RUnlock()
	return cs.all
}

// learn notes that c was split.
func (cs *cells) learn(c cell, at address) {
	if at <= c.first || at > c.last {
		return
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	i := index(cs.all, c.first)
	if cs.all[i] != c {
		return // it is known
	}
	left, right := c.parts(at)
	cs.old = append(cs.old, c)
	cs.all = slices.Concat(cs.all[:i], []cell{left, right}, cs.all[i+1:])
}

// index returns the place of the cell in all that has the address.
func index(all []cell, a address) int {
	i, found := slices.BinarySearchFunc(all, a, func(c cell, a address) int {
		switch {
		case c.last < a:
			return -1
		case c.first > a:
			return 1
		}
		return 0
	})
	if !found {
		return max(i-1, 0)
	}
	return i
}

// at returns the cell that has the address.
func (cs *cells) at(a address) cell {
	all := cs.now()
	return all[index(all, a)]
}

// within returns the cells that have any address of c.
func (cs *cells) within(c cell) []cell { return within(cs.now(), c.first, c.last) }

func within(all []cell, first, last address) []cell {
	return all[index(all, first) : index(all, last)+1]
}
