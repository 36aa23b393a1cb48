package command

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/resp"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

const (
	// maxScheduled bounds LIMIT.
	maxScheduled = int64(1_000_000_000)
	errAlone     = "ERR redoubt: a change of a schedule takes several steps and has no place in a transaction"
)

var (
	scheduleID  = Arg{Name: "id", Type: "string", Summary: fmt.Sprintf("names the schedule, 1 to %d bytes", queue.MaxScheduleID)}
	scheduleArg = Arg{Name: "id", Type: "string", Token: "SCHEDULE", Use: Optional, Summary: "not the queue, but its schedule with this id"}

	docScheduleID = fmt.Sprintf("`ERR redoubt: id of a schedule has … bytes; want 1 to %d`", queue.MaxScheduleID)
	docNoSchedule = "`ERR redoubt: no such schedule: …`: after SCHEDULE"
	docAlone      = "`" + errAlone + "`"
	docOtherBase  = "`ERR redoubt: this works in the back end's own database only: …`: after SELECT of another"
)

// RunSchedules puts the messages of the schedules of all queues until ctx ends. It reports errors of the
// server with an empty id.
func (env *Env) RunSchedules(ctx context.Context, report func(ctx context.Context, queue, id string, err error)) error {
	return wire.NewScheduler(env.Client, "", report).Run(ctx)
}

