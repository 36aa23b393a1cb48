package queue

import (
	"time"

	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
)

const (
	// MaxID is the longest id, and the longest group and unique key: 255 bytes.
	MaxID = wire.MaxID
	// MaxPayload is the longest payload: 4 MiB. A script needs 12 ms for it, in which
	// the server serves nobody else. Larger ones belong into a store, and their name into
	// the message.
	MaxPayload = wire.MaxPayload
	// MaxAttempts is the largest number of attempts: 65535.
	MaxAttempts = wire.MaxAttempts
	// MaxBatch is how many messages one call may put: 10,000.
	MaxBatch = wire.MaxBatch
	// MaxBatchBytes, 4 MiB, is how many bytes several messages may have together that one call
	// puts: payloads, headers and groups. A script needs 12 ms for them.
	MaxBatchBytes = wire.MaxBatchBytes
	// MaxTime, ten years, bounds delays, leases and all other times.
	MaxTime = wire.MaxTime
	// MaxSettle is how many messages one batch may have: 1000.
	MaxSettle = wire.MaxSettle
	// Unlimited is a number of attempts, -1: the message never dies.
	Unlimited = wire.Unlimited
)

// ErrTooLarge is matched when several messages that are to be put together have more
// than [MaxBatchBytes]: put fewer at a time.
var ErrTooLarge = wire.ErrTooLarge

// A Lane is a priority. Of what is ready, the lane with the largest number goes
// first. The zero value is the normal one.
type Lane = wire.Lane

// The lanes, -1 to 2.
const (
	Low    Lane = wire.Low
	Normal Lane = wire.Normal
	High   Lane = wire.High
	Urgent Lane = wire.Urgent
)

// A Message is one message as it was put, whatever is in its payload. [Request] says what the
// fields mean.
type Message struct {
	ID        string
	Payload   []byte
	Delay     time.Duration
	At        time.Time
	Attempts  int
	Unique    string
	UniqueFor time.Duration
	Lane      Lane
	Group     string
	Headers   map[string]string
}

// A Placed is what became of one message that was put.
type Placed struct {
	// ID is that of the message which is in the queue: the one that was put, or
	// the one that has its unique key.
	ID string
	// Status says whether it was put now.
	Status PutStatus
}

// PutStatus is what became of a message that was put.
type PutStatus = wire.PutStatus

const (
	// Added: the message is in the queue from now on.
	Added PutStatus = wire.Added
	// Exists: a message with its id is in the queue already, maybe the same; or was,
	// and still has its unique key.
	Exists PutStatus = wire.Exists
	// Duplicate: its unique key belongs to another, whose ID is given.
	Duplicate PutStatus = wire.Duplicate
)

// Was is what a message was when it was to be removed.
type Was = wire.Was

const (
	// WasAbsent: it is not in the queue. For [Queue.Delete]: it is not dead.
	WasAbsent Was = wire.WasAbsent
	// WasPending: ready, not due yet, or waiting for the turn of its group.
	WasPending Was = wire.WasPending
	// WasRunning: a consumer has it.
	WasRunning Was = wire.WasRunning
	// WasDead: it is dead. [Queue.Cancel] leaves it alone.
	WasDead Was = wire.WasDead
)

// A State is where a message is.
type State = wire.State

const (
	// Ready: a consumer can take it.
	Ready State = wire.Ready
	// Due: it is due later.
	Due State = wire.Due
	// Leased: a consumer has it.
	Leased State = wire.Leased
	// Waiting: another of its group has the turn.
	Waiting State = wire.Waiting
	// Buried: it is dead.
	Buried State = wire.Buried
	// Done: it is done, and its result is kept.
	Done State = wire.Done
	// None: it is not there.
	None State = wire.None
)

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

func listed(l wire.Listed) Listed {
	return Listed{
		Message: Message(l.Message), State: l.State, When: l.When, Failures: l.Failures, LastReason: l.LastReason,
		Result: l.Result, Unreadable: l.Unreadable,
	}
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
	// Limits are those of [Queue.Limit].
	Limits Limits
}

func stats(s wire.Stats) Stats {
	return Stats{
		Ready: s.Ready, ReadyIn: s.ReadyIn, Due: s.Due, Running: s.Running, Waiting: s.Waiting, Dead: s.Dead,
		Oldest: s.Oldest, Next: s.Next, Paused: s.Paused, Limits: Limits(s.Limits),
	}
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
