package command

import (
	"bytes"
	"context"
	"fmt"
	"slices"
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
	// defaultAttempts is the default of ATTEMPTS.
	defaultAttempts = 10
	// maxHeaders is how many headers one QUEUE.PUT may set.
	maxHeaders = 1000
	// noConsumer is the consumer of calls that are never repeated.
	noConsumer = "-"
)

var (
	queueName  = Arg{Name: "name", Type: "key", Summary: fmt.Sprintf("the queue: 1 to %d bytes, not beginning with `}`", redoubt.MaxName)}
	receiptArg = Arg{Name: "receipt", Type: "string", Summary: "from QUEUE.TAKE"}
	messageIDs = Arg{Name: "id", Type: "string", Use: Multiple, Summary: fmt.Sprintf("of messages, at most %d", wire.MaxSettle)}
	leaseArg   = Arg{Name: "lease", Type: "integer", Unit: "ms", Summary: fmt.Sprintf("how long the messages belong to this consumer unless it extends the lease: 1 to %d ms. A message that is not acknowledged by then has failed once, and another consumer gets it", maxQueueTime)}
	docMessage = fmt.Sprintf("`ERR redoubt: ID has … bytes; want 1 to %d`", queue.MaxID)
	docReceipt = fmt.Sprintf("`ERR redoubt: receipt has … bytes; want 17 to %d`", 16+queue.MaxID)
	docLease   = fmt.Sprintf("`ERR redoubt: lease_ms is …; want 1 to %d`", maxQueueTime)
	docSettle  = "`ERR redoubt: these messages have more than … MiB together: settle fewer at a time`"
	docOneStep = "`ERR redoubt: these messages hold up the server when they are one step, as inside MULTI and in another database than its own: name fewer`"

	docManyRunning = "`ERR redoubt: more than 4000 messages are running, or wait in one group: a message is not looked for among them in one step, as inside MULTI and in another database than its own`"
	docFindRunning = "`ERR redoubt: more than 4000 messages are running: one is not looked for among them in one step`: inside MULTI"
	noteSteps      = "Many messages, and large ones, take several steps, and other clients can see the state in between. Inside MULTI the command does all in one step, or nothing with an error."

	docMany  = fmt.Sprintf("`ERR redoubt: … in one call; want at most %d`", wire.MaxSettle)
	docDelay = fmt.Sprintf("`ERR redoubt: DELAY is …; want 0 to %d`", maxQueueTime)
)

// queueErrors appends the errors that all commands of queues share.
func queueErrors(own ...string) []string {
	return append(own, "`ERR redoubt: invalid name: …`", "`"+wrongType+"`: another program wrote a key of the queue")
}

// queueCommand fills in the fields that all commands of queues share.
func queueCommand(c Command) *Command {
	c.Since, c.Group = "0.1.0", "queue"
	c.FirstKey, c.LastKey, c.KeyStep = 1, 1, 1
	return &c
}

// exampleTaken takes the message whose receipt an example has.
var exampleTaken = []string{
	"QUEUE.CANCEL mail welcome:42",
	"QUEUE.PUT mail hello ID welcome:42",
	"QUEUE.TAKE mail 1 30000\n1) 1) \"YXNkZmdoamtsw7bDcJhwelcome:42\"\n   2) \"welcome:42\"\n   3) (integer) 1\n   4) \"hello\"",
}

