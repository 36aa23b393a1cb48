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
	maxQueueTime = int64(queue.MaxTime / time.Millisecond)
	// maxAt is the start of the year 2200, in ms since 1970.
	maxAt = int64(7_258_118_400_000)
	// maxReason is the longest reason of a failure, in bytes.
	maxReason = 1024
	// defaultAttempts is how often a message may fail that doesn't say.
	defaultAttempts = 10
	// noConsumer is the consumer of calls that nobody repeats.
	noConsumer = "-"
)

var (
	queueName  = Arg{Name: "name", Type: "key", Summary: fmt.Sprintf("the queue: 1 to %d bytes, not beginning with `}`", redoubt.MaxName)}
	receiptArg = Arg{Name: "receipt", Type: "string", Summary: "from QUEUE.TAKE"}
	messageIDs = Arg{Name: "id", Type: "string", Use: Multiple, Summary: fmt.Sprintf("of messages, at most %d", wire.MaxSettle)}
	leaseArg   = Arg{Name: "lease", Type: "integer", Unit: "ms", Summary: fmt.Sprintf("how long the messages are this consumer's unless it is extended: 1 to %d ms. What is not acknowledged by then is given to another, and counts as failed once", maxQueueTime)}
	docMessage = fmt.Sprintf("`ERR redoubt: ID has … bytes; want 1 to %d`", queue.MaxID)
	docReceipt = fmt.Sprintf("`ERR redoubt: receipt has … bytes; want 17 to %d`", 16+queue.MaxID)
	docLease   = fmt.Sprintf("`ERR redoubt: lease_ms is …; want 1 to %d`", maxQueueTime)
	docSettle  = "`ERR redoubt: these messages have more than … MiB together: settle fewer at a time`"
	docOneStep = "`ERR redoubt: these messages hold up the server when they are one step, as inside MULTI and in another database than its own: name fewer`"

	docManyRunning = "`ERR redoubt: more than 4000 messages are running, or wait in one group: a message is not looked for among them in one step, as inside MULTI and in another database than its own`"
	docFindRunning = "`ERR redoubt: more than 4000 messages are running: one is not looked for among them in one step`: inside MULTI"
	noteSteps      = "Many messages, and large ones, take several steps: others may see what the first have done. Inside MULTI there is one step, or an error and nothing is done."

	docMany  = fmt.Sprintf("`ERR redoubt: … in one call; want at most %d`", wire.MaxSettle)
	docDelay = fmt.Sprintf("`ERR redoubt: DELAY is …; want 0 to %d`", maxQueueTime)
)

// queueErrors is what the commands of queues share, after those of their own.
func queueErrors(own ...string) []string {
	return append(own, "`ERR redoubt: invalid name: …`", "`"+wrongType+"`: something else has written a key of the queue")
}

// queueCommand fills in what the commands of queues share.
func queueCommand(c Command) *Command {
	c.Since, c.Group = "0.1.0", "queue"
	c.FirstKey, c.LastKey, c.KeyStep = 1, 1, 1
	return &c
}