var queueScheduleCommands = []*Command{
	queueCommand(Command{
		Name:       "QUEUE.SCHEDULE",
		Summary:    "Puts a message into a queue again and again: adds a schedule, or replaces the one with its id.",
		Complexity: "O(log(N)) with N schedules of the queue",
		Arity:      -6,
		Flags:      []string{"write", "denyoom", "noscript"},
		Args: []Arg{
			queueName, scheduleID,
			{Name: "payload", Type: "string", Summary: fmt.Sprintf("the content of its messages. With all options the schedule has at most %d bytes", queue.MaxScheduleBytes)},
			{Name: "when", Type: "oneof", Args: []Arg{
				{Name: "expression", Type: "string", Token: "CRON", Summary: "minute, hour, day of the month, month and day of the week, like `0 9 * * MON-FRI`; or @hourly, @daily, @weekly, @monthly or @yearly"},
				{Name: "interval", Type: "integer", Unit: "ms", Token: "EVERY", Summary: fmt.Sprintf("from one message to the next: %d to %d ms. The times are its multiples since START, or since 1970", wire.MinEvery.Milliseconds(), maxQueueTime)},
			}},
			{Name: "zone", Type: "string", Token: "TZ", Use: Optional, Summary: "the time zone of CRON, like `Asia/Shanghai`. Defaults to UTC"},
			{Name: "policy", Type: "string", Token: "CATCHUP", Use: Optional, Summary: fmt.Sprintf("what becomes of times that passed while no process or no server was there: `one` message for the last of them; `skip`: none, unless the last is less than a minute ago; `all`: a message for each of the last %d. Defaults to `one`", queue.MaxMissed)},
			{Name: "start", Type: "integer", Unit: "ms", Token: "START", Use: Optional, Summary: fmt.Sprintf("the first time that counts, in ms since 1970: 1 to %d", maxAt)},
			{Name: "end", Type: "integer", Unit: "ms", Token: "END", Use: Optional, Summary: fmt.Sprintf("the last time that counts, in ms since 1970: 1 to %d", maxAt)},
			{Name: "limit", Type: "integer", Token: "LIMIT", Use: Optional, Summary: fmt.Sprintf("how many messages it puts at most: 1 to %d. Defaults to no limit", maxScheduled)},
			{Name: "attempts", Type: "integer", Token: "ATTEMPTS", Use: Optional, Summary: fmt.Sprintf("of its messages, as in QUEUE.PUT. Defaults to %d", defaultAttempts)},
			{Name: "lane", Type: "integer", Token: "LANE", Use: Optional, Summary: "of its messages, as in QUEUE.PUT"},
			{Name: "group", Type: "string", Token: "GROUP", Use: Optional, Summary: "of its messages, as in QUEUE.PUT"},
			headersArg(fmt.Sprintf("how many headers of its messages follow, 1 to %d", maxHeaders)),
		},
		Reply: "Integer: its next time, in ms since 1970; 0 if it is paused, or its LIMIT is reached.",
		Errors: queueErrors(
			docSyntax, docInteger, docScheduleID,
			"`ERR redoubt: cron …`: what is wrong with the expression",
			"`ERR redoubt: zone is …; want a name like Europe/Berlin that this machine knows`",
			"`ERR redoubt: zone is …, but every needs none; leave it empty`",
			fmt.Sprintf("`ERR redoubt: interval_ms is …; want %d to %d`", wire.MinEvery.Milliseconds(), maxQueueTime),
			"`ERR redoubt: catch-up is …; want skip, one or all`",
			fmt.Sprintf("`ERR redoubt: START is …; want 1 to %d`", maxAt),
			fmt.Sprintf("`ERR redoubt: END is …; want 1 to %d`", maxAt),
			"`ERR redoubt: schedule has no time until its end, …`",
			fmt.Sprintf("`ERR redoubt: LIMIT is …; want 1 to %d`", maxScheduled),
			fmt.Sprintf("`ERR redoubt: ATTEMPTS is …; want 1 to %d, or -1`", queue.MaxAttempts),
			fmt.Sprintf("`ERR redoubt: LANE is …; want %d to %d`", queue.Low, queue.Urgent),
			fmt.Sprintf("`ERR redoubt: GROUP has … bytes; want 1 to %d`", queue.MaxID),
			fmt.Sprintf("`ERR redoubt: HEADERS is …; want 1 to %d`", maxHeaders),
			"`ERR redoubt: HEADERS has … twice`",
			"`ERR redoubt: headers have … bytes; want at most 65535`",
			fmt.Sprintf("`ERR redoubt: schedule has … bytes with its message; want at most %d`", queue.MaxScheduleBytes),
			fmt.Sprintf("`ERR redoubt: a queue has at most %d schedules`", queue.MaxSchedules),
			docAlone, docOtherBase,
		),
		Examples: []Example{
			{"QUEUE.SCHEDULE jobs report sales CRON @daily TZ Asia/Shanghai START 4102444800000", "(integer) 4102502400000"},
			{"QUEUE.SCHEDULE jobs tick now EVERY 60000 CATCHUP skip START 4102444800000", "(integer) 4102444800000"},
		},
		Notes: []string{
			"Every `redoubt serve` in front of the server puts the messages of all schedules, and so does the library's Schedules.Run. Each time has one message, however many of them run. The id of a message is the schedule's, an @, and the time in ms since 1970.",
			"A schedule that is put again with the same CRON, EVERY, TZ, START and END goes on where it stands. With other times it begins anew. A paused schedule stays paused. This server knows of a change at once; others within five seconds.",
			"Where clocks are turned forward, a time that they skip comes at the end of the gap. Where they are turned back, a time that comes twice counts once, the first time. If the hour of CRON begins with \\*, it follows the time that passes instead: it comes in both hours of a doubled one, and never in a gap.",
		},
		Plan: planSchedule,
	}),
	queueCommand(Command{
		Name:       "QUEUE.SCHEDULES",
		Summary:    "Lists the schedules of a queue by their next time.",
		Complexity: "O(log(N)+M) with N schedules and M listed",
		Arity:      -3,
		Flags:      []string{"readonly", "noscript"},
		Args:       []Arg{queueName, countArg, fromArg},
		Reply: "Array of two: how many schedules the queue has; an array of schedules, those without a next time last. Each is a map of `id`; `cron`; `tz`; `every_ms`; `catchup`; `start_ms`; `end_ms`; `limit`; `paused`, 0 or 1; " +
			"`next_ms`; `last_ms`, the time of its last message; `count`, how many messages it has put since it began; `attempts`, `lane`, `group`, `payload` and `headers`, a map, of its messages; `error`: why this server can't work with it. Numbers are 0 and texts are empty where there is none.",
		Errors:   queueErrors(docSyntax, docInteger, docCount, docFrom),
		Examples: []Example{{"QUEUE.SCHEDULES jobs 10", "1) (integer) 2\n2) 1)  1) \"id\"\n       2) \"tick\"\n       …"}},
		Plan:     planSchedules,
	}),
	queueCommand(Command{
		Name:       "QUEUE.UNSCHEDULE",
		Summary:    "Removes schedules of a queue. Messages that they have put stay.",
		Complexity: "O(log(N)) with N schedules, for each id",
		Arity:      -3,
		Flags:      []string{"write", "noscript", "fast"},
		Args:       []Arg{queueName, {Name: "id", Type: "string", Use: Multiple, Summary: fmt.Sprintf("of schedules, at most %d", wire.MaxSettle)}},
		Reply:      "Integer: how many there were.",
		Errors:     queueErrors(docMany),
		Examples:   []Example{{"QUEUE.UNSCHEDULE jobs report tick", "(integer) 2"}},
		Plan: func(env *Env, args [][]byte) Plan {
			ids, fault := texts("ids", args[2:])
			if fault != "" {
				return Plan{Err: fault}
			}
			return env.planQueue(args[1], func(keys wire.Keys) redoubt.Cmd { return wire.UnscheduleCmd(keys, ids...) },
				func(dst []byte, _ resp.Protocol, r redoubt.Reply) []byte {
					n, err := wire.ReadUnscheduled(r)
					if err != nil {
						return appendError(dst, err)
					}
					return resp.AppendInt(dst, int64(n))
				})
		},
	}),
}

