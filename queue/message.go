package queue

import (
	"time"

	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
)

const (
	// MaxID is the longest ID, group and unique key: 255 bytes.
	MaxID = wire.MaxID
	// MaxPayload is the longest payload: 4 MiB. It occupies the server for 12 ms. Keep
	// larger data in a store and put its name into the message.
	MaxPayload = wire.MaxPayload
	// MaxAttempts is the largest number of attempts: 65535.
	MaxAttempts = wire.MaxAttempts
	// MaxBatch is how many messages one call may put: 10,000.
	MaxBatch = wire.MaxBatch
	// MaxBatchBytes is how many bytes the messages of one call may have together: 4 MiB,
	// counting payloads, headers and groups. One message alone may have more.
	MaxBatchBytes = wire.MaxBatchBytes
	// MaxAfter is how many messages one may come after, and how many the messages of one
	// call may have in their After together: 1000.
	MaxAfter = wire.MaxAfter
	// MaxTime bounds delays, leases and all other times: ten years.
	MaxTime = wire.MaxTime
	// MaxConcurrency is how many messages one consumer may work on at once: 1000.
	MaxConcurrency = wire.MaxSettle
	// Unlimited is a number of attempts, -1: the message never dies.
	Unlimited = wire.Unlimited
)

// ErrTooLarge is matched when one call puts several messages that have more than
// [MaxBatchBytes] together. Put fewer at a time.
var ErrTooLarge = wire.ErrTooLarge

// A Lane is a priority. Messages of the lane with the largest number are taken first.
// The zero value is [Normal].
type Lane = wire.Lane

// The lanes, -1 to 2.
const (
	Low    Lane = wire.Low
	Normal Lane = wire.Normal
	High   Lane = wire.High
	Urgent Lane = wire.Urgent
)

// A PutResult is the result of putting one message.
type PutResult struct {
	// ID is the ID of the message in the queue: the new one, or the one that has the
	// same unique key.
	ID string
	// Status says whether this call put it.
	Status PutStatus
	// State is [StateBlocked] if this call put the message and it waits for one of
	// [Request.After], [StateDead] if one of those is dead, and otherwise empty.
	State State
}

// PutStatus says whether a message was put.
type PutStatus = wire.PutStatus

const (
	// Added: this call put the message.
	Added PutStatus = wire.Added
	// Exists: a message with this ID was in the queue already, or was there before and
	// still owns its unique key.
	Exists PutStatus = wire.Exists
	// Duplicate: another message owns the unique key. The result has that message's ID.
	Duplicate PutStatus = wire.Duplicate
)

// A State says where a message is.
type State = wire.State

const (
	// StateReady: a consumer can take it.
	StateReady State = wire.StateReady
	// StateDue: it is due later.
	StateDue State = wire.StateDue
	// StateRunning: a consumer has it.
	StateRunning State = wire.StateRunning
	// StateWaiting: another message of its group is ahead of it.
	StateWaiting State = wire.StateWaiting
	// StateBlocked: it waits for messages of its [Request.After].
	StateBlocked State = wire.StateBlocked
	// StatePending: ready, due, waiting or blocked. Only [Queue.Cancel] reports it.
	StatePending State = wire.StatePending
	// StateDead: it failed for good.
	StateDead State = wire.StateDead
	// StateDone: it is done, and its result is kept.
	StateDone State = wire.StateDone
	// StateAbsent: the queue does not have it.
	StateAbsent State = wire.StateAbsent
)

// A MessageInfo describes a message in a queue.
type MessageInfo struct {
	// ID, Payload, Attempts, Lane, Group, Headers, After and IgnoreFailure are as they
	// were put.
	ID            string
	Payload       []byte
	Attempts      int
	Lane          Lane
	Group         string
	Headers       map[string]string
	After         []string
	IgnoreFailure bool
	State         State
	// Unfinished is for how many of After a blocked message still waits.
	Unfinished int
	// When is the time when it became ready, is due, loses its lease, or died. Zero if
	// its state has no time.
	When time.Time
	// Failures counts its failures; LastReason is the reason of the last.
	Failures   int
	LastReason string
	// Result is the stored result of a message that is done.
	Result []byte
	// Progress is what [Job.SetProgress] noted last about a running message.
	Progress []byte
	// Unreadable: another program wrote it, and it is not a message. Payload is all
	// that was written.
	Unreadable bool
}

func messageInfo(m wire.MessageInfo) MessageInfo {
	return MessageInfo{
		ID: m.ID, Payload: m.Payload, Attempts: m.Attempts, Lane: m.Lane, Group: m.Group, Headers: m.Headers,
		After: m.After, IgnoreFailure: m.IgnoreFailure, Unfinished: m.Unfinished,
		State: m.State, When: m.When, Failures: m.Failures, LastReason: m.LastReason, Result: m.Result,
		Progress: m.Progress, Unreadable: m.Unreadable,
	}
}

// Info is the state of a queue.
type Info struct {
	// Name is the queue's name.
	Name string
	// Ready counts messages that can be taken; ReadyIn counts them by lane.
	Ready   int
	ReadyIn map[Lane]int
	// Due counts messages that are due later.
	Due int
	// Running counts messages on lease.
	Running int
	// Waiting counts messages behind another of their group.
	Waiting int
	// Blocked counts messages that wait for others of their [Request.After].
	Blocked int
	// Dead counts messages that failed for good.
	Dead int
	// Oldest is the age of the oldest ready message.
	Oldest time.Duration
	// Next is the time until the next message is due; negative if none is.
	Next time.Duration
	// Paused: no consumer takes messages.
	Paused bool
	// Limits are the limits that [Queue.Limit] set.
	Limits Limits
}

func info(name string, s wire.Stats) Info {
	return Info{
		Name: name, Ready: s.Ready, ReadyIn: s.ReadyIn, Due: s.Due, Running: s.Running, Waiting: s.Waiting, Blocked: s.Blocked, Dead: s.Dead,
		Oldest: s.Oldest, Next: s.Next, Paused: s.Paused, Limits: Limits(s.Limits),
	}
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
