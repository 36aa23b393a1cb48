package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
)

const (
	// MaxSchedules is how many schedules a queue may have: 1000.
	MaxSchedules = wire.MaxSchedules
	// MaxScheduleID is the longest ID of a schedule: 200 bytes.
	MaxScheduleID = wire.MaxScheduleID
	// MaxScheduleBytes is how many bytes a schedule may have with its message: 64 KiB.
	MaxScheduleBytes = wire.MaxScheduleBytes
	// MaxMissed is how many missed times get a message with [CatchUpAll]: the last 1000.
	MaxMissed = wire.MaxMissed
)

// A CatchUp says what becomes of the times of a schedule that pass while no process runs its queue's
// schedules, or while the server is down. The zero value is [CatchUpOne].
type CatchUp = wire.CatchUp

const (
	// CatchUpOne puts one message for all of them, that of the last time.
	CatchUpOne CatchUp = wire.CatchUpOne
	// CatchUpSkip puts none. The message of the last time still comes if that is less than a
	// minute ago.
	CatchUpSkip CatchUp = wire.CatchUpSkip
	// CatchUpAll puts a message for each, in their order: for the last [MaxMissed].
	CatchUpAll CatchUp = wire.CatchUpAll
)

var (
	// ErrNoSchedule is matched when a queue has no schedule with an ID.
	ErrNoSchedule = wire.ErrNoSchedule
	// ErrManySchedules is matched when a queue would have more than [MaxSchedules].
	ErrManySchedules = wire.ErrManySchedules
)

// A Schedule puts a message into a queue at each of its times. Set one of Cron and Every.
type Schedule[T any] struct {
	// ID names the schedule: 1 to [MaxScheduleID] bytes. The IDs of its messages are it, an @,
	// and the time in ms since 1970: see [Job.Scheduled].
	ID string
	// Cron is an expression of five fields: minute, hour, day of the month, month and day of the
	// week, like "0 9 * * MON-FRI". Fields may have lists, ranges, steps and English names. @hourly,
	// @daily, @weekly, @monthly and @yearly are short forms. If both days are restricted, one
	// of them is enough.
	Cron string
	// Zone is the time zone of Cron, like "Asia/Shanghai". Defaults to UTC. Where clocks are turned
	// forward, a time that they skip comes at the end of the gap. Where they are turned back, a time that comes
	// twice counts once, the first time. If the hour of Cron begins with *, it follows the
	// time that passes instead: it comes in both hours of a doubled one, and never in a gap. The
	// process needs the zones of its machine, or an import of time/tzdata.
	Zone string
	// Every is the time from one message to the next, in whole ms, a second at least. The times are its
	// multiples since Start, or since 1970.
	Every time.Duration
	// CatchUp says what becomes of missed times. Defaults to [CatchUpOne].
	CatchUp CatchUp
	// Start and End are the first and the last time that count. Zero: no bound.
	Start, End time.Time
	// Limit is how many messages it puts at most. Defaults to 0: no limit.
	Limit int
	// Request is the message. Leave its ID, Delay, At and Unique empty.
	Request Request[T]
}

// Schedules keeps schedules of queues on the server. Programs change them while others run them. All
// methods may be called by many goroutines at once, and cost one round trip unless they say otherwise.
// [Schedules.Run] puts the messages; so does `redoubt serve` on the same server, for all queues.
type Schedules[T any] struct{ q *Queue[T] }

// NewSchedules returns Schedules for queues with q's client and options. [Options.Headers] is not called
// for messages of schedules.
func NewSchedules[T any](q *Queue[T]) *Schedules[T] { return &Schedules[T]{q} }

