package bitmap

import (
	"context"
	"strconv"

	"github.com/redoubt-go/redoubt"
)

func decimal[N ~int | ~int32 | ~int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// send merges a single command with commands of other callers, and sends several as a
// pipeline.
func send(ctx context.Context, client *redoubt.Client, cmds []redoubt.Cmd) []redoubt.Reply {
	switch len(cmds) {
	case 0:
		return nil
	case 1:
		return []redoubt.Reply{client.Do(ctx, cmds[0])}
	}
	return client.Pipeline(ctx, cmds)
}

// unlink deletes the one key of a name.
func unlink(ctx context.Context, client *redoubt.Client, name, part string) (deleted bool, err error) {
	key, err := client.Key(name, part)
	if err != nil {
		return false, err
	}
	n, err := client.Do(ctx, redoubt.Cmd{Name: "UNLINK", Keys: []string{key}, Flags: redoubt.Idempotent}).Int()
	return n > 0, err
}
