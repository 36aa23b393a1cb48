package bloom

import (
	"context"
	"errors"

	"github.com/redoubt-go/redoubt"
)

// Chains runs the BF commands that have many items.
//
// A script looks at one bit after the other, in about half a microsecond each, and the server
// does nothing else meanwhile. So a script takes as many items as it can look up in 5 ms.
// Chains adds more items in rounds. A round reads the bits, 16 MiB at most, changes them here, and
// writes the changes back by a script, which first compares the end of the string with what was
// read. If the chain is too large for that and has one link with room, Chains computes the
// positions of the items' bits here, and scripts set them: this takes half as long as computing
// them in a script. If another client has changed the chain in between, Chains repeats the round,
// and the second time scripts take the next items.
//
// So the items of one call are added in steps, in their order, and other clients may see the items of
// the first steps alone. After an error, the items of earlier steps stay.
//
// Chains may be used by many goroutines at once.
type Chains struct {
	client *redoubt.Client
	rounds chan struct{} // bounds the memory of the rounds under way

	// tryScript is how many items a call may have for a script to be tried first.
	tryScript int
}

const (
	// oneScript is how many items a script gets at most.
	oneScript = 64
	// roundItems bounds the items of a round.
	roundItems = 10_000
	// roundBytes is what a round writes at most: a script takes 4 MiB within 5 ms.
	roundBytes = 4 << 20
	// readBytes and windowBytes are what a command and a pipeline read.
	readBytes, windowBytes = 1 << 20, 4 << 20
	// bytesPerItem bounds how many bytes a round writes for each item: about twice what a script
	// sends to replicas and the log for the bits that it sets one by one.
	bytesPerItem = 1 << 10
	// readAtOnce is how many bytes a round reads at most.
	readAtOnce = 16 << 20
	// readPerLook is how many bytes are read in the time in which a script looks at a bit.
	readPerLook = 512
	// roundsAtOnce is how many rounds run at once: they take 50 MB.
	roundsAtOnce = 4
)

// errReplaced is returned when a chain is deleted and made again all the time.
var errReplaced = errors.New("bloom: the filter is being replaced: try again")

// errChanged says that a chain changed while a round read it.
var errChanged = errors.New("bloom: the filter changed")

// NewChains returns Chains on client.
func NewChains(client *redoubt.Client) *Chains {
	return &Chains{client: client, rounds: make(chan struct{}, roundsAtOnce), tryScript: oneScript}
}

// Insert does what [ChainInsertCmd] does, for any number of items. The status is never
// ChainTooMuch. One round trip for few items, some three for each 10,000.
func (c *Chains) Insert(ctx context.Context, key string, s *ChainSpec, items ChainItems) (ChainStatus, []int64, error) {
	became := make([]int64, 0, len(items))
	size, scripts, conflicts := oneScript, 0, 0
	if len(items) <= c.tryScript {
		scripts = 1
	}
	for {
		rest := items[len(became):]
		var (
			status ChainStatus
			got    []int64
			err    error
		)
		if scripts > 0 {
			n := min(size, len(rest))
			if status, got, err = c.insertScript(ctx, key, s, rest[:n]); status == ChainTooMuch {
				size = max(n/4, 1)
				if scripts == 1 && conflicts == 0 {
					scripts = 0
				}
				continue
			}
			scripts--
		} else {
			status, got, err = c.insertRound(ctx, key, s, rest[:min(len(rest), roundItems)])
			switch {
			case errors.Is(err, errChanged):
				if conflicts++; conflicts > 1 {
					scripts = 1
				}
				continue
			case err != nil:
			case status == ChainTooMuch && len(got) == 0:
				scripts = 4 // then a round is tried again
				continue
			case status == ChainTooMuch: // the next item brings a link that is too large for a round
				status, scripts = ChainDone, 1
			default:
				conflicts = 0
			}
		}
		if err != nil || status != ChainDone {
			return status, nil, err
		}
		became = append(became, got...)
		if len(became) == len(items) || len(became) > 0 && became[len(became)-1] == ItemFull {
			return ChainDone, became, nil
		}
	}
}

func (c *Chains) insertScript(ctx context.Context, key string, s *ChainSpec, items ChainItems) (ChainStatus, []int64, error) {
	cmd, err := ChainInsertCmd(key, s, items)
	if err != nil {
		return 0, nil, err
	}
	return ReadInserted(c.client.Do(ctx, cmd))
}

// Exists does what [ChainExistsCmd] does, for any number of items.
func (c *Chains) Exists(ctx context.Context, key string, items ChainItems) ([]int64, error) {
	if len(items) <= c.tryScript {
		status, in, err := ReadExists(c.client.Do(ctx, ChainExistsCmd(key, items)), len(items))
		if err != nil || status == ChainDone {
			return in, err
		}
	}
	var all []int64
	size, tries := oneScript, 0
	for len(all) < len(items) {
		rest := items[len(all):]
		rest = rest[:min(len(rest), roundItems)]
		status, in, err := c.existsRound(ctx, key, rest)
		if errors.Is(err, errChanged) {
			if tries++; tries > 8 {
				return nil, errReplaced
			}
			continue
		}
		for status == ChainTooMuch && err == nil {
			rest = rest[:min(len(rest), size)]
			if status, in, err = ReadExists(c.client.Do(ctx, ChainExistsCmd(key, rest)), len(rest)); status == ChainTooMuch {
				size = max(len(rest)/4, 1)
			}
		}
		if err != nil {
			return nil, err
		}
		all = append(all, in...)
	}
	return all, nil
}

