package main

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/queue"
)

func newQueue() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "List queues, put and take messages, and handle failed ones",
		Long: `List and count queues, put and take messages, list, requeue and delete dead messages,
cancel messages, pause, resume and drain queues, and keep schedules. The library's package queue and
the QUEUE commands use the same queues.

Exit codes: 0 done, 1 not all could be done, 64 wrong usage, 69 no server, 75 there
was no message to take.`,
		Example: "  redoubt queue ls\n  redoubt queue put mail '{\"to\":\"a@b.example\"}' --delay 15m\n  redoubt queue requeue mail --all",
		Args:    noSuchCommand,
		RunE:    showHelp,
	}
	cmd.AddCommand(newQueueLS(), newQueueStats(), newQueuePut(), newQueueTake(), newQueueDead(), newQueueRequeue(), newQueueCancel(),
		newQueueSwitch("pause NAME", "Stop consumers from taking messages",
			"Pause the queue NAME: no consumer gets a message until you resume it. Running\nmessages continue, and producers can still put messages.", (*queue.Queue[[]byte]).Pause),
		newQueueSwitch("resume NAME", "Let consumers take messages from a paused queue again",
			"Resume the queue NAME: consumers get messages again.", (*queue.Queue[[]byte]).Resume),
		newQueueDrain(), newQueueSchedule())
	return cmd
}

// withQueue calls do with a client and the queues of the server.
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
	return serverFault("queue "+strconv.Quote(name), err)
}

func newQueueSwitch(use, short, long string, do func(*queue.Queue[[]byte], context.Context, string) error) *cobra.Command {
	var f serverFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long + "\n\nExit codes: 0 done, also if nothing changed; 64 wrong usage; 69 no server.",
		Example: "  redoubt queue " + strings.Fields(use)[0] + " mail",
		Args:    one("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.withQueue(cmd, args[0], func(ctx context.Context, _ *redoubt.Client, q *queue.Queue[[]byte]) error {
				if err := do(q, ctx, args[0]); err != nil {
					return err
				}
				info, err := q.Info(ctx, args[0])
				if err != nil {
					return err
				}
				n := info.Ready + info.Due + info.Running + info.Waiting + info.Blocked + info.Dead
				if asJSON {
					return printJSON(cmd.OutOrStdout(), map[string]any{"name": args[0], "paused": info.Paused, "messages": n})
				}
				if n == 0 { // perhaps the name is misspelled
					state := map[bool]string{true: "paused", false: "not paused"}[info.Paused]
					cmd.PrintErrf("redoubt: queue %q is %s, and has no messages: if that surprises you, see `redoubt queue ls`\n", args[0], state)
				}
				return nil
			})
		},
	}
	jsonFlag(cmd.Flags(), &asJSON, "print a JSON object")
	f.flags(cmd.Flags(), "queues")
	return cmd
}
