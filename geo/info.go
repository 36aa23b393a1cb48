package geo

import (
	"context"
	"slices"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/geo"
)

// Info is the size of an index.
type Info struct {
	// Members is the number of members. A member that changes cells at this moment may be counted twice or
	// not at all.
	Members int64
	// Cells is the number of cells.
	Cells int
	// Largest is the number of members in the largest cell.
	Largest int64
}

// Info counts the members of all cells. One round trip; the first call of a process needs more, until it
// has learned the cells.
func (x *Index) Info(ctx context.Context) (Info, error) { return x.count(ctx, x.status) }

// count is Info. status reads the reply of a cell.
func (x *Index) count(ctx context.Context, status func(context.Context, redoubt.Reply, cell) (int64, []any, error)) (Info, error) {
	var info Info
	read := make(map[cell]bool)
	for {
		var cells []cell
		var cmds []redoubt.Cmd
		for _, c := range x.cells.now() {
			if read[c] || len(cells) == cellsAtOnce {
				continue
			}
			keys := x.keys(c, statePart, pointsPart, arrivingPart, leavingPart, leftPart)
			cells = append(cells, c)
			cmds = append(cmds,
				redoubt.Cmd{Name: "ZCARD", Keys: keys[1:2], Flags: redoubt.ReadOnly},
				wire.WhereCmd(keys))
		}
		if len(cells) == 0 {
			return info, nil
		}
		replies := x.send(ctx, cmds)
		for i, c := range cells {
			is, _, err := status(ctx, replies[2*i+1], c)
			if err != nil {
				return Info{}, err
			}
			n, err := replies[2*i].Int()
			if err != nil {
				return Info{}, err
			}
			if is == isSplit || is == isForgotten {
				continue
			}
			read[c] = true
			info.Members += n
			info.Largest = max(info.Largest, n)
			info.Cells++
		}
	}
}

// Delete removes the index called name, with all its keys. It reports whether there was one. No client may
// write to the index meanwhile. Afterwards every open [Index] of the name, in this process and in others,
// answers as for an index without members, or as for the new index when a client has added members again.
//
// Delete removes 16,384 keys of the index of members and the keys of all cells, 4,096 keys per round trip,
// and needs one more round trip per split cell, and per cell whose split a process has not completed. When
// it fails half-way, call it again.
func (xs *Indexes) Delete(ctx context.Context, name string) (deleted bool, err error) {
	x, err := xs.Open(ctx, name)
	if err != nil {
		return false, err
	}
	// This learns all cells. None can be out of date, so a cell without a state is one that a Delete
	// before has removed.
	_, err = x.count(ctx, func(_ context.Context, r redoubt.Reply, c cell) (int64, []any, error) { return x.readStatus(r, c) })
	if err != nil {
		return false, err
	}
	parts, err := x.halfSplit(ctx)
	if err != nil {
		return false, err
	}
	var first, then []redoubt.Cmd
	for _, c := range parts {
		first = append(first, x.drop(c))
	}
	for n := range shards {
		then = append(then, redoubt.Cmd{Name: "UNLINK", Keys: []string{x.key(decimal(n), membersPart)}, Flags: redoubt.Idempotent})
	}
	for _, c := range x.cells.now() {
		then = append(then, x.drop(c))
	}
	steps := [][]redoubt.Cmd{first, then}
	// A split cell leads to its parts, so it is deleted after them.
	for _, c := range x.cells.split() {
		steps = append(steps, []redoubt.Cmd{x.drop(c)})
	}
	for _, cmds := range steps {
		for some := range slices.Chunk(cmds, atOnce) {
			for _, r := range x.send(ctx, some) {
				n, err := r.Int()
				if err != nil {
					return deleted, err
				}
				deleted = deleted || n > 0
			}
		}
	}
	return deleted, nil
}

// halfSplit returns the parts of cells whose split has begun and not ended. They may have keys, and no cell
// leads to them yet. If the keys stayed, a new index could take such a part for its own.
func (x *Index) halfSplit(ctx context.Context) (parts []cell, err error) {
	for cells := range slices.Chunk(x.cells.now(), atOnce) {
		cmds := make([]redoubt.Cmd, len(cells))
		for i, c := range cells {
			cmds[i] = redoubt.Cmd{Name: "HGET", Keys: x.keys(c, statePart), Args: []string{"state"}, Flags: redoubt.ReadOnly}
		}
		for i, r := range x.send(ctx, cmds) {
			if r.Err != nil {
				return nil, r.Err
			}
			if r.Val != "frozen" {
				continue
			}
			f, err := x.readFrozen(ctx, cells[i])
			if err != nil {
				return nil, err
			}
			if f == nil {
				continue
			}
			if at, ok := f.middle(); ok {
				left, right := cells[i].parts(at)
				parts = append(parts, left, right)
			}
		}
	}
	return parts, nil
}

func (x *Index) drop(c cell) redoubt.Cmd {
	return redoubt.Cmd{Name: "UNLINK", Keys: x.keys(c, statePart, pointsPart, arrivingPart, leavingPart, leftPart), Flags: redoubt.Idempotent}
}
