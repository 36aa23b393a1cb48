package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt/internal/calendar"
)

const (
	// MaxScheduleID is the longest id of a schedule: the ids of its messages have the time too.
	MaxScheduleID = 200
	// MaxSchedules is how many schedules a queue may have.
	MaxSchedules = 1000
	// MaxScheduleBytes is how many bytes a schedule may have with its message.
	MaxScheduleBytes = 64 << 10
	// MinEvery is the shortest interval of a schedule.
	MinEvery = time.Second
	// MaxMissed is how many missed times of a schedule get a message with [CatchUpAll].
	MaxMissed = 1000
	// OnTime is how late the message of a schedule may be with [CatchUpSkip].
	OnTime = time.Minute
)

// A CatchUp says what happens to the times of a schedule that have passed while no process looked.
type CatchUp string

const (
	// CatchUpOne puts one message for all of them, the one of the last time.
	CatchUpOne CatchUp = "one"
	// CatchUpSkip puts none, but the one of the last time if that is less than [OnTime] ago.
	CatchUpSkip CatchUp = "skip"
	// CatchUpAll puts the messages of the last [MaxMissed] times.
	CatchUpAll CatchUp = "all"
)

// A Schedule puts a message into a queue again and again.
type Schedule struct {
	// ID names the schedule: 1 to [MaxScheduleID] bytes.
	ID string
	// Cron says when, by the clocks of Zone, a name like Asia/Shanghai; UTC without. Or Every: the
	// multiples of it since Start, or since 1970.
	Cron  string
	Zone  string
	Every time.Duration
	// CatchUp defaults to [CatchUpOne].
	CatchUp CatchUp
	// Start and End bound the times, both included. Zero: no bound.
	Start, End time.Time
	// Limit is how many messages it puts at most; 0: no limit.
	Limit int
	// Message is what it puts, without id, time and unique key.
	Message Message
}

// times are the times of a schedule.
type times struct {
	cron       calendar.Cron
	every      time.Duration
	zone       *time.Location
	start, end time.Time
}

// check returns the times of a schedule, and all its faults.
func (s *Schedule) check() (times, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("queue: "+format, args...)) }
	t := times{every: s.Every, zone: time.UTC, start: s.Start, end: s.End}
	if s.ID == "" || len(s.ID) > MaxScheduleID {
		bad("id of a schedule has %d bytes; want 1 to %d", len(s.ID), MaxScheduleID)
	}
	var err error
	switch {
	case s.Cron == "" && s.Every == 0:
		bad("schedule has neither cron nor every; want one")
	case s.Cron != "" && s.Every != 0:
		bad("schedule has both cron and every; want one")
	case s.Cron == "":
		if err = CheckTime("every", s.Every, MinEvery); err != nil {
			errs = append(errs, err)
		} else if s.Every%time.Millisecond != 0 {
			bad("every is %v; want whole milliseconds", s.Every)
		}
		if s.Zone != "" {
			bad("zone is %q, but every needs none; leave it empty", s.Zone)
		}
	default:
		if t.cron, err = calendar.ParseCron(s.Cron); err != nil {
			bad("%w", err)
		}
		// Local would be another zone in each process.
		if t.zone, err = time.LoadLocation(s.Zone); err != nil || s.Zone == "Local" {
			bad("zone is %q; want a name like Europe/Berlin that this machine knows", s.Zone)
		}
	}
	switch s.CatchUp {
	case "", CatchUpOne, CatchUpSkip, CatchUpAll:
	default:
		bad("catch-up is %q; want %s, %s or %s", s.CatchUp, CatchUpSkip, CatchUpOne, CatchUpAll)
	}
	for _, bound := range []time.Time{s.Start, s.End} {
		if !bound.IsZero() && (bound.Year() < 1970 || bound.Year() > 2200) {
			bad("start or end is %v; want a year from 1970 to 2200", bound)
		}
	}
	if s.Limit < 0 || s.Limit > 1_000_000_000 {
		bad("limit is %d; want 0 to 1000000000", s.Limit)
	}
	m := s.Message
	if m.ID != "" || m.Delay != 0 || !m.At.IsZero() || m.Unique != "" || m.UniqueFor != 0 {
		bad("message of a schedule has an id, a time or a unique key; leave them empty, the schedule sets them")
	}
	m = Message{ID: "-", Payload: m.Payload, Attempts: m.Attempts, Lane: m.Lane, Group: m.Group, Headers: m.Headers}
	if err := m.check(); err != nil {
		errs = append(errs, err)
	} else if n := len(s.record()); n > MaxScheduleBytes {
		bad("schedule has %d bytes with its message; want at most %d", n, MaxScheduleBytes)
	}
	if len(errs) == 0 && !s.End.IsZero() && t.next(s.Start.Add(-time.Millisecond)).IsZero() {
		bad("schedule has no time until its end, %v", s.End)
	}
	return t, errors.Join(errs...)
}

// Check returns an error that names all faults of a schedule.
func (s *Schedule) Check() error {
	_, err := s.check()
	return err
}