var queueCommands = []*Command{
	queueCommand(Command{
		Name:       "QUEUE.PUT",
		Summary:    "Puts a message into a queue, to be taken at once or later.",
		Complexity: "O(log(N)) with N messages",
		Arity:      -3,
		Flags:      []string{"write", "denyoom", "noscript", "fast"},
		Args: []Arg{
			queueName,
			{Name: "payload", Type: "string", Summary: fmt.Sprintf("what the message says: any bytes, at most %d", queue.MaxPayload)},
			{Name: "id", Type: "string", Token: "ID", Use: Optional, Summary: fmt.Sprintf("names the message, 1 to %d bytes. Repeating the command with the same ID does nothing while the message is in the queue, so that it is safe after a lost reply; a dead one is replaced. Made by the server when absent", queue.MaxID)},
			{Name: "when", Type: "oneof", Use: Optional, Args: []Arg{
				{Name: "delay", Type: "integer", Unit: "ms", Token: "DELAY", Summary: fmt.Sprintf("not to be taken before this time has passed: 0 to %d ms", maxQueueTime)},
				{Name: "time", Type: "integer", Unit: "ms", Token: "AT", Summary: fmt.Sprintf("not to be taken before this time by the server's clock, in ms since 1970: 0 to %d. A past one is now", maxAt)},
			}},
			{Name: "attempts", Type: "integer", Token: "ATTEMPTS", Use: Optional, Summary: fmt.Sprintf("how often it may fail until it is dead: 1 to %d, or -1 for no end. Defaults to %d", queue.MaxAttempts, defaultAttempts)},
			{Name: "lane", Type: "integer", Token: "LANE", Use: Optional, Summary: fmt.Sprintf("its priority: %d low, %d normal, %d high, %d urgent. Of what can be taken, the larger goes first. Defaults to %d", queue.Low, queue.Normal, queue.High, queue.Urgent, queue.Normal)},
			{Name: "group", Type: "string", Token: "GROUP", Use: Optional, Summary: fmt.Sprintf("messages of one group are at work one at a time, in the order in which they became due, also when one has to be tried again: 1 to %d bytes", queue.MaxID)},
			{Name: "unique", Type: "block", Use: Optional, Args: []Arg{
				{Name: "key", Type: "string", Token: "UNIQUE", Summary: fmt.Sprintf("drops the message when another with this key was put in the time that follows it, even if that is done by now: 1 to %d bytes", queue.MaxID)},
				{Name: "unique", Type: "integer", Unit: "ms", Summary: fmt.Sprintf("how long the key is kept: 1 to %d ms", maxQueueTime)},
			}},
		},
		Reply: "The id of the message that is in the queue: that of this one, also when it was there already; that of another when UNIQUE dropped this one.",
		Errors: queueErrors(
			docSyntax, docInteger, docMessage, docDelay,
			fmt.Sprintf("`ERR redoubt: AT is …; want 0 to %d`", maxAt),
			fmt.Sprintf("`ERR redoubt: ATTEMPTS is …; want 1 to %d, or -1`", queue.MaxAttempts),
			fmt.Sprintf("`ERR redoubt: LANE is …; want %d to %d`", queue.Low, queue.Urgent),
			fmt.Sprintf("`ERR redoubt: GROUP has … bytes; want 1 to %d`", queue.MaxID),
			fmt.Sprintf("`ERR redoubt: UNIQUE has … bytes; want 1 to %d`", queue.MaxID),
			fmt.Sprintf("`ERR redoubt: unique_ms is …; want 1 to %d`", maxQueueTime),
			fmt.Sprintf("`ERR redoubt: payload has … bytes; want at most %d`", queue.MaxPayload),
		),
		Examples: []Example{
			{"QUEUE.PUT mail hello ID welcome:42", "\"welcome:42\""},
			{"QUEUE.PUT orders cancel:7 DELAY 900000 UNIQUE cancel:7 3600000", "\"q0XhV3TlAAAAAAAB\""},
		},
		Notes: []string{
			"Many messages are put by sending the command many times in one pipeline.",
			"Without an ID, repeating the command after a lost reply may put the message twice.",
		},
		Plan: planPut,
	}),
	queueCommand(Command{
		Name:       "QUEUE.TAKE",
		Summary:    "Takes messages for a time, or waits until there is one.",
		Complexity: "O(log(N)) with N messages, for each that is taken, and for at most 512 that became due or were abandoned",
		Arity:      -4,
		Flags:      []string{"write", "noscript", "blocking"},
		Args: []Arg{
			queueName,
			{Name: "count", Type: "integer", Summary: fmt.Sprintf("take at most so many, 1 to %d, and no more than have 2 MiB together, or one", wire.MaxSettle)},
			leaseArg,
			blockArg("there is none"),
			{Name: "take", Type: "string", Token: "ID", Use: Optional, Summary: fmt.Sprintf("names this one take, 1 to %d bytes that nobody else uses. Repeating the command with the same ID gives those of the same messages that are still held, so that it is safe after a lost reply; once none is, others, or the same anew, with receipts of their own", maxID)},
		},
		Reply: "Array, empty when there is no message in time. Each element is an array of four: the receipt, which is what ACK, NACK and EXTEND take; the id; the attempt, 1 for the first; the payload.",
		Errors: queueErrors(
			docSyntax, docInteger, docLease, docID,
			fmt.Sprintf("`ERR redoubt: count is …; want 1 to %d`", wire.MaxSettle),
			docBlock, docBlockElse,
			shuttingDown,
		),
		Examples: []Example{
			{"QUEUE.TAKE mail 1 30000 BLOCK 5000", "1) 1) \"YXNkZmdoamtsw7bDcJhwelcome:42\"\n   2) \"welcome:42\"\n   3) (integer) 1\n   4) \"hello\""},
			{"QUEUE.TAKE mail 1 30000", "(empty array)"},
		},
		Notes: []string{
			"A client that goes away while it waits, or is found to have gone when it would get the reply, has its messages handed back at once, in front of all others, unless it made the ID: then it can ask again with it on another connection. Messages of which the reply is lost later come back when the lease is over.",
			"What something else wrote into the queue, and is no message, is not given to anybody: it is dead, see QUEUE.DEAD.",
		},
		Plan: planTake,
	}),
	queueCommand(Command{
		Name:       "QUEUE.ACK",
		Summary:    "Says that messages are done, and removes them.",
		Complexity: "O(log(N)) with N messages, for each receipt",
		Arity:      -3,
		Flags:      []string{"write", "noscript", "fast"},
		Args:       []Arg{queueName, {Name: "receipt", Type: "string", Use: Multiple, Summary: fmt.Sprintf("from QUEUE.TAKE, at most %d", wire.MaxSettle)}},
		Reply:      "Integer: how many were still held, and are removed. Of the others the lease was over and another has them, or they were settled or cancelled before. A late one counts as held while nobody else has taken the message.",
		Errors:     queueErrors(docReceipt, docMany, docSettle),
		Notes:      []string{"Several messages may have at most 2 MiB together, which is what one QUEUE.TAKE returns at most, or 16 MiB if no message of the queue has a group. If they have more, the command removes none and fails."},
		Examples:   []Example{{"QUEUE.ACK mail YXNkZmdoamtsw7bDcJhwelcome:42", "(integer) 1"}},
		Plan: func(env *Env, args [][]byte) Plan {
			receipts, fault := texts("receipts", args[2:])
			for _, r := range receipts {
				if fault == "" {
					fault = checkReceipt(r)
				}
			}
			if fault != "" {
				return Plan{Err: fault}
			}
			return planSettled(env, args[1], len(receipts), wire.Pump{Acks: receipts, Bounded: len(receipts) > 1})
		},
	}),
	queueCommand(Command{
		Name:       "QUEUE.NACK",
		Summary:    "Says that a message is not done: it is tried again later, or is dead.",
		Complexity: "O(log(N)) with N messages",
		Arity:      -3,
		Flags:      []string{"write", "noscript", "fast"},
		Args: []Arg{
			queueName, receiptArg,
			{Name: "delay", Type: "integer", Unit: "ms", Token: "DELAY", Use: Optional, Summary: fmt.Sprintf("try again after this time: 0 to %d ms. Defaults to a second, doubled with each failure up to ten minutes; for SNOOZE to 0", maxQueueTime)},
			{Name: "how", Type: "oneof", Use: Optional, Args: []Arg{
				{Name: "dead", Type: "pure-token", Token: "DEAD", Summary: "don't try again: it is dead, see QUEUE.DEAD"},
				{Name: "snooze", Type: "pure-token", Token: "SNOOZE", Summary: "this attempt doesn't count. Without DELAY the message is back at once, in front of all others"},
			}},
			{Name: "reason", Type: "string", Token: "REASON", Use: Optional, Summary: fmt.Sprintf("shown to people, at most %d bytes", maxReason)},
		},
		Reply: "Integer: 1 when it was still held and is given back, or dead after its last attempt; 0 when it was not held any more.",
		Errors: queueErrors(docSyntax, docInteger, docReceipt, docDelay,
			fmt.Sprintf("`ERR redoubt: REASON has … bytes; want at most %d`", maxReason)),
		Examples: []Example{{"QUEUE.NACK mail YXNkZmdoamtsw7bDcJhwelcome:42 DELAY 60000 REASON \"no answer\"", "(integer) 1"}},
		Plan:     planNack,
	}),
	queueCommand(Command{
		Name:       "QUEUE.EXTEND",
		Summary:    "Makes the lease on a message that is still held last longer.",
		Complexity: "O(log(N)) with N messages on lease",
		Arity:      4,
		Flags:      []string{"write", "denyoom", "noscript", "fast"},
		Args: []Arg{
			queueName, receiptArg,
			{Name: "lease", Type: "integer", Unit: "ms", Summary: fmt.Sprintf("from now on: 1 to %d ms. A lease that lasts longer already stays as it is", maxQueueTime)},
		},
		Reply:    "Integer: 1 when the message was held and now is for at least this time, 0 when it is not held any more.",
		Errors:   queueErrors(docInteger, docReceipt, docLease),
		Examples: []Example{{"QUEUE.EXTEND mail YXNkZmdoamtsw7bDcJhwelcome:42 30000", "(integer) 1"}},
		Plan: func(env *Env, args [][]byte) Plan {
			receipt := string(args[2])
			lease, fault := milliseconds("lease_ms", args[3], 1, maxQueueTime)
			if fault == "" {
				fault = checkReceipt(receipt)
			}
			if fault != "" {
				return Plan{Err: fault}
			}
			return env.planQueue(args[1], func(keys wire.Keys) redoubt.Cmd {
				return wire.ExtendCmd(keys, time.Duration(lease)*time.Millisecond, receipt)
			}, appendFlags)
		},
	}),
	queueCommand(Command{
		Name:       "QUEUE.CANCEL",
		Summary:    "Removes messages that are not done.",
		Complexity: "O(log(N)) with N messages, for each id; O(N) once with N messages on lease, or in a group, when one is",
		Arity:      -3,
		Flags:      []string{"write", "noscript"},
		Args:       []Arg{queueName, messageIDs},
		Reply:      "Array with what each was: `pending`, and it is removed; `running`, and it is removed, though whoever has it goes on until it extends or settles it, which is refused; `dead`, and it stays: see QUEUE.DELETE; `absent`.",
		Errors:     queueErrors(docMessage, docMany, docOneStep, docManyRunning),
		Notes:      []string{noteSteps},
		Examples:   []Example{{"QUEUE.CANCEL orders cancel:7 cancel:8", "1) \"pending\"\n2) \"absent\""}},
		Plan: func(env *Env, args [][]byte) Plan {
			return planIDs(env, args, wire.CancelCmd, wire.ReadCancel, wire.Cancel, func(dst []byte, _ resp.Protocol, states []wire.State) []byte {
				dst = resp.AppendArray(dst, len(states))
				for _, s := range states {
					if s == wire.StateAbsent {
						s = "absent" // QUEUE.FIND's script calls it "none"
					}
					dst = resp.AppendBulk(dst, string(s))
				}
				return dst
			})
		},
	}),
}

