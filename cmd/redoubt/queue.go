package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

// A queueState is what there is to say of a queue. Its JSON is what ls and stats
// print.
type queueState struct {
	Name        string         `json:"name"`
	Ready       int            `json:"ready"`
	Lanes       map[string]int `json:"ready_by_lane"`
	Due         int            `json:"due"`
	Running     int            `json:"running"`
	Waiting     int            `json:"waiting"`
	Dead        int            `json:"dead"`
	Oldest      int64          `json:"oldest_ms"`
	Next        *int64         `json:"next_ms"` // null when none is due later
	Paused      bool           `json:"paused"`
	Concurrency int            `json:"concurrency"` // 0: no limit
	Interval    int64          `json:"interval_us"` // 0: no limit
	Burst       int            `json:"burst"`
}

func queueStateOf(name string, s wire.Stats) queueState {
	q := queueState{
		Name: name, Ready: s.Ready, Due: s.Due, Running: s.Running, Waiting: s.Waiting, Dead: s.Dead, Oldest: s.Oldest.Milliseconds(),
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

func newQueue() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "List queues, put and take messages, and see to those that failed",
		Long: `List queues and count what is in them, put and take messages, list, requeue and
delete dead ones, cancel, pause, resume and drain. The queues are those of the
library's queue.Queue and of the QUEUE commands.

Exit codes: 0 done, 1 not all could be done, 64 wrong usage, 69 no server, 75 there
was no message to take.`,
		Args: noSuchCommand,
		RunE: showHelp,
	}
	cmd.AddCommand(newQueueLS(), newQueueStats(), newQueuePut(), newQueueTake(), newQueueDead(), newQueueRequeue(), newQueueCancel(),
		newQueueSwitch("pause NAME", "Let nothing more be taken from a queue, by anybody",
			"Let nothing more be taken from the queue called NAME, by anybody, until it is\nresumed. What is at work goes on, and messages can be put.", (*queue.Queue[[]byte]).Pause),
		newQueueSwitch("resume NAME", "Let messages be taken from a paused queue again",
			"Let messages be taken again from the queue called NAME.", (*queue.Queue[[]byte]).Resume),
		newQueueDrain())
	return cmd
}

// withQueue runs do with the queue's family.
func (f *serverFlags) withQueue(cmd *cobra.Command, name string, do func(ctx context.Context, client *redoubt.Client, q *queue.Queue[[]byte]) error) error {
	return f.with(cmd.Context(), cmd.ErrOrStderr(), func(ctx context.Context, client *redoubt.Client) error {
		q, err := queue.New[[]byte](client, queue.Options{Codec: queue.Bytes{}})
		if err != nil {
			return err
		}
		return queueFault(name, do(ctx, client, q))
	})
}

func queueFault(name string, err error) error {
	if _, ok := errors.AsType[*exitError](err); ok || err == nil {
		return err
	}
	return lockFault("queue "+strconv.Quote(name), err)
}

func oneQueue(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one NAME, not %d", len(args))
	}
	return nil
}

func newQueueLS() *cobra.Command {
	return newLS(&cobra.Command{
		Short: "List the queues that have messages",
		Long: `List the queues that have a message, in whatever state: how many are ready, due
later, running, waiting for others of their group, and dead; for how long the
oldest is ready.

It looks at every key of the server, or of all primaries of a cluster, in small
steps that hold nobody up.

Exit codes: 0 listed, 64 wrong usage, 69 no server.`,
		Example: `  redoubt queue ls
  redoubt queue ls --match 'mail*' --json | jq '.[] | select(.dead > 0) | .name'`,
		Args: cobra.NoArgs,
	}, "queues", listQueues, printQueues)
}

func listQueues(ctx context.Context, client *redoubt.Client, match string) ([]queueState, error) {
	found := map[string]queueState{} // a listing may find a name twice
	for cursor := ""; cursor != "0"; {
		page, next, err := wire.StatsPage(ctx, client, match, cursor)
		if err != nil {
			return nil, err
		}
		for _, q := range page {
			found[q.Name] = queueStateOf(q.Name, q.Stats)
		}
		cursor = next
	}
	states := slices.AppendSeq([]queueState{}, maps.Values(found)) // in JSON an array, also without any
	slices.SortFunc(states, func(a, b queueState) int { return cmp.Compare(a.Name, b.Name) })
	return states, nil
}

func printQueues(w io.Writer, states []queueState) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
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
		_, _ = fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", printable(s.Name), s.Ready, s.Due, s.Running, s.Waiting, s.Dead, oldest, next, state)
	}
	return table.Flush()
}

// rounded is a time that changes while one reads.
func rounded(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d > time.Minute {
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

func newQueueStats() *cobra.Command {
	var f serverFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "stats NAME",
		Short: "Count what is in a queue",
		Long: `Count what is in the queue called NAME, and say whether it is paused and what limits
it has.

Exit codes: 0 told, also of one that is empty; 64 wrong usage; 69 no server.`,
		Example: `  redoubt queue stats mail
  redoubt queue stats mail --json | jq .oldest_ms`,
		Args: oneQueue,
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
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
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
	row("dead", s.Dead)
	if s.Oldest > 0 {
		row("oldest is ready for", rounded(s.Oldest))
	}
	if s.Next != nil {
		row("next is due in", rounded(*s.Next))
	}
	row("paused", map[bool]string{true: "yes", false: "no"}[s.Paused])
	if s.Concurrency > 0 {
		row("at work at once", fmt.Sprintf("at most %d", s.Concurrency))
	}
	if s.Interval > 0 {
		row("taken", fmt.Sprintf("one every %v, %d at once", time.Duration(s.Interval)*time.Microsecond, s.Burst))
	}
	return table.Flush()
}

func newQueueSwitch(use, short, long string, do func(*queue.Queue[[]byte], context.Context, string) error) *cobra.Command {
	var f serverFlags
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long + "\n\nExit codes: 0 done, also when it was so before; 64 wrong usage; 69 no server.",
		Args: oneQueue,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.withQueue(cmd, args[0], func(ctx context.Context, _ *redoubt.Client, q *queue.Queue[[]byte]) error {
				return do(q, ctx, args[0])
			})
		},
	}
	f.flags(cmd.Flags(), "queues")
	return cmd
}

// A messageState is a message. Its JSON is what take and dead print. A payload that
// is no text is in payload_base64 instead.
type messageState struct {
	ID         string            `json:"id"`
	Attempt    int               `json:"attempt,omitempty"`
	Failures   int               `json:"failures,omitempty"`
	Attempts   int               `json:"attempts"` // -1: no end
	Died       *time.Time        `json:"died,omitempty"`
	Reason     string            `json:"reason,omitempty"`
	Lane       int               `json:"lane"`
	Group      string            `json:"group,omitempty"`
	Headers    map[string]string `json:"headers,omitempty"`
	Payload    *string           `json:"payload,omitempty"`
	Bytes      []byte            `json:"payload_base64,omitempty"`
	Unreadable bool              `json:"unreadable,omitempty"` // no message: something else wrote it
}

func messageStateOf(m wire.Message) messageState {
	s := messageState{ID: m.ID, Attempts: m.Attempts, Lane: int(m.Lane), Group: m.Group, Headers: m.Headers}
	if utf8.Valid(m.Payload) {
		s.Payload = new(string(m.Payload))
	} else {
		s.Bytes = m.Payload
	}
	return s
}
