package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
)

var (
	// ErrNoSchedule is matched when the queue has no schedule with an id.
	ErrNoSchedule = errors.New("queue: no such schedule")
	// ErrManySchedules is matched when a queue would have more than [MaxSchedules].
	ErrManySchedules = fmt.Errorf("queue: a queue has at most %d schedules", MaxSchedules)
)

func (k Keys) schedules() string { return k[keyQueue] + ":schedules" }
func (k Keys) states() string    { return k[keyQueue] + ":states" }
func (k Keys) ticks() string     { return k[keyQueue] + ":ticks" }

// scheduledName is the name with which the key of all queues with schedules is made.
const scheduledName, scheduledPart = "schedules", "queue:scheduled"

// scheduledCmd notes that queues have schedules, or drops old notes.
func scheduledCmd(client *redoubt.Client, how string, names ...string) (redoubt.Cmd, error) {
	key, err := client.Key(scheduledName, scheduledPart)
	return redoubt.Cmd{Script: scheduledScript, Keys: []string{key}, Args: append([]string{how}, names...), Flags: redoubt.Idempotent}, err
}

// ScheduledQueues returns the names of the queues that have schedules, and perhaps of some that had.
func ScheduledQueues(ctx context.Context, client *redoubt.Client) (names []string, err error) {
	key, err := client.Key(scheduledName, scheduledPart)
	if err != nil {
		return nil, err
	}
	for cursor := "0"; ; {
		a, err := client.Do(ctx, redoubt.Cmd{Name: "ZSCAN", Keys: []string{key}, Args: []string{cursor, "COUNT", "1000"}, Flags: redoubt.ReadOnly}).Array()
		if err == nil && len(a) != 2 {
			err = errNoStep
		}
		if err != nil {
			return nil, err
		}
		page, _ := a[1].([]any)
		for i := 0; i < len(page); i += 2 {
			if name, _ := page[i].(string); name != "" {
				names = append(names, name)
			}
		}
		if cursor, _ = a[0].(string); cursor == "0" {
			return names, nil
		}
	}
}

// A stored schedule is what the server has of one.
type stored struct {
	now    time.Time
	state  string // empty: none
	record string
}

func readSchedule(ctx context.Context, client *redoubt.Client, keys Keys, id string) (s stored, err error) {
	replies := client.Pipeline(ctx, []redoubt.Cmd{
		TimeCmd(keys),
		{Name: "HGET", Keys: []string{keys.states()}, Args: []string{id}, Flags: redoubt.ReadOnly},
		// It may be newer than the state. A change then finds another state.
		{Name: "HGET", Keys: []string{keys.schedules()}, Args: []string{id}, Flags: redoubt.ReadOnly},
	})
	if s.now, err = ReadTime(replies[0]); err != nil {
		return s, err
	}
	for i, to := range []*string{&s.state, &s.record} {
		if r := replies[i+1]; r.Err != nil {
			return s, r.Err
		} else if r.Val != nil {
			*to, _ = r.Val.(string)
		}
	}
	return s, nil
}

// changeSchedule changes a schedule from a state to another, and puts messages, two texts each. done is false if it
// is in another state by now.
func changeSchedule(ctx context.Context, client *redoubt.Client, keys Keys, id, was string, st scheduleState, record string, messages []string) (done bool, err error) {
	next := "inf"
	if !st.next.IsZero() {
		next = decimal(st.next.UnixMilli())
	}
	args := append([]string{id, was, st.String(), next, strconv.Itoa(MaxSchedules), record}, messages...)
	var n [1]int64
	err = client.Do(ctx, redoubt.Cmd{
		Script: scheduleScript,
		Keys:   []string{keys[keyQueue], keys[keyReady], keys[keyGroups], keys[keyDue], keys[keyWake], keys.schedules(), keys.states(), keys.ticks()},
		Args:   args, Flags: redoubt.Idempotent,
	}).Ints(n[:])
	if err == nil && n[0] < 0 {
		err = ErrManySchedules
	}
	return n[0] == 1, err
}

