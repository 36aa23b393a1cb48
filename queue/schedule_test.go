package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

// A timetable is a queue with schedules, at a time that the test sets.
type timetable struct {
	*env
	t         *testing.T
	q         *queue.Queue[string]
	schedules *queue.Schedules[string]
	events    []queue.Event
}

func (e *env) timetable(t *testing.T) *timetable {
	tt := &timetable{env: e, t: t}
	tt.q = e.queue(t, queue.Options{OnEvent: func(_ context.Context, ev queue.Event) { tt.events = append(tt.events, ev) }})
	tt.schedules = queue.NewSchedules(tt.q)
	return tt
}

func (tt *timetable) put(s queue.Schedule[string]) queue.ScheduleInfo {
	tt.t.Helper()
	info, err := tt.schedules.Put(tt.t.Context(), "q", s)
	must(tt.t, err)
	return info
}

func (tt *timetable) at(text string) {
	tt.t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	must(tt.t, err)
	tt.Clock.Set(at)
}

// puts lets the schedules work. The queue must then have these messages, in this order; they are done.
func (tt *timetable) puts(want ...string) {
	tt.t.Helper()
	must(tt.t, tt.schedules.Work(tt.t.Context(), "q"))
	var got []string
	for m, err := range tt.q.Messages(tt.t.Context(), "q", queue.StateReady) {
		must(tt.t, err)
		id, ms, _ := strings.Cut(m.ID, "@")
		var at int64
		_, err = fmt.Sscan(ms, &at)
		must(tt.t, err)
		v, err := tt.q.Value(m)
		must(tt.t, err)
		got = append(got, fmt.Sprintf("%s %s %s", id, v, time.UnixMilli(at).UTC().Format(time.RFC3339)))
	}
	if !slices.Equal(got, want) {
		tt.t.Fatalf("at %s:\n%s\nwant:\n%s", tt.Clock.Now().UTC().Format(time.RFC3339), strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	_, err := tt.q.RemovePending(tt.t.Context(), "q")
	must(tt.t, err)
}

func (tt *timetable) info(id string) queue.ScheduleInfo {
	tt.t.Helper()
	info, err := tt.schedules.Info(tt.t.Context(), "q", id)
	must(tt.t, err)
	return info
}

func eachTimetable(t *testing.T, run func(t *testing.T, tt *timetable)) {
	eachFrozen(t, func(t *testing.T, e *env) { run(t, e.timetable(t)) })
}

// A schedule comes at its times, by the server's clock, in its zone, also when the clocks are turned.
//
// Promise: A message of a schedule is put when its time has come, by the server's clock, and not before.
func TestScheduleTimes(t *testing.T) {
	eachTimetable(t, func(t *testing.T, tt *timetable) {
		tt.at("2026-03-27T12:00:00Z")
		info := tt.put(queue.Schedule[string]{ID: "report", Cron: "30 2 * * *", Zone: "Europe/Berlin", Request: queue.Request[string]{Value: "r"}})
		if got := info.Next.Format(time.RFC3339); got != "2026-03-28T02:30:00+01:00" {
			t.Fatalf("next: %s", got)
		}
		tt.at("2026-03-28T01:29:59Z")
		tt.puts()
		tt.at("2026-03-28T01:30:00Z")
		tt.puts("report r 2026-03-28T01:30:00Z")
		tt.puts()
		tt.at("2026-03-29T00:59:59Z") // 02:30 is skipped: it comes at 03:00
		tt.puts()
		tt.at("2026-03-29T01:00:00Z")
		tt.puts("report r 2026-03-29T01:00:00Z")
		tt.at("2026-03-30T00:30:00Z")
		tt.puts("report r 2026-03-30T00:30:00Z")
		tt.at("2026-10-25T00:30:00Z") // 02:30 comes twice: it counts the first time
		tt.puts("report r 2026-10-25T00:30:00Z")
		tt.at("2026-10-25T01:30:00Z")
		tt.puts()
		tt.at("2026-10-26T01:30:00Z")
		tt.puts("report r 2026-10-26T01:30:00Z")

		tt.at("2026-10-26T12:00:01Z")
		tt.put(queue.Schedule[string]{ID: "often", Every: 90 * time.Second, Request: queue.Request[string]{Value: "o"}})
		tt.at("2026-10-26T12:01:29.999Z")
		tt.puts()
		tt.at("2026-10-26T12:01:30Z")
		tt.puts("often o 2026-10-26T12:01:30Z")
	})
}

// Promise: The schedule says what becomes of missed times: one message, none, or all of them, in
// their order.
func TestScheduleCatchUp(t *testing.T) {
	eachTimetable(t, func(t *testing.T, tt *timetable) {
		tt.at("2026-01-01T00:00:30Z")
		for _, c := range []queue.CatchUp{queue.CatchUpOne, queue.CatchUpSkip, queue.CatchUpAll} {
			tt.put(queue.Schedule[string]{ID: string(c), Cron: "*/10 * * * *", CatchUp: c, Request: queue.Request[string]{Value: "v"}})
		}
		tt.at("2026-01-01T00:32:00Z") // nobody was there for half an hour
		tt.puts("all v 2026-01-01T00:10:00Z", "all v 2026-01-01T00:20:00Z", "all v 2026-01-01T00:30:00Z", "one v 2026-01-01T00:30:00Z")
		tt.at("2026-01-01T00:50:59Z") // and then until shortly after a time
		tt.puts("all v 2026-01-01T00:40:00Z", "all v 2026-01-01T00:50:00Z", "one v 2026-01-01T00:50:00Z", "skip v 2026-01-01T00:50:00Z")
		tt.at("2026-01-01T01:00:00Z") // at last they look
		tt.puts("all v 2026-01-01T01:00:00Z", "one v 2026-01-01T01:00:00Z", "skip v 2026-01-01T01:00:00Z")

		// The last thousand of all times, however long ago the first was.
		tt.at("2027-01-01T01:00:00Z")
		must(t, tt.schedules.Work(t.Context(), "q"))
		info, err := tt.q.Info(t.Context(), "q")
		must(t, err)
		if all := tt.info("all"); info.Ready != queue.MaxMissed+2 || all.Count != 6+queue.MaxMissed || all.Last.Format(time.RFC3339) != "2027-01-01T01:00:00Z" {
			t.Errorf("%+v, %+v", info, all)
		}
	})
}

// Start and End count themselves, and after Limit messages a schedule is over.
func TestScheduleBounds(t *testing.T) {
	eachTimetable(t, func(t *testing.T, tt *timetable) {
		tt.at("2026-01-01T00:00:00Z")
		start := tt.Clock.Now().Add(90 * time.Minute)
		tt.put(queue.Schedule[string]{ID: "a", Every: time.Hour, Start: start, End: start.Add(2 * time.Hour), CatchUp: queue.CatchUpAll})
		tt.put(queue.Schedule[string]{ID: "b", Cron: "@hourly", CatchUp: queue.CatchUpAll, Limit: 2})
		tt.at("2026-01-01T09:00:00Z")
		tt.puts("b  2026-01-01T01:00:00Z", "b  2026-01-01T02:00:00Z", "a  2026-01-01T01:30:00Z", "a  2026-01-01T02:30:00Z", "a  2026-01-01T03:30:00Z")
		for _, id := range []string{"a", "b"} {
			if info := tt.info(id); !info.Next.IsZero() || info.Paused {
				t.Errorf("%+v", info)
			}
		}
		// A larger limit lets it go on, from now.
		tt.put(queue.Schedule[string]{ID: "b", Cron: "@hourly", CatchUp: queue.CatchUpAll, Limit: 3})
		tt.at("2026-01-01T11:00:00Z")
		tt.puts("b  2026-01-01T10:00:00Z")
	})
}

// Promise: A change of a schedule counts once the call has returned, and a schedule that is put again with the
// same times goes on where it stands.
func TestScheduleEdits(t *testing.T) {
	eachTimetable(t, func(t *testing.T, tt *timetable) {
		ctx := t.Context()
		hourly := queue.Schedule[string]{ID: "a", Cron: "@hourly", Request: queue.Request[string]{Value: "old"}}
		tt.at("2026-01-01T00:30:00Z")
		tt.put(hourly)
		tt.at("2026-01-01T01:00:00Z")
		tt.puts("a old 2026-01-01T01:00:00Z")

		// A process starts late and puts its schedules first: the missed time is not lost, and has the new
		// message.
		tt.at("2026-01-01T02:05:00Z")
		tt.put(hourly)
		hourly.Request = queue.Request[string]{Value: "new", Lane: queue.High, Headers: map[string]string{"k": "v"}}
		if info := tt.put(hourly); info.Count != 1 || info.Next.Format(time.RFC3339) != "2026-01-01T02:00:00Z" {
			t.Fatalf("%+v", info)
		}
		tt.puts("a new 2026-01-01T02:00:00Z")

		// Other times begin anew.
		hourly.Cron = "45 * * * *"
		if info := tt.put(hourly); info.Count != 0 {
			t.Fatalf("%+v", info)
		}
		tt.at("2026-01-01T03:00:00Z")
		tt.puts("a new 2026-01-01T02:45:00Z")

		// Times that pass during a pause are not missed, and a put does not end a pause.
		must(t, tt.schedules.Pause(ctx, "q", "a"))
		tt.put(hourly)
		tt.at("2026-01-01T05:50:00Z")
		tt.puts()
		if info := tt.info("a"); !info.Paused || !info.Next.IsZero() || info.Message.Headers["k"] != "v" {
			t.Fatalf("%+v", info)
		}
		must(t, tt.schedules.Resume(ctx, "q", "a"))
		must(t, tt.schedules.Resume(ctx, "q", "a"))
		tt.puts()
		tt.at("2026-01-01T06:45:00Z")
		tt.puts("a new 2026-01-01T06:45:00Z")

		tt.at("2026-01-01T07:45:00Z")
		n, err := tt.schedules.Remove(ctx, "q", "a", "none")
		must(t, err)
		if tt.puts(); n != 1 {
			t.Errorf("removed %d", n)
		}
		if _, err := tt.schedules.Info(ctx, "q", "a"); !errors.Is(err, queue.ErrNoSchedule) {
			t.Errorf("%v", err)
		}
		if err := tt.schedules.Pause(ctx, "q", "a"); !errors.Is(err, queue.ErrNoSchedule) {
			t.Errorf("%v", err)
		}
		for _, part := range []string{"schedules", "states", "ticks"} {
			if n := tt.Redis.Exists(ctx, tt.key("q", part)).Val(); n != 0 {
				t.Errorf("%s is left", part)
			}
		}
	})
}

// A process dies after each number of commands, with the last one done or not. Others go on, and each time has one
// message.
//
// Promise: Each time of a schedule is put once, by any number of schedulers, whenever one of them dies.
func TestScheduleOnceUnderKills(t *testing.T) {
	eachTimetable(t, func(t *testing.T, tt *timetable) {
		tt.at("2026-01-01T00:00:30Z")
		for _, id := range []string{"a", "b"} {
			tt.put(queue.Schedule[string]{ID: id, Cron: "* * * * *", CatchUp: queue.CatchUpAll, Request: queue.Request[string]{Value: "v"}})
		}
		for dies := range 6 {
			for _, landed := range []bool{false, true} {
				at := tt.Clock.Now().Truncate(time.Minute).Add(2 * time.Minute)
				tt.Clock.Set(at)
				victim := &mortal{Conn: tt.Conn, left: dies, landed: landed}
				q, err := queue.New[string](tt.ClientOn(victim), queue.Options{})
				must(t, err)
				if err := queue.NewSchedules(q).Work(t.Context(), "q"); err == nil && victim.dead {
					t.Error("a dead process has worked")
				}
				one, two := at.Add(-time.Minute).UTC().Format(time.RFC3339), at.UTC().Format(time.RFC3339)
				tt.puts("a v "+one, "a v "+two, "b v "+one, "b v "+two)
			}
		}
	})
}

// A mortal is the connection of a process that dies after some commands.
type mortal struct {
	redoubt.Conn
	left   int
	landed bool // the last command reaches the server, but not its reply
	dead   bool
}

var errDied = errors.New("the process has died")

func (m *mortal) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	if m.left--; m.left >= 0 {
		return m.Conn.Do(ctx, cmd)
	}
	if m.landed && !m.dead {
		m.Conn.Do(ctx, cmd)
	}
	m.dead = true
	return redoubt.Reply{Err: errDied}
}

func (m *mortal) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	replies := make([]redoubt.Reply, len(cmds))
	for i, cmd := range cmds {
		replies[i] = m.Do(ctx, cmd)
	}
	return replies
}

