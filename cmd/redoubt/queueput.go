package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/transfer"
	"github.com/redoubt-go/redoubt/queue"
)

// putChunk is the maximum number of lines in one call.
const putChunk = 1000

type putFlags struct {
	serverFlags

	id, at, group, unique, lines string
	delay, uniqueFor             time.Duration
	attempts, lane               int
	headers, after               []string
	ignoreFailure                bool
	quiet, asJSON                bool
}

// A putState is the JSON form of a put.
type putState struct {
	ID     string `json:"id"`
	Status string `json:"status"` // added, exists or duplicate; blocked or dead by a message of --after
}

// A putsState is the JSON form of a put of many lines.
type putsState struct {
	Put    int   `json:"put"`
	Exists int   `json:"exist"` // were there already
	Took   int64 `json:"took_ms"`
}

func newQueuePut() *cobra.Command {
	var f putFlags
	cmd := &cobra.Command{
		Use:   "put NAME [PAYLOAD]",
		Short: "Put a message into a queue, or one per line of a file",
		Long: `Put PAYLOAD, or the standard input if there is no PAYLOAD, as a message into the queue
NAME, and print its ID. With --lines FILE put one message for each line that is not
empty; --lines - reads the standard input.

With --id you can repeat the command: a message that is already in the queue is not
put again. With --lines each ID is the text of --id and the number of the line.

Exit codes: 0 put, or already in the queue; 64 wrong usage; 69 no server; 128+n ended by
signal n.`,
		Example: `  redoubt queue put mail '{"to":"a@b.example"}' --delay 15m
  redoubt queue put mail hello --header traceparent="$TRACEPARENT"
  redoubt queue put mail report --after part:1 --after part:2
  redoubt queue put mail --lines addresses.txt --id newsletter-7:`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return fmt.Errorf("want NAME and at most one PAYLOAD, not %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.id, "id", "", "ID of the message (default random)")
	flags.DurationVar(&f.delay, "delay", 0, "deliver it only after this time")
	flags.StringVar(&f.at, "at", "", "deliver it only from this `time` on, like 2026-01-02T15:04:05Z")
	flags.IntVar(&f.attempts, "attempts", queue.DefaultAttempts, "number of attempts before it is dead; -1: unlimited")
	flags.IntVar(&f.lane, "lane", 0, "priority: -1 low, 0 normal, 1 high, 2 urgent")
	flags.StringVar(&f.group, "group", "", "messages of one group run one at a time, in order")
	flags.StringVar(&f.unique, "unique", "", "drop it if a message with this `key` was put within --unique-for")
	flags.DurationVar(&f.uniqueFor, "unique-for", time.Hour, "how long the key of --unique drops other messages")
	flags.StringArrayVar(&f.after, "after", nil, "`ID` of a message of the queue that must be done before; repeat for more")
	flags.BoolVar(&f.ignoreFailure, "ignore-failure", false, "with --after: deliver it also when one of those dies or is removed; else it dies")
	headerFlag(flags, &f.headers, "it")
	flags.StringVar(&f.lines, "lines", "", "`file` with one message per line; -: standard input")
	flags.BoolVar(&f.quiet, "quiet", false, "print nothing but errors")
	jsonFlag(flags, &f.asJSON, "print a JSON object")
	onThisLine(flags, "id", "delay", "at", "attempts", "lane", "group", "unique", "unique-for", "header", "after", "ignore-failure", "lines")
	f.flags(flags, "queues")
	return cmd
}

func (f *putFlags) run(cmd *cobra.Command, args []string) error {
	r := queue.Request[[]byte]{
		ID: f.id, Delay: f.delay, Attempts: f.attempts, Lane: queue.Lane(max(-128, min(127, f.lane))), Group: f.group, Unique: f.unique, //nolint:gosec // bounded
		After: f.after, IgnoreFailure: f.ignoreFailure,
	}
	if f.attempts == 0 {
		return usagef("attempts is 0; want 1 to %d, or -1", queue.MaxAttempts)
	}
	if f.unique != "" {
		r.UniqueFor = f.uniqueFor
	}
	if f.at != "" {
		at, err := time.Parse(time.RFC3339, f.at)
		if err != nil {
			return usagef("at is %q; want a time like 2026-01-02T15:04:05Z", f.at)
		}
		r.At = at
	}
	var err error
	if r.Headers, err = headersOf(f.headers); err != nil {
		return err
	}
	switch {
	case f.lines != "" && len(args) > 1:
		return usagef("both PAYLOAD and --lines are given; leave out one of the two")
	case f.lines != "" && f.unique != "":
		return usagef("--unique would drop all lines but the first")
	case len(args) > 1:
		r.Value = []byte(args[1])
	case f.lines == "":
		payload, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), queue.MaxPayload+1))
		if err != nil {
			return failf(exitFault, "standard input: %w", err)
		}
		r.Value = payload
	}
	return f.withQueue(cmd, args[0], func(ctx context.Context, _ *redoubt.Client, q *queue.Queue[[]byte]) error {
		if f.lines != "" {
			return f.putLines(cmd, q, args[0], r)
		}
		placed, err := q.PutRequest(ctx, args[0], r)
		if err != nil {
			return putFault(args[0], err)
		}
		if f.quiet {
			return nil
		}
		if f.asJSON {
			status := map[queue.PutStatus]string{queue.Added: "added", queue.Exists: "exists", queue.Duplicate: "duplicate"}[placed.Status]
			if placed.State != "" {
				status = string(placed.State)
			}
			return printJSON(cmd.OutOrStdout(), putState{placed.ID, status})
		}
		if placed.Status == queue.Duplicate {
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "redoubt: dropped: the message %s already has the key %q\n", printable(placed.ID), f.unique)
		}
		if placed.State == queue.StateDead {
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "redoubt: the message %s is dead, because one that it comes after is\n", printable(placed.ID))
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), placed.ID)
		return err
	})
}