// planChange plans a change of a schedule, which takes several steps.
func planChange(do func(ctx context.Context) (reply func(dst []byte) []byte, err error)) Plan {
	return Plan{
		Wait: func(ctx context.Context) Outcome {
			reply, err := do(ctx)
			return Outcome{Append: func(dst []byte, _ resp.Protocol) []byte {
				if err != nil {
					return appendError(dst, err)
				}
				return reply(dst)
			}}
		},
		Instead: func() Plan { return Plan{Err: errAlone} },
	}
}

func planSchedule(env *Env, args [][]byte) Plan {
	s := wire.Schedule{ID: string(args[2]), Message: wire.Message{Payload: bytes.Clone(args[3]), Attempts: defaultAttempts}}
	if fault := readSchedule(&s, args[4:]); fault != "" {
		return Plan{Err: fault}
	}
	if err := s.Check(); err != nil {
		return refusal(err)
	}
	name := string(args[1])
	if _, err := wire.KeysOf(env.Client, name); err != nil {
		return refusal(err)
	}
	return planChange(func(ctx context.Context) (func([]byte) []byte, error) {
		info, err := wire.PutSchedule(ctx, env.Client, name, s)
		next := int64(0)
		if !info.Next.IsZero() {
			next = info.Next.UnixMilli()
		}
		return func(dst []byte) []byte { return resp.AppendInt(dst, next) }, err
	})
}

// readSchedule parses when a schedule comes, and its options.
func readSchedule(s *wire.Schedule, args [][]byte) (fault string) {
	given := map[string]bool{}
	for ; len(args) > 0 && fault == ""; args = args[2:] {
		word := strings.ToUpper(string(args[0]))
		if len(args) < 2 || given[word] || given["CRON"] && word == "EVERY" || given["EVERY"] && word == "CRON" {
			return syntaxAt(args[0])
		}
		given[word] = true
		value, n := args[1], int64(0)
		switch word {
		case "CRON":
			s.Cron = string(value)
		case "EVERY":
			n, fault = milliseconds("interval_ms", value, wire.MinEvery.Milliseconds(), maxQueueTime)
			s.Every = time.Duration(n) * time.Millisecond
		case "TZ":
			s.Zone = string(value)
		case "CATCHUP":
			s.CatchUp = wire.CatchUp(strings.ToLower(string(value)))
		case "START":
			n, fault = milliseconds(word, value, 1, maxAt)
			s.Start = time.UnixMilli(n).UTC()
		case "END":
			n, fault = milliseconds(word, value, 1, maxAt)
			s.End = time.UnixMilli(n).UTC()
		case "LIMIT":
			n, fault = milliseconds(word, value, 1, maxScheduled)
			s.Limit = int(n)
		case "ATTEMPTS":
			s.Message.Attempts, fault = attempts(value)
		case "LANE":
			n, fault = milliseconds(word, value, int64(queue.Low), int64(queue.Urgent))
			s.Message.Lane = queue.Lane(n) //nolint:gosec // checked
		case "GROUP":
			s.Message.Group, fault = string(value), length(word, value, 1, queue.MaxID)
		case "HEADERS":
			args, fault = readHeaders(&s.Message, args)
		default:
			return syntaxAt(args[0])
		}
	}
	if fault == "" && !given["CRON"] && !given["EVERY"] {
		return errSyntax
	}
	return fault
}

