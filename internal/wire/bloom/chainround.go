package bloom

import (
	"context"
	"strconv"

	"github.com/redoubt-go/redoubt"
)

// A round works on some items with a copy of the bits in this process.
type round struct {
	ctx    context.Context //nolint:containedctx // a round is one call
	client *redoubt.Client
	key    string
	flags  redoubt.Flags
	items  ChainItems

	chain chain
	end   string // the end of the string, as it was read
	found []bool // the items that links have

	from  uint64 // where live begins in the string
	first int    // the link of the first bits of live
	live  []byte // the bits of the last link and of links that are added
	fresh int    // how many items were new
}

// open reads the end of the chain.
func (r *round) open() (ChainStatus, error) {
	cmd := ChainHeaderCmd(r.key)
	cmd.Flags = r.flags
	status, tail, err := readPart(r.client.Do(r.ctx, cmd))
	if err != nil || status != ChainDone {
		return status, err
	}
	var ok bool
	if r.chain, ok = parseTail(tail); !ok {
		return ChainWrongType, nil
	}
	r.end, r.found = tail[len(tail)-tailBytes:], make([]bool, len(r.items))
	return ChainDone, nil
}

// worth is how many bytes can be read in the time in which scripts would look for the items, at
// most readAtOnce.
func (r *round) worth() uint64 {
	looks := uint64(2*len(r.chain.links)) + uint64(r.chain.last().hashes)
	return min(uint64(len(r.items))*looks*readPerLook, readAtOnce)
}

// look notes which items are in links that never change again, from the first link on.
func (r *round) look(links []link) error {
	at := uint64(0)
	for len(links) > 0 {
		n, bytes := 1, links[0].bytes
		for n < len(links) && bytes+links[n].bytes <= windowBytes {
			bytes += links[n].bytes
			n++
		}
		bits, err := r.bits(at, bytes)
		if err != nil {
			return err
		}
		for i, item := range r.items {
			if !r.found[i] {
				r.found[i] = anyHas(links[:n], bits, item)
			}
		}
		at, links = at+bytes, links[n:]
	}
	return nil
}

// anyHas reports whether one of links has the item, given the bits of all.
func anyHas(links []link, bits []byte, item chainItem) bool {
	for i := range links {
		l := &links[i]
		if l.has(bits[:l.bytes], item) {
			return true
		}
		bits = bits[l.bytes:]
	}
	return false
}

func (l *link) positions() uint64 {
	if l.n2 > 0 {
		return 1 << l.n2
	}
	return l.bits
}

func (l *link) has(bits []byte, item chainItem) bool {
	at, m := item.a, l.positions()
	for range l.hashes {
		if p := at % m; bits[p>>3]&(1<<(p&7)) == 0 {
			return false
		}
		at += item.b
	}
	return true
}

// set sets the bits of item. It reports whether all were set before.
func (l *link) set(bits []byte, item chainItem) bool {
	at, m, were := item.a, l.positions(), true
	for range l.hashes {
		p := at % m
		were = were && bits[p>>3]&(1<<(p&7)) != 0
		bits[p>>3] |= 1 << (p & 7)
		at += item.b
	}
	return were
}

// bits reads n bytes of the string.
func (r *round) bits(at, n uint64) ([]byte, error) {
	all, end := make([]byte, 0, n), at+n
	for at < end {
		var cmds []redoubt.Cmd
		for at < end && len(cmds) < windowBytes/readBytes {
			next := min(at+readBytes, end)
			cmds = append(cmds, r.getRange(signed(at), signed(next)-1))
			at = next
		}
		for _, reply := range r.client.Pipeline(r.ctx, cmds) {
			text, err := reply.Text()
			if err != nil {
				return nil, err
			}
			all = append(all, text...)
		}
	}
	if uint64(len(all)) != n {
		return nil, errChanged
	}
	return all, nil
}

// setBits is how many bits at given positions a script sets: 2 ms.
const setBits = 1750

// set adds items by the positions of their bits, while the chain has one link and room for them. It
// stops early if the chain has changed. ChainTooMuch means that nothing was added.
func (r *round) set() (ChainStatus, []int64, error) {
	l := r.chain.last()
	var became []int64
	for len(r.chain.links) == 1 && l.hashes > 0 && l.hashes <= setBits && len(became) < len(r.items) {
		rest := r.items[len(became):]
		rest = rest[:min(len(rest), setBits/int(l.hashes))]
		args := make([]string, 2, 2+len(rest)*int(l.hashes))
		args[0], args[1] = decimal(signed(r.chain.dataLen()+linkBytes+uint64(tailBytes))), string(l.append(nil))
		m := l.positions()
		for _, item := range rest {
			at := item.a
			for range l.hashes {
				args = append(args, strconv.FormatUint(at%m^7, 10)) // SETBIT counts from the highest bit of a byte
				at += item.b
			}
		}
		status, got, err := ReadInserted(r.client.Do(r.ctx, call(chainSetScript, 0, []string{r.key}, args...)))
		if err != nil {
			return 0, nil, err
		}
		if status != ChainDone {
			break
		}
		became = append(became, got...)
	}
	if len(became) == 0 {
		return ChainTooMuch, nil, nil
	}
	return ChainDone, became, nil
}

func (r *round) getRange(from, to int64) redoubt.Cmd {
	return redoubt.Cmd{Name: "GETRANGE", Keys: []string{r.key}, Args: []string{decimal(from), decimal(to)}, Flags: r.flags}
}

func (r *round) read(from, to int64) (string, error) {
	return r.client.Do(r.ctx, r.getRange(from, to)).Text()
}

// add adds the items, as chain_insert.lua does, and returns a status for each. It stops before an
// item that needs a link too large for a round.
func (r *round) add() (became []int64) {
	c := &r.chain
	lastAt := 0 // where the last link's bits begin in live
	for i, item := range r.items {
		last := c.last()
		full := last.size >= last.entries
		asked := c.links[r.first:]
		if !full {
			asked = asked[:len(asked)-1] // set reports whether the last link has it
		}
		if r.found[i] || anyHas(asked, r.live, item) {
			became = append(became, ItemOld)
			continue
		}
		if full {
			if c.options&nonScaling != 0 {
				return append(became, ItemFull)
			}
			before := *c
			if what := c.grow(); what != ItemNew {
				became = append(became, what)
				continue
			}
			if last = c.last(); len(r.live)+int(last.bytes)+len(c.links)*linkBytes > roundBytes { //nolint:gosec // at most MaxChainBytes
				*c = before
				return became
			}
			lastAt = len(r.live)
			r.live = append(r.live, make([]byte, last.bytes)...)
		}
		if last.set(r.live[lastAt:], item) {
			became = append(became, ItemOld)
			continue
		}
		last.size++
		c.size++
		r.fresh++
		became = append(became, ItemNew)
	}
	return became
}

// commit writes the changes of add. It fails with errChanged if the chain has changed.
func (r *round) commit() error {
	if r.fresh == 0 {
		end, err := r.read(-int64(tailBytes), -1)
		if err == nil && end != r.end {
			err = errChanged
		}
		return err
	}
	data := string(r.chain.appendTail(r.live))
	var written [1]int64
	err := r.client.Do(r.ctx, call(chainCommitScript, 0, []string{r.key}, r.end, decimal(signed(r.from)), data)).Ints(written[:])
	if err == nil && written[0] == 0 {
		err = errChanged
	}
	return err
}