// A process stands still between its look and its put, while the schedule is changed or removed: what it puts
// then counts for nothing.
func TestScheduleStaleProcess(t *testing.T) {
	eachTimetable(t, func(t *testing.T, tt *timetable) {
		ctx := t.Context()
		s := queue.Schedule[string]{ID: "a", Cron: "* * * * *", Request: queue.Request[string]{Value: "old"}}
		for what, change := range map[string]func(){
			"put": func() { tt.put(queue.Schedule[string]{ID: "a", Cron: "@hourly"}) },
			"text": func() {
				tt.put(queue.Schedule[string]{ID: "a", Cron: "* * * * *"})
				tt.puts("a  " + tt.Clock.Now().UTC().Format(time.RFC3339))
			},
			"pause":  func() { must(t, tt.schedules.Pause(ctx, "q", "a")) },
			"remove": func() { _, err := tt.schedules.Remove(ctx, "q", "a"); must(t, err) },
		} {
			_, err := tt.schedules.Remove(ctx, "q", "a")
			must(t, err)
			tt.at("2026-01-01T00:30:30Z")
			tt.put(s)
			tt.at("2026-01-01T00:31:00Z")
			q, err := queue.New[string](tt.ClientOn(&standing{Conn: tt.Conn, meanwhile: change}), queue.Options{})
			must(t, err)
			must(t, queue.NewSchedules(q).Work(ctx, "q"))
			if info, err := tt.q.Info(ctx, "q"); err != nil || info.Ready != 0 {
				t.Errorf("%s: %+v, %v", what, info, err)
			}
		}
	})
}