// pageOf reads a count and FROM.
func pageOf(count []byte, rest [][]byte) (n, from int64, fault string) {
	if n, fault = milliseconds("count", count, 1, wire.MaxSettle); fault != "" {
		return 0, 0, fault
	}
	switch {
	case len(rest) == 2 && bytes.EqualFold(rest[0], []byte("FROM")):
		from, fault = milliseconds("FROM", rest[1], 0, maxFrom)
	case len(rest) > 0:
		fault = syntaxAt(rest[0])
	}
	return n, from, fault
}

func planSchedules(env *Env, args [][]byte) Plan {
	n, from, fault := pageOf(args[2], args[3:])
	if fault != "" {
		return Plan{Err: fault}
	}
	return env.planQueue(args[1], func(keys wire.Keys) redoubt.Cmd { return wire.SchedulesCmd(keys, int(from), int(n)) },
		func(dst []byte, p resp.Protocol, r redoubt.Reply) []byte {
			list, all, err := wire.ReadSchedules(r)
			if err != nil {
				return appendError(dst, err)
			}
			dst = resp.AppendInt(resp.AppendArray(dst, 2), int64(all))
			dst = resp.AppendArray(dst, len(list))
			for i := range list {
				dst = appendSchedule(dst, p, &list[i])
			}
			return dst
		})
}

func appendSchedule(dst []byte, p resp.Protocol, s *wire.ScheduleInfo) []byte {
	text := func(name, value string) { dst = resp.AppendBulk(resp.AppendBulk(dst, name), value) }
	number := func(name string, n int64) { dst = resp.AppendInt(resp.AppendBulk(dst, name), n) }
	when := func(name string, t time.Time) {
		if t.IsZero() {
			number(name, 0)
		} else {
			number(name, t.UnixMilli())
		}
	}
	dst = resp.AppendMap(dst, p, 18)
	text("id", s.ID)
	text("cron", s.Cron)
	text("tz", s.Zone)
	number("every_ms", s.Every.Milliseconds())
	text("catchup", string(s.CatchUp))
	when("start_ms", s.Start)
	when("end_ms", s.End)
	number("limit", int64(s.Limit))
	number("paused", flag(s.Paused))
	when("next_ms", s.Next)
	when("last_ms", s.Last)
	number("count", int64(s.Count))
	number("attempts", int64(s.Message.Attempts))
	number("lane", int64(s.Message.Lane))
	text("group", s.Message.Group)
	text("payload", string(s.Message.Payload))
	dst = appendHeaders(resp.AppendBulk(dst, "headers"), p, s.Message.Headers)
	fault := ""
	if s.Err != nil {
		fault = strings.TrimPrefix(faultOf(s.Err), "ERR redoubt: ")
	}
	text("error", fault)
	return dst
}

// planSwitch plans QUEUE.PAUSE and QUEUE.RESUME, of a queue or of one of its schedules.
func planSwitch(env *Env, args [][]byte, queue func(wire.Keys) redoubt.Cmd, schedule func(ctx context.Context, client *redoubt.Client, name, id string) error) Plan {
	switch {
	case len(args) == 2:
		return env.planQueue(args[1], queue, appendOK)
	case len(args) != 4 || !bytes.EqualFold(args[2], []byte("SCHEDULE")):
		return Plan{Err: syntaxAt(args[2])}
	}
	name, id := string(args[1]), string(args[3])
	if _, err := wire.KeysOf(env.Client, name); err != nil {
		return refusal(err)
	}
	return planChange(func(ctx context.Context) (func([]byte) []byte, error) {
		return func(dst []byte) []byte { return resp.AppendSimple(dst, "OK") }, schedule(ctx, env.Client, name, id)
	})
}
