package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
)

// A Schedule says when an entry is due. Next returns the first time after t, excluding t
// itself, or the zero time for never. It must be the same in all processes that schedule
// an entry. [Every] returns one, and so do libraries for cron: with
// github.com/netresearch/go-cron "every weekday at nine" is
//
//	cron.ParseStandard("CRON_TZ=Europe/Berlin 0 9 * * MON-FRI")
type Schedule interface {
	Next(t time.Time) time.Time
}

// An Entry is a message that [Queue.Schedule] puts repeatedly.
type Entry[T any] struct {
	// ID names the entry: 1 to 200 bytes. The IDs of its messages begin with it.
	ID string
	// Schedule says when its messages are due.
	Schedule Schedule
	// Request is the message; leave its ID, Delay, At and Unique empty.
	Request Request[T]
}

// scheduleLook is how often a scheduler checks that the next messages are still there.
const scheduleLook = time.Minute

// Schedule puts the messages of entries into the queue called name until ctx ends. Any
// number of processes may schedule the same entries: the ID of a message consists of the
// entry and its time, so each time is put once. Only the server's clock counts.
//
// Schedule puts the next message of each entry ahead of its time, so that it becomes due
// even if all schedulers are dead. Later times that pass while no scheduler runs are
// skipped. After you remove an entry its next message is still due once; cancel it if
// that matters.
//
// It costs a round trip for each put, and one a minute. It reports errors of the server with the
// server to [Options.OnEvent] and retries. It returns nil when ctx ends, and an error for
// invalid arguments, for a schedule whose next time is not after t, and when the client
// is closed, which matches redoubt.ErrClosed.
func (q *Queue[T]) Schedule(ctx context.Context, name string, entries ...Entry[T]) error {
	keys, err := wire.KeysOf(q.client, name)
	errs := []error{err}
	seen := map[string]bool{}
	for i, e := range entries {
		switch {
		case e.ID == "" || len(e.ID) > 200:
			errs = append(errs, fmt.Errorf("queue: id of entry %d has %d bytes; want 1 to 200", i, len(e.ID)))
		case seen[e.ID]:
			errs = append(errs, fmt.Errorf("queue: two entries have the id %q", e.ID))
		case e.Schedule == nil:
			errs = append(errs, fmt.Errorf("queue: entry %q has no schedule", e.ID))
		case e.Request.ID != "" || e.Request.Delay != 0 || !e.Request.At.IsZero() || e.Request.Unique != "" || e.Request.UniqueFor != 0:
			errs = append(errs, fmt.Errorf("queue: entry %q has a request with an id, a time or a unique key; leave them empty, the schedule sets them", e.ID))
		}
		seen[e.ID] = true
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	var p pauses
	for {
		next, err := q.putNext(ctx, name, keys, entries)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the caller ended it
		case errors.Is(err, redoubt.ErrClosed), errors.Is(err, errStuck):
			return err
		case err != nil:
			q.opts.OnEvent(ctx, Event{Kind: ServerError, Queue: name, Err: err})
			p.sleep(ctx.Done())
			continue
		}
		p.n = 0
		t := time.NewTimer(min(next, scheduleLook))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
	}
}

// errStuck reports a schedule that would make the scheduler spin.
var errStuck = errors.New("queue: a schedule does not advance")

// putNext puts the next message of each entry, unless the queue has it, and returns the
// time until the first of them is due.
func (q *Queue[T]) putNext(ctx context.Context, name string, keys wire.Keys, entries []Entry[T]) (time.Duration, error) {
	now, err := wire.ReadTime(q.client.Do(ctx, wire.TimeCmd(keys)))
	if err != nil {
		return 0, err
	}
	first := scheduleLook
	var requests []Request[T]
	for _, e := range entries {
		next := e.Schedule.Next(now)
		if next.IsZero() || next.Sub(now) > MaxTime/2 {
			continue
		}
		if !next.After(now) {
			return 0, fmt.Errorf("%w: the next time of entry %q after %v is %v", errStuck, e.ID, now, next)
		}
		r := e.Request
		r.ID = e.ID + "@" + strconv.FormatInt(next.UnixMilli(), 10)
		r.At = next
		// The unique key stops a scheduler that paused between reading the time and
		// putting from putting a message again that is done by then.
		r.Unique, r.UniqueFor = "schedule "+r.ID, next.Sub(now)+time.Hour
		requests = append(requests, r)
		first = min(first, next.Sub(now)+time.Millisecond)
	}
	if len(requests) == 0 {
		return first, nil
	}
	return first, q.putAll(ctx, name, requests)
}

// putAll puts messages in as many calls as their size needs.
func (q *Queue[T]) putAll(ctx context.Context, name string, requests []Request[T]) error {
	_, err := q.PutMany(ctx, name, requests)
	if half := len(requests) / 2; half > 0 && errors.Is(err, ErrTooLarge) {
		if err = q.putAll(ctx, name, requests[:half]); err == nil {
			err = q.putAll(ctx, name, requests[half:])
		}
	}
	return err
}

// Every returns the schedule of all multiples of d since 1970. d is at least a second.
func Every(d time.Duration) (Schedule, error) {
	if err := wire.CheckTime("interval", d, time.Second); err != nil {
		return nil, err
	}
	return every(d), nil
}

type every time.Duration

func (e every) Next(t time.Time) time.Time {
	ns, d := t.UnixNano(), int64(e)
	return time.Unix(0, ns-ns%d+d).In(t.Location())
}
