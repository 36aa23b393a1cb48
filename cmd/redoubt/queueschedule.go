package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/queue"
)

func newQueueSchedule() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedule",
		Short: "Put messages by the clock: add, list, pause and remove schedules",
		Long: `Add, list, pause, resume and remove the schedules of a queue. A schedule puts a message
into its queue again and again: by a cron expression in a time zone, or at an interval.
The server keeps it. Each ` + "`redoubt serve`" + ` in front of that server puts the messages, and
so does the library's Schedules.Run; each time has one message, however many run.`,
		Example: "  redoubt queue schedule put jobs report sales --cron '0 9 * * MON-FRI' --zone Asia/Shanghai\n  redoubt queue schedule ls jobs",
		Args:    noSuchCommand,
		RunE:    showHelp,
	}
	cmd.AddCommand(newSchedulePut(), newScheduleLS(),
		newScheduleSwitch("pause NAME ID", "Stop a schedule",
			"Pause the schedule ID of the queue NAME: it puts nothing until you resume it.", (*queue.Schedules[[]byte]).Pause),
		newScheduleSwitch("resume NAME ID", "Let a paused schedule go on",
			"Resume the schedule ID of the queue NAME. It goes on with its first time after now.", (*queue.Schedules[[]byte]).Resume),
		newScheduleRemove())
	return cmd
}

// A scheduleState is the JSON form of a schedule.
type scheduleState struct {
	ID       string            `json:"id"`
	Cron     string            `json:"cron,omitempty"`
	Zone     string            `json:"zone,omitempty"`
	Every    int64             `json:"every_ms,omitempty"`
	CatchUp  string            `json:"catch_up"`
	Start    *time.Time        `json:"start,omitempty"`
	End      *time.Time        `json:"end,omitempty"`
	Limit    int               `json:"limit,omitempty"`
	Paused   bool              `json:"paused"`
	Next     *time.Time        `json:"next"` // null: none
	Last     *time.Time        `json:"last"`
	Count    int               `json:"count"`
	Attempts int               `json:"attempts"`
	Lane     int               `json:"lane"`
	Group    string            `json:"group,omitempty"`
	Payload  string            `json:"payload"`
	Headers  map[string]string `json:"headers,omitempty"`
	Error    string            `json:"error,omitempty"`
}

func scheduleStateOf(s queue.ScheduleInfo) scheduleState {
	when := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		t = t.UTC()
		return &t
	}
	state := scheduleState{
		ID: s.ID, Cron: s.Cron, Zone: s.Zone, Every: s.Every.Milliseconds(), CatchUp: string(s.CatchUp), Start: when(s.Start), End: when(s.End),
		Limit: s.Limit, Paused: s.Paused, Next: when(s.Next), Last: when(s.Last), Count: s.Count, Attempts: s.Message.Attempts,
		Lane: int(s.Message.Lane), Group: s.Message.Group, Payload: string(s.Message.Payload), Headers: s.Message.Headers,
	}
	if s.Err != nil {
		state.Error = s.Err.Error()
	}
	return state
}

// withSchedules calls do with the schedules of the server.
func (f *serverFlags) withSchedules(cmd *cobra.Command, name string, do func(ctx context.Context, s *queue.Schedules[[]byte]) error) error {
	return f.withQueue(cmd, name, func(ctx context.Context, _ *redoubt.Client, q *queue.Queue[[]byte]) error {
		return do(ctx, queue.NewSchedules(q))
	})
}

type schedulePutFlags struct {
	serverFlags

	cron, zone, catchUp, start, end, group string
	every                                  time.Duration
	headers                                []string
	limit, attempts, lane                  int
	asJSON                                 bool
}