// A standing connection does something before it changes a schedule.
type standing struct {
	redoubt.Conn
	meanwhile func()
}

func (s *standing) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	if cmd.Script != nil && cmd.Script.Name() == "queue.schedule" && s.meanwhile != nil {
		meanwhile := s.meanwhile
		s.meanwhile = nil
		meanwhile()
	}
	return s.Conn.Do(ctx, cmd)
}

// Promise: A schedule that can't be read, or is refused, stops no other.
func TestBadSchedules(t *testing.T) {
	eachTimetable(t, func(t *testing.T, tt *timetable) {
		ctx := t.Context()
		tt.at("2026-01-01T00:00:30Z")
		for want, s := range map[string]queue.Schedule[string]{
			"id of a schedule has 0 bytes":         {Cron: "@daily"},
			"has neither cron nor every":           {ID: "bad"},
			"has both cron and every":              {ID: "bad", Cron: "@daily", Every: time.Hour},
			`hour is "24"; want 0 to 23`:           {ID: "bad", Cron: "0 24 * * *"},
			`zone is "Berlin"; want a name`:        {ID: "bad", Cron: "@daily", Zone: "Berlin"},
			`zone is "Local"; want a name`:         {ID: "bad", Cron: "@daily", Zone: "Local"},
			"every is 10ms":                        {ID: "bad", Every: 10 * time.Millisecond},
			"but every needs none":                 {ID: "bad", Every: time.Hour, Zone: "UTC"},
			`catch-up is "some"`:                   {ID: "bad", Every: time.Hour, CatchUp: "some"},
			"limit is -1":                          {ID: "bad", Every: time.Hour, Limit: -1},
			"no time until its end":                {ID: "bad", Cron: "0 0 1 1 *", Start: tt.Clock.Now(), End: tt.Clock.Now().Add(time.Hour)},
			"has an id, a time or a unique key":    {ID: "bad", Every: time.Hour, Request: queue.Request[string]{Delay: time.Second}},
			"lane is 9":                            {ID: "bad", Every: time.Hour, Request: queue.Request[string]{Lane: 9}},
			"bytes with its message; want at most": {ID: "bad", Every: time.Hour, Request: queue.Request[string]{Value: strings.Repeat("x", queue.MaxScheduleBytes)}},
		} {
			if _, err := tt.schedules.Put(ctx, "q", s); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v; want %s", err, want)
			}
		}
		for id := range 40 { // more than one look reads
			bad := fmt.Sprintf("bad%02d", id)
			must(t, tt.Redis.HSet(ctx, tt.key("q", "states"), bad, "x").Err())
			must(t, tt.Redis.HSet(ctx, tt.key("q", "schedules"), bad, "what is this?").Err())
			must(t, tt.Redis.ZAdd(ctx, tt.key("q", "ticks"), redis.Z{Score: 1, Member: bad}).Err())
		}
		tt.put(queue.Schedule[string]{ID: "later", Every: time.Minute, Request: queue.Request[string]{Value: "v"}})
		tt.at("2026-01-01T00:01:00Z")
		tt.puts("later v 2026-01-01T00:01:00Z")
		if len(tt.events) != 40 || tt.events[0].Kind != queue.BadSchedule || !strings.Contains(tt.events[0].Err.Error(), `schedule "bad00": `) {
			t.Errorf("%d events, %+v", len(tt.events), tt.events)
		}
		// They are listed, and can be put anew.
		n, bad := 0, 0
		for s, err := range tt.schedules.All(ctx, "q") {
			must(t, err)
			if n++; s.Err != nil {
				bad++
			}
		}
		if n != 41 || bad != 40 {
			t.Errorf("%d schedules, %d bad", n, bad)
		}
		if info := tt.put(queue.Schedule[string]{ID: "bad00", Every: time.Minute}); info.Next.IsZero() || tt.info("bad00").Err != nil {
			t.Errorf("%+v", info)
		}
	})
}

