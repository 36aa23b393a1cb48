package command_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/command"
)

func TestDecisionsAreCounted(t *testing.T) {
	env := engineEnv(t)
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
		if all := env.Decisions().All; all != c.want {
			t.Errorf("after %s, which answers %v, %+v; want %+v", c.args, got, all, c.want)
		}
	}
	got := env.Decisions()
	if a := got.Names["a"]; a != (command.Decided{Allowed: 1, Denied: 1}) || got.Names["b"] != (command.Decided{Allowed: 1}) || len(got.Names) != 3 {
		t.Errorf("the names are %+v", got.Names)
	}
	if got.Keys["d"] != (command.Decided{Allowed: 1, Denied: 1}) || len(got.Keys) != 1 {
		t.Errorf("the keys of CL.THROTTLE are %+v", got.Keys)
	}

	// The names with the most decisions are kept, however many there are.
	const most = 2000
	for i := range 2 * most {
		reply(t, env, "LIMIT.TAKE", fmt.Sprint("cold", i), "1", "1", "1000", "1")
	}
	if names := env.Decisions().Names; names["a"] != (command.Decided{Allowed: 1, Denied: 1}) || len(names) > most || len(names) < 100 {
		t.Errorf("%d names, of them a %+v", len(names), names["a"])
	}

	// A key may be as long as 512 MB. Only those with the length of a name are kept.
	long := strings.Repeat("k", redoubt.MaxName+1)
	reply(t, env, "CL.THROTTLE", long, "0", "1", "3600", "1")
	if got := env.Decisions(); len(got.Keys) != 1 || got.All.Allowed != 4+2*most+1 {
		t.Errorf("after a long key, %+v", got.All)
	}
}

// TestFiltersAreCounted: the BF commands that succeed say which keys are filters.
func TestFiltersAreCounted(t *testing.T) {
	env := engineEnv(t)
	for _, args := range []string{"BF.RESERVE seen 0.01 100", "BF.ADD seen a", "BF.INSERT mails ITEMS a", "BF.EXISTS seen a", "BF.EXISTS seen b", "BF.MEXISTS mails a b", "BF.MADD mails b c"} {
		reply(t, env, strings.Fields(args)...)
	}
	for _, args := range []string{"BF.RESERVE seen 0.01 100", "BF.INSERT none NOCREATE ITEMS a", "BF.INSERT none NOCREATE ITEMS a b", "BF.LOADCHUNK none 2 x"} {
		if got := fmt.Sprint(reply(t, env, strings.Fields(args)...)); !strings.HasPrefix(got, "ERR ") {
			t.Errorf("%s: %s; want an error", args, got)
		}
	}
	want := map[string]command.Asked{"seen": {Adds: 2, Looks: 2}, "mails": {Adds: 2, Looks: 1}}
	if got := env.Filters(); !maps.Equal(got, want) {
		t.Errorf("the filters are %+v; want %+v", got, want)
	}
}

// TestPoliciesAreCounted: decisions are counted by policy, for a bounded number of them.
func TestPoliciesAreCounted(t *testing.T) {
	env := engineEnv(t)
	for _, args := range []string{
		"LIMIT.TAKE login:ann 1 1 3600000 1", "LIMIT.TAKE login:ann 1 1 3600000 1", "LIMIT.TAKE login:bob 1 1 3600000 1", "LIMIT.TAKE alone 1 1 3600000 1",
		"CL.THROTTLE api:v2:x 0 1 3600 1", "LIMIT.DEFINE stored:x 1 3600000 1", "LIMIT.USE stored:x 1", "LIMIT.USE stored:x 1",
	} {
		reply(t, env, strings.Fields(args)...)
	}
	want := map[string]command.Decided{"login": {Allowed: 2, Denied: 1}, "api": {Allowed: 1}, "stored": {Allowed: 1, Denied: 1}}
	if got := env.Counts().Policies; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for i := range 2 * command.MaxNames {
		reply(t, env, "LIMIT.TAKE", fmt.Sprintf("p%d:x", i), "1", "1", "3600000", "1")
	}
	all := env.Counts().Policies
	if others := all[command.OtherNames].Allowed; len(all) != command.MaxNames+1 || others != command.MaxNames+3 {
		t.Errorf("%d policies, %d decisions about others", len(all), others)
	}
}
