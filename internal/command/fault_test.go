package command_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/command"
)

// A broken Conn has an error within an error of the library.
type broken struct{ redoubt.Conn }

var errBroken = fmt.Errorf("queue: %w", redoubt.UnknownOutcome(&redoubt.UnavailableError{
	Since: time.UnixMilli(0), Last: errors.New("connection refused"),
}))

func (broken) Do(context.Context, redoubt.Cmd) redoubt.Reply { return redoubt.Reply{Err: errBroken} }

func (broken) Pipeline(_ context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	return slices.Repeat([]redoubt.Reply{{Err: errBroken}}, len(cmds))
}

// TestFaultsNameUsOnce: the error reply of every command to a fault of the library says redoubt
// once, and not which package of Go it comes from.
func TestFaultsNameUsOnce(t *testing.T) {
	t.Parallel()
	client, err := redoubt.New(broken{}, redoubt.Options{DownAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	env, err := command.NewEnv(client)
	if err != nil {
		t.Fatal(err)
	}
	const want = "ERR redoubt: outcome unknown: the command may have run: server unavailable since 1970-01-01T00:00:00.000Z: connection refused"
	words := regexp.MustCompile(`"[^"]*"|\S+`)
	for _, c := range command.All() {
		v, err := answer(t.Context(), env, words.FindAllString(c.Examples[0].Call, -1)...)
		if got := fmt.Sprint(v); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", c.Name, got, err, want)
		}
	}
}