// next returns the first time after t, or zero.
func (ts *times) next(t time.Time) (next time.Time) {
	if !ts.start.IsZero() && t.Before(ts.start) {
		t = ts.start.Add(-time.Millisecond) // start itself counts
	}
	if ts.every > 0 {
		from, every := int64(0), ts.every.Milliseconds()
		if !ts.start.IsZero() {
			from = ts.start.UnixMilli()
		}
		if passed := t.UnixMilli() - from; passed >= 0 {
			from += (passed/every + 1) * every
		}
		next = time.UnixMilli(from).UTC()
	} else {
		next = ts.cron.Next(t, ts.zone)
	}
	if !ts.end.IsZero() && next.After(ts.end) {
		return time.Time{}
	}
	return next
}

// last returns the last n times from first, which is one, to now.
func (ts *times) last(first, now time.Time, n int) []time.Time {
	if ts.every > 0 {
		until := now
		if !ts.end.IsZero() && ts.end.Before(now) {
			until = ts.end
		}
		if all := int64(until.Sub(first) / ts.every); all >= int64(n) {
			first = first.Add(time.Duration(all-int64(n)+1) * ts.every)
		}
	}
	// It looks back further and further, because a schedule may have missed years of minutes.
	for back := time.Hour; ; back *= 4 {
		from := now.Add(-back)
		whole := ts.every > 0 || !from.After(first) || back > MaxTime
		if whole {
			from = first.Add(-time.Millisecond)
		}
		var found []time.Time
		for t := ts.next(from); !t.IsZero() && !t.After(now); t = ts.next(t) {
			if found = append(found, t); len(found) >= 2*n {
				found = append(found[:0], found[len(found)-n:]...)
			}
		}
		if len(found) >= n || whole {
			return found[max(0, len(found)-n):]
		}
	}
}

// due returns those times from first to now that get a message, and the time after now.
func (s *Schedule) due(ts *times, first, now time.Time) (due []time.Time, next time.Time) {
	n := 1
	if s.CatchUp == CatchUpAll {
		n = MaxMissed
	}
	due = ts.last(first, now, n)
	if s.CatchUp == CatchUpSkip && len(due) > 0 && now.Sub(due[0]) >= OnTime {
		due = nil
	}
	return due, ts.next(now)
}

// A scheduleRecord is the first line of a stored schedule. The envelope of its message follows.
type scheduleRecord struct {
	Cron    string  `json:"cron,omitempty"`
	Zone    string  `json:"zone,omitempty"`
	Every   int64   `json:"every_ms,omitempty"`
	Start   int64   `json:"start_ms,omitempty"`
	End     int64   `json:"end_ms,omitempty"`
	CatchUp CatchUp `json:"catch_up,omitempty"`
	Limit   int     `json:"limit,omitempty"`
}

func (s *Schedule) record() string {
	r := scheduleRecord{
		Cron: s.Cron, Zone: s.Zone, Every: s.Every.Milliseconds(), Start: toMillis(s.Start), End: toMillis(s.End), CatchUp: s.CatchUp, Limit: s.Limit,
	}
	line, _ := json.Marshal(r) //nolint:errchkjson // strings and numbers
	return string(line) + "\n" + s.Message.envelope()
}

func openSchedule(id, record string) (s Schedule, err error) {
	line, envelope, found := strings.Cut(record, "\n")
	var r scheduleRecord
	if !found || json.Unmarshal([]byte(line), &r) != nil {
		return Schedule{ID: id}, errors.New("queue: a stored schedule can't be read; another program may have written it")
	}
	s = Schedule{
		ID: id, Cron: r.Cron, Zone: r.Zone, Every: fromMillis(r.Every), CatchUp: r.CatchUp, Start: timeOf(r.Start), End: timeOf(r.End), Limit: r.Limit,
	}
	s.Message, err = openEnvelope("", envelope)
	return s, err
}

// sameTimes reports whether two schedules come at the same times.
func (s *Schedule) sameTimes(o *Schedule) bool {
	return s.Cron == o.Cron && s.Zone == o.Zone && s.Every == o.Every && s.Start.Equal(o.Start) && s.End.Equal(o.End)
}

func toMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// A scheduleState is where a schedule stands. Its text is compared as a whole, so each change needs another
// text.
type scheduleState struct {
	version string // of the last put
	paused  bool
	count   int       // messages since its times were put
	last    time.Time // of the last message
	next    time.Time // zero: paused, or over
}

func (st scheduleState) String() string {
	paused := 0
	if st.paused {
		paused = 1
	}
	return fmt.Sprintf("%s %d %d %d %d", st.version, paused, st.count, toMillis(st.last), toMillis(st.next))
}

func openState(text string) (st scheduleState, err error) {
	var paused int
	var last, next int64
	if _, err := fmt.Sscanf(text, "%s %d %d %d %d", &st.version, &paused, &st.count, &last, &next); err != nil {
		return st, errors.New("queue: the state of a schedule can't be read; another program may have written it")
	}
	st.paused, st.last, st.next = paused == 1, timeOf(last), timeOf(next)
	return st, nil
}

// advance moves the state on to the first time after now.
func (st *scheduleState) advance(s *Schedule, ts *times, now time.Time) {
	st.next = time.Time{}
	if !st.paused && (s.Limit == 0 || st.count < s.Limit) {
		st.next = ts.next(now)
	}
}