func newSchedulePut() *cobra.Command {
	var f schedulePutFlags
	cmd := &cobra.Command{
		Use:   "put NAME ID [PAYLOAD]",
		Short: "Add a schedule to a queue, or replace the one with its ID",
		Long: `Add the schedule ID to the queue NAME, or replace it, and print its next time. It puts
PAYLOAD, or the standard input if there is no PAYLOAD, as a message at each of its times.

You can repeat the command: with the same times the schedule goes on where it stands.

Exit codes: 0 put; 64 wrong usage; 69 no server.`,
		Example: `  redoubt queue schedule put jobs report sales --cron '0 9 * * MON-FRI' --zone Asia/Shanghai
  redoubt queue schedule put jobs sweep now --every 10m --catch-up skip`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 || len(args) > 3 {
				return fmt.Errorf("want NAME, ID and at most one PAYLOAD, not %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.cron, "cron", "", "cron `expression` of five fields, or @hourly, @daily, @weekly, @monthly or @yearly")
	flags.StringVar(&f.zone, "zone", "", "time zone of --cron, like Asia/Shanghai (default UTC)")
	flags.DurationVar(&f.every, "every", 0, "put a message at this interval, a second at least")
	flags.StringVar(&f.catchUp, "catch-up", string(queue.CatchUpOne), "for times that passed while nothing ran: one message for the last, skip them, or all of them")
	flags.StringVar(&f.start, "start", "", "first `time` that counts, like 2026-01-02T15:04:05Z")
	flags.StringVar(&f.end, "end", "", "last `time` that counts")
	flags.IntVar(&f.limit, "limit", 0, "maximum number of messages (default unlimited)")
	flags.IntVar(&f.attempts, "attempts", queue.DefaultAttempts, "number of attempts before a message is dead; -1: unlimited")
	flags.IntVar(&f.lane, "lane", 0, "priority of the messages: -1 low, 0 normal, 1 high, 2 urgent")
	flags.StringVar(&f.group, "group", "", "messages of one group run one at a time, in order")
	headerFlag(flags, &f.headers, "the messages")
	onThisLine(flags, "cron", "zone", "every", "catch-up", "start", "end", "limit", "attempts", "lane", "group", "header")
	jsonFlag(flags, &f.asJSON, "print a JSON object")
	f.flags(flags, "queues")
	return cmd
}

func (f *schedulePutFlags) run(cmd *cobra.Command, args []string) error {
	s := queue.Schedule[[]byte]{
		ID: args[1], Cron: f.cron, Zone: f.zone, Every: f.every, CatchUp: queue.CatchUp(f.catchUp), Limit: f.limit,
		Request: queue.Request[[]byte]{Attempts: f.attempts, Lane: queue.Lane(max(-128, min(127, f.lane))), Group: f.group}, //nolint:gosec // bounded
	}
	if f.attempts == 0 {
		return usagef("attempts is 0; want 1 to %d, or -1", queue.MaxAttempts)
	}
	for _, bound := range []struct {
		flag, text string
		to         *time.Time
	}{{"start", f.start, &s.Start}, {"end", f.end, &s.End}} {
		if bound.text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, bound.text)
		if err != nil {
			return usagef("%s is %q; want a time like 2026-01-02T15:04:05Z", bound.flag, bound.text)
		}
		*bound.to = at
	}
	var err error
	if s.Request.Headers, err = headersOf(f.headers); err != nil {
		return err
	}
	if len(args) > 2 {
		s.Request.Value = []byte(args[2])
	} else {
		payload, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), queue.MaxScheduleBytes+1))
		if err != nil {
			return failf(exitFault, "standard input: %w", err)
		}
		s.Request.Value = payload
	}
	return f.withSchedules(cmd, args[0], func(ctx context.Context, schedules *queue.Schedules[[]byte]) error {
		info, err := schedules.Put(ctx, args[0], s)
		if err != nil {
			return putFault(args[0], err)
		}
		text := "no next time: it is paused, or its limit is reached"
		if !info.Next.IsZero() {
			text = info.Next.Format(time.RFC3339)
		}
		return answer(cmd.OutOrStdout(), f.asJSON, scheduleStateOf(info), text)
	})
}