// PutSchedule puts a schedule into a queue, or replaces the one with its id, and returns how it stands. If the
// times are the same as before, the schedule goes on where it stands. With other times it begins anew. A paused schedule
// stays paused.
func PutSchedule(ctx context.Context, client *redoubt.Client, name string, s Schedule) (ScheduleInfo, error) {
	keys, err := KeysOf(client, name)
	if err != nil {
		return ScheduleInfo{}, err
	}
	if s.CatchUp == "" {
		s.CatchUp = CatchUpOne
	}
	s.Start, s.End = timeOf(toMillis(s.Start)), timeOf(toMillis(s.End))
	ts, err := s.check()
	if err != nil {
		return ScheduleInfo{}, err
	}
	// First, so that all who put messages for all queues know of it.
	cmd, err := scheduledCmd(client, "add", name)
	if err == nil {
		err = client.Do(ctx, cmd).Err
	}
	if err != nil {
		return ScheduleInfo{}, err
	}
	st, err := editSchedule(ctx, client, keys, s.ID, func(was stored) (st scheduleState, record string, err error) {
		record = s.record()
		old, oldErr := openSchedule(s.ID, was.record)
		st, stErr := openState(was.state)
		if oldErr != nil || stErr != nil || !old.sameTimes(&s) {
			st = scheduleState{paused: st.paused}
		}
		if record == was.record && st.version != "" {
			return st, record, nil
		}
		st.version = NewID()
		if over := s.Limit > 0 && st.count >= s.Limit; st.next.IsZero() || over {
			st.advance(&s, &ts, was.now)
		}
		return st, record, nil
	})
	if err != nil {
		return ScheduleInfo{}, err
	}
	kick(client, name)
	return ScheduleInfo{Schedule: s, Paused: st.paused, Count: st.count, Last: st.last, Next: st.next}, nil
}

// editSchedule changes a schedule by edit, again when another process changes it meanwhile.
func editSchedule(ctx context.Context, client *redoubt.Client, keys Keys, id string, edit func(stored) (st scheduleState, record string, err error)) (st scheduleState, err error) {
	for {
		was, err := readSchedule(ctx, client, keys, id)
		if err != nil {
			return st, err
		}
		st, record, err := edit(was)
		if err != nil || st.String() == was.state {
			return st, err
		}
		if done, err := changeSchedule(ctx, client, keys, id, was.state, st, record, nil); err != nil || done {
			return st, err
		}
	}
}

// PauseSchedule stops a schedule. The error matches [ErrNoSchedule] if there is none.
func PauseSchedule(ctx context.Context, client *redoubt.Client, name, id string) error {
	return pauseSchedule(ctx, client, name, id, true)
}

// ResumeSchedule ends the pause of a schedule, which goes on with the first time after now. The error
// matches [ErrNoSchedule] if there is none.
func ResumeSchedule(ctx context.Context, client *redoubt.Client, name, id string) error {
	return pauseSchedule(ctx, client, name, id, false)
}

func pauseSchedule(ctx context.Context, client *redoubt.Client, name, id string, paused bool) error {
	keys, err := KeysOf(client, name)
	if err != nil {
		return err
	}
	_, err = editSchedule(ctx, client, keys, id, func(was stored) (st scheduleState, record string, err error) {
		if was.state == "" {
			return st, "", fmt.Errorf("%w: %q", ErrNoSchedule, id)
		}
		s, err := openSchedule(id, was.record)
		if err != nil {
			return st, "", err
		}
		ts, err := s.check()
		if err != nil {
			return st, "", err
		}
		if st, err = openState(was.state); err == nil && st.paused != paused {
			st.paused = paused
			st.advance(&s, &ts, was.now)
		}
		return st, "", err
	})
	if err == nil {
		kick(client, name)
	}
	return err
}

