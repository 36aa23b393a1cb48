package geo

import (
	"context"

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
func (x *Index) Info(ctx context.Context) (Info, error) {
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
			status, _, err := x.status(replies[2*i+1], c)
			if err != nil {
				return Info{}, err
			}
			n, err := replies[2*i].Int()
			if err != nil {
				return Info{}, err
			}
			if status == isSplit {
				continue
			}
			read[c] = true
			info.Members += n
			info.Largest = max(info.Largest, n)
			info.Cells++
		}
	}
}

// Delete removes the whole index. No client may write to it meanwhile. It deletes 16,384 keys of the index
// of members and the keys of all cells, 4,096 keys per round trip, and needs one more round trip per split
// cell. When it fails half-way, call it again.
func (x *Index) Delete(ctx context.Context) error {
	if _, err := x.Info(ctx); err != nil { // to know all cells
		return err
	}
	var cmds []redoubt.Cmd
	for n := range shards {
		cmds = append(cmds, redoubt.Cmd{Name: "UNLINK", Keys: []string{x.key(decimal(n), membersPart)}, Flags: redoubt.Idempotent})
	}
	for _, c := range x.cells.now() {
		cmds = append(cmds, x.drop(c))
	}
	for from := 0; from < len(cmds); from += atOnce {
		for _, r := range x.send(ctx, cmds[from:min(from+atOnce, len(cmds))]) {
			if r.Err != nil {
				return r.Err
			}
		}
	}
	// A split cell leads to its parts, so it is deleted after them.
	for _, c := range x.cells.split() {
		if err := x.client.Do(ctx, x.drop(c)).Err; err != nil {
			return err
		}
	}
	x.cells.forget()
	return nil
}

func (x *Index) drop(c cell) redoubt.Cmd {
	return redoubt.Cmd{Name: "UNLINK", Keys: x.keys(c, statePart, pointsPart, arrivingPart, leavingPart, leftPart), Flags: redoubt.Idempotent}
}
