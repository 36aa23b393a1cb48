package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/queue"
)

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
	return serverFault("queue "+strconv.Quote(name), err)
}

func newQueueSwitch(use, short, long string, do func(*queue.Queue[[]byte], context.Context, string) error) *cobra.Command {
	var f serverFlags
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long + "\n\nExit codes: 0 done, also when it was so before; 64 wrong usage; 69 no server.",
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.withQueue(cmd, args[0], func(ctx context.Context, _ *redoubt.Client, q *queue.Queue[[]byte]) error {
				return do(q, ctx, args[0])
			})
		},
	}
	f.flags(cmd.Flags(), "queues")
	return cmd
}
