package command

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/wire/listing"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

// Commands for administration: look into queues, set limits, handle failed messages.

// maxFrom bounds FROM.
const maxFrom = int64(1_000_000_000_000)

var (
	messageReply = "map of `id`; `state`; `when_ms`, when it became ready, is due, loses its lease, or died, in ms since 1970, 0 without such a time; `failures`; `attempts`, -1 for no limit; `reason` of the last failure; `lane`; `group`; `headers`, a map; `after`, an array of ids, and `unfinished`, for how many of these it still waits; `payload`; `progress`, what the consumer of a running message noted last, which QUEUE.FIND alone shows; `unreadable`, 1 if another program wrote it and it is no message, and the payload is all that was written, else 0"
	countArg     = Arg{Name: "count", Type: "integer", Summary: fmt.Sprintf("how many at most, 1 to %d; several have at most 2 MiB together", wire.MaxSettle)}
	fromArg      = Arg{Name: "from", Type: "integer", Token: "FROM", Use: Optional, Summary: "skip so many in front. Defaults to 0"}

	docCount = fmt.Sprintf("`ERR redoubt: count is …; want 1 to %d`", wire.MaxSettle)
	docFrom  = fmt.Sprintf("`ERR redoubt: FROM is …; want 0 to %d`", maxFrom)

	docConcurrency = "`ERR redoubt: CONCURRENCY is …; want 1 to 1000000`"
	docRate        = "`ERR redoubt: RATE is …; want 1 to 1000000`"
	docPeriod      = fmt.Sprintf("`ERR redoubt: period_ms is …; want 1 to %d`", maxQueueTime)
	docQueueBurst  = "`ERR redoubt: BURST is …; want 1 to 1000000`"
	docTooFast     = "`ERR redoubt: rate is …; want at most one a microsecond`"
)

var listStates = []queue.State{queue.StateReady, queue.StateDue, queue.StateRunning, queue.StateDead, queue.StateBlocked}

// queueSwitch returns a command on a queue, or on one of its schedules, that replies OK.
func queueSwitch(name, summary string, cmd func(wire.Keys) redoubt.Cmd, schedule func(ctx context.Context, client *redoubt.Client, name, id string) error) *Command {
	return queueCommand(Command{
		Name: name, Summary: summary, Complexity: "O(1)", Arity: -2, Flags: []string{"write", "denyoom", "noscript", "fast"},
		Args: []Arg{queueName, scheduleArg}, Reply: "OK.", Errors: queueErrors(docSyntax, docNoSchedule, docAlone, docOtherBase), Examples: []Example{{name + " mail", "OK"}},
		Plan: func(env *Env, args [][]byte) Plan { return planSwitch(env, args, cmd, schedule) },
	})
}