func newScheduleLS() *cobra.Command {
	var f serverFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls NAME",
		Short: "List the schedules of a queue",
		Long: `List the schedules of the queue NAME by their next time. For each: when it comes, its
next and its last time, how many messages it has put, and its state.

Exit codes: 0 listed, 64 wrong usage, 69 no server.`,
		Example: `  redoubt queue schedule ls jobs
  redoubt queue schedule ls jobs --json | jq '.[] | select(.paused) | .id'`,
		Args: one("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.withSchedules(cmd, args[0], func(ctx context.Context, schedules *queue.Schedules[[]byte]) error {
				states := []scheduleState{} // never nil: JSON null is no array
				for s, err := range schedules.All(ctx, args[0]) {
					if err != nil {
						return err
					}
					states = append(states, scheduleStateOf(s))
				}
				if asJSON {
					return printJSON(cmd.OutOrStdout(), states)
				}
				return printSchedules(cmd.OutOrStdout(), states)
			})
		},
	}
	jsonFlag(cmd.Flags(), &asJSON, "print a JSON array")
	f.flags(cmd.Flags(), "queues")
	return cmd
}

func printSchedules(w io.Writer, states []scheduleState) error {
	table := newTable(w)
	_, _ = fmt.Fprintln(table, "ID\tWHEN\tNEXT\tLAST\tMESSAGES\tSTATE")
	when := func(t *time.Time) string {
		if t == nil {
			return "-"
		}
		return t.Format(time.RFC3339)
	}
	for _, s := range states {
		times := s.Cron
		if s.Zone != "" {
			times += " " + s.Zone
		}
		if s.Every > 0 {
			times = "every " + (time.Duration(s.Every) * time.Millisecond).String()
		}
		state := "on"
		switch {
		case s.Error != "":
			state = s.Error
		case s.Paused:
			state = "paused"
		case s.Next == nil:
			state = "over"
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\n", printable(s.ID), times, when(s.Next), when(s.Last), s.Count, state)
	}
	return table.Flush()
}

func nameAndID(_ *cobra.Command, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want NAME and ID, not %d arguments", len(args))
	}
	return nil
}

func newScheduleSwitch(use, short, long string, do func(*queue.Schedules[[]byte], context.Context, string, string) error) *cobra.Command {
	var f serverFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long + "\n\nExit codes: 0 done, also if nothing changed; 1 there is no such schedule; 64 wrong usage; 69 no\nserver.",
		Example: "  redoubt queue schedule " + use[:slices.Index([]byte(use), ' ')] + " jobs report",
		Args:    nameAndID,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.withSchedules(cmd, args[0], func(ctx context.Context, schedules *queue.Schedules[[]byte]) error {
				err := do(schedules, ctx, args[0], args[1])
				if err == nil && asJSON {
					var info queue.ScheduleInfo
					if info, err = schedules.Info(ctx, args[0], args[1]); err == nil {
						return printJSON(cmd.OutOrStdout(), scheduleStateOf(info))
					}
				}
				if errors.Is(err, queue.ErrNoSchedule) {
					return failf(exitFault, "queue %q has no schedule %q: see `redoubt queue schedule ls`", args[0], args[1])
				}
				return err
			})
		},
	}
	jsonFlag(cmd.Flags(), &asJSON, "print a JSON object")
	f.flags(cmd.Flags(), "queues")
	return cmd
}

func newScheduleRemove() *cobra.Command {
	var f serverFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "remove NAME ID...",
		Short: "Remove schedules",
		Long: `Remove schedules from the queue NAME. Messages that they have put stay.

Exit codes: 0 removed; 1 some of the IDs were no schedules; 64 wrong usage; 69 no server.`,
		Example: "  redoubt queue schedule remove jobs report",
		Args:    nameAndIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return usagef("want the ID of a schedule")
			}
			if len(args)-1 > queue.MaxSchedules {
				return usagef("%d IDs; want at most %d", len(args)-1, queue.MaxSchedules)
			}
			return f.withSchedules(cmd, args[0], func(ctx context.Context, schedules *queue.Schedules[[]byte]) error {
				n, err := schedules.Remove(ctx, args[0], args[1:]...)
				if err != nil {
					return err
				}
				text := fmt.Sprintf("%d schedules removed", n)
				if n == 1 {
					text = "1 schedule removed"
				}
				if err := answer(cmd.OutOrStdout(), asJSON, map[string]any{"removed": n}, text); err != nil {
					return err
				}
				if n < len(args)-1 {
					return fail(exitFault, nil)
				}
				return nil
			})
		},
	}
	jsonFlag(cmd.Flags(), &asJSON, "print a JSON object")
	f.flags(cmd.Flags(), "queues")
	return cmd
}
