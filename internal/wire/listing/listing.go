// Package listing reads the state of the names that one page of a listing finds.
package listing

import (
	"context"
	"errors"

	"github.com/redoubt-go/redoubt"
)

// A Listed is a name that a listing found, and its state.
type Listed[I any] struct {
	Name string
	Info I
}

// Page returns one page of the names that have a hash with the given part and match a pattern, as
// [redoubt.Client.NamesPage] does, each with its state. cmd returns the command that reads the state
// of a name. read reads its reply: used says whether to list the name. A key that another program
// made, under a name that cmd refuses or of another type, is left out. Where there are names on the
// page, the states cost one more round trip.
func Page[I any](
	ctx context.Context, client *redoubt.Client, part, match, cursor string,
	cmd func(name string) (redoubt.Cmd, error), read func(redoubt.Reply) (info I, used bool, err error),
) (found []Listed[I], next string, err error) {
	names, next, err := client.NamesPage(ctx, part, "hash", match, cursor)
	if err != nil || len(names) == 0 {
		return nil, next, err
	}
	cmds := make([]redoubt.Cmd, 0, len(names))
	asked := names[:0]
	for _, name := range names {
		if c, err := cmd(name); err == nil {
			cmds, asked = append(cmds, c), append(asked, name)
		}
	}
	for i, reply := range client.Pipeline(ctx, cmds) {
		info, used, err := read(reply)
		switch {
		case errors.Is(err, redoubt.ErrWrongType):
		case err != nil:
			return nil, "", err
		case used:
			found = append(found, Listed[I]{asked[i], info})
		}
	}
	return found, next, nil
}
