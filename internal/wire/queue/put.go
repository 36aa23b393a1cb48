package queue

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt"
)

// ErrTooLarge is matched when one call puts several messages that have more than
// [MaxBatchBytes] together.
var ErrTooLarge = fmt.Errorf("queue: several messages in one call have at most %d bytes together", MaxBatchBytes)

// PutCmd puts messages whose IDs are set. The error names all faults of the messages. A repeated
// command does nothing for messages that are in the queue and not dead.
func PutCmd(keys Keys, messages []Message) (redoubt.Cmd, error) {
	if len(messages) == 0 || len(messages) > MaxBatch {
		return redoubt.Cmd{}, fmt.Errorf("queue: %d messages; want 1 to %d", len(messages), MaxBatch)
	}
	var errs []error
	names := slices.Clone(keys[:keyLeases])
	args := make([]string, 0, 4*len(messages))
	bytes, after := 0, 0
	for i := range messages {
		m := &messages[i]
		bytes += m.size()
		if err := m.check(); err != nil {
			if len(messages) > 1 {
				err = fmt.Errorf("message %d: %w", i, err)
			}
			if errs = append(errs, err); len(errs) == 10 {
				break
			}
			continue
		}
		after += len(m.After)
		unique := "0"
		if m.Unique != "" {
			names = append(names, keys.hashed("unique", m.Unique))
			unique = millis(m.UniqueFor)
		}
		args = append(args, m.ID, m.when(), unique, m.envelope())
	}
	if bytes > MaxBatchBytes && len(messages) > 1 {
		errs = append(errs, fmt.Errorf("%w: %d have %d bytes", ErrTooLarge, len(messages), bytes))
	}
	if after > 0 {
		names = append(names, keys[keyBlocked:]...)
		errs = append(errs, checkAfter(messages, after))
	}
	if err := errors.Join(errs...); err != nil {
		return redoubt.Cmd{}, err
	}
	return redoubt.Cmd{Script: putScript, Keys: names, Args: args, Flags: redoubt.Idempotent}, nil
}

// checkAfter checks the messages of one put that come after others: n in all.
func checkAfter(messages []Message, n int) error {
	if n > MaxAfter {
		return fmt.Errorf("queue: the messages of one call come after %d others; want at most %d", n, MaxAfter)
	}
	last := make(map[string]int, len(messages))
	for i := range messages {
		last[messages[i].ID] = i
	}
	for i := range messages {
		for _, id := range messages[i].After {
			if last[id] > i {
				return fmt.Errorf("queue: message %d comes after %.100q, which is put later in the same call; put it first", i, id)
			}
		}
	}
	return nil
}

// A PutResult is the result of putting one message.
type PutResult struct {
	// ID is the ID of the message in the queue: the new one, or the one that has the
	// same unique key.
	ID string
	// Status says whether this call put it.
	Status PutStatus
	// State is [StateBlocked] if this call put it and it waits for messages that it comes after,
	// [StateDead] if one of those is dead, and otherwise empty.
	State State
}

// PutStatus says whether a message was put.
type PutStatus int8

const (
	// Added: this call put the message.
	Added PutStatus = 1
	// Exists: a message with this ID was in the queue already, or was there before and
	// still owns its unique key.
	Exists PutStatus = 0
	// Duplicate: another message owns the unique key. The result has that message's ID.
	Duplicate PutStatus = -1
)

// ReadPut reads the reply to [PutCmd] for the same messages.
func ReadPut(r redoubt.Reply, messages []Message) ([]PutResult, error) {
	a, err := r.Array()
	if err != nil {
		return nil, err
	}
	if len(a) != len(messages)+1 {
		return nil, fmt.Errorf("queue: reply has %d elements, want %d", len(a), len(messages)+1)
	}
	placed := make([]PutResult, len(messages))
	for i, v := range a[1:] {
		switch v := v.(type) {
		case int64:
			placed[i] = PutResult{ID: messages[i].ID, Status: PutStatus(min(v, 1))} //nolint:gosec // 0 to 3
			switch v {
			case 2:
				placed[i].State = StateBlocked
			case 3:
				placed[i].State = StateDead
			}
		case string:
			placed[i] = PutResult{ID: v, Status: Duplicate}
		}
	}
	return placed, nil
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// millis rounds up, so that nothing happens before its time.
func millis(d time.Duration) string {
	return decimal(int64((d + time.Millisecond - 1) / time.Millisecond))
}

func fromMillis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// failure parses the stored record of a failed message.
func failure(entry string) (n int, reason string) {
	count, reason, _ := strings.Cut(entry, " ")
	n, _ = strconv.Atoi(count)
	return n, reason
}
