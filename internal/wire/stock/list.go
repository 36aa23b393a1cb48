package stock

import (
	"context"
	"errors"

	"github.com/redoubt-go/redoubt"
)

// A Listed is an item that a listing found.
type Listed struct {
	Name string
	Info Info
}

// Page lists the items whose names match: those that one step of [redoubt.Client.Names] finds. It
// begins with the cursor "0" and goes on with next, until that is "0" again. Of an item not all may
// be back that has run out: see [Info].
func Page(ctx context.Context, client *redoubt.Client, match, cursor string) (items []Listed, next string, err error) {
	names, next, err := client.Names(ctx, stockPart, "hash", match, cursor)
	if err != nil || len(names) == 0 {
		return nil, next, err
	}
	cmds := make([]redoubt.Cmd, 0, len(names))
	asked := names[:0]
	for _, name := range names {
		if keys, err := KeysOf(client, name); err == nil { // else another has made the key
			cmds, asked = append(cmds, InfoCmd(keys)), append(asked, name)
		}
	}
	for i, reply := range client.Pipeline(ctx, cmds) {
		count, err := ReadCount(reply)
		switch {
		case errors.Is(err, redoubt.ErrWrongType): // another program made the key
		case err != nil:
			return nil, "", err
		default:
			items = append(items, Listed{asked[i], count.Info})
		}
	}
	return items, next, nil
}