// Put adds a schedule to the queue called name, or replaces the one with its ID. Each process may put
// its schedules when it starts: a schedule with the same Cron, Every, Zone, Start and End goes on where it
// stands, with another message or limit if these are new. With other times it begins anew, with the first
// time after now. A paused schedule stays paused. A change takes effect at once in schedulers on this
// client, and within five seconds in others; no message of the old version is put after Put has returned.
//
// The error names all faults of s, or matches [ErrManySchedules]. Put may be repeated. It costs three round
// trips.
func (s *Schedules[T]) Put(ctx context.Context, name string, schedule Schedule[T]) (ScheduleInfo, error) {
	r := schedule.Request
	payload, err := s.q.opts.Codec.Encode(r.Value)
	if err != nil {
		return ScheduleInfo{}, fmt.Errorf("queue: encode the message of schedule %q: %w", schedule.ID, err)
	}
	if r.Attempts == 0 {
		r.Attempts = s.q.opts.Attempts
	}
	info, err := wire.PutSchedule(ctx, s.q.client, name, wire.Schedule{
		ID: schedule.ID, Cron: schedule.Cron, Zone: schedule.Zone, Every: schedule.Every, CatchUp: schedule.CatchUp,
		Start: schedule.Start, End: schedule.End, Limit: schedule.Limit,
		Message: wire.Message{
			ID: r.ID, Payload: payload, Delay: r.Delay, At: r.At, Attempts: r.Attempts, Unique: r.Unique, UniqueFor: r.UniqueFor,
			Lane: r.Lane, Group: r.Group, Headers: r.Headers,
		},
	})
	if err != nil {
		return ScheduleInfo{}, err
	}
	return scheduleInfo(info), nil
}

// Pause stops a schedule: once Pause has returned, no message of it is put. Times that pass are no missed
// times. The error matches [ErrNoSchedule] if the queue does not have it. It costs two round trips.
func (s *Schedules[T]) Pause(ctx context.Context, name, id string) error {
	return wire.PauseSchedule(ctx, s.q.client, name, id)
}

// Resume ends a pause. The schedule goes on with its first time after now. The error matches
// [ErrNoSchedule] if the queue does not have it. It costs two round trips.
func (s *Schedules[T]) Resume(ctx context.Context, name, id string) error {
	return wire.ResumeSchedule(ctx, s.q.client, name, id)
}

// Remove removes schedules, at most [MaxSchedules], and returns how many there were. Once Remove has
// returned, no message of them is put. Messages that they have put stay: see [Queue.Cancel].
func (s *Schedules[T]) Remove(ctx context.Context, name string, ids ...string) (n int, err error) {
	keys, err := wire.KeysOf(s.q.client, name)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	if len(ids) > MaxSchedules {
		return 0, fmt.Errorf("queue: %d schedules; want at most %d", len(ids), MaxSchedules)
	}
	return wire.ReadUnscheduled(s.q.client.Do(ctx, wire.UnscheduleCmd(keys, ids...)))
}

// A ScheduleInfo is a schedule of a queue, and how it stands.
type ScheduleInfo struct {
	// ID, Cron, Zone, Every, CatchUp, Start, End and Limit are as in [Schedule].
	ID         string
	Cron       string
	Zone       string
	Every      time.Duration
	CatchUp    CatchUp
	Start, End time.Time
	Limit      int
	// Message is what it puts, for [Queue.Value]. It has no ID, state or time.
	Message MessageInfo
	// Paused: [Schedules.Pause] has stopped it.
	Paused bool
	// Next is its next time. Zero if it is paused, or past its End or Limit.
	Next time.Time
	// Count is how many messages it has put since it began, and Last the time of the last.
	Count int
	Last  time.Time
	// Err says why this process can't work with the schedule: another program wrote it, or this machine
	// lacks its time zone. Nil if it can.
	Err error
}

func scheduleInfo(s wire.ScheduleInfo) ScheduleInfo {
	return ScheduleInfo{
		ID: s.ID, Cron: s.Cron, Zone: s.Zone, Every: s.Every, CatchUp: s.CatchUp, Start: s.Start, End: s.End, Limit: s.Limit,
		Message: messageInfo(wire.MessageInfo{Message: s.Message}), Paused: s.Paused, Next: s.Next, Count: s.Count, Last: s.Last, Err: s.Err,
	}
}