var queueCommands = []*Command{
	queueCommand(Command{
		Name:       "QUEUE.PUT",
		Summary:    "Puts a message into a queue, due at once or later.",
		Complexity: "O(log(N)) with N messages",
		Arity:      -3,
		Flags:      []string{"write", "denyoom", "noscript", "fast"},
		Args: []Arg{
			queueName,
			{Name: "payload", Type: "string", Summary: fmt.Sprintf("the content: any bytes, at most %d", queue.MaxPayload)},
			{Name: "id", Type: "string", Token: "ID", Use: Optional, Summary: fmt.Sprintf("names the message, 1 to %d bytes. Repeating the command with the same ID, after a lost reply for example, does nothing while the message is in the queue; it replaces a dead message. The server makes one when absent", queue.MaxID)},
			{Name: "when", Type: "oneof", Use: Optional, Args: []Arg{
				{Name: "delay", Type: "integer", Unit: "ms", Token: "DELAY", Summary: fmt.Sprintf("time until the message is due: 0 to %d ms", maxQueueTime)},
				{Name: "time", Type: "integer", Unit: "ms", Token: "AT", Summary: fmt.Sprintf("when the message is due, by the server's clock, in ms since 1970: 0 to %d. A past time means now", maxAt)},
			}},
			{Name: "attempts", Type: "integer", Token: "ATTEMPTS", Use: Optional, Summary: fmt.Sprintf("how often it may fail before it is dead: 1 to %d, or -1 for no limit. Defaults to %d", queue.MaxAttempts, defaultAttempts)},
			{Name: "lane", Type: "integer", Token: "LANE", Use: Optional, Summary: fmt.Sprintf("its priority: %d low, %d normal, %d high, %d urgent. Larger lanes are taken first. Defaults to %d", queue.Low, queue.Normal, queue.High, queue.Urgent, queue.Normal)},
			{Name: "group", Type: "string", Token: "GROUP", Use: Optional, Summary: fmt.Sprintf("messages of a group run one at a time, in the order in which they became due, also when one is retried: 1 to %d bytes", queue.MaxID)},
			{Name: "unique", Type: "block", Use: Optional, Args: []Arg{
				{Name: "key", Type: "string", Token: "UNIQUE", Summary: fmt.Sprintf("drops the message if one with this key was put within the time that follows, even if that one is done: 1 to %d bytes", queue.MaxID)},
				{Name: "unique", Type: "integer", Unit: "ms", Summary: fmt.Sprintf("how long the key is kept: 1 to %d ms", maxQueueTime)},
			}},
			{Name: "after", Type: "block", Use: Optional, Args: []Arg{
				{Name: "numids", Type: "integer", Token: "AFTER", Summary: fmt.Sprintf("how many ids follow, 1 to %d: of messages of this queue that must be done before this one. A message that is not in the queue counts as done, so put it before. If one of them dies or is removed, this message dies, and so do the ones after it. DELAY begins when the last is done", queue.MaxAfter)},
				{Name: "after", Type: "string", Use: Multiple, Summary: fmt.Sprintf("the id of such a message: 1 to %d bytes", queue.MaxID)},
			}},
			{Name: "ignorefailure", Type: "pure-token", Token: "IGNOREFAILURE", Use: Optional, Summary: "with AFTER: the message becomes ready also when one of the others dies or is removed"},
			headersArg(fmt.Sprintf("how many headers follow, 1 to %d. Headers travel with the payload, as in the library: the context of a trace in `traceparent`, for example", maxHeaders)),
		},
		Reply: "The id of the message in the queue: this one's, also when the queue had it already, or another's when UNIQUE dropped this one. With AFTER an array of two: the id, and what became of the message: `blocked`, it waits for the others; `put`, they are done; `dead`, one of them is dead; `exists` or `duplicate`, it was not put.",
		Errors: queueErrors(
			docSyntax, docInteger, docMessage, docDelay,
			fmt.Sprintf("`ERR redoubt: AT is …; want 0 to %d`", maxAt),
			fmt.Sprintf("`ERR redoubt: ATTEMPTS is …; want 1 to %d, or -1`", queue.MaxAttempts),
			fmt.Sprintf("`ERR redoubt: LANE is …; want %d to %d`", queue.Low, queue.Urgent),
			fmt.Sprintf("`ERR redoubt: GROUP has … bytes; want 1 to %d`", queue.MaxID),
			fmt.Sprintf("`ERR redoubt: UNIQUE has … bytes; want 1 to %d`", queue.MaxID),
			fmt.Sprintf("`ERR redoubt: unique_ms is …; want 1 to %d`", maxQueueTime),
			fmt.Sprintf("`ERR redoubt: HEADERS is …; want 1 to %d`", maxHeaders),
			"`ERR redoubt: HEADERS has … twice`",
			fmt.Sprintf("`ERR redoubt: AFTER is …; want 1 to %d`", queue.MaxAfter),
			fmt.Sprintf("`ERR redoubt: after has … bytes; want 1 to %d`", queue.MaxID),
			"`ERR redoubt: after: … is the message itself, or named twice`",
			"`TRYAGAIN redoubt: many messages wait for one that is done, and are not all released yet: put it again`",
			"`ERR redoubt: headers have … bytes; want at most 65535`",
			fmt.Sprintf("`ERR redoubt: payload has … bytes; want at most %d`", queue.MaxPayload),
		),
		Before: []string{"QUEUE.PUT reports part ID part:1"},
		Examples: []Example{
			{"QUEUE.PUT mail hello ID welcome:42", "\"welcome:42\""},
			{"QUEUE.PUT orders cancel:7 DELAY 900000 UNIQUE cancel:7 3600000", "\"q0XhV3TlAAAAAAAB\""},
			{"QUEUE.PUT reports report ID report:1 AFTER 1 part:1", "1) \"report:1\"\n2) \"blocked\""},
			{"QUEUE.PUT mail hello ID welcome:43 HEADERS 1 traceparent 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "\"welcome:43\""},
		},
		Notes: []string{
			"To put many messages, send the command many times in one pipeline.",
			"Without an ID, repeating the command after a lost reply may put the message twice.",
		},
		Plan: planPut,
	}),
	queueCommand(Command{
		Name:       "QUEUE.TAKE",
		Summary:    "Takes messages for a time, or waits for one.",
		Complexity: "O(log(N)) with N messages, for each taken, and for at most 512 that became due or were abandoned",
		Arity:      -4,
		Flags:      []string{"write", "noscript", "blocking"},
		Args: []Arg{
			queueName,
			{Name: "count", Type: "integer", Summary: fmt.Sprintf("how many to take at most, 1 to %d; several have at most 2 MiB together", wire.MaxSettle)},
			leaseArg,
			blockArg("there is none"),
			{Name: "take", Type: "string", Token: "ID", Use: Optional, Summary: fmt.Sprintf("names this take, 1 to %d bytes that no other client uses. Repeating the command with the same ID, after a lost reply for example, gives the same messages as far as they are still held; if none is, it takes messages anew, with new receipts", maxID)},
			{Name: "withheaders", Type: "pure-token", Token: "WITHHEADERS", Use: Optional, Summary: "the reply has the headers of each message too"},
		},
		Reply: "Array, empty when no message came in time. Each element is an array of four: the receipt, for ACK, NACK and EXTEND; the id; the attempt, 1 for the first; the payload. With WITHHEADERS it is an array of five: last a map of the headers, empty when there is none.",
		Errors: queueErrors(
			docSyntax, docInteger, docLease, docID,
			fmt.Sprintf("`ERR redoubt: count is …; want 1 to %d`", wire.MaxSettle),
			docBlock, docBlockElse,
			shuttingDown,
		),
		Examples: []Example{
			{"QUEUE.TAKE mail 1 30000 BLOCK 5000", "1) 1) \"YXNkZmdoamtsw7bDcJhwelcome:42\"\n   2) \"welcome:42\"\n   3) (integer) 1\n   4) \"hello\""},
			{"QUEUE.TAKE mail 1 30000 WITHHEADERS", "1) 1) \"YXNkZmdoamtsw7bDcJhwelcome:43\"\n   2) \"welcome:43\"\n   3) (integer) 1\n   4) \"hello\"\n   5) 1) \"traceparent\"\n      2) \"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\""},
			{"QUEUE.TAKE mail 1 30000", "(empty array)"},
		},
		Notes: []string{
			"If the client disconnects while it waits, or before the reply, the server hands its messages back at once, in front of all others. If the client made the ID, the server does not: the client can repeat the command on another connection. If the reply is lost later, the messages come back when the lease is over.",
			"Entries that another program wrote into the queue and that are no messages become dead: see QUEUE.DEAD.",
		},
		Plan: planTake,
	}),
	queueCommand(Command{
		Name:       "QUEUE.ACK",
		Summary:    "Acknowledges messages: they are done, and removed.",
		Complexity: "O(log(N)) with N messages, for each receipt",
		Arity:      -3,
		Flags:      []string{"write", "noscript", "fast"},
		Args: []Arg{
			queueName,
			{Name: "receipt", Type: "string", Use: Multiple, Summary: fmt.Sprintf("from QUEUE.TAKE, at most %d", wire.MaxSettle)},
			{Name: "result", Type: "block", Use: Optional, Args: []Arg{
				{Name: "keep", Type: "integer", Unit: "ms", Token: "RESULT", Summary: fmt.Sprintf("how long the result of the one message is kept: 1 to %d ms. QUEUE.FIND shows it", maxQueueTime)},
				{Name: "value", Type: "string", Summary: fmt.Sprintf("the result: any bytes, at most %d", queue.MaxPayload)},
			}},
		},
		Reply: "Integer: how many were still held, and are removed. The others were taken by another consumer after the lease, or settled or cancelled before. A late ack counts while no other consumer has taken the message.",
		Errors: queueErrors(docSyntax, docInteger, docReceipt, docMany, docSettle,
			fmt.Sprintf("`ERR redoubt: RESULT is …; want 1 to %d`", maxQueueTime),
			fmt.Sprintf("`ERR redoubt: value has … bytes; want at most %d`", queue.MaxPayload),
			"`ERR redoubt: RESULT is for one receipt; this command has …`"),
		Notes: []string{"Several messages may have at most 2 MiB together, the most that one QUEUE.TAKE returns, or 16 MiB if no message of the queue has a group. If they have more, the command removes none and fails."},
		Examples: []Example{
			{"QUEUE.ACK mail YXNkZmdoamtsw7bDcJhwelcome:42", "(integer) 1"},
			{"QUEUE.ACK mail YXNkZmdoamtsw7bDcJhwelcome:43 RESULT 3600000 sent", "(integer) 1"},
		},
		Plan: planAck,
	}),
	queueCommand(Command{
		Name:       "QUEUE.NACK",
		Summary:    "Returns a message that is not done: it is retried later, or is dead.",
		Complexity: "O(log(N)) with N messages",
		Arity:      -3,
		Flags:      []string{"write", "noscript", "fast"},
		Args: []Arg{
			queueName, receiptArg,
			{Name: "delay", Type: "integer", Unit: "ms", Token: "DELAY", Use: Optional, Summary: fmt.Sprintf("time until the next attempt: 0 to %d ms. Defaults to a second, doubled with each failure up to ten minutes; for SNOOZE to 0", maxQueueTime)},
			{Name: "how", Type: "oneof", Use: Optional, Args: []Arg{
				{Name: "dead", Type: "pure-token", Token: "DEAD", Summary: "don't retry: the message is dead, see QUEUE.DEAD"},
				{Name: "snooze", Type: "pure-token", Token: "SNOOZE", Summary: "don't count a failure. Without DELAY the message is ready at once, in front of all others"},
			}},
			{Name: "reason", Type: "string", Token: "REASON", Use: Optional, Summary: fmt.Sprintf("shown to people, at most %d bytes", maxReason)},
		},
		Reply: "Integer: 1 when the message was still held, and is returned, or dead after its last attempt; 0 when it was no longer held.",
		Errors: queueErrors(docSyntax, docInteger, docReceipt, docDelay,
			fmt.Sprintf("`ERR redoubt: REASON has … bytes; want at most %d`", maxReason)),
		Before: []string{
			"QUEUE.PUT mail hello ID welcome:42",
			"QUEUE.TAKE mail 1 30000\n1) 1) \"YXNkZmdoamtsw7bDcJhwelcome:42\"\n   2) \"welcome:42\"\n   3) (integer) 1\n   4) \"hello\"",
		},
		Examples: []Example{{"QUEUE.NACK mail YXNkZmdoamtsw7bDcJhwelcome:42 DELAY 60000 REASON \"no answer\"", "(integer) 1"}},
		Plan:     planNack,
	}),
	queueCommand(Command{
		Name:       "QUEUE.EXTEND",
		Summary:    "Extends the lease on a message that is still held.",
		Complexity: "O(log(N)) with N messages on lease",
		Arity:      4,
		Flags:      []string{"write", "denyoom", "noscript", "fast"},
		Args: []Arg{
			queueName, receiptArg,
			{Name: "lease", Type: "integer", Unit: "ms", Summary: fmt.Sprintf("from now on: 1 to %d ms. It never shortens a lease", maxQueueTime)},
		},
		Reply:    "Integer: 1 when the message is held for at least this time, 0 when it is no longer held.",
		Errors:   queueErrors(docInteger, docReceipt, docLease),
		Before:   exampleTaken,
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
		Name:       "QUEUE.PROGRESS",
		Summary:    "Notes how far the work on a message has come.",
		Complexity: "O(1)",
		Arity:      4,
		Flags:      []string{"write", "denyoom", "noscript", "fast"},
		Args:       []Arg{queueName, receiptArg, {Name: "note", Type: "string", Summary: fmt.Sprintf("any bytes, at most %d", wire.MaxProgress)}},
		Reply:      "Integer: 1 when the message is held, and QUEUE.FIND shows the note for as long as it is, an hour at most; 0 when it is no longer held, and nothing is noted.",
		Errors:     queueErrors(docReceipt, fmt.Sprintf("`ERR redoubt: note has … bytes; want at most %d`", wire.MaxProgress)),
		Before:     exampleTaken,
		Examples:   []Example{{"QUEUE.PROGRESS mail YXNkZmdoamtsw7bDcJhwelcome:42 3/7", "(integer) 1"}},
		Plan: func(env *Env, args [][]byte) Plan {
			receipt, note := string(args[2]), string(args[3])
			fault := checkReceipt(receipt)
			if fault == "" {
				fault = length("note", note, 0, wire.MaxProgress)
			}
			if fault != "" {
				return Plan{Err: fault}
			}
			return env.planQueue(args[1], func(keys wire.Keys) redoubt.Cmd { return wire.ProgressCmd(keys, receipt, note) }, appendFlags)
		},
	}),
	queueCommand(Command{
		Name:       "QUEUE.CANCEL",
		Summary:    "Removes messages that are not done.",
		Complexity: "O(log(N)) with N messages, for each id; if a message is on lease or in a group, also O(N) once with N messages there",
		Arity:      -3,
		Flags:      []string{"write", "noscript"},
		Args:       []Arg{queueName, messageIDs},
		Reply:      "Array with the state that each message had: `pending`, and it is removed; `running`, and it is removed, though its consumer goes on until its next extend or settle, which is refused; `dead`, and it stays: see QUEUE.DELETE; `absent`.",
		Errors:     queueErrors(docMessage, docMany, docOneStep, docManyRunning),
		Notes:      []string{noteSteps},
		Before:     []string{"QUEUE.PUT orders cancel:7 ID cancel:7 DELAY 900000"},
		Examples:   []Example{{"QUEUE.CANCEL orders cancel:7 cancel:8", "1) \"pending\"\n2) \"absent\""}},
		Plan: func(env *Env, args [][]byte) Plan {
			return planIDs(env, args, wire.CancelCmd, wire.ReadCancel, wire.Cancel, func(dst []byte, _ resp.Protocol, states []wire.State) []byte {
				dst = resp.AppendArray(dst, len(states))
				for _, s := range states {
					dst = resp.AppendBulk(dst, string(s))
				}
				return dst
			})
		},
	}),
}

