package queue

import (
	"context"
	"errors"

	"github.com/redoubt-go/redoubt"
)

// A Named is a queue that a listing found.
type Named struct {
	Name  string
	Stats Stats
}

// StatsPage is [Page] with what is in each queue: another round trip where there are
// queues among the keys. This is what QUEUE.LS does.
func StatsPage(ctx context.Context, client *redoubt.Client, match, cursor string) (queues []Named, next string, err error) {
	names, next, err := Page(ctx, client, match, cursor)
	if err != nil || len(names) == 0 {
		return nil, next, err
	}
	cmds := make([]redoubt.Cmd, 0, len(names))
	asked := names[:0]
	for _, name := range names {
		if keys, err := KeysOf(client, name); err == nil { // else another has made the key
			cmds, asked = append(cmds, StatsCmd(keys)), append(asked, name)
		}
	}
	for i, reply := range client.Pipeline(ctx, cmds) {
		stats, err := ReadStats(reply)
		switch {
		case errors.Is(err, redoubt.ErrWrongType): // another program made the key
		case err != nil:
			return nil, "", err
		default:
			queues = append(queues, Named{asked[i], stats})
		}
	}
	return queues, next, nil
}
