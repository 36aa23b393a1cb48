package bitmap

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/bitmap"
)

// calendarPart ends the key of a calendar.
const calendarPart = "calendar"

// MaxDays is how many days a call may name.
const MaxDays = 4096

// CalendarOptions configure [Calendars]. The zero value is ready to use.
type CalendarOptions struct {
	// Location is the time zone that decides what day it is: see [Calendars.Today] and
	// [Calendars.In]. Defaults to UTC.
	Location *time.Location
	// TTL is how long a calendar is kept after the last Mark or Unmark, in whole
	// milliseconds. Defaults to 0: for ever.
	TTL time.Duration
}

// Calendars are the calendars on a server, in which days are marked: such as one calendar for each
// user, with the days on which the user signed in. Make one and use it for every name. It keeps no
// state and need not be closed. All methods may be called by many goroutines at once.
type Calendars struct {
	client *redoubt.Client
	loc    *time.Location
	ttl    time.Duration
}

// NewCalendars returns the Calendars of client. It sends nothing.
func NewCalendars(client *redoubt.Client, opts CalendarOptions) (*Calendars, error) {
	var errs []error
	if client == nil {
		errs = append(errs, errors.New("bitmap: client is nil"))
	}
	errs = append(errs, checkTTL(opts.TTL))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if opts.Location == nil {
		opts.Location = time.UTC
	}
	return &Calendars{client: client, loc: opts.Location, ttl: opts.TTL}, nil
}

// maxTTL keeps deadlines far below the largest that a server takes.
const maxTTL = 200 * 365 * 24 * time.Hour

func checkTTL(ttl time.Duration) error {
	if ttl < 0 || ttl > maxTTL || ttl%time.Millisecond != 0 {
		return fmt.Errorf("bitmap: TTL is %v; want 0, for ever, or whole milliseconds up to %v", ttl, maxTTL)
	}
	return nil
}

// In returns the same calendars for users whose day begins at midnight of loc. A nil loc is UTC.
func (cs *Calendars) In(loc *time.Location) *Calendars {
	other := *cs
	if other.loc = loc; loc == nil {
		other.loc = time.UTC
	}
	return &other
}

// Today returns the current day in the time zone, by the clock of this process. It sends nothing.
func (cs *Calendars) Today() Day { return DateOf(time.Now().In(cs.loc)) }

// Mark marks days of the calendar called name: all of them or, with an error, none. It returns the
// calendar after that and how many of the days were not marked before. It takes 1 to [MaxDays]
// days. One round trip.
//
// Mark is sent once. After an error that matches redoubt.ErrUnknownOutcome the days may be marked.
// Marking them again does no harm, but then they do not count as changed.
func (cs *Calendars) Mark(ctx context.Context, name string, days ...Day) (c Calendar, changed int, err error) {
	return cs.write(ctx, name, 1, days)
}

// Unmark removes marks. It returns the calendar after that and how many of the days were marked
// before. For the rest it is like Mark.
func (cs *Calendars) Unmark(ctx context.Context, name string, days ...Day) (c Calendar, changed int, err error) {
	return cs.write(ctx, name, 0, days)
}

func (cs *Calendars) write(ctx context.Context, name string, bit int, days []Day) (Calendar, int, error) {
	if len(days) == 0 || len(days) > MaxDays {
		return Calendar{}, 0, fmt.Errorf("bitmap: %d days; want 1 to %d", len(days), MaxDays)
	}
	days = slices.Compact(slices.Sorted(slices.Values(days)))
	if err := errors.Join(days[0].check(), days[len(days)-1].check()); err != nil {
		return Calendar{}, 0, err
	}
	args := []string{strconv.Itoa(bit), cs.keep(), decimal(roomFrom(days[0])), "0"}
	for _, d := range days {
		args = append(args, decimal(d-MinDay))
	}
	r, err := cs.send(ctx, name, args)
	return r.calendar, r.changed, err
}

func (cs *Calendars) keep() string { return strconv.FormatInt(cs.ttl.Milliseconds(), 10) }

// roomFrom returns the first day of a new calendar whose first mark is d: the beginning of the year
// of d, so that marking earlier days of that year moves no bytes.
func roomFrom(d Day) Day {
	year, _, _ := d.Date()
	return (Date(year, time.January, 1) - MinDay) &^ 7
}

// A Today is the result of [Calendars.MarkToday].
type Today struct {
	// Day is the day that was marked.
	Day Day
	// New says whether the day was not marked before.
	New bool
	// Calendar is the calendar after that, with the day marked.
	Calendar Calendar
}