var queueAdminCommands = []*Command{
	queueCommand(Command{
		Name:       "QUEUE.DEAD",
		Summary:    "Lists dead messages, in the order in which they died.",
		Complexity: "O(log(N)+M) with N dead messages and M listed",
		Arity:      -3,
		Flags:      []string{"readonly", "noscript"},
		Args:       []Arg{queueName, countArg, fromArg},
		Reply:      "Array of two: how many messages have this state; an array of messages, each a " + messageReply + ".",
		Errors:     queueErrors(docSyntax, docInteger, docCount, docFrom),
		Before: []string{
			"QUEUE.CANCEL mail welcome:42",
			"QUEUE.PUT mail hello ID welcome:42",
			"QUEUE.TAKE mail 1 30000\n1) 1) \"YXNkZmdoamtsw7bDcJhwelcome:42\"\n   2) \"welcome:42\"\n   3) (integer) 1\n   4) \"hello\"",
			"QUEUE.NACK mail YXNkZmdoamtsw7bDcJhwelcome:42 DEAD",
		},
		Examples: []Example{{"QUEUE.DEAD mail 10", "1) (integer) 1\n2) 1)  1) \"id\"\n       2) \"welcome:42\"\n       3) \"state\"\n       4) \"dead\"\n       …"}},
		Plan: func(env *Env, args [][]byte) Plan {
			return env.planMessages(args[1], queue.StateDead, args[2], args[3:])
		},
	}),
	queueCommand(Command{
		Name:       "QUEUE.MESSAGES",
		Summary:    "Lists messages in one state, in order.",
		Complexity: "O(log(N)+M) with N messages in this state and M listed",
		Arity:      -4,
		Flags:      []string{"readonly", "noscript"},
		Args: []Arg{queueName, {Name: "state", Type: "oneof", Args: []Arg{
			{Name: "ready", Type: "pure-token", Token: "READY", Summary: "messages that can be taken, the next first"},
			{Name: "due", Type: "pure-token", Token: "DUE", Summary: "messages that are due later, the earliest first"},
			{Name: "running", Type: "pure-token", Token: "RUNNING", Summary: "messages on lease, the earliest end of a lease first"},
			{Name: "dead", Type: "pure-token", Token: "DEAD", Summary: "as QUEUE.DEAD"},
			{Name: "blocked", Type: "pure-token", Token: "BLOCKED", Summary: "messages that come after others that are not done"},
		}}, countArg, fromArg},
		Reply:    "Array of two: how many messages have this state; an array of messages, each a " + messageReply + ".",
		Errors:   queueErrors(docSyntax, docInteger, docCount, docFrom),
		Examples: []Example{{"QUEUE.MESSAGES mail DUE 10", "1) (integer) 0\n2) (empty array)"}},
		Notes:    []string{"No list has messages that wait for another of their group: QUEUE.STATS counts them."},
		Plan: func(env *Env, args [][]byte) Plan {
			for _, state := range listStates {
				if bytes.EqualFold(args[2], []byte(state)) {
					return env.planMessages(args[1], state, args[3], args[4:])
				}
			}
			return Plan{Err: syntaxAt(args[2])}
		},
	}),
	queueCommand(Command{
		Name:       "QUEUE.FIND",
		Summary:    "Reads one message in any state.",
		Complexity: "O(1); O(N) with N messages on lease for one that is running, in steps where there are more than 4000",
		Arity:      3,
		Flags:      []string{"readonly", "noscript"},
		Args:       []Arg{queueName, {Name: "id", Type: "string", Summary: "of the message"}},
		Reply:      "A " + messageReply + ". The state is `ready`, `due`, `running`, `waiting` for others of its group, `blocked` by others that it comes after, or `dead`. A done message whose result is kept has the state `done` and the result as its payload. Null when the queue does not have the message.",
		Errors:     queueErrors(docMessage, docFindRunning),
		Notes:      []string{"Inside MULTI the command is one step, which fails if it would have to search more than 4000 running messages."},
		Examples:   []Example{{"QUEUE.FIND mail welcome:44", "(nil)"}},
		Plan: func(env *Env, args [][]byte) Plan {
			id := string(args[2])
			if fault := length("ID", id, 1, queue.MaxID); fault != "" {
				return Plan{Err: fault}
			}
			return planSteps(env, args[1], stepwise[wire.MessageInfo]{
				one:  func(keys wire.Keys) redoubt.Cmd { return wire.FindCmd(keys, id) },
				read: func(r redoubt.Reply) (wire.MessageInfo, error) { return wire.ReadFind(r, id) },
				all: func(ctx context.Context, keys wire.Keys) (wire.MessageInfo, error) {
					return wire.Find(ctx, env.Client, keys, id)
				},
				reply: func(dst []byte, p resp.Protocol, found wire.MessageInfo) []byte {
					if found.State == queue.StateAbsent {
						return resp.AppendNull(dst, p)
					}
					if found.State == queue.StateDone {
						found.Payload = found.Result
					}
					return appendMessage(dst, p, found)
				},
			})
		},
	}),
	queueCommand(Command{
		Name:       "QUEUE.REQUEUE",
		Summary:    "Resets the attempts of dead messages and makes them ready.",
		Complexity: "O(log(N)) with N messages, for each id",
		Arity:      -3,
		Flags:      []string{"write", "denyoom", "noscript"},
		Args:       []Arg{queueName, messageIDs},
		Reply:      "Integer: how many were dead, and are now ready or wait for others of their group. A message waits again for the messages of its AFTER that the queue still has.",
		Errors:     queueErrors(docMessage, docMany, docOneStep, "`TRYAGAIN redoubt: many messages wait for one that is done, and are not all released yet: requeue it again`"),
		Notes:      []string{noteSteps},
		Examples:   []Example{{"QUEUE.REQUEUE mail welcome:42", "(integer) 1"}},
		Plan: func(env *Env, args [][]byte) Plan {
			return planIDs(env, args, wire.RequeueCmd, wire.ReadFlags, wire.Requeue, func(dst []byte, _ resp.Protocol, dead []bool) []byte {
				return resp.AppendInt(dst, countOf(dead, true))
			})
		},
	}),
	queueCommand(Command{
		Name:       "QUEUE.DELETE",
		Summary:    "Removes dead messages.",
		Complexity: "O(log(N)) with N messages, for each id",
		Arity:      -3,
		Flags:      []string{"write", "noscript"},
		Args:       []Arg{queueName, messageIDs},
		Reply:      "Integer: how many were dead, and are removed. Other messages stay: see QUEUE.CANCEL.",
		Errors:     queueErrors(docMessage, docMany, docOneStep),
		Notes:      []string{noteSteps},
		Examples:   []Example{{"QUEUE.DELETE mail welcome:42", "(integer) 0"}},
		Plan: func(env *Env, args [][]byte) Plan {
			return planIDs(env, args, wire.DeleteCmd, wire.ReadCancel, wire.Delete, func(dst []byte, _ resp.Protocol, states []wire.State) []byte {
				return resp.AppendInt(dst, countOf(states, wire.StateDead))
			})
		},
	}),
	queueCommand(Command{
		Name:       "QUEUE.STATS",
		Summary:    "Counts the messages of a queue by state, and reads its settings.",
		Complexity: "O(log(N)) with N messages",
		Arity:      2,
		Flags:      []string{"readonly", "noscript"},
		Args:       []Arg{queueName},
		Reply:      "Map of integers: messages that are `ready`, `due` later, `running`, `waiting` for others of their group, and `dead`; `blocked`, the ones that come after others that are not done; the ready ones by lane, `urgent`, `high`, `normal` and `low`; `oldest_ms`, the age of the oldest ready message; `next_ms` until the next is due, -1 without any; `paused`, 0 or 1; the limits `concurrency`, `interval_us` from one take to the next, and `burst`, 0 without.",
		Errors:     queueErrors(),
		Before: []string{
			"FLUSHALL",
			"QUEUE.PUT mail a",
			"QUEUE.PUT mail b",
			"QUEUE.PUT mail c",
			"QUEUE.PUT mail d DELAY 60000",
		},
		Examples: []Example{{"QUEUE.STATS mail", "1) \"ready\"\n2) (integer) 3\n3) \"due\"\n4) (integer) 1\n…"}},
		Plan: func(env *Env, args [][]byte) Plan {
			return env.planQueue(args[1], wire.StatsCmd, func(dst []byte, p resp.Protocol, r redoubt.Reply) []byte {
				s, err := wire.ReadStats(r)
				if err != nil {
					return appendError(dst, err)
				}
				return appendStats(resp.AppendMap(dst, p, statsPairs), s)
			})
		},
	}),
	{
		Name:       "QUEUE.LS",
		Summary:    "Lists the queues that have messages in any state, one page in each call.",
		Since:      "0.1.0",
		Group:      "queue",
		Complexity: lsComplexity,
		Arity:      -1,
		Flags:      []string{"readonly", "noscript"},
		Args:       lsArgs,
		Reply:      lsReply("QUEUE.STATS"),
		Errors:     lsErrors(),
		Examples:   []Example{{"QUEUE.LS MATCH mail*", "1) \"0\"\n2) 1)  1) \"name\"\n       2) \"mail\"\n       3) \"ready\"\n       4) (integer) 3\n       …"}},
		Plan: func(env *Env, args [][]byte) Plan {
			return planLS(env, args, wire.StatsPage, func(dst []byte, p resp.Protocol, q listing.Listed[wire.Stats]) []byte {
				dst = resp.AppendMap(dst, p, 1+statsPairs)
				dst = resp.AppendBulk(dst, "name")
				dst = resp.AppendBulk(dst, q.Name)
				return appendStats(dst, q.Info)
			})
		},
	},
	queueSwitch("QUEUE.PAUSE", "Stops consumers from taking messages. Running messages go on, and messages can be put. Or stops a schedule.", wire.PauseCmd, wire.PauseSchedule),
	queueSwitch("QUEUE.RESUME", "Ends a pause, of a queue or of a schedule. A schedule goes on with its first time after now.", wire.ResumeCmd, wire.ResumeSchedule),
	queueCommand(Command{
		Name:       "QUEUE.LIMIT",
		Summary:    "Limits how many messages run at once, and how fast all consumers together take them.",
		Complexity: "O(1)",
		Arity:      -3,
		Flags:      []string{"write", "denyoom", "noscript", "fast"},
		Args: []Arg{
			queueName,
			{Name: "none", Type: "pure-token", Token: "NONE", Use: Optional, Summary: "alone: removes all limits"},
			{Name: "concurrency", Type: "integer", Token: "CONCURRENCY", Use: Optional, Summary: "running at once, 1 to 1000000. Without it this limit is removed"},
			{Name: "rate", Type: "block", Use: Optional, Args: []Arg{
				{Name: "rate", Type: "integer", Token: "RATE", Summary: "taken on average within the time that follows, 1 to 1000000. Without it this limit is removed"},
				{Name: "period", Type: "integer", Unit: "ms", Summary: fmt.Sprintf("that time: 1 to %d ms", maxQueueTime)},
			}},
			{Name: "burst", Type: "integer", Token: "BURST", Use: Optional, Summary: "with RATE: taken at once after a pause, 1 to 1000000. Defaults to 1"},
		},
		Reply:    "OK.",
		Errors:   queueErrors(docSyntax, docInteger, docConcurrency, docRate, docPeriod, docQueueBurst, docTooFast),
		Examples: []Example{{"QUEUE.LIMIT mail CONCURRENCY 8 RATE 100 1000 BURST 20", "OK"}, {"QUEUE.LIMIT mail NONE", "OK"}},
		Plan:     planQueueLimit,
	}),
}