// Info reads one schedule. The error matches [ErrNoSchedule] if the queue does not have it.
func (s *Schedules[T]) Info(ctx context.Context, name, id string) (ScheduleInfo, error) {
	info, err := wire.ReadScheduleInfo(ctx, s.q.client, name, id)
	if err != nil {
		return ScheduleInfo{}, err
	}
	return scheduleInfo(info), nil
}

// All iterates over the schedules of the queue called name by their next time; those without come last. It
// costs one round trip for each 100, and more for large messages. An error ends the loop. It may
// miss a schedule that changes meanwhile, or return one twice.
func (s *Schedules[T]) All(ctx context.Context, name string) iter.Seq2[ScheduleInfo, error] {
	return func(yield func(ScheduleInfo, error) bool) {
		keys, err := wire.KeysOf(s.q.client, name)
		for from, all := 0, 1; err == nil && from < all; {
			var list []wire.ScheduleInfo
			list, all, err = wire.ReadSchedules(s.q.client.Do(ctx, wire.SchedulesCmd(keys, from, 100)))
			for _, info := range list {
				if !yield(scheduleInfo(info), nil) {
					return
				}
			}
			if from += len(list); len(list) == 0 {
				break
			}
		}
		if err != nil {
			yield(ScheduleInfo{}, err)
		}
	}
}

// Run puts the messages of all schedules of the queue called name until ctx ends. Any number of processes may run them,
// beside [Queue.Run] or without it: a script on the server puts the messages of a time for the first process
// that asks, in one step with the schedule's next time. Only the server's clock counts. The schedules may change
// meanwhile.
//
// A message is put when its time has come, and not before. If all processes are dead at that time, the
// first to be back puts what [Schedule.CatchUp] says.
//
// Run costs a round trip in five seconds, and two for each time of a schedule. It reports errors of the server
// with the server to [Options.OnEvent] as [ServerError], and retries. It reports a schedule that it can't work with as
// [BadSchedule], once, and goes on with the others. It returns nil when ctx ends, and an error for an invalid
// name, or when the client is closed, which matches redoubt.ErrClosed.
func (s *Schedules[T]) Run(ctx context.Context, name string) error {
	scheduler, err := s.scheduler(name)
	if err != nil {
		return err
	}
	return scheduler.Run(ctx)
}

// Work puts the messages of the schedules of the queue called name that are due now, and returns. Use it in
// place of [Schedules.Run] for periodic jobs, serverless functions and tests. It reports events as Run
// does, and returns the first error of the server. It costs a round trip, and two for each time of a schedule.
func (s *Schedules[T]) Work(ctx context.Context, name string) error {
	scheduler, err := s.scheduler(name)
	if err != nil {
		return err
	}
	return scheduler.Look(ctx)
}

func (s *Schedules[T]) scheduler(name string) (*wire.Scheduler, error) {
	if _, err := wire.KeysOf(s.q.client, name); err != nil {
		return nil, err
	}
	return wire.NewScheduler(s.q.client, name, func(ctx context.Context, queue, id string, err error) {
		kind := ServerError
		if id != "" {
			kind = BadSchedule
		}
		if ctx.Err() == nil && !errors.Is(err, redoubt.ErrClosed) {
			s.q.opts.OnEvent(ctx, Event{Kind: kind, Queue: queue, Err: err})
		}
	}), nil
}

// Scheduled returns the schedule that has put the message, and the time it is for. It reads them from the
// ID: at is zero unless that ends with an @ and a time.
func (j *Job) Scheduled() (schedule string, at time.Time) {
	i := strings.LastIndexByte(j.ID, '@')
	if i < 1 {
		return "", time.Time{}
	}
	ms, err := strconv.ParseInt(j.ID[i+1:], 10, 64)
	if err != nil || ms <= 0 {
		return "", time.Time{}
	}
	return j.ID[:i], time.UnixMilli(ms)
}
