package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/transfer"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

// bulkFlags are the flags of a command on the given messages or on all.
type bulkFlags struct {
	serverFlags

	all, quiet, asJSON bool
}

func (f *bulkFlags) bulk(cmd *cobra.Command, all string) {
	flags := cmd.Flags()
	flags.BoolVar(&f.all, "all", false, all)
	flags.BoolVar(&f.quiet, "quiet", false, "print nothing but errors")
	onThisLine(flags, "all")
	f.flags(flags, "queues")
}

// check wants either ids or --all.
func (f *bulkFlags) check(ids []string) error {
	switch {
	case f.all && len(ids) > 0:
		return usagef("both IDs and --all are given; leave out one of the two")
	case !f.all && len(ids) == 0:
		return usagef("want the ID of a message, or --all")
	}
	return checkIDs(ids)
}

func checkIDs(ids []string) error {
	for _, id := range ids {
		if err := wire.CheckID(id); err != nil {
			return fail(exitUsage, err)
		}
	}
	return nil
}

func nameAndIDs(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("want a NAME")
	}
	return nil
}

func newQueueDead() *cobra.Command {
	var f bulkFlags
	var count int
	var remove bool
	cmd := &cobra.Command{
		Use:   "dead NAME [ID...]",
		Short: "List dead messages, or delete them",
		Long: `List the dead messages of the queue NAME, which failed at all their attempts, in the
order in which they died. For each: when, how often it failed, the last reason, and
its payload. With --delete, delete the messages with the given IDs, or all with --all.

Exit codes: 0 listed or deleted; 1 some of the IDs are not dead; 64 wrong usage; 69 no
server; 128+n ended by signal n.`,
		Example: `  redoubt queue dead mail --json | jq -r .reason | sort | uniq -c
  redoubt queue dead mail --delete welcome:42`,
		Args: nameAndIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !remove {
				if f.all || len(args) > 1 {
					return usagef("IDs and --all need --delete")
				}
				if count < 1 || count > wire.MaxSettle {
					return usagef("count is %d; want 1 to %d", count, wire.MaxSettle)
				}
				return f.withQueue(cmd, args[0], func(ctx context.Context, client *redoubt.Client, _ *queue.Queue[[]byte]) error {
					return listDead(ctx, client, args[0], count, f.asJSON, cmd.OutOrStdout(), cmd.ErrOrStderr())
				})
			}
			return f.each(cmd, args, "deleting", "deleted", func(ctx context.Context, client *redoubt.Client, keys wire.Keys, ids []string) ([]bool, error) {
				states, err := wire.Delete(ctx, client, keys, ids...)
				dead := make([]bool, len(states))
				for i, s := range states {
					dead[i] = s == queue.StateDead
				}
				return dead, err
			})
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&count, "count", 100, "maximum number of messages to list")
	flags.BoolVar(&remove, "delete", false, "delete messages instead of listing them")
	onThisLine(flags, "count", "delete")
	jsonFlag(flags, &f.asJSON, "print a JSON object for each message on a line, or one for what was deleted")
	f.bulk(cmd, "with --delete: all dead messages")
	return cmd
}

func listDead(ctx context.Context, client *redoubt.Client, name string, count int, asJSON bool, out, stderr io.Writer) error {
	list, all, err := deadPage(ctx, client, name, count)
	if err != nil {
		return err
	}
	table := newTable(out)
	if !asJSON {
		_, _ = fmt.Fprintln(table, "ID\tDIED\tFAILED\tREASON\tPAYLOAD")
	}
	for _, m := range list {
		if asJSON {
			s := messageStateOf(m.Message)
			s.Failures, s.Reason, s.Died, s.Unreadable = m.Failures, m.LastReason, new(m.When.UTC()), m.Unreadable
			if err := printLine(out, s); err != nil {
				return err
			}
			continue
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", printable(m.ID), m.When.Local().Format(time.DateTime), m.Failures, short(m.LastReason), short(string(m.Payload)))
	}
	if all > len(list) {
		_, _ = fmt.Fprintf(stderr, "redoubt: %d more dead messages; raise --count to list them\n", all-len(list))
	}
	return table.Flush()
}

func deadPage(ctx context.Context, client *redoubt.Client, name string, count int) ([]wire.MessageInfo, int, error) {
	keys, err := wire.KeysOf(client, name)
	if err != nil {
		return nil, 0, err
	}
	cmd, err := wire.MessagesCmd(keys, queue.StateDead, 0, count)
	if err != nil {
		return nil, 0, err
	}
	return wire.ReadMessages(client.Do(ctx, cmd), queue.StateDead)
}

func newQueueRequeue() *cobra.Command {
	var f bulkFlags
	cmd := &cobra.Command{
		Use:   "requeue NAME ID...",
		Short: "Retry dead messages",
		Long: `Make dead messages of the queue NAME ready again, with all their attempts: the messages
with the given IDs, or with --all every message that is dead now.

Exit codes: 0 requeued; 1 some of the IDs are not dead; 64 wrong usage; 69 no server;
128+n ended by signal n.`,
		Example: `  redoubt queue requeue mail welcome:42
  redoubt queue requeue mail --all`,
		Args: nameAndIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.each(cmd, args, "requeueing", "requeued", func(ctx context.Context, client *redoubt.Client, keys wire.Keys, ids []string) ([]bool, error) {
				return wire.Requeue(ctx, client, keys, ids...)
			})
		},
	}
	f.bulk(cmd, "requeue all dead messages")
	jsonFlag(cmd.Flags(), &f.asJSON, "print a JSON object")
	return cmd
}

