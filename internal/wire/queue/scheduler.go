package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt"
)

// A Scheduler puts the messages of schedules when they are due. Any number of processes may have one for
// the same queues: a script puts the messages of a time only for the first of them.
type Scheduler struct {
	client *redoubt.Client
	only   string // the queue; empty: all that have schedules
	report func(ctx context.Context, queue, id string, err error)

	looks map[string]time.Time // queues, by when to look at each, by the clock of this process
	told  map[string]string    // schedules that can't be read, with the state that was reported
	kicks kicks
}

const (
	// scheduleLook is how often a scheduler looks for schedules that others have changed.
	scheduleLook = 5 * time.Second
	// scheduleRetry is the pause after an error of the server.
	scheduleRetry = time.Second
	// atOnce is how many schedules one look reads.
	atOnce = 32
	// looksAtOnce is how many queues one pipeline looks at.
	looksAtOnce = 100
	// putsAtOnce and putBytes are how many messages one script puts at most.
	putsAtOnce, putBytes = 100, 1 << 20
)

// NewScheduler returns a Scheduler for the queue called name, or for all queues if name is empty. It calls report
// for each error of the server, with an empty id, and once for each schedule that it can't work with.
func NewScheduler(client *redoubt.Client, name string, report func(ctx context.Context, queue, id string, err error)) *Scheduler {
	s := &Scheduler{
		client: client, only: name, report: report,
		looks: map[string]time.Time{}, told: map[string]string{}, kicks: kicks{c: make(chan struct{}, 1)},
	}
	if name != "" {
		s.looks[name] = time.Time{}
	}
	return s
}

// Run works until ctx ends, and then returns nil. The error matches redoubt.ErrClosed when the client is closed.
func (s *Scheduler) Run(ctx context.Context) error {
	all := kicksOf(s.client)
	all.add(&s.kicks)
	defer all.remove(&s.kicks)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var named time.Time // when the names were read last
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-s.kicks.c:
		}
		var err error
		now := time.Now()
		if named.IsZero() || now.Sub(named) >= scheduleLook {
			if err = s.rename(ctx); err == nil {
				named = now
			}
		}
		for _, name := range s.kicks.take() {
			if s.only == "" || s.only == name {
				s.looks[name] = now
			}
		}
		err = errors.Join(err, s.round(ctx))
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, redoubt.ErrClosed):
			return err
		}
		next := named.Add(scheduleLook)
		if err != nil {
			next = time.Now().Add(scheduleRetry)
		}
		for _, at := range s.looks {
			if at.Before(next) {
				next = at
			}
		}
		timer.Reset(time.Until(next))
	}
}

// Look puts what is due now, and returns the first error of the server.
func (s *Scheduler) Look(ctx context.Context) error {
	if err := s.rename(ctx); err != nil {
		return err
	}
	clear(s.told)
	for name := range s.looks {
		s.looks[name] = time.Time{}
	}
	return s.round(ctx)
}

// rename reads the names of the queues.
func (s *Scheduler) rename(ctx context.Context) error {
	if s.only != "" {
		return nil
	}
	names, err := ScheduledQueues(ctx, s.client)
	if err != nil {
		s.report(ctx, "", "", err)
		return err
	}
	known := make(map[string]time.Time, len(names))
	for _, name := range names {
		known[name] = s.looks[name] // a new one at once
	}
	s.looks = known
	return nil
}

