package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/wire/listing"
)

// StatsPage returns the queues on one page of [redoubt.Client.NamesPage] with their counts. QUEUE.LS
// runs it.
func StatsPage(ctx context.Context, client *redoubt.Client, match, cursor string) (queues []listing.Listed[Stats], next string, err error) {
	return listing.Page(ctx, client, queuePart, match, cursor,
		func(name string) (redoubt.Cmd, error) {
			keys, err := KeysOf(client, name)
			return StatsCmd(keys), err
		},
		func(r redoubt.Reply) (Stats, bool, error) {
			stats, err := ReadStats(r)
			return stats, true, err
		})
}

// A State says where a message is.
type State string

const (
	// StateReady: a consumer can take it.
	StateReady State = "ready"
	// StateDue: it is due later.
	StateDue State = "due"
	// StateRunning: a consumer has it.
	StateRunning State = "running"
	// StateWaiting: another message of its group is ahead of it.
	StateWaiting State = "waiting"
	// StateBlocked: messages that it comes after are not done.
	StateBlocked State = "blocked"
	// StatePending: ready, due, waiting or blocked. [ReadCancel] does not tell them apart.
	StatePending State = "pending"
	// StateDead: it failed for good.
	StateDead State = "dead"
	// StateDone: it is done, and its result is kept.
	StateDone State = "done"
	// StateAbsent: the queue does not have it.
	StateAbsent State = "absent"

	// stateUnknown: one script could not look through all messages. See [look].
	stateUnknown State = ""
)

// MessagesCmd lists messages in one state, [StateReady], [StateDue], [StateRunning], [StateDead] or
// [StateBlocked], in order: at most count, after skipping the first from.
func MessagesCmd(keys Keys, state State, from, count int) (redoubt.Cmd, error) {
	at, prefix := map[State]int{StateReady: keyReady, StateDue: keyDue, StateRunning: keyLeases, StateDead: keyDead, StateBlocked: keyBlocked}[state], "0"
	if at == 0 {
		return redoubt.Cmd{}, fmt.Errorf("queue: state is %q; want %s, %s, %s, %s or %s", state, StateReady, StateDue, StateRunning, StateDead, StateBlocked)
	}
	if from < 0 || count < 1 || count > MaxSettle {
		return redoubt.Cmd{}, fmt.Errorf("queue: %d messages from %d; want 1 to %d from 0 up", count, from, MaxSettle)
	}
	if state == StateRunning {
		prefix = strconv.Itoa(takeLen)
	}
	return redoubt.Cmd{
		Script: listScript, Keys: []string{keys[keyQueue], keys[keyFails], keys[at]},
		Args: []string{strconv.Itoa(from), strconv.Itoa(count), prefix}, Flags: redoubt.ReadOnly,
	}, nil
}

// A MessageInfo describes a stored message.
type MessageInfo struct {
	Message
	State State
	// When is the time when it became ready, is due, loses its lease, or died. Zero if
	// its state has no time.
	When time.Time
	// Failures counts its failures; LastReason is the reason of the last.
	Failures   int
	LastReason string
	// Unfinished is for how many of After a blocked message still waits.
	Unfinished int
	// Result is the stored result of a message that is done.
	Result []byte
	// Progress is what the consumer of a running message noted last. Only [Find] reads it.
	Progress []byte
	// Unreadable: another program wrote it, and it is not a message. Payload is all
	// that was written.
	Unreadable bool
}

func listed(state State, id, score, entry, envelope string) (l MessageInfo, err error) {
	m, readable := openAny(id, envelope)
	l = MessageInfo{Message: m, State: state, Unreadable: !readable}
	l.Failures, l.LastReason = failure(entry)
	n, err := strconv.ParseFloat(score, 64)
	switch ms := int64(n); {
	case score == "":
		return l, nil
	case err != nil:
		return l, err
	case state == StateBlocked:
		l.Unfinished = int((ms%waitSpan + waitSpan) % waitSpan)
	case state != StateReady:
		l.When = time.UnixMilli(ms)
	case ms%laneSpan > 0:
		l.When = time.UnixMicro(ms%laneSpan + frontMillis*1000)
	}
	return l, nil
}

