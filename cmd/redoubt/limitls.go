package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
)

// A limitListed is the JSON form of a limit in a list.
type limitListed struct {
	Name       string `json:"name"`
	Kind       string `json:"kind"`
	Stored     string `json:"stored"`         // the limits that the server stores for the name, like 100/1m0s burst 20; "": none
	ResetAfter int64  `json:"reset_after_ms"` // 0: nothing is taken
}

func newLimitLS() *cobra.Command {
	return newLS(&cobra.Command{
		Short: "List the limits that are not full, and stored limits",
		Long: `List the limits that are not full, with the time until they are full again, and the
limits that the server stores. The kind is limiter (GCRA), window, quota or
concurrency. A key of CL.THROTTLE is the bare name, so it can't be told from other
keys and is not listed; nor are limits with the scope PerClient.

It scans all keys of the server, or of all primaries of a cluster, in small steps
that don't block other clients.

Exit codes: 0 listed, 64 wrong usage, 69 no server.`,
		Example: "  redoubt limit ls\n  redoubt limit ls --match 'mail:*' --json | jq -r '.[].name'",
		Args:    noArguments,
	}, "limits", listLimits, printLimits)
}

// limitParts are the parts of the keys that hold what was taken, and the Redis types of their keys.
var limitParts = []struct{ part, typ, kind string }{
	{"gcra", "string", limiterKind}, {"window", "string", "window"}, {"quota", "string", "quota"}, {"calls", "zset", "concurrency"},
}

func listLimits(ctx context.Context, client *redoubt.Client, match string) ([]limitListed, error) {
	found := map[[2]string]*limitListed{} // by name and kind; a scan may return a name twice
	for _, p := range limitParts {
		if err := listPart(ctx, client, p.part, p.typ, match, func(name, key string) redoubt.Cmd {
			return redoubt.Cmd{Name: "PTTL", Keys: []string{key}, Flags: redoubt.ReadOnly}
		}, func(name string, r redoubt.Reply) error {
			ms, err := r.Int()
			if err == nil && ms > -2 { // else it is full again meanwhile
				found[[2]string{name, p.kind}] = &limitListed{Name: name, Kind: p.kind, ResetAfter: max(0, ms)}
			}
			return err
		}); err != nil {
			return nil, err
		}
	}
	stored := wire.NewStored(client, "")
	if err := listPart(ctx, client, "limit", "string", match, func(name, _ string) redoubt.Cmd {
		cmd, _ := stored.GetCmd(name) // the name is good
		return cmd
	}, func(name string, r redoubt.Reply) error {
		_, limits, err := wire.ReadLimits(r)
		if err != nil || len(limits) == 0 {
			return err
		}
		s := found[[2]string{name, limiterKind}]
		if s == nil {
			s = &limitListed{Name: name, Kind: limiterKind}
			found[[2]string{name, limiterKind}] = s
		}
		for i, l := range limits {
			if i > 0 {
				s.Stored += ", "
			}
			s.Stored += fmt.Sprintf("%d/%s", l.Rate, rounded(l.Period.Milliseconds()))
			if l.Burst != l.Rate {
				s.Stored += fmt.Sprintf(" burst %d", l.Burst)
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	states := []limitListed{} // never nil: JSON null is no array
	for _, s := range found {
		states = append(states, *s)
	}
	slices.SortFunc(states, func(a, b limitListed) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind)) })
	return states, nil
}

// listPart sends a command for each name that has a key of a part, in pipelines, and reads its reply.
func listPart(ctx context.Context, client *redoubt.Client, part, typ, match string, ask func(name, key string) redoubt.Cmd, read func(name string, r redoubt.Reply) error) error {
	var names []string
	var cmds []redoubt.Cmd
	flush := func() error {
		for i, r := range client.Pipeline(ctx, cmds) {
			if err := read(names[i], r); err != nil {
				return err
			}
		}
		names, cmds = nil, nil
		return nil
	}
	for name, err := range client.Names(ctx, part, typ, match) {
		if err != nil {
			return err
		}
		key, err := client.Key(name, part)
		if err != nil {
			continue // another program made it
		}
		names, cmds = append(names, name), append(cmds, ask(name, key))
		if len(cmds) < 500 {
			continue
		}
		if err := flush(); err != nil {
			return err
		}
	}
	return flush()
}

func printLimits(w io.Writer, states []limitListed) error {
	table := newTable(w)
	_, _ = fmt.Fprintln(table, "NAME\tKIND\tSTORED LIMIT\tFULL AGAIN IN")
	for _, s := range states {
		_, _ = fmt.Fprintln(table, strings.Join(s.row(), "\t"))
	}
	return table.Flush()
}

func (s limitListed) row() []string {
	full := "-"
	if s.ResetAfter > 0 {
		full = rounded(s.ResetAfter)
	}
	return []string{printable(s.Name), s.Kind, cmp.Or(s.Stored, "-"), full}
}