func appendOK(dst []byte, _ resp.Protocol, r redoubt.Reply) []byte {
	if r.Err != nil {
		return appendError(dst, r.Err)
	}
	return resp.AppendSimple(dst, "OK")
}

func (env *Env) planMessages(name []byte, state queue.State, count []byte, rest [][]byte) Plan {
	n, from, fault := pageOf(count, rest)
	if fault != "" {
		return Plan{Err: fault}
	}
	keys, err := wire.KeysOf(env.Client, string(name))
	if err != nil {
		return refusal(err)
	}
	cmd, err := wire.MessagesCmd(keys, state, int(from), int(n))
	if err != nil {
		return refusal(err)
	}
	return Plan{Cmd: &cmd, Translate: func(dst []byte, p resp.Protocol, r redoubt.Reply) []byte {
		list, all, err := wire.ReadMessages(r, state)
		if err != nil {
			return appendError(dst, err)
		}
		dst = resp.AppendArray(dst, 2)
		dst = resp.AppendInt(dst, int64(all))
		dst = resp.AppendArray(dst, len(list))
		for _, l := range list {
			dst = appendMessage(dst, p, l)
		}
		return dst
	}}
}

func appendMessage(dst []byte, p resp.Protocol, l wire.MessageInfo) []byte {
	text := func(name, value string) { dst = resp.AppendBulk(resp.AppendBulk(dst, name), value) }
	number := func(name string, n int64) { dst = resp.AppendInt(resp.AppendBulk(dst, name), n) }
	when := int64(0)
	if !l.When.IsZero() {
		when = l.When.UnixMilli()
	}
	dst = resp.AppendMap(dst, p, 14)
	text("id", l.ID)
	text("state", string(l.State))
	number("when_ms", when)
	number("failures", int64(l.Failures))
	number("attempts", int64(l.Attempts))
	text("reason", l.LastReason)
	number("lane", int64(l.Lane))
	text("group", l.Group)
	dst = appendHeaders(resp.AppendBulk(dst, "headers"), p, l.Headers)
	dst = resp.AppendArray(resp.AppendBulk(dst, "after"), len(l.After))
	for _, id := range l.After {
		dst = resp.AppendBulk(dst, id)
	}
	number("unfinished", int64(l.Unfinished))
	text("payload", string(l.Payload))
	text("progress", string(l.Progress))
	number("unreadable", flag(l.Unreadable))
	return dst
}

