package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/pages"
	"github.com/redoubt-go/redoubt/internal/wire/listing"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

// A queueState is the JSON form of a queue.
type queueState struct {
	Name        string         `json:"name"`
	Ready       int            `json:"ready"`
	Lanes       map[string]int `json:"ready_by_lane"`
	Due         int            `json:"due"`
	Running     int            `json:"running"`
	Waiting     int            `json:"waiting"` // for their group
	Blocked     int            `json:"blocked"` // by messages that they come after
	Dead        int            `json:"dead"`
	Oldest      int64          `json:"oldest_ms"`
	Next        *int64         `json:"next_ms"` // null: none is due later
	Paused      bool           `json:"paused"`
	Concurrency int            `json:"concurrency"` // 0: no limit
	Interval    int64          `json:"interval_us"` // 0: no limit
	Burst       int            `json:"burst"`
}

func queueStateOf(name string, s wire.Stats) queueState {
	q := queueState{
		Name: name, Ready: s.Ready, Due: s.Due, Running: s.Running, Waiting: s.Waiting, Blocked: s.Blocked, Dead: s.Dead, Oldest: s.Oldest.Milliseconds(),
		Lanes:  map[string]int{"urgent": s.ReadyIn[queue.Urgent], "high": s.ReadyIn[queue.High], "normal": s.ReadyIn[queue.Normal], "low": s.ReadyIn[queue.Low]},
		Paused: s.Paused, Concurrency: s.Limits.Concurrency, Burst: s.Limits.Burst,
	}
	if s.Next >= 0 {
		q.Next = new(s.Next.Milliseconds())
	}
	if s.Limits.Rate > 0 {
		q.Interval = (s.Limits.Per / time.Duration(s.Limits.Rate)).Microseconds()
	}
	return q
}

func newQueueLS() *cobra.Command {
	return newLS(&cobra.Command{
		Short: "List the queues that have messages",
		Long: `List the queues that have a message in any state. For each: how many messages are
ready, due later, running, waiting for other messages, and dead, and for how long the
oldest one is ready.

It scans all keys of the server, or of all primaries of a cluster, in small steps
that don't block other clients.

Exit codes: 0 listed, 64 wrong usage, 69 no server.`,
		Example: `  redoubt queue ls
  redoubt queue ls --match 'mail*' --json | jq '.[] | select(.dead > 0) | .name'`,
		Args: noArguments,
	}, "queues", listQueues, printQueues)
}

func listQueues(ctx context.Context, client *redoubt.Client, match string) ([]queueState, error) {
	found := map[string]queueState{} // a scan may return a name twice
	for q, err := range pages.All(func(cursor string) ([]listing.Listed[wire.Stats], string, error) {
		return wire.StatsPage(ctx, client, match, cursor)
	}) {
		if err != nil {
			return nil, err
		}
		found[q.Name] = queueStateOf(q.Name, q.Info)
	}
	states := slices.AppendSeq([]queueState{}, maps.Values(found)) // never nil: JSON null is no array
	slices.SortFunc(states, func(a, b queueState) int { return cmp.Compare(a.Name, b.Name) })
	return states, nil
}

func printQueues(w io.Writer, states []queueState) error {
	table := newTable(w)
	_, _ = fmt.Fprintln(table, "NAME\tREADY\tDUE\tRUNNING\tWAITING\tDEAD\tOLDEST\tNEXT DUE IN\tSTATE")
	for _, s := range states {
		oldest, next, state := "-", "-", "open"
		if s.Oldest > 0 {
			oldest = rounded(s.Oldest)
		}
		if s.Next != nil {
			next = rounded(*s.Next)
		}
		if s.Paused {
			state = "paused"
		}
		_, _ = fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", printable(s.Name), s.Ready, s.Due, s.Running, s.Waiting+s.Blocked, s.Dead, oldest, next, state)
	}
	return table.Flush()
}

func newQueueStats() *cobra.Command {
	var f serverFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "stats NAME",
		Short: "Count the messages of a queue",
		Long: `Count the messages of the queue NAME, and show its limits and whether it is paused.

Exit codes: 0 counted, also if it is empty; 64 wrong usage; 69 no server.`,
		Example: `  redoubt queue stats mail
  redoubt queue stats mail --json | jq .oldest_ms`,
		Args: one("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.withQueue(cmd, args[0], func(ctx context.Context, client *redoubt.Client, _ *queue.Queue[[]byte]) error {
				keys, err := wire.KeysOf(client, args[0])
				if err != nil {
					return err
				}
				stats, err := wire.ReadStats(client.Do(ctx, wire.StatsCmd(keys)))
				if err != nil {
					return err
				}
				s := queueStateOf(args[0], stats)
				if asJSON {
					return printJSON(cmd.OutOrStdout(), s)
				}
				return printQueue(cmd.OutOrStdout(), s)
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&asJSON, "json", false, "print a JSON object")
	onThisLine(flags, "json")
	f.flags(flags, "queues")
	return cmd
}

func printQueue(w io.Writer, s queueState) error {
	table := newTable(w)
	row := func(name string, value any) { _, _ = fmt.Fprintf(table, "%s\t%v\n", name, value) }
	row("name", printable(s.Name))
	ready := strconv.Itoa(s.Ready)
	if s.Ready != s.Lanes["normal"] {
		ready += fmt.Sprintf(" (urgent %d, high %d, normal %d, low %d)", s.Lanes["urgent"], s.Lanes["high"], s.Lanes["normal"], s.Lanes["low"])
	}
	row("ready", ready)
	row("due later", s.Due)
	row("running", s.Running)
	row("waiting for their group", s.Waiting)
	row("after others", s.Blocked)
	row("dead", s.Dead)
	if s.Oldest > 0 {
		row("oldest ready for", rounded(s.Oldest))
	}
	if s.Next != nil {
		row("next due in", rounded(*s.Next))
	}
	row("paused", map[bool]string{true: "yes", false: "no"}[s.Paused])
	if s.Concurrency > 0 {
		row("running at once", fmt.Sprintf("at most %d", s.Concurrency))
	}
	if s.Interval > 0 {
		row("taken", fmt.Sprintf("one every %v, bursts of %d", time.Duration(s.Interval)*time.Microsecond, s.Burst))
	}
	return table.Flush()
}