// planQueue is the plan of a command that one script on a queue runs.
func (env *Env) planQueue(name []byte, cmd func(wire.Keys) redoubt.Cmd, translate Translate) Plan {
	keys, err := wire.KeysOf(env.Client, string(name))
	if err != nil {
		return refusal(err)
	}
	c := cmd(keys)
	return Plan{Cmd: &c, Translate: translate}
}

// A stepwise is a command that may be too much for one script.
type stepwise[T any] struct {
	one   func(wire.Keys) redoubt.Cmd // does it, or refuses
	read  func(redoubt.Reply) (T, error)
	all   func(ctx context.Context, keys wire.Keys) (T, error)
	reply func(dst []byte, p resp.Protocol, v T) []byte
}

// planSteps is the plan of a command on a queue that takes several steps, or inside a transaction
// one.
func planSteps[T any](env *Env, name []byte, s stepwise[T]) Plan {
	keys, err := wire.KeysOf(env.Client, string(name))
	if err != nil {
		return refusal(err)
	}
	return Plan{
		Wait: func(ctx context.Context) Outcome {
			v, err := s.all(ctx, keys)
			return Outcome{Append: func(dst []byte, p resp.Protocol) []byte {
				if err != nil {
					return appendError(dst, err)
				}
				return s.reply(dst, p, v)
			}}
		},
		Instead: func() Plan {
			c := s.one(keys)
			return Plan{Cmd: &c, Translate: func(dst []byte, p resp.Protocol, r redoubt.Reply) []byte {
				v, err := s.read(r)
				if err != nil {
					return appendError(dst, err)
				}
				return s.reply(dst, p, v)
			}}
		},
		Whole: true,
	}
}

