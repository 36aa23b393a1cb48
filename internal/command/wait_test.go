package command_test

import (
	"context"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/engine"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
)

// leaving is a Conn whose caller leaves while the reply to a command is on its
// way.
type leaving struct {
	redoubt.Conn
	leave func()
}

func (c leaving) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	r := c.Conn.Do(ctx, cmd)
	c.leave()
	if err := ctx.Err(); err != nil {
		return redoubt.Reply{Err: redoubt.UnknownOutcome(err)}
	}
	return r
}

// A client that goes away before the server knows its place gives it back, too.
func TestLimitWaitGivenUpBeforeItsReply(t *testing.T) {
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	ctx, leave := context.WithCancel(t.Context())
	run := func(env *command.Env, words ...string) command.Plan {
		args := make([][]byte, len(words))
		for i, w := range words {
			args[i] = []byte(w)
		}
		return command.Lookup(words[0]).Plan(env, args)
	}
	stays := newEnv(t, e)
	// resetAfter is when all tokens are back, in ms.
	resetAfter := func() int64 {
		p := run(stays, "LIMIT.PEEK", "a", "1", "3600000", "1")
		v, _, err := resp.Parse(p.Translate(nil, resp.RESP2, stays.Client.Do(t.Context(), *p.Cmd)))
		if err != nil {
			t.Fatal(err)
		}
		return v.([]any)[3].(int64)
	}
	wait := func(env *command.Env) string {
		return string(run(env, "LIMIT.WAIT", "a", "1", "1", "3600000", "1").Wait(ctx).Append(nil, resp.RESP2))
	}

	if got := wait(stays); !strings.HasPrefix(got, "*5\r\n:1\r\n") {
		t.Fatalf("the first: %q", got)
	}
	led := int64(0)
	leaves := newEnv(t, leaving{e, func() {
		led = max(led, resetAfter())
		leave()
	}})
	if got, want := wait(leaves), "-ERR redoubt: the server is shutting down\r\n"; got != want {
		t.Errorf("who leaves: %q, want %q", got, want)
	}
	if after := resetAfter(); led <= 3_600_000 || after > 3_600_000 {
		t.Errorf("all is back in %d ms while one waits, and in %d ms without it; want it to have had a place, and to have given it back", led, after)
	}
}

func newEnv(t *testing.T, conn redoubt.Conn) *command.Env {
	t.Helper()
	client := clienttest.New(t, conn, "")
	env, err := command.NewEnv(client)
	if err != nil {
		t.Fatal(err)
	}
	return env
}