// LoadsAtOnce reports whether [ChainLoadCmd] takes a part of a dump in one short step.
func LoadsAtOnce(iter int64, data string) bool {
	return len(data) <= ChunkBytes || iter == 1 || iter < int64(len(data))
}

// Load does what [ChainLoadCmd] does, for a part of any size. An error may leave some of
// it written.
func (c *Chains) Load(ctx context.Context, key string, iter int64, data string) (ChainStatus, error) {
	r := round{ctx: ctx, client: c.client, key: key}
	status, err := r.open()
	if err != nil || status != ChainDone {
		return status, err
	}
	at := uint64(iter - int64(len(data)) - 1) //nolint:gosec // LoadsAtOnce has compared the two
	rest, ok := r.chain.restOfLink(at)
	switch {
	case !ok:
		return ChainUnknownPart, nil
	case uint64(len(data)) > rest:
		return ChainTooLong, nil
	}
	for from := 0; from < len(data) && err == nil && status == ChainDone; from += ChunkBytes {
		to := min(from+ChunkBytes, len(data))
		cmd, _ := ChainLoadCmd(key, iter-int64(len(data)-to), data[from:to]) // it is no header
		status, _, err = readPart(c.client.Do(ctx, cmd))
	}
	return status, err
}

// restOfLink returns how many bytes a link has from at on, counted in the bits of all links.
func (c chain) restOfLink(at uint64) (rest uint64, ok bool) {
	end := uint64(0)
	for _, l := range c.links {
		if end += l.bytes; at < end {
			return end - at, true
		}
	}
	return 0, false
}

// enter waits until a round may read bits. Earlier steps of a round take no memory, so a server
// that does not answer holds up no rounds on others.
func (c *Chains) enter(ctx context.Context) error {
	select {
	case c.rounds <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Chains) leave() { <-c.rounds }

// insertRound adds items. It adds some of them and returns ChainTooMuch if the next item needs a
// link too large for a round. It adds none and returns ChainTooMuch where scripts are faster.
func (c *Chains) insertRound(ctx context.Context, key string, s *ChainSpec, items ChainItems) (ChainStatus, []int64, error) {
	r := round{ctx: ctx, client: c.client, key: key, flags: redoubt.Idempotent, items: items}
	status, err := r.open()
	if err == nil && status == ChainMissing && s != nil {
		return c.reserve(ctx, key, *s)
	}
	if err != nil || status != ChainDone {
		return status, nil, err
	}
	last := r.chain.last()
	if r.chain.dataLen() > r.worth() || last.bytes > min(roundBytes, uint64(len(items))*bytesPerItem) {
		return r.set()
	}
	if err := c.enter(ctx); err != nil {
		return 0, nil, err
	}
	defer c.leave()
	older := r.chain.links[:len(r.chain.links)-1]
	if err := r.look(older); err != nil {
		return 0, nil, err
	}
	r.from = r.chain.dataLen() - last.bytes
	if r.live, err = r.bits(r.from, last.bytes); err != nil {
		return 0, nil, err
	}
	r.first = len(older)
	became := r.add()
	status = ChainDone
	if len(became) < len(items) && (len(became) == 0 || became[len(became)-1] != ItemFull) {
		status = ChainTooMuch
	}
	return status, became, r.commit()
}

// reserve makes a chain for a round. The caller then repeats the round.
func (c *Chains) reserve(ctx context.Context, key string, s ChainSpec) (ChainStatus, []int64, error) {
	cmd, err := ChainReserveCmd(key, s)
	if err != nil {
		return 0, nil, err
	}
	status, err := ReadStatus(c.client.Do(ctx, cmd))
	if err == nil && status == ChainWrongType {
		return status, nil, nil
	}
	if err == nil {
		status = ChainDone // no item is added
	}
	return status, nil, err
}

// existsRound looks for items.
func (c *Chains) existsRound(ctx context.Context, key string, items ChainItems) (ChainStatus, []int64, error) {
	r := round{ctx: ctx, client: c.client, key: key, flags: redoubt.ReadOnly, items: items}
	in := make([]int64, len(items))
	status, err := r.open()
	switch {
	case err != nil:
		return 0, nil, err
	case status != ChainDone:
		return ChainDone, in, nil
	case r.chain.dataLen() > r.worth():
		return ChainTooMuch, nil, nil
	}
	if err := c.enter(ctx); err != nil {
		return 0, nil, err
	}
	defer c.leave()
	if err := r.look(r.chain.links); err != nil {
		return 0, nil, err
	}
	// Bits are never cleared: an item from before is found, and an item that is added meanwhile may be.
	// But all bits must be from the same chain.
	end, err := r.read(-16, -9)
	if err != nil {
		return 0, nil, err
	}
	if end != r.end[len(r.end)-16:len(r.end)-8] {
		return 0, nil, errChanged
	}
	for i, found := range r.found {
		if found {
			in[i] = 1
		}
	}
	return ChainDone, in, nil
}

// InRounds makes c work in rounds for any number of items. It is for tests.
func (c *Chains) InRounds() { c.tryScript = 0 }