// planIDs is the plan of a command on messages.
func planIDs[T any](env *Env, args [][]byte, one func(wire.Keys, ...string) redoubt.Cmd, read func(redoubt.Reply) (T, error),
	all func(context.Context, *redoubt.Client, wire.Keys, ...string) (T, error), reply func(dst []byte, p resp.Protocol, v T) []byte,
) Plan {
	ids, fault := texts("ids", args[2:])
	for _, id := range ids {
		if fault == "" {
			fault = length("ID", id, 1, queue.MaxID)
		}
	}
	if fault != "" {
		return Plan{Err: fault}
	}
	return planSteps(env, args[1], stepwise[T]{
		one: func(keys wire.Keys) redoubt.Cmd { return one(keys, ids...) }, read: read, reply: reply,
		all: func(ctx context.Context, keys wire.Keys) (T, error) { return all(ctx, env.Client, keys, ids...) },
	})
}

func countOf[T comparable](list []T, want T) (n int64) {
	for _, v := range list {
		if v == want {
			n++
		}
	}
	return n
}

// texts copies words of which there may be MaxSettle.
func texts(what string, words [][]byte) ([]string, string) {
	if len(words) > wire.MaxSettle {
		return nil, fmt.Sprintf("ERR redoubt: %d %s in one call; want at most %d", len(words), what, wire.MaxSettle)
	}
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	return list, ""
}