// A queue has at most so many schedules. Their messages take their place in lanes and groups as others do.
func TestManySchedules(t *testing.T) {
	e := &env{testenv.New(t, ownServer(t))}
	e.Freeze(wire.Scripts(), nil)
	tt := e.timetable(t)
	tt.at("2026-01-01T00:00:30Z")
	for i := range 3 {
		tt.put(queue.Schedule[string]{ID: fmt.Sprint("s", i), Cron: "@hourly", Request: queue.Request[string]{Group: "g"}})
	}
	others := map[string]string{}
	for i := range queue.MaxSchedules - 3 {
		others[fmt.Sprint("o", i)] = "x"
	}
	must(t, tt.Redis.HSet(t.Context(), tt.key("q", "states"), others).Err())
	if _, err := tt.schedules.Put(t.Context(), "q", queue.Schedule[string]{ID: "more", Every: time.Hour}); !errors.Is(err, queue.ErrManySchedules) {
		t.Errorf("%v", err)
	}
	tt.put(queue.Schedule[string]{ID: "o7", Every: time.Minute})
	tt.at("2026-01-01T01:00:00Z")
	must(t, tt.schedules.Work(t.Context(), "q"))
	if info, err := tt.q.Info(t.Context(), "q"); err != nil || info.Ready != 2 || info.Waiting != 2 {
		t.Errorf("%+v, %v", info, err)
	}
}