// MarkToday marks the current day in the time zone. The server's clock decides which day that is,
// and not the clock of a user or of one of many machines. One round trip, and another when the
// clock of this process is more than a day from the server's. For the rest it is like Mark.
func (cs *Calendars) MarkToday(ctx context.Context, name string) (Today, error) {
	near := cs.Today()
	for range 3 {
		if err := errors.Join((near - 1).check(), (near + 2).check()); err != nil {
			return Today{}, fmt.Errorf("bitmap: the clock of this process: %w", err)
		}
		args := []string{"1", cs.keep(), decimal(roomFrom(near - 1)), "1"}
		for d := near - 1; d <= near+2; d++ {
			args = append(args, decimal(d-MinDay), strconv.FormatInt(d.Start(cs.loc).Unix(), 10))
		}
		r, err := cs.send(ctx, name, args)
		if err != nil || r.changed >= 0 {
			return Today{Day: r.day, New: r.changed == 1, Calendar: r.calendar}, err
		}
		near = DateOf(r.now.In(cs.loc))
	}
	return Today{}, errors.New("bitmap: the server's clock jumps by days")
}

// A marked is the reply of calendar_mark.lua.
type marked struct {
	changed  int // -1: today is none of the days
	day      Day
	calendar Calendar
	now      time.Time
}

func (cs *Calendars) send(ctx context.Context, name string, args []string) (m marked, err error) {
	key, err := cs.client.Key(name, calendarPart)
	if err != nil {
		return m, err
	}
	a, err := cs.client.Do(ctx, wire.CalendarMarkCmd(key, args...)).Array()
	if err != nil {
		return m, err
	}
	if len(a) != 3 {
		return m, fmt.Errorf("bitmap: reply of calendar_mark.lua has %d elements, want 3", len(a))
	}
	changed, err := redoubt.Reply{Val: a[0]}.Int()
	if err != nil {
		return m, err
	}
	if changed < 0 {
		s, err := redoubt.Reply{Val: a[2]}.Int()
		return marked{changed: -1, now: time.Unix(s, 0)}, err
	}
	day, err := redoubt.Reply{Val: a[1]}.Int()
	if err != nil {
		return m, err
	}
	c, err := parseCalendar(name, redoubt.Reply{Val: a[2]})
	return marked{changed: int(changed), day: Day(day) + MinDay, calendar: c}, err
}

// Load returns the calendar called name. It is empty if no day was ever marked. One round trip, one
// GET, which returns 4 bytes and 46 for each year from the first mark to the last.
func (cs *Calendars) Load(ctx context.Context, name string) (Calendar, error) {
	all, err := cs.LoadMany(ctx, []string{name})
	if err != nil {
		return Calendar{}, err
	}
	return all[0], nil
}

// LoadMany is Load for several names. One round trip to each server.
func (cs *Calendars) LoadMany(ctx context.Context, names []string) ([]Calendar, error) {
	cmds := make([]redoubt.Cmd, len(names))
	for i, name := range names {
		key, err := cs.client.Key(name, calendarPart)
		if err != nil {
			return nil, err
		}
		cmds[i] = redoubt.Cmd{Name: "GET", Keys: []string{key}, Flags: redoubt.ReadOnly}
	}
	all := make([]Calendar, len(names))
	for i, r := range send(ctx, cs.client, cmds) {
		var err error
		if all[i], err = parseCalendar(names[i], r); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func parseCalendar(name string, r redoubt.Reply) (Calendar, error) {
	if r.IsNil() {
		return Calendar{}, nil
	}
	text, err := r.Text()
	if err != nil || text == "" {
		return Calendar{}, err
	}
	const most = 4 + int(MaxDay-MinDay)/8 + 1
	if len(text) < 4 || len(text) > most {
		return Calendar{}, fmt.Errorf("%w: the key of %q holds no calendar: it has %d bytes; want 4 to %d", redoubt.ErrWrongType, name, len(text), most)
	}
	base := binary.BigEndian.Uint32([]byte(text[:4]))
	c := Calendar{base: Day(base) + MinDay, bits: text[4:]}
	if last, marked := c.Last(); base%8 != 0 || base > uint32(MaxDay-MinDay) || marked && last > MaxDay {
		return Calendar{}, fmt.Errorf("%w: the key of %q holds no calendar", redoubt.ErrWrongType, name)
	}
	return c, nil
}

// Delete deletes the calendar called name. It reports whether the calendar existed. One round trip.
func (cs *Calendars) Delete(ctx context.Context, name string) (deleted bool, err error) {
	return unlink(ctx, cs.client, name, calendarPart)
}

// List iterates over the names of calendars that match a pattern as of Redis' KEYS; the empty
// pattern matches all. The loop ends with the first error. List looks at every key of the server,
// or of all primaries of a cluster, in steps of a round trip for about 1,000 keys: see
// [redoubt.Client.Names].
func (cs *Calendars) List(ctx context.Context, match string) iter.Seq2[string, error] {
	return cs.client.Names(ctx, calendarPart, "string", match)
}
