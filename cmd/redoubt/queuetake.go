package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

type takeFlags struct {
	serverFlags

	count  int
	wait   waitFlags
	asJSON bool
}

func newQueueTake() *cobra.Command {
	var f takeFlags
	cmd := &cobra.Command{
		Use:   "take NAME",
		Short: "Take messages from a queue and print them",
		Long: `Take messages from the queue NAME, print each payload on a line, or as JSON, and remove
the message once it is printed. A message that can't be printed goes back to the
queue. The command waits for the first message: for as long as --wait says, or not at
all with --no-wait.

Use it by hand and in small scripts: a message that fails after it was printed is not
retried. Programs should use the library's Run, or QUEUE.TAKE and QUEUE.ACK.

Exit codes: 0 at least one message was taken; 64 wrong usage; 69 no server; 75 there was
no message within --wait, or with --no-wait; 128+n ended by signal n.`,
		Example: `  redoubt queue take mail --wait 1m
  redoubt queue take mail --no-wait --count 100 --json | jq -r .payload`,
		Args: one("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.count < 1 {
				return usagef("count is %d; want at least 1", f.count)
			}
			return f.withQueue(cmd, args[0], func(_ context.Context, client *redoubt.Client, _ *queue.Queue[[]byte]) error {
				return f.take(client, args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
			})
		},
	}
	f.wait.flags(cmd, "there is no message")
	flags := cmd.Flags()
	flags.IntVar(&f.count, "count", 1, "maximum number of messages to take")
	flags.BoolVar(&f.asJSON, "json", false, "print a JSON object on each line")
	onThisLine(flags, "count", "json")
	f.flags(flags, "queues")
	return cmd
}

const (
	takeLease = 30 * time.Second
	takeMost  = 100 // in one call, so that no message is leased for long before it is printed
	takeSlice = 10 * time.Second
)

func (f *takeFlags) take(client *redoubt.Client, name string, out, stderr io.Writer) error {
	keys, err := wire.KeysOf(client, name)
	if err != nil {
		return err
	}
	ctx, code, stop := untilInterrupted()
	defer stop()
	began := time.Now()
	waited := false
	defer func() {
		if waited { // an abandoned connection may have received the wake-up marker
			_, _ = settle(client, keys, wire.Pump{N: wire.Leave}) // on an error, others notice after takeSlice
		}
	}()
	for left := f.count; left > 0; {
		p := wire.Pump{Take: wire.NewTake(), N: min(left, takeMost), Lease: takeLease}
		p.Consumer = p.Take
		pumped, err := wire.Take(ctx, client, keys, p)
		switch {
		case code() != 0:
			var back wire.Pump
			for _, m := range pumped.Taken {
				back.Nacks = append(back.Nacks, wire.Nack{Receipt: m.Receipt, Kind: wire.HandBack})
			}
			_, _ = settle(client, keys, back) // on an error they come back when the lease ends
			return fail(code(), nil)
		case err != nil:
			return err
		}
		if len(pumped.Taken) > 0 {
			if err := f.print(client, keys, pumped.Taken, out); err != nil {
				return err
			}
			left -= len(pumped.Taken)
			continue
		}
		rest := f.wait.rest(began)
		switch {
		case left < f.count:
			return nil
		case f.wait.no:
			return failf(exitBusy, "queue %q has no message to take", name)
		case rest <= 0:
			return failf(exitBusy, "queue %q had no message to take within %v", name, &f.wait.time)
		case !waited:
			_, _ = fmt.Fprintf(stderr, "redoubt: waiting for a message of queue %q\n", name)
		}
		waited = true
		if pumped.Next >= 0 {
			rest = min(rest, pumped.Next)
		}
		awaitMessage(ctx, client, keys, min(rest, takeSlice))
	}
	return nil
}

// awaitMessage waits until there may be a message, for at most d.
func awaitMessage(ctx context.Context, client *redoubt.Client, keys wire.Keys, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	_ = client.Do(ctx, redoubt.Cmd{
		Name: "BZPOPMIN", Keys: []string{keys.Wake()}, Args: []string{strconv.Itoa(int(takeSlice/time.Second) + 1)}, Flags: redoubt.Blocking,
	})
}

// print prints messages, acknowledges the printed ones and hands back the others.
func (f *takeFlags) print(client *redoubt.Client, keys wire.Keys, taken []wire.Taken, out io.Writer) (err error) {
	var p wire.Pump
	for _, m := range taken {
		if err == nil {
			err = f.printOne(m, out)
		}
		if err == nil {
			p.Acks = append(p.Acks, m.Receipt)
		} else {
			p.Nacks = append(p.Nacks, wire.Nack{Receipt: m.Receipt, Kind: wire.HandBack})
		}
	}
	pumped, settled := settle(client, keys, p)
	switch {
	case err != nil:
		return failf(exitFault, "%w: %s returned to the queue", err, messages(len(p.Nacks)))
	case settled != nil:
		return failf(exitUnavailable, "the printed messages may be delivered again: %w", settled)
	case len(pumped.Refused) > 0:
		return failf(exitFault, "%s took too long to print and will be delivered again", messages(len(pumped.Refused)))
	}
	return nil
}

func (f *takeFlags) printOne(m wire.Taken, out io.Writer) error {
	if !f.asJSON {
		_, err := fmt.Fprintf(out, "%s\n", m.Payload)
		return err
	}
	s := messageStateOf(m.Message)
	s.Attempt, s.Reason = m.Failures+1, m.LastReason
	return printLine(out, s)
}

// settle sends p even after a signal.
func settle(client *redoubt.Client, keys wire.Keys, p wire.Pump) (wire.Pumped, error) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	p.Take, p.Lease, p.Consumer = wire.NewTake(), takeLease, "-"
	return wire.ReadPump(client.Do(ctx, wire.PumpCmd(keys, p)))
}
