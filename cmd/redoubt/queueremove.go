package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/transfer"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

func newQueueCancel() *cobra.Command {
	var f serverFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "cancel NAME ID...",
		Short: "Cancel messages that are not done",
		Long: `Cancel messages of the queue NAME that are not done: remove them. If one is running,
the library's Run cancels the context of its handler; what the handler did before
stays done.

Exit codes: 0 removed; 1 some are dead, or not there; 64 wrong usage; 69 no server;
128+n ended by signal n.`,
		Example: `  redoubt queue cancel orders cancel:7`,
		Args:    nameAndIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return usagef("want the ID of a message")
			}
			if err := checkIDs(args[1:]); err != nil {
				return err
			}
			return f.withQueue(cmd, args[0], func(_ context.Context, _ *redoubt.Client, q *queue.Queue[[]byte]) error {
				ctx, code, stop := untilInterrupted()
				defer stop()
				p := newProgress(cmd.ErrOrStderr(), false, "cancelling")
				missed, err := cancelMessages(ctx, q, args[0], args[1:], p, cmd.OutOrStdout(), asJSON)
				switch {
				case code() != 0:
					return failf(code(), "interrupted: messages that are not listed may still be in the queue")
				case err == nil && missed > 0:
					return fail(exitFault, nil)
				}
				return err
			})
		},
	}
	jsonFlag(cmd.Flags(), &asJSON, "print a JSON object on each line")
	f.flags(cmd.Flags(), "queues")
	return cmd
}

// cancelMessages cancels messages and prints the result for each. missed is how many it could not cancel.
func cancelMessages(ctx context.Context, q *queue.Queue[[]byte], name string, ids []string, p *progress, out io.Writer, asJSON bool) (missed int, err error) {
	p.unit = "messages"
	defer p.done()
	done := 0
	for chunk := range slices.Chunk(ids, wire.MaxSettle) {
		states, err := q.CancelMany(ctx, name, chunk)
		p.done() // the bar may share the terminal with the output
		for i, s := range states {
			text := map[queue.State]string{
				queue.StateAbsent: "is not in the queue", queue.StatePending: "cancelled", queue.StateRunning: "cancelled while running",
				queue.StateDead: "is dead and was not cancelled: redoubt queue dead --delete removes it",
			}[s]
			if s == queue.StateAbsent || s == queue.StateDead {
				missed++
			}
			if asJSON {
				if err := printLine(out, map[string]any{"id": chunk[i], "was": s}); err != nil {
					return missed, err
				}
				continue
			}
			_, _ = fmt.Fprintf(out, "%s %s\n", printable(chunk[i]), text)
		}
		if err != nil {
			return missed, err
		}
		done += len(chunk)
		p.update(transfer.Progress{Done: int64(done), Total: int64(len(ids))})
	}
	return missed, nil
}

func newQueueDrain() *cobra.Command {
	var f serverFlags
	var force, quiet, asJSON bool
	cmd := &cobra.Command{
		Use:   "drain NAME --force",
		Short: "Remove all messages that are not running",
		Long: `Remove all messages from the queue NAME that are ready, due later or waiting for other
messages. Running and dead messages stay. There is no prompt; pass --force.

Exit codes: 0 removed, 64 wrong usage, 69 no server, 128+n ended by signal n.`,
		Example: `  redoubt queue drain mail --force`,
		Args:    one("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !force {
				return usagef("this removes messages for good; if you want that, pass --force")
			}
			return f.withQueue(cmd, args[0], func(_ context.Context, client *redoubt.Client, q *queue.Queue[[]byte]) error {
				ctx, code, stop := untilInterrupted()
				defer stop()
				n, err := drainQueue(ctx, client, q, args[0], newProgress(cmd.ErrOrStderr(), quiet, "draining"))
				switch {
				case code() != 0:
					return failf(code(), "interrupted: %s removed", messages(n))
				case err != nil:
					return fmt.Errorf("%s removed before this: %w", messages(n), err)
				case quiet:
					return nil
				}
				return answer(cmd.OutOrStdout(), asJSON, map[string]any{"name": args[0], "removed": n}, messages(n)+" removed")
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&force, "force", false, "required, because the messages are removed for good")
	flags.BoolVar(&quiet, "quiet", false, "print nothing but errors")
	onThisLine(flags, "force")
	jsonFlag(flags, &asJSON, "print a JSON object")
	f.flags(flags, "queues")
	return cmd
}

func drainQueue(ctx context.Context, client *redoubt.Client, q *queue.Queue[[]byte], name string, p *progress) (n int, err error) {
	p.unit = "messages"
	defer p.done()
	info, err := q.Info(ctx, name)
	if err != nil {
		return 0, err
	}
	total := info.Ready + info.Due + info.Waiting + info.Blocked
	keys, err := wire.KeysOf(client, name)
	if err != nil {
		return 0, err
	}
	for skip, more := 0, true; more; {
		var removed int
		if removed, skip, more, err = wire.ReadDrain(client.Do(ctx, wire.DrainCmd(keys, wire.MaxSettle, skip))); err != nil {
			return n, err
		}
		n += removed
		p.update(transfer.Progress{Done: int64(n), Total: int64(max(n, total))})
	}
	return n, nil
}