// planQueue plans a command that runs one script on a queue.
func (env *Env) planQueue(name []byte, cmd func(wire.Keys) redoubt.Cmd, translate Translate) Plan {
	keys, err := wire.KeysOf(env.Client, string(name))
	if err != nil {
		return refusal(err)
	}
	c := cmd(keys)
	return Plan{Cmd: &c, Translate: translate}
}

// A stepwise is a command that may be too large for one script.
type stepwise[T any] struct {
	one   func(wire.Keys) redoubt.Cmd // one script, which may refuse
	read  func(redoubt.Reply) (T, error)
	all   func(ctx context.Context, keys wire.Keys) (T, error)
	reply func(dst []byte, p resp.Protocol, v T) []byte
}

// planSteps plans a command on a queue that takes several steps, or one step inside a transaction.
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

// planIDs plans a command on messages.
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

// texts copies words, at most MaxSettle.
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
	counter := env.counts.queues.of(string(args[1]))
	return Plan{Cmd: &cmd, Translate: func(dst []byte, _ resp.Protocol, r redoubt.Reply) []byte {
		placed, err := wire.ReadPut(r, messages)
		if err != nil {
			return appendError(dst, err)
		}
		if placed[0].Status == wire.Added {
			counter.put.Add(1)
		}
		if len(m.After) == 0 {
			return resp.AppendBulk(dst, placed[0].ID)
		}
		dst = resp.AppendBulk(resp.AppendArray(dst, 2), placed[0].ID)
		return resp.AppendBulk(dst, putWord(placed[0]))
	}}
}