func length[T string | []byte](name string, s T, least, most int) (fault string) {
	if len(s) >= least && len(s) <= most {
		return ""
	}
	if least == 0 {
		return fmt.Sprintf("ERR redoubt: %s has %d bytes; want at most %d", name, len(s), most)
	}
	return fmt.Sprintf("ERR redoubt: %s has %d bytes; want %d to %d", name, len(s), least, most)
}

func checkReceipt(receipt string) (fault string) {
	return length("receipt", receipt, 17, 16+queue.MaxID)
}

func planPut(env *Env, args [][]byte) Plan {
	m := wire.Message{ID: wire.NewID(), Payload: bytes.Clone(args[2]), Attempts: defaultAttempts}
	if fault := readPut(&m, args[3:]); fault != "" {
		return Plan{Err: fault}
	}
	if fault := length("payload", m.Payload, 0, queue.MaxPayload); fault != "" {
		return Plan{Err: fault}
	}
	keys, err := wire.KeysOf(env.Client, string(args[1]))
	if err != nil {
		return refusal(err)
	}
	messages := []wire.Message{m}
	cmd, err := wire.PutCmd(keys, messages)
	if err != nil {
		return refusal(err)
	}
	return Plan{Cmd: &cmd, Translate: func(dst []byte, _ resp.Protocol, r redoubt.Reply) []byte {
		placed, err := wire.ReadPut(r, messages)
		if err != nil {
			return appendError(dst, err)
		}
		return resp.AppendBulk(dst, placed[0].ID)
	}}
}

// readPut reads the options of QUEUE.PUT.
func readPut(m *wire.Message, args [][]byte) (fault string) {
	given := map[string]bool{}
	for len(args) > 0 && fault == "" {
		word := strings.ToUpper(string(args[0]))
		if word == "AT" {
			word = "DELAY" // one of the two
		}
		if len(args) < 2 || given[word] {
			return syntaxAt(args[0])
		}
		given[word] = true
		value, n := args[1], int64(0)
		switch {
		case bytes.EqualFold(args[0], []byte("AT")):
			n, fault = milliseconds("AT", value, 0, maxAt)
			m.At = time.UnixMilli(n).UTC()
		case word == "DELAY":
			n, fault = milliseconds("DELAY", value, 0, maxQueueTime)
			m.Delay = time.Duration(n) * time.Millisecond
		case word == "ID":
			m.ID, fault = string(value), length("ID", value, 1, queue.MaxID)
		case word == "ATTEMPTS":
			m.Attempts, fault = attempts(value)
		case word == "LANE":
			n, fault = milliseconds("LANE", value, int64(queue.Low), int64(queue.Urgent))
			m.Lane = queue.Lane(n) //nolint:gosec // checked
		case word == "GROUP":
			m.Group, fault = string(value), length("GROUP", value, 1, queue.MaxID)
		case word == "UNIQUE" && len(args) > 2:
			if m.Unique, fault = string(value), length("UNIQUE", value, 1, queue.MaxID); fault == "" {
				n, fault = milliseconds("unique_ms", args[2], 1, maxQueueTime)
			}
			m.UniqueFor = time.Duration(n) * time.Millisecond
			args = args[1:]
		default:
			return syntaxAt(args[0])
		}
		args = args[2:]
	}
	return fault
}

