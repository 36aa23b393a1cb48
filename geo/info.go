package geo

import (
	"context"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/geo"
)

// Info tells how large an index is.
type Info struct {
	// Members is how many members are in the index. Those that change cells at this
	// moment may be counted twice or not.
	Members int64
	// Cells is into how many cells it was split.
	Cells int
	// Largest is how many members the largest cell has.
	Largest int64
}

// Info counts the members of all cells. One round trip; the first of a process some
// more, until it knows into which cells the index was split.
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

// Delete deletes all of the index. Nobody may write to it meanwhile. It takes a round
// trip for every 4,096 keys, of which there are 16,384 and those of the cells, and one
// for each time that a cell was split; when it fails half-way it can be repeated.
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
	// By what was split its parts are found, so it goes after them.
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