// Three processes run the schedules beside consumers. One ends, one loses its network, and schedules change
// meanwhile. The clock is the bubble's.
//
// Promise: Each time of a schedule is put once, by any number of schedulers, whenever one of them dies.
func TestSchedulesRun(t *testing.T) {
	bubble(t, func(t *testing.T, client *redoubt.Client, net *network) {
		q := queueOn(t, client, queue.Options{})
		schedules := queue.NewSchedules(q)
		put := func(s queue.Schedule[string]) {
			_, err := schedules.Put(t.Context(), "q", s)
			must(t, err)
		}
		put(queue.Schedule[string]{ID: "minute", Every: time.Minute})
		put(queue.Schedule[string]{ID: "often", Every: 10 * time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var mu sync.Mutex
		got := map[string]int{}
		all.Go(func() {
			if err := q.Run(ctx, "q", func(_ context.Context, d *queue.Delivery[string]) error {
				mu.Lock()
				defer mu.Unlock()
				id, at := d.Scheduled()
				got[id]++
				if late := time.Since(at); got[d.ID] > 0 || late < 0 || late > 10*time.Millisecond {
					t.Errorf("%s came again, or is %v late", d.ID, late)
				}
				got[d.ID]++
				return nil
			}, queue.RunOptions{}); err != nil {
				t.Error(err)
			}
		})
		for i := range 3 {
			line := &network{Conn: net.Conn}
			other, err := redoubt.New(line, redoubt.Options{})
			must(t, err)
			defer other.Close()
			mine, stop := context.WithTimeout(ctx, 20*time.Minute)
			defer stop()
			switch i {
			case 1:
				mine, stop = context.WithTimeout(ctx, 3*time.Minute)
				defer stop()
			case 2:
				time.AfterFunc(4*time.Minute, func() { line.cut.Store(true) })
			}
			all.Go(func() {
				if err := queue.NewSchedules(queueOn(t, other, queue.Options{})).Run(mine, "q"); err != nil {
					t.Error(err)
				}
			})
		}
		await.Advance(10*time.Minute + time.Second)
		put(queue.Schedule[string]{ID: "new", Every: 6 * time.Second}) // another client hears of it within five seconds
		_, err := schedules.Remove(t.Context(), "q", "often")
		must(t, err)
		await.Advance(time.Minute)
		mu.Lock()
		if got["minute"] != 11 || got["often"] != 60 || got["new"] != 10 {
			t.Errorf("%d, %d, %d", got["minute"], got["often"], got["new"])
		}
		mu.Unlock()
		cancel()
		all.Wait()
	})
}

// A schedule is run on every back end, by the clock of the queue's server.
func TestSchedulesOnEveryBackEnd(t *testing.T) {
	everywhere(t, func(t *testing.T, e *env) {
		q := e.queue(t, queue.Options{})
		schedules := queue.NewSchedules(q)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- schedules.Run(ctx, "q") }()
		_, err := schedules.Put(t.Context(), "q", queue.Schedule[string]{ID: "often", Every: time.Second, Request: queue.Request[string]{Value: "v"}})
		must(t, err)
		eventually(t, "two messages are put", func() bool {
			s, err := q.Info(t.Context(), "q")
			return err == nil && s.Ready >= 2
		})
		stop()
		must(t, <-ended)
	})
}