func attempts(b []byte) (int, string) {
	n, ok := integer(b)
	switch {
	case !ok:
		return 0, errInteger
	case n == -1:
		return queue.Unlimited, ""
	case n < 1 || n > queue.MaxAttempts:
		return 0, fmt.Sprintf("ERR redoubt: ATTEMPTS is %d; want 1 to %d, or -1", n, queue.MaxAttempts)
	}
	return int(n), ""
}

// planSettled is the plan of a command that settles n receipts.
func planSettled(env *Env, name []byte, n int, p wire.Pump) Plan {
	p.Consumer, p.Take, p.Lease = noConsumer, wire.NewTake(), time.Second
	return env.planQueue(name, func(keys wire.Keys) redoubt.Cmd { return wire.PumpCmd(keys, p) },
		func(dst []byte, _ resp.Protocol, r redoubt.Reply) []byte {
			pumped, err := wire.ReadPump(r)
			if err != nil {
				return appendError(dst, err)
			}
			return resp.AppendInt(dst, int64(n-len(pumped.Refused)))
		})
}

func planNack(env *Env, args [][]byte) Plan {
	f := wire.Nack{Receipt: string(args[2]), Kind: wire.Retry, Delay: -1}
	fault := checkReceipt(f.Receipt)
	given := map[string]bool{}
	for rest := args[3:]; len(rest) > 0 && fault == ""; rest = rest[1:] {
		word := strings.ToUpper(string(rest[0]))
		switch {
		case given[word]:
			fault = syntaxAt(rest[0])
		case word == "DEAD" && f.Kind == wire.Retry:
			f.Kind = wire.Kill
		case word == "SNOOZE" && f.Kind == wire.Retry:
			f.Kind = wire.Snooze
		case word == "DELAY" && len(rest) > 1:
			var n int64
			n, fault = milliseconds("DELAY", rest[1], 0, maxQueueTime)
			f.Delay, rest = time.Duration(n)*time.Millisecond, rest[1:]
		case word == "REASON" && len(rest) > 1:
			fault = length("REASON", rest[1], 0, maxReason)
			f.Reason, rest = string(rest[1]), rest[1:]
		default:
			fault = syntaxAt(rest[0])
		}
		given[word] = true
	}
	switch {
	case fault != "":
		return Plan{Err: fault}
	case f.Kind == wire.Kill && given["DELAY"]:
		return Plan{Err: errSyntax}
	case f.Kind == wire.Snooze && f.Delay <= 0:
		f.Kind, f.Delay = wire.HandBack, 0
	}
	return planSettled(env, args[1], 1, wire.Pump{Nacks: []wire.Nack{f}})
}

// appendFlags appends how many are true.
func appendFlags(dst []byte, _ resp.Protocol, r redoubt.Reply) []byte {
	flags, err := wire.ReadFlags(r)
	if err != nil {
		return appendError(dst, err)
	}
	return resp.AppendInt(dst, countOf(flags, true))
}

// giveBack gives messages back that no client gets.
func (env *Env) giveBack(ctx context.Context, keys wire.Keys, failed []wire.Nack) {
	if len(failed) == 0 {
		return
	}
	p := wire.Pump{Consumer: noConsumer, Take: wire.NewTake(), Lease: time.Second, Nacks: failed}
	ctx, cancel := context.WithTimeout(redoubt.Patient(ctx), undoTimeout)
	defer cancel()
	_ = env.Client.Do(ctx, wire.PumpCmd(keys, p)) // or else they come back when the lease is over
}

// backs are for messages whose client has gone.
func backs(taken []wire.Taken) []wire.Nack {
	failed := make([]wire.Nack, len(taken))
	for i := range taken {
		failed[i] = wire.Nack{Receipt: taken[i].Receipt, Kind: wire.HandBack}
	}
	return failed
}
