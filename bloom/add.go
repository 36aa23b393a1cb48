package bloom

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/bloom"
)

// Add adds an item. It reports whether the item is new. False may be a false positive, or mean that
// the key of the item is lost. When several callers add the same item at once, at most one of them
// gets true. One round trip.
//
// Add is sent once. After an error that matches redoubt.ErrUnknownOutcome the item may be in the
// filter; adding it again does no harm, but then returns false.
func (f *Filter) Add(ctx context.Context, item string) (isNew bool, err error) {
	added, err := f.AddMany(ctx, []string{item})
	return added[0], err
}

// AddMany is Add for several items, in their order: of two equal items at most the first is new.
// One round trip to each server for every 4,096 items. After an error some items may be in the
// filter.
func (f *Filter) AddMany(ctx context.Context, items []string) (areNew []bool, err error) {
	areNew = make([]bool, len(items))
	for from := 0; from < len(items) && err == nil; from += atOnce {
		to := min(from+atOnce, len(items))
		err = f.addAll(ctx, items[from:to], areNew[from:to])
	}
	return areNew, err
}

// The statuses of an item after an add.
const (
	// The status of an item after an add.
	added   = 1
	lost    = 0
	sealed  = -1
	untimed = -2
)

func (f *Filter) addAll(ctx context.Context, items []string, areNew []bool) error {
	todo := each(len(items))
	// The loop ends: it is repeated only for shards that were sealed or replaced meanwhile, and each
	// time takes a rebuild.
	for {
		s := f.now.Load()
		here := newBatch(f.keys, s.current, s.seal, items, todo)
		there := &batch{}
		cmds := here.cmds
		if s.next != nil {
			// While another generation is filled, items are added to both.
			there = newBatch(f.keys, *s.next, s.seal, items, todo)
			cmds = slices.Concat(cmds, there.cmds)
		}
		replies := f.send(ctx, cmds)
		err := errors.Join(here.read(replies[:len(here.cmds)]), there.read(replies[len(here.cmds):]))
		if err != nil {
			return err
		}
		var again, gone []int
		for _, i := range todo {
			switch here.status[i] {
			case added:
				areNew[i] = here.isNew[i]
			case lost:
				gone = append(gone, i)
			default:
				again = append(again, i)
			}
		}
		if len(again) > 0 {
			if s, err = f.afterSeal(ctx, s); err != nil {
				return err
			}
		}
		if len(gone) > 0 {
			if gone, err = f.afterLoss(ctx, s, there, gone, areNew); err != nil {
				return err
			}
		}
		if todo = append(again, gone...); len(todo) == 0 {
			return nil
		}
		slices.Sort(todo)
	}
}

// afterSeal reads the state that names the rebuild for which a shard was sealed.
func (f *Filter) afterSeal(ctx context.Context, s *state) (*state, error) {
	fresh, err := f.refresh(ctx, s)
	if err == nil && fresh.seal <= s.seal && fresh.current.id == s.current.id {
		err = fmt.Errorf("bloom: a key of %q is too long: another program has written to it", f.name)
	}
	return fresh, err
}

// afterLoss returns which of the items whose shard is gone have to be added to other shards. Unlike
// MayContain it reads the state every time: if the filter was rebuilt a moment ago, a dropped item
// would be missing for ever.
func (f *Filter) afterLoss(ctx context.Context, s *state, there *batch, gone []int, areNew []bool) (again []int, err error) {
	fresh, err := f.refresh(ctx, s)
	if errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("%w: %q was deleted", ErrNotFound, f.name)
	}
	if err != nil {
		return nil, err
	}
	for _, i := range gone {
		switch {
		case s.next != nil && there.status[i] == added && fresh.has(s.next.id):
			// The next generation has the item. Either it is about to replace this one, or the shard
			// is lost and only the next generation has all items.
			areNew[i] = there.isNew[i]
		case fresh.current.id != s.current.id, fresh.next != nil && !s.has(fresh.next.id):
			again = append(again, i)
		}
	}
	return again, nil
}

// has reports whether items are added to a generation.
func (s *state) has(id string) bool {
	return s.current.id == id || s.next != nil && s.next.id == id
}

// A batch has the commands that add items to one generation.
type batch struct {
	cmds   []redoubt.Cmd
	places [][]int // for each command, the indexes of its items
	status []int   // for each item, what add.lua returned
	isNew  []bool
}

// perScript is how many items one script adds; each takes some 3 µs.
const perScript = 128

// newBatch groups the items at the indexes in todo by shard.
func newBatch(k keys, g generation, seal int64, items []string, todo []int) *batch {
	b := &batch{status: make([]int, len(items)), isNew: make([]bool, len(items))}
	open := make(map[int]int) // shard → the command with room for an item
	for _, i := range todo {
		s := g.spot(items[i])
		at, ok := open[s.shard]
		if !ok || len(b.places[at]) == perScript {
			at = len(b.cmds)
			open[s.shard] = at
			b.cmds = append(b.cmds, wire.AddCmd(k.shard(g.id, s.shard), k.log(g.id, s.shard),
				wire.Shard{Len: g.shardLen(), Seal: seal, Hashes: g.hashes}))
			b.places = append(b.places, nil)
		}
		b.cmds[at].Args = append(b.cmds[at].Args, s.positions())
		b.places[at] = append(b.places[at], i)
	}
	return b
}

// positions returns the bits of an item in its shard, 4 bytes each.
func (s *spot) positions() string {
	b := make([]byte, 0, 4*maxHashes)
	for _, bit := range s.bits[:s.n] {
		b = binary.LittleEndian.AppendUint32(b, uint32(s.block*blockBits)+uint32(bit)) //nolint:gosec // a shard has 2^25 bits
	}
	return string(b)
}

// read reads the replies to the commands of b.
func (b *batch) read(replies []redoubt.Reply) error {
	for c, r := range replies {
		n := make([]int64, 2+len(b.places[c]))
		if a, err := r.Array(); err != nil {
			return err
		} else if len(a) == 2 {
			n = n[:2]
		}
		if err := r.Ints(n); err != nil {
			return err
		}
		for j, i := range b.places[c] {
			b.status[i] = int(n[0])
			if n[0] == added {
				b.isNew[i] = n[2+j] == 1
			}
		}
	}
	return nil
}
