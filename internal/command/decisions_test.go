package command_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/engine"
	"github.com/redoubt-go/redoubt/internal/engine/native"
)

func TestDecisionsAreCounted(t *testing.T) {
	e, err := engine.Open(t.Context(), engine.Options{Natives: native.All()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	env := newEnv(t, e)
	for _, c := range []struct {
		args string
		want command.Decided // so far
	}{
		{"LIMIT.TAKE a 1 1 3600000 1", command.Decided{Allowed: 1}},
		{"LIMIT.TAKE a 1 1 3600000 1", command.Decided{Allowed: 1, Denied: 1}},
		{"LIMIT.PEEK a 1 3600000 1", command.Decided{Allowed: 1, Denied: 1}},
		{"LIMIT.WINDOW b 1 1 3600000", command.Decided{Allowed: 2, Denied: 1}},
		{"LIMIT.WINDOW b 0 1 3600000", command.Decided{Allowed: 2, Denied: 1}},
		{"LIMIT.QUOTA c 1 5 DAY UTC", command.Decided{Allowed: 3, Denied: 1}},
		{"CL.THROTTLE d 0 1 3600 1", command.Decided{Allowed: 4, Denied: 1}},
		{"CL.THROTTLE d 0 1 3600 1", command.Decided{Allowed: 4, Denied: 2}},
		{"CL.THROTTLE d 0 1 3600 0", command.Decided{Allowed: 4, Denied: 2}},
	} {
		got := reply(t, env, strings.Fields(c.args)...)
		if all, _ := env.Decisions(); all != c.want {
			t.Errorf("after %s, which answers %v, %+v; want %+v", c.args, got, all, c.want)
		}
	}
	if _, names := env.Decisions(); names["a"] != (command.Decided{Allowed: 1, Denied: 1}) || names["b"] != (command.Decided{Allowed: 1}) || names["d"] != (command.Decided{}) {
		t.Errorf("the names are %+v", names)
	}

	// The names with the most decisions are kept, however many there are.
	const most = 2000
	for i := range 2 * most {
		reply(t, env, "LIMIT.TAKE", fmt.Sprint("cold", i), "1", "1", "1000", "1")
	}
	if _, names := env.Decisions(); names["a"] != (command.Decided{Allowed: 1, Denied: 1}) || len(names) > most || len(names) < 100 {
		t.Errorf("%d names, of them a %+v", len(names), names["a"])
	}
}