// putWord says what became of a message.
func putWord(r wire.PutResult) string {
	switch {
	case r.Status == wire.Exists:
		return "exists"
	case r.Status == wire.Duplicate:
		return "duplicate"
	case r.State != "":
		return string(r.State)
	}
	return "put"
}

// readPut parses the options of QUEUE.PUT.
func readPut(m *wire.Message, args [][]byte) (fault string) {
	given := map[string]bool{}
	for len(args) > 0 && fault == "" {
		word := strings.ToUpper(string(args[0]))
		if word == "AT" {
			word = "DELAY" // one of the two
		}
		if word == "IGNOREFAILURE" && !m.IgnoreFailure {
			m.IgnoreFailure, args = true, args[1:]
			continue
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
		case word == "AFTER":
			if n, fault = milliseconds("AFTER", value, 1, queue.MaxAfter); fault != "" {
				return fault
			}
			if int64(len(args)-2) < n {
				return syntaxAt(args[0])
			}
			for _, id := range args[2 : 2+n] {
				if fault = length("after", id, 1, queue.MaxID); fault != "" {
					return fault
				}
				m.After = append(m.After, string(id))
			}
			args = args[n:]
		case word == "HEADERS":
			args, fault = readHeaders(m, args)
		default:
			return syntaxAt(args[0])
		}
		args = args[2:]
	}
	if fault == "" && m.IgnoreFailure && len(m.After) == 0 {
		return errSyntax
	}
	return fault
}

