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

// A Schedule says when something happens next: the first time after t, and not t
// itself, or the zero time if never again. It must be the same in all processes that
// schedule an entry. [Every] returns one, and so do the libraries for cron: with
// github.com/netresearch/go-cron "every weekday at nine" is
//
//	cron.ParseStandard("CRON_TZ=Europe/Berlin 0 9 * * MON-FRI")
type Schedule interface {
	Next(t time.Time) time.Time
}

// An Entry is a message that is put again and again.
type Entry[T any] struct {
	// ID names the entry: 1 to 200 bytes. Its messages have it in front of theirs.
	ID string
	// Schedule says when.
	Schedule Schedule
	// Request is what is put; its ID, Delay, At and Unique are set by the entry.
	Request Request[T]
}

// scheduleLook is how often a scheduler looks whether what is next is still there.
const scheduleLook = time.Minute

// Schedule puts the messages of entries into the queue called name, until ctx ends.
// Any number of processes may do so for the same entries: each time of an entry is
// one message, whose id is made of both, and is put once. No scheduler's own clock
// counts: they ask for the server's.
//
// The next message of each entry is in the queue ahead of its time, so that it is
// there then also when all schedulers are dead. What would have been due while there
// was neither is not made up for. The next message of an entry that is given up is
// still due once: cancel it if that matters.
//
// It costs a round trip when a message is put, and one a minute. Troubles with the
// server are told to [Options.Events] and tried again; the error is about the
// arguments, a schedule whose next time is not after the one it was asked about
// among them, or matches redoubt.ErrClosed. When ctx ends it returns nil.
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
			errs = append(errs, fmt.Errorf("queue: entry %q has a request with an id, a time or a unique key; those are the schedule's", e.ID))
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
			return nil //nolint:nilerr // the end that was asked for
		case errors.Is(err, redoubt.ErrClosed), errors.Is(err, errStands):
			return err
		case err != nil:
			q.opts.Events(ctx, Event{Kind: Trouble, Queue: name, Err: err})
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

// errStands is about a schedule that would be asked again and again at once.
var errStands = errors.New("queue: a schedule does not go on")

// putNext puts the next message of each entry, unless it is there, and returns the
// time until the first of them.
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
			return 0, fmt.Errorf("%w: the next of entry %q after %v is %v", errStands, e.ID, now, next)
		}
		r := e.Request
		r.ID = e.ID + "@" + strconv.FormatInt(next.UnixMilli(), 10)
		r.At = next
		// A scheduler that was stopped between asking for the time and putting comes
		// too late to put again what is done by then.
		r.Unique, r.UniqueFor = "schedule "+r.ID, next.Sub(now)+time.Hour
		requests = append(requests, r)
		first = min(first, next.Sub(now)+time.Millisecond)
	}
	if len(requests) == 0 {
		return first, nil
	}
	return first, q.putAll(ctx, name, requests)
}

// putAll puts messages by as many calls as their bytes need.
func (q *Queue[T]) putAll(ctx context.Context, name string, requests []Request[T]) error {
	_, err := q.PutMany(ctx, name, requests)
	if half := len(requests) / 2; half > 0 && errors.Is(err, ErrTooLarge) {
		if err = q.putAll(ctx, name, requests[:half]); err == nil {
			err = q.putAll(ctx, name, requests[half:])
		}
	}
	return err
}

// Every returns the schedule of all multiples of d since 1970, from a second up.
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