// UnscheduleCmd removes schedules, at most [MaxSettle]. The reply has how many there were.
func UnscheduleCmd(keys Keys, ids ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: unscheduleScript, Keys: []string{keys.schedules(), keys.states(), keys.ticks()}, Args: ids}
}

// ReadUnscheduled reads the reply to [UnscheduleCmd].
func ReadUnscheduled(r redoubt.Reply) (removed int, err error) {
	var n [1]int64
	err = r.Ints(n[:])
	return int(n[0]), err
}

// A ScheduleInfo is a stored schedule, and how it stands.
type ScheduleInfo struct {
	Schedule
	// Paused: it puts nothing until it is resumed.
	Paused bool
	// Count is how many messages it has put since its times were put, and Last the time of the last one.
	Count int
	Last  time.Time
	// Next is its next time; zero if it is paused or over.
	Next time.Time
	// Err says why this process can't work with it.
	Err error
}

// SchedulesCmd lists schedules of a queue by their next time, at most count, 1 to [MaxSettle], from 0 up. Schedules
// without a next time come last.
func SchedulesCmd(keys Keys, from, count int) redoubt.Cmd {
	return redoubt.Cmd{
		Script: listScript, Keys: []string{keys.schedules(), keys.states(), keys.ticks()},
		Args: []string{strconv.Itoa(from), strconv.Itoa(count), "0"}, Flags: redoubt.ReadOnly,
	}
}

// ReadSchedules reads the reply to [SchedulesCmd]. all is how many schedules the queue has.
func ReadSchedules(r redoubt.Reply) (list []ScheduleInfo, all int, err error) {
	page, err := readPage(r)
	for _, row := range page.rows {
		list = append(list, scheduleInfo(row.id, row.state, row.record))
	}
	return list, page.all, err
}

// ReadScheduleInfo reads one schedule. The error matches [ErrNoSchedule] if there is none.
func ReadScheduleInfo(ctx context.Context, client *redoubt.Client, name, id string) (ScheduleInfo, error) {
	keys, err := KeysOf(client, name)
	if err != nil {
		return ScheduleInfo{}, err
	}
	s, err := readSchedule(ctx, client, keys, id)
	if err == nil && s.state == "" {
		err = fmt.Errorf("%w: %q", ErrNoSchedule, id)
	}
	if err != nil {
		return ScheduleInfo{}, err
	}
	return scheduleInfo(id, s.state, s.record), nil
}

func scheduleInfo(id, state, record string) ScheduleInfo {
	s, err := openSchedule(id, record)
	if err == nil {
		err = s.Check()
	}
	st, stErr := openState(state)
	return ScheduleInfo{Schedule: s, Paused: st.paused, Count: st.count, Last: st.last, Next: st.next, Err: errors.Join(err, stErr)}
}

// A schedulePage is a reply to [SchedulesCmd].
type schedulePage struct {
	now  time.Time
	all  int
	rows []scheduleRow
}

type scheduleRow struct {
	id, state, record string
	at                time.Time // its next time; zero: none
}

func readPage(r redoubt.Reply) (p schedulePage, err error) {
	a, err := r.Array()
	if err == nil && len(a) != 3 {
		err = fmt.Errorf("queue: reply has %d elements, want 3", len(a))
	}
	if err != nil {
		return p, err
	}
	now, _ := a[0].(int64)
	n, _ := a[1].(int64)
	p.now, p.all = time.UnixMilli(now), int(n)
	for v, _ := a[2].([]any); len(v) >= 4; v = v[4:] {
		var s [4]string
		for i := range s {
			s[i], _ = v[i].(string)
		}
		row := scheduleRow{id: s[0], state: s[2], record: s[3]}
		if at, err := strconv.ParseFloat(s[1], 64); err == nil && at < float64(maxMillis) {
			row.at = time.UnixMilli(int64(at))
		}
		p.rows = append(p.rows, row)
	}
	return p, nil
}

// maxMillis is above any time of a schedule, in ms since 1970.
const maxMillis = int64(1) << 53