// laneSpan is the distance between the first scores of two adjacent lanes.
const laneSpan = 1 << 51

// waitSpan is the distance between the scores of two times of blocked messages.
const waitSpan = 1024

// ReadMessages reads the reply to [MessagesCmd]. all is how many messages have this state.
func ReadMessages(r redoubt.Reply, state State) (list []MessageInfo, all int, err error) {
	a, err := r.Array()
	if err != nil {
		return nil, 0, err
	}
	if len(a) != 3 {
		return nil, 0, fmt.Errorf("queue: reply has %d elements, want 3", len(a))
	}
	n, _ := a[1].(int64)
	for v, _ := a[2].([]any); len(v) >= 4; v = v[4:] {
		var s [4]string
		for i := range s {
			s[i], _ = v[i].(string)
		}
		l, err := listed(state, s[0], s[1], s[2], s[3])
		if err != nil {
			return nil, 0, err
		}
		list = append(list, l)
	}
	return list, int(n), nil
}

// FindCmd finds one message. Its reply is [ErrManyRunning] if too many are running: see [Find].
func FindCmd(keys Keys, id string) redoubt.Cmd { return findCmd(keys, id, "") }

func findCmd(keys Keys, id, seen string) redoubt.Cmd {
	return redoubt.Cmd{
		Script: findScript,
		Keys:   []string{keys[keyQueue], keys[keyReady], keys[keyDue], keys[keyDead], keys[keyFails], keys[keyLeases], keys[keyBlocked], keys.result(id), keys.progress(id)},
		Args:   []string{id, seen}, Flags: redoubt.ReadOnly,
	}
}

// ErrManyRunning is matched when one script would block the server for too long while it searches
// all running messages.
var ErrManyRunning = errors.New("queue: more than 4000 messages are running: one is not looked for among them in one step")

// ReadFind reads the reply to [FindCmd]. The error may match [ErrManyRunning].
func ReadFind(r redoubt.Reply, id string) (MessageInfo, error) {
	a, err := r.Array()
	if err != nil {
		return MessageInfo{}, err
	}
	var s [5]string
	if len(a) != len(s) {
		return MessageInfo{}, fmt.Errorf("queue: reply has %d elements, want %d", len(a), len(s))
	}
	for i := range s {
		s[i], _ = a[i].(string)
	}
	state := State(s[0])
	if state == stateUnknown {
		return MessageInfo{}, ErrManyRunning
	}
	if state == StateAbsent || state == StateDone {
		return MessageInfo{Message: Message{ID: id}, State: state, Result: []byte(s[3])}, nil
	}
	m, err := listed(state, id, s[1], s[2], s[3])
	if s[4] != "" {
		m.Progress = []byte(s[4])
	}
	return m, err
}

// Stats are the counts and settings of a queue.
type Stats struct {
	// Ready counts messages that can be taken; ReadyIn counts them by lane.
	Ready   int
	ReadyIn map[Lane]int
	// Due counts messages that are due later.
	Due int
	// Running counts messages on lease.
	Running int
	// Waiting counts messages behind another of their group.
	Waiting int
	// Blocked counts messages that come after others that are not done.
	Blocked int
	// Dead counts messages that failed for good.
	Dead int
	// Oldest is the age of the oldest ready message.
	Oldest time.Duration
	// Next is the time until the next message is due; negative if none is.
	Next time.Duration
	// Paused: no consumer takes messages.
	Paused bool
	// Limits are the limits that [LimitCmd] set.
	Limits Limits
}

// StatsCmd reads the counts and settings of a queue.
func StatsCmd(keys Keys) redoubt.Cmd {
	return redoubt.Cmd{
		Script: statsScript,
		Keys:   []string{keys[keyQueue], keys[keyReady], keys[keyDue], keys[keyDead], keys[keyLeases], keys[keyConfig], keys[keyBlocked]},
		Args:   []string{strconv.Itoa(lanes)}, Flags: redoubt.ReadOnly,
	}
}

