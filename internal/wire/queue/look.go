package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/wire/listing"
)

// Names iterates over the queues that have messages: see [redoubt.Client.Names].
func Names(ctx context.Context, client *redoubt.Client, match string) iter.Seq2[string, error] {
	return client.Names(ctx, queuePart, "hash", match)
}

// StatsPage lists the queues on one page of [redoubt.Client.NamesPage] and how many messages each has.
// This is what QUEUE.LS does.
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

// A State is where a message is.
type State string

const (
	// Ready: a consumer can take it.
	Ready State = "ready"
	// Due: it is due later.
	Due State = "due"
	// Leased: a consumer has it.
	Leased State = "running"
	// Waiting: another of its group has the turn.
	Waiting State = "waiting"
	// Buried: it is dead.
	Buried State = "dead"
	// Done: it is done, and its result is kept.
	Done State = "done"
	// None: it is not there.
	None State = "none"
)

// MessagesCmd looks at messages of one state, [Ready], [Due], [Leased] or [Buried], in
// their order: at most count, from a position on.
func MessagesCmd(keys Keys, state State, from, count int) (redoubt.Cmd, error) {
	at, prefix := map[State]int{Ready: keyReady, Due: keyDue, Leased: keyLeases, Buried: keyDead}[state], "0"
	if at == 0 {
		return redoubt.Cmd{}, fmt.Errorf("queue: state is %q; want %s, %s, %s or %s", state, Ready, Due, Leased, Buried)
	}
	if from < 0 || count < 1 || count > MaxSettle {
		return redoubt.Cmd{}, fmt.Errorf("queue: %d messages from %d; want 1 to %d from 0 up", count, from, MaxSettle)
	}
	if state == Leased {
		prefix = strconv.Itoa(takeLen)
	}
	return redoubt.Cmd{
		Script: listScript, Keys: []string{keys[keyQueue], keys[keyFails], keys[at]},
		Args: []string{strconv.Itoa(from), strconv.Itoa(count), prefix}, Flags: redoubt.ReadOnly,
	}, nil
}

// A Listed is a message that was looked at.
type Listed struct {
	Message
	State State
	// When is since when it is ready, when it is due, when its lease ends, or when
	// it died. Zero if there is no such time.
	When time.Time
	// Failures is how often it failed, and LastReason why.
	Failures   int
	LastReason string
	// Result is what it has left behind, when it is done.
	Result []byte
	// Unreadable: it is no message, for something else wrote it. The payload is all
	// that was written.
	Unreadable bool
}

func listed(state State, id, score, entry, envelope string) (l Listed, err error) {
	m, readable := openAny(id, envelope)
	l = Listed{Message: m, State: state, Unreadable: !readable}
	l.Failures, l.LastReason = failure(entry)
	n, err := strconv.ParseFloat(score, 64)
	switch ms := int64(n); {
	case score == "":
		return l, nil
	case err != nil:
		return l, err
	case state != Ready:
		l.When = time.UnixMilli(ms)
	case ms%laneSpan > 0:
		l.When = time.UnixMicro(ms%laneSpan + frontMillis*1000)
	}
	return l, nil
}

// laneSpan is from one lane's first score to the next one's.
const laneSpan = 1 << 51

