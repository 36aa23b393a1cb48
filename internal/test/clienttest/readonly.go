package clienttest

import (
	"context"
	"strconv"

	"github.com/redoubt-go/redoubt"
)

// ReadOnly returns conn with every script sent as EVAL_RO, so that the server refuses a script that writes. It
// is for one server, of Redis 7.0 or newer.
func ReadOnly(conn redoubt.Conn) redoubt.Conn { return readOnly{conn} }

type readOnly struct{ redoubt.Conn }

func (c readOnly) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	return c.Conn.Do(ctx, evalRO(cmd))
}

func (c readOnly) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	sent := make([]redoubt.Cmd, len(cmds))
	for i, cmd := range cmds {
		sent[i] = evalRO(cmd)
	}
	return c.Conn.Pipeline(ctx, sent)
}

func evalRO(cmd redoubt.Cmd) redoubt.Cmd {
	if cmd.Script == nil {
		return cmd
	}
	args := []string{cmd.Script.Source(), strconv.Itoa(len(cmd.Keys))}
	args = append(append(args, cmd.Keys...), cmd.Args...)
	return redoubt.Cmd{Name: "EVAL_RO", Args: args, Flags: cmd.Flags}
}