// round looks at each queue whose time has come.
func (s *Scheduler) round(ctx context.Context) error {
	var names []string
	now := time.Now()
	for name, at := range s.looks {
		if !at.After(now) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var errs []error
	for some := range slices.Chunk(names, looksAtOnce) {
		errs = append(errs, s.look(ctx, some))
	}
	return errors.Join(errs...)
}

// look looks at queues with one pipeline, and puts what is due. It returns the first error of the server.
func (s *Scheduler) look(ctx context.Context, names []string) (first error) {
	var cmds []redoubt.Cmd
	var keys []Keys
	var valid []string
	for _, name := range names {
		k, err := KeysOf(s.client, name)
		if err != nil { // another program has noted it
			delete(s.looks, name)
			continue
		}
		valid, keys, cmds = append(valid, name), append(keys, k), append(cmds, SchedulesCmd(k, 0, atOnce))
	}
	if len(cmds) == 0 {
		return nil
	}
	for i, r := range s.client.Pipeline(ctx, cmds) {
		page, err := readPage(r)
		wait := scheduleLook
		if err == nil {
			wait, err = s.tick(ctx, valid[i], keys[i], page)
		}
		if err != nil {
			wait = scheduleRetry
			if first == nil {
				first = err
			}
			s.report(ctx, valid[i], "", err)
		}
		s.looks[valid[i]] = time.Now().Add(wait)
		if err == nil && page.all == 0 && s.only == "" {
			s.drop(ctx, valid[i])
		}
	}
	return first
}

// drop takes the note away that a queue has schedules.
func (s *Scheduler) drop(ctx context.Context, name string) {
	if cmd, err := scheduledCmd(s.client, "drop", name); err == nil {
		_ = s.client.Do(ctx, cmd) // or else the next look does
	}
}

// tick puts the messages of the schedules of a page that are due, and of further pages. It returns the time to
// the next look.
func (s *Scheduler) tick(ctx context.Context, name string, keys Keys, page schedulePage) (wait time.Duration, err error) {
	unread := 0 // schedules in front that this process can't work with
	for {
		due := 0
		for _, row := range page.rows {
			if row.at.IsZero() || row.at.After(page.now) {
				if !row.at.IsZero() {
					// Up, because the server's time is rounded down.
					return min(scheduleLook, row.at.Sub(page.now)+time.Millisecond), nil
				}
				return scheduleLook, nil
			}
			due++
			bad, err := s.put(ctx, keys, row, page.now)
			if err != nil {
				return 0, err
			}
			if bad == nil {
				continue
			}
			unread++
			if key := name + " " + row.id; s.told[key] != row.state+row.record {
				s.told[key] = row.state + row.record
				s.report(ctx, name, row.id, fmt.Errorf("schedule %q: %w", row.id, bad))
			}
		}
		if due == 0 {
			return scheduleLook, nil
		}
		if page, err = readPage(s.client.Do(ctx, SchedulesCmd(keys, unread, atOnce))); err != nil {
			return 0, err
		}
	}
}

// put puts the messages of a schedule that is due, unless another process does. bad says why this process
// can't work with the schedule.
func (s *Scheduler) put(ctx context.Context, keys Keys, row scheduleRow, now time.Time) (bad, err error) {
	sched, bad := openSchedule(row.id, row.record)
	if bad != nil {
		return bad, nil
	}
	ts, bad := sched.check()
	if bad != nil {
		return bad, nil
	}
	st, bad := openState(row.state)
	if bad != nil {
		return bad, nil
	}
	due, next := sched.due(&ts, row.at, now)
	if sched.Limit > 0 {
		due = due[:min(len(due), max(0, sched.Limit-st.count))]
	}
	envelope := sched.Message.envelope()
	most := max(1, min(putsAtOnce, putBytes/len(envelope)))
	was := row.state
	for {
		n := min(most, len(due))
		messages := make([]string, 0, 2*n)
		for _, t := range due[:n] {
			messages = append(messages, row.id+"@"+strconv.FormatInt(t.UnixMilli(), 10), envelope)
			st.last = t
		}
		st.count += n
		st.next = next
		if due = due[n:]; len(due) > 0 {
			st.next = due[0]
		}
		if sched.Limit > 0 && st.count >= sched.Limit {
			st.next = time.Time{}
		}
		done, err := changeSchedule(ctx, s.client, keys, row.id, was, st, "", messages)
		if err != nil || !done || len(due) == 0 {
			return nil, err
		}
		was = st.String()
	}
}

// kicks tell a scheduler of queues whose schedules this process has changed.
type kicks struct {
	c     chan struct{}
	mu    sync.Mutex
	names []string // guarded by mu
}

func (k *kicks) take() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	names := k.names
	k.names = nil
	return names
}

// allKicks are the kicks of all schedulers of a client.
type allKicks struct {
	mu sync.Mutex
	of []*kicks // guarded by mu
}

type kicksKey struct{}

func kicksOf(client *redoubt.Client) *allKicks {
	all, _ := client.Shared(kicksKey{}, func() any { return &allKicks{} }).(*allKicks)
	return all
}

func (a *allKicks) add(k *kicks) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of = append(a.of, k)
}

func (a *allKicks) remove(k *kicks) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of = slices.DeleteFunc(a.of, func(o *kicks) bool { return o == k })
}

// kick makes the schedulers on a client look at a queue at once.
func kick(client *redoubt.Client, name string) {
	all := kicksOf(client)
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, k := range all.of {
		k.mu.Lock()
		k.names = append(k.names, name)
		k.mu.Unlock()
		select {
		case k.c <- struct{}{}:
		default:
		}
	}
}