// ReadMessages reads the reply to [MessagesCmd], and how many there are in all.
func ReadMessages(r redoubt.Reply, state State) (list []Listed, all int, err error) {
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

// FindCmd looks at one message. Where many are running it may not find one of them: see [Find].
func FindCmd(keys Keys, id string) redoubt.Cmd { return findCmd(keys, id, "") }

func findCmd(keys Keys, id, seen string) redoubt.Cmd {
	return redoubt.Cmd{
		Script: findScript,
		Keys:   []string{keys[keyQueue], keys[keyReady], keys[keyDue], keys[keyDead], keys[keyFails], keys[keyLeases], keys.result(id)},
		Args:   []string{id, seen}, Flags: redoubt.ReadOnly,
	}
}

// ErrManyRunning is matched when one script would hold up the server while it looks for a message
// among all that are running.
var ErrManyRunning = errors.New("queue: more than 4000 messages are running: one is not looked for among them in one step")

// ReadFind reads the reply to [FindCmd]. The error may match [ErrManyRunning].
func ReadFind(r redoubt.Reply, id string) (Listed, error) {
	a, err := r.Array()
	if err != nil {
		return Listed{}, err
	}
	var s [4]string
	if len(a) != len(s) {
		return Listed{}, fmt.Errorf("queue: reply has %d elements, want %d", len(a), len(s))
	}
	for i := range s {
		s[i], _ = a[i].(string)
	}
	state := State(s[0])
	if state == "" {
		return Listed{}, ErrManyRunning
	}
	if state == None || state == Done {
		return Listed{Message: Message{ID: id}, State: state, Result: []byte(s[3])}, nil
	}
	return listed(state, id, s[1], s[2], s[3])
}

// Stats count what is in a queue.
type Stats struct {
	// Ready messages can be taken; ReadyIn are those of each lane.
	Ready   int
	ReadyIn map[Lane]int
	// Due messages are due later.
	Due int
	// Running messages are on lease.
	Running int
	// Waiting messages wait for others of their group.
	Waiting int
	// Dead messages have failed for good.
	Dead int
	// Oldest is for how long the oldest ready message is ready.
	Oldest time.Duration
	// Next is the time until the next is due; negative if there is none.
	Next time.Duration
	// Paused: nothing is taken.
	Paused bool
	// Limits are those that [LimitCmd] set.
	Limits Limits
}

// StatsCmd counts what is in a queue.
func StatsCmd(keys Keys) redoubt.Cmd {
	return redoubt.Cmd{
		Script: statsScript,
		Keys:   []string{keys[keyQueue], keys[keyReady], keys[keyDue], keys[keyDead], keys[keyLeases], keys[keyConfig]},
		Args:   []string{strconv.Itoa(lanes)}, Flags: redoubt.ReadOnly,
	}
}

// ReadStats reads the reply to [StatsCmd].
func ReadStats(r redoubt.Reply) (Stats, error) {
	var n [10 + lanes]int64
	if err := r.Ints(n[:]); err != nil {
		return Stats{}, err
	}
	s := Stats{
		ReadyIn: map[Lane]int{}, Due: int(n[1]), Dead: int(n[2]), Running: int(n[3]),
		Oldest: fromMillis(n[4]), Next: fromMillis(n[5]), Paused: n[6] == 1,
		Limits: Limits{Concurrency: int(n[7]), Burst: int(n[9])},
	}
	if n[8] > 0 {
		s.Limits.Rate, s.Limits.Per = 1, time.Duration(n[8])*time.Microsecond
	}
	for rank := range lanes {
		s.ReadyIn[Urgent-Lane(rank)] = int(n[10+rank]) //nolint:gosec // < 4
		s.Ready += int(n[10+rank])
	}
	s.Waiting = int(n[0]) - s.Ready - s.Due - s.Dead - s.Running
	return s, nil
}

// Limits hold for all consumers of a queue together. The zero value has none.
type Limits struct {
	// Concurrency is how many messages may be at work at once; 0 is no limit.
	Concurrency int
	// Rate is how many may be taken Per time, in the long run; 0 is no limit. Per
	// defaults to a second.
	Rate int
	Per  time.Duration
	// Burst is how many may be taken at once. Defaults to 1.
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
		// Up: not more than was asked for.
		each := time.Duration(l.Rate) * time.Microsecond
		interval, burst = decimal(int64((l.Per+each-1)/each)), strconv.Itoa(max(l.Burst, 1))
	}
	return configCmd(keys, "concurrency", concurrency, "interval_us", interval, "burst", burst), nil
}

// PauseCmd stops that messages are taken, ResumeCmd lets it go on.
func PauseCmd(keys Keys) redoubt.Cmd { return configCmd(keys, "paused", "1") }

func ResumeCmd(keys Keys) redoubt.Cmd { return configCmd(keys, "paused", "") }

func configCmd(keys Keys, fields ...string) redoubt.Cmd {
	return redoubt.Cmd{
		Script: configScript, Keys: []string{keys[keyConfig], keys[keyQueue], keys[keyWake]}, Args: fields, Flags: redoubt.Idempotent,
	}
}
