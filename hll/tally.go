package hll

import (
	"math/bits"

	"github.com/redoubt-go/redoubt/internal/hyll"
)

// A tally has the unsent counts of one page in one period. It begins as a small hash table of the
// registers that are not zero, and becomes an array of all 16,384 when a larger table would take as
// much.
type tally struct {
	views int64
	few   []uint32 // register<<8 | count; the length is a power of 2; 0 is a free place
	n     int      // the number of registers in few
	all   *[hyll.Registers]byte
}

const (
	fewAtFirst = 8
	fewAtMost  = 2048
)

func newTally() *tally { return &tally{few: make([]uint32, fewAtFirst)} }

// growth returns how many bytes one more register would take; mostly none.
func (t *tally) growth() int {
	switch {
	case t.all != nil || 4*(t.n+1) <= 3*len(t.few):
		return 0
	case len(t.few) == fewAtMost:
		return hyll.Registers - 4*fewAtMost
	}
	return 4 * len(t.few)
}

// size returns how many bytes the registers take.
func (t *tally) size() int {
	if t.all != nil {
		return hyll.Registers
	}
	return 4 * len(t.few)
}

// add raises the register of a hash.
func (t *tally) add(h uint64) {
	register := int(h % hyll.Registers)
	// The rest of the hash has 50 bits; the sentinel ends the run of zeros.
	t.raise(register, byte(bits.TrailingZeros64(h>>14|1<<50))+1)
}

func (t *tally) raise(register int, count byte) {
	if t.all != nil {
		if t.all[register] < count {
			t.all[register] = count
		}
		return
	}
	mask := len(t.few) - 1
	for i := register & mask; ; i = (i + 1) & mask {
		switch e := t.few[i]; {
		case e == 0:
			if 4*(t.n+1) > 3*len(t.few) {
				t.grow()
				t.raise(register, count)
				return
			}
			t.few[i] = uint32(register)<<8 | uint32(count)
			t.n++
			return
		case int(e>>8) == register:
			if byte(e) < count {
				t.few[i] = e&^0xff | uint32(count)
			}
			return
		}
	}
}

// grow makes room for more registers.
func (t *tally) grow() {
	old := t.few
	if len(old) == fewAtMost {
		t.few, t.all = nil, new([hyll.Registers]byte)
	} else {
		t.few, t.n = make([]uint32, 2*len(old)), 0
	}
	for _, e := range old {
		if e != 0 {
			t.raise(int(e>>8), byte(e))
		}
	}
}

// inElements is the largest number of registers that are sent as elements for PFADD. A PFMERGE goes
// over all registers and costs a server as much as PFADD of this many elements in a script. More
// registers go as a dense sketch, even where a sparse one would be shorter: to merge into a sparse
// key, Redis searches for the place of each register from the beginning.
const inElements = 512

// payload returns what the tally adds on the server: elements, or one sketch.
func (t *tally) payload() (form string, args []string) {
	if t.all == nil && t.n <= inElements {
		for _, e := range t.few {
			if e != 0 {
				args = append(args, hyll.Element(int(e>>8), byte(e)))
			}
		}
		return "elements", args
	}
	registers := t.all
	if registers == nil {
		registers = new([hyll.Registers]byte)
		for _, e := range t.few {
			registers[e>>8] = max(registers[e>>8], byte(e))
		}
	}
	return "sketch", []string{string(hyll.EncodeDense(registers))}
}