// ReadStats reads the reply to [StatsCmd].
func ReadStats(r redoubt.Reply) (Stats, error) {
	var n [11 + lanes]int64
	if err := r.Ints(n[:]); err != nil {
		return Stats{}, err
	}
	s := Stats{
		ReadyIn: map[Lane]int{}, Due: int(n[1]), Dead: int(n[2]), Running: int(n[3]),
		Oldest: fromMillis(n[4]), Next: fromMillis(n[5]), Paused: n[6] == 1,
		Limits: Limits{Concurrency: int(n[7]), Burst: int(n[9])}, Blocked: int(n[10]),
	}
	if n[8] > 0 {
		s.Limits.Rate, s.Limits.Per = 1, time.Duration(n[8])*time.Microsecond
	}
	for rank := range lanes {
		s.ReadyIn[Urgent-Lane(rank)] = int(n[11+rank]) //nolint:gosec // < 4
		s.Ready += int(n[11+rank])
	}
	s.Waiting = int(n[0]) - s.Ready - s.Due - s.Dead - s.Running - s.Blocked
	return s, nil
}

// Limits apply to all consumers of a queue together. The zero value limits nothing.
type Limits struct {
	// Concurrency is how many messages may run at once; 0 is no limit.
	Concurrency int
	// Rate is how many messages may be taken Per time on average; 0 is no limit. Per
	// defaults to a second.
	Rate int
	Per  time.Duration
	// Burst is how many messages may be taken at once. Defaults to 1.
	Burst int
}

func (l Limits) check() error {
	switch {
	case l.Concurrency < 0 || l.Concurrency > 1_000_000:
		return fmt.Errorf("queue: concurrency is %d; want 0 to 1000000", l.Concurrency)
	case l.Rate < 0 || l.Rate > 1_000_000 || l.Per < 0 || l.Per > MaxTime:
		return fmt.Errorf("queue: rate is %d per %v; want 0 to 1000000 per %v at most", l.Rate, l.Per, MaxTime)
	case l.Burst < 0 || l.Burst > 1_000_000:
		return fmt.Errorf("queue: burst is %d; want 0 to 1000000", l.Burst)
	case l.Rate > 0 && l.Per > 0 && l.Per/time.Duration(l.Rate) < time.Microsecond:
		return fmt.Errorf("queue: rate is %d per %v; want at most one a microsecond", l.Rate, l.Per)
	}
	return nil
}

// LimitCmd sets the limits of a queue.
func LimitCmd(keys Keys, l Limits) (redoubt.Cmd, error) {
	if err := l.check(); err != nil {
		return redoubt.Cmd{}, err
	}
	concurrency, interval, burst := "", "", ""
	if l.Concurrency > 0 {
		concurrency = strconv.Itoa(l.Concurrency)
	}
	if l.Rate > 0 {
		if l.Per == 0 {
			l.Per = time.Second
		}
		// Rounded up, so that the rate is never above the limit.
		each := time.Duration(l.Rate) * time.Microsecond
		interval, burst = decimal(int64((l.Per+each-1)/each)), strconv.Itoa(max(l.Burst, 1))
	}
	return configCmd(keys, "concurrency", concurrency, "interval_us", interval, "burst", burst), nil
}

// PauseCmd stops all consumers from taking messages.
func PauseCmd(keys Keys) redoubt.Cmd { return configCmd(keys, "paused", "1") }

// ResumeCmd ends a pause.
func ResumeCmd(keys Keys) redoubt.Cmd { return configCmd(keys, "paused", "") }

func configCmd(keys Keys, fields ...string) redoubt.Cmd {
	return redoubt.Cmd{
		Script: configScript, Keys: []string{keys[keyConfig], keys[keyQueue], keys[keyWake]}, Args: fields, Flags: redoubt.Idempotent,
	}
}