// putFault adds the exit code to an error about the message or the server.
func putFault(name string, err error) error {
	if _, ok := errors.AsType[redoubt.ServerError](err); ok || unreachable(err) || errors.Is(err, redoubt.ErrUnknownOutcome) {
		return queueFault(name, err)
	}
	return usagef("queue %q: %w", name, err)
}

func (f *putFlags) putLines(cmd *cobra.Command, q *queue.Queue[[]byte], name string, r queue.Request[[]byte]) error {
	in, total := cmd.InOrStdin(), int64(0)
	if f.lines != "-" {
		file, err := os.Open(f.lines)
		if err != nil {
			return usagef("lines: %w", err)
		}
		defer func() { _ = file.Close() }()
		info, err := file.Stat()
		if err != nil {
			return usagef("lines: %w", err)
		}
		in, total = file, info.Size()
	}
	ctx, code, stop := untilInterrupted()
	defer stop()
	p := newProgress(cmd.ErrOrStderr(), f.quiet, "putting")
	p.unit = "bytes"
	defer p.done()
	began := time.Now()
	var read int64
	put, there, line, waiting := 0, 0, 0, 0 // waiting: bytes in requests
	var requests []queue.Request[[]byte]
	flush := func() error {
		if len(requests) == 0 {
			return nil
		}
		placed, err := q.PutMany(ctx, name, requests)
		for _, m := range placed {
			if m.Status == queue.Added {
				put++
			} else {
				there++
			}
		}
		requests, waiting = requests[:0], 0
		p.update(transfer.Progress{Done: read, Total: max(read, total)})
		return err
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, queue.MaxPayload+1)
	var err error
	for err == nil && ctx.Err() == nil && lines.Scan() {
		line++
		read += int64(len(lines.Bytes())) + 1
		if len(lines.Bytes()) == 0 {
			continue
		}
		// Half of the limit of a call; the other half is for IDs and headers.
		if waiting+len(lines.Bytes()) > queue.MaxBatchBytes/2 {
			if err = flush(); err != nil {
				break
			}
		}
		waiting += len(lines.Bytes())
		one := r
		one.Value = append([]byte(nil), lines.Bytes()...)
		if f.id != "" {
			one.ID = f.id + strconv.Itoa(line)
		}
		if requests = append(requests, one); len(requests) == putChunk {
			err = flush()
		}
	}
	if err == nil && ctx.Err() == nil {
		err = errors.Join(lines.Err(), flush())
	}
	p.done()
	done := fmt.Sprintf("put %s into %q", messages(put), name)
	if there > 0 {
		done += fmt.Sprintf("; %d were already there", there)
	}
	switch {
	case code() != 0:
		return failf(code(), "interrupted: %s", done)
	case errors.Is(err, bufio.ErrTooLong):
		return usagef("line %d has more than %d bytes; %s", line+1, queue.MaxPayload, done)
	case err != nil:
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "redoubt: %s before this:\n", done)
		return putFault(name, err)
	case f.quiet:
		return nil
	}
	took := time.Since(began).Milliseconds()
	return answer(cmd.OutOrStdout(), f.asJSON, putsState{put, there, took}, done+" in "+rounded(took))
}

// headerFlag adds --header to flags.
func headerFlag(flags *pflag.FlagSet, to *[]string, what string) {
	flags.StringArrayVar(to, "header", nil, "header `NAME=VALUE` that travels with "+what+"; repeat for more")
}

// headersOf reads the values of --header.
func headersOf(list []string) (map[string]string, error) {
	var headers map[string]string
	for _, header := range list {
		name, value, ok := strings.Cut(header, "=")
		if _, twice := headers[name]; !ok || name == "" || twice {
			return nil, usagef("header is %q; want NAME=VALUE, and each name once", header)
		}
		if headers == nil {
			headers = map[string]string{}
		}
		headers[name] = value
	}
	return headers, nil
}