// each calls do with the IDs of dead messages in steps: the IDs in args, or all.
func (f *bulkFlags) each(cmd *cobra.Command, args []string, verb, past string, do func(ctx context.Context, client *redoubt.Client, keys wire.Keys, ids []string) ([]bool, error)) error {
	name, ids := args[0], args[1:]
	if err := f.check(ids); err != nil {
		return err
	}
	return f.withQueue(cmd, name, func(_ context.Context, client *redoubt.Client, _ *queue.Queue[[]byte]) error {
		keys, err := wire.KeysOf(client, name)
		if err != nil {
			return err
		}
		ctx, code, stop := untilInterrupted()
		defer stop()
		p := newProgress(cmd.ErrOrStderr(), f.quiet, verb)
		p.unit = "messages"
		defer p.done()
		next := f.chunks(ctx, client, name, ids)
		done, seen := 0, 0
		var missed []string
		for {
			chunk, total, err := next()
			if err == nil && len(chunk) > 0 {
				var was []bool
				was, err = do(ctx, client, keys, chunk)
				for i, yes := range was {
					if yes {
						done++
					} else {
						missed = append(missed, chunk[i])
					}
				}
			}
			seen += len(chunk)
			p.update(transfer.Progress{Done: int64(seen), Total: int64(max(total, seen))})
			if code() != 0 {
				p.done()
				return failf(code(), "interrupted: %s %s", messages(done), past)
			}
			if err != nil {
				p.done()
				return queueFault(name, fmt.Errorf("%s %s before this: %w", messages(done), past, err))
			}
			if len(chunk) == 0 {
				break
			}
		}
		p.done()
		if f.asJSON {
			err := printJSON(cmd.OutOrStdout(), map[string]any{past: done, "not_dead": append([]string{}, missed...)})
			if err == nil && len(missed) > 0 && !f.all {
				return fail(exitFault, nil)
			}
			return err
		}
		if len(missed) > 0 && !f.all {
			return failf(exitFault, "%s %s; not dead: %s", messages(done), past, someOf(missed))
		}
		if f.quiet {
			return nil
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", messages(done), past)
		return err
	})
}

// chunks returns a function that returns the next IDs and the total number. With --all it returns the
// messages that died first, up to the number of dead messages at the start.
func (f *bulkFlags) chunks(ctx context.Context, client *redoubt.Client, name string, ids []string) func() ([]string, int, error) {
	if !f.all {
		total := len(ids)
		steps := slices.Collect(slices.Chunk(ids, wire.MaxSettle))
		return func() (chunk []string, _ int, _ error) {
			if len(steps) > 0 {
				chunk, steps = steps[0], steps[1:]
			}
			return chunk, total, nil
		}
	}
	total, given := -1, 0
	return func() ([]string, int, error) {
		if total == given {
			return nil, total, nil
		}
		list, all, err := deadPage(ctx, client, name, wire.MaxSettle)
		if total < 0 {
			total = all
		}
		list = list[:min(len(list), max(0, total-given))]
		chunk := make([]string, len(list))
		for i, m := range list {
			chunk[i] = m.ID
		}
		given += len(chunk)
		return chunk, total, err
	}
}

func someOf(ids []string) string {
	some := make([]string, min(5, len(ids)))
	for i := range some {
		some[i] = printable(ids[i])
	}
	text := strings.Join(some, ", ")
	if more := len(ids) - len(some); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