func flag(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// statsPairs is how many pairs appendStats appends.
const statsPairs = 16

func appendStats(dst []byte, s wire.Stats) []byte {
	next, interval := int64(-1), int64(0)
	if s.Next >= 0 {
		next = s.Next.Milliseconds()
	}
	if s.Limits.Rate > 0 {
		interval = (s.Limits.Per / time.Duration(s.Limits.Rate)).Microseconds()
	}
	for _, f := range [statsPairs]struct {
		name string
		n    int64
	}{
		{"ready", int64(s.Ready)},
		{"due", int64(s.Due)},
		{"running", int64(s.Running)},
		{"waiting", int64(s.Waiting)},
		{"dead", int64(s.Dead)},
		{"urgent", int64(s.ReadyIn[queue.Urgent])},
		{"high", int64(s.ReadyIn[queue.High])},
		{"normal", int64(s.ReadyIn[queue.Normal])},
		{"low", int64(s.ReadyIn[queue.Low])},
		{"oldest_ms", s.Oldest.Milliseconds()},
		{"next_ms", next},
		{"paused", flag(s.Paused)},
		{"concurrency", int64(s.Limits.Concurrency)},
		{"interval_us", interval},
		{"burst", int64(s.Limits.Burst)},
		{"blocked", int64(s.Blocked)},
	} {
		dst = resp.AppendInt(resp.AppendBulk(dst, f.name), f.n)
	}
	return dst
}

func planQueueLimit(env *Env, args [][]byte) Plan {
	var l wire.Limits
	if rest := args[2:]; len(rest) > 1 || !bytes.EqualFold(rest[0], []byte("NONE")) {
		if fault := readLimits(&l, rest); fault != "" {
			return Plan{Err: fault}
		}
	}
	keys, err := wire.KeysOf(env.Client, string(args[1]))
	if err != nil {
		return refusal(err)
	}
	cmd, err := wire.LimitCmd(keys, l)
	if err != nil {
		return refusal(err)
	}
	return Plan{Cmd: &cmd, Translate: appendOK}
}

func readLimits(l *wire.Limits, args [][]byte) (fault string) {
	const most = 1_000_000
	for len(args) > 0 && fault == "" {
		if len(args) < 2 {
			return syntaxAt(args[0])
		}
		var n, period int64
		word, value := strings.ToUpper(string(args[0])), args[1]
		switch {
		case word == "CONCURRENCY" && l.Concurrency == 0:
			n, fault = milliseconds(word, value, 1, most)
			l.Concurrency = int(n)
		case word == "RATE" && l.Rate == 0 && len(args) > 2:
			if n, fault = milliseconds(word, value, 1, most); fault == "" {
				period, fault = milliseconds("period_ms", args[2], 1, maxQueueTime)
			}
			l.Rate, l.Per, args = int(n), time.Duration(period)*time.Millisecond, args[1:]
		case word == "BURST" && l.Burst == 0:
			n, fault = milliseconds(word, value, 1, most)
			l.Burst = int(n)
		default:
			return syntaxAt(args[0])
		}
		args = args[2:]
	}
	if fault == "" && l.Burst > 0 && l.Rate == 0 {
		return errSyntax
	}
	return fault
}