// headersArg is the option HEADERS.
func headersArg(summary string) Arg {
	return Arg{Name: "headers", Type: "block", Use: Optional, Args: []Arg{
		{Name: "numheaders", Type: "integer", Token: "HEADERS", Summary: summary},
		{Name: "header", Type: "block", Use: Multiple, Summary: "at most 65535 bytes together, no name twice", Args: []Arg{
			{Name: "header", Type: "string", Summary: "the name of a header: any bytes"},
			{Name: "value", Type: "string", Summary: "its value: any bytes"},
		}},
	}}
}

// readHeaders reads what follows HEADERS, the first of args. It returns the last two that it read, and the rest.
func readHeaders(m *wire.Message, args [][]byte) (rest [][]byte, fault string) {
	n, fault := milliseconds("HEADERS", args[1], 1, maxHeaders)
	if fault != "" {
		return args, fault
	}
	if int64(len(args)-2) < 2*n {
		return args, syntaxAt(args[0])
	}
	m.Headers = make(map[string]string, n)
	for pairs := args[2 : 2+2*n]; len(pairs) > 0; pairs = pairs[2:] {
		name := string(pairs[0])
		if _, twice := m.Headers[name]; twice {
			return args, fmt.Sprintf("ERR redoubt: HEADERS has %.100q twice", name)
		}
		m.Headers[name] = string(pairs[1])
	}
	return args[2*n:], ""
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

// planSettled plans a command that settles n receipts.
func planSettled(env *Env, name []byte, n int, p wire.Pump) Plan {
	p.Consumer, p.Take, p.Lease = noConsumer, wire.NewTake(), time.Second
	queue := string(name)
	return env.planQueue(name, func(keys wire.Keys) redoubt.Cmd { return wire.PumpCmd(keys, p) },
		func(dst []byte, _ resp.Protocol, r redoubt.Reply) []byte {
			pumped, err := wire.ReadPump(r)
			if err != nil {
				return appendError(dst, err)
			}
			env.counts.queues.of(queue).settled(p, len(pumped.Refused))
			return resp.AppendInt(dst, int64(n-len(pumped.Refused)))
		})
}

func planAck(env *Env, args [][]byte) Plan {
	words := args[2:]
	at := slices.IndexFunc(words, func(w []byte) bool { return strings.EqualFold(string(w), "RESULT") }) // no receipt is that short
	var result [][]byte
	if at >= 0 {
		words, result = words[:at], words[at+1:]
	}
	receipts, fault := texts("receipts", words)
	for _, r := range receipts {
		if fault == "" {
			fault = checkReceipt(r)
		}
	}
	switch {
	case fault != "":
		return Plan{Err: fault}
	case at < 0:
		return planSettled(env, args[1], len(receipts), wire.Pump{Acks: receipts, Bounded: len(receipts) > 1})
	case len(result) != 2:
		return Plan{Err: errSyntax}
	case len(receipts) != 1:
		return Plan{Err: fmt.Sprintf("ERR redoubt: RESULT is for one receipt; this command has %d", len(receipts))}
	}
	keep, fault := milliseconds("RESULT", result[0], 1, maxQueueTime)
	if fault == "" {
		fault = length("value", result[1], 0, queue.MaxPayload)
	}
	if fault != "" {
		return Plan{Err: fault}
	}
	return planSettled(env, args[1], 1, wire.Pump{Results: []wire.Result{
		{Receipt: receipts[0], Value: string(result[1]), Keep: time.Duration(keep) * time.Millisecond},
	}})
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

// appendFlags appends the number of true flags.
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
