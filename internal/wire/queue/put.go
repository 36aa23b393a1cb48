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

var // ErrTooLarge is matched when several messages that are to be put together have more
// than [MaxBatchBytes]: put fewer at a time.
ErrTooLarge = fmt.Errorf("queue: several messages in one call have at most %d bytes together", MaxBatchBytes)

// PutCmd puts messages, whose IDs are set. Its error says what is wrong with them.
// Repeated it does nothing while the messages are in the queue and not dead.
func PutCmd(keys Keys, messages []Message) (redoubt.Cmd, error) {
	if len(messages) == 0 || len(messages) > MaxBatch {
		return redoubt.Cmd{}, fmt.Errorf("queue: %d messages; want 1 to %d", len(messages), MaxBatch)
	}
	var errs []error
	names := slices.Clone(keys[:keyLeases])
	args := make([]string, 0, 4*len(messages))
	bytes := 0
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
	if err := errors.Join(errs...); err != nil {
		return redoubt.Cmd{}, err
	}
	return redoubt.Cmd{Script: putScript, Keys: names, Args: args, Flags: redoubt.Idempotent}, nil
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
type PutStatus int8

const (
	// Added: the message is in the queue from now on.
	Added PutStatus = 1
	// Exists: a message with its id is in the queue already, maybe the same; or was,
	// and still has its unique key.
	Exists PutStatus = 0
	// Duplicate: its unique key belongs to another, whose ID is given.
	Duplicate PutStatus = -1
)

// ReadPut reads the reply to [PutCmd] for the same messages.
func ReadPut(r redoubt.Reply, messages []Message) ([]Placed, error) {
	a, err := r.Array()
	if err != nil {
		return nil, err
	}
	if len(a) != len(messages)+1 {
		return nil, fmt.Errorf("queue: reply has %d elements, want %d", len(a), len(messages)+1)
	}
	placed := make([]Placed, len(messages))
	for i, v := range a[1:] {
		switch v := v.(type) {
		case int64:
			placed[i] = Placed{messages[i].ID, PutStatus(v)} //nolint:gosec // 0 or 1
		case string:
			placed[i] = Placed{v, Duplicate}
		}
	}
	return placed, nil
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// millis rounds up: not before the time that was named.
func millis(d time.Duration) string {
	return decimal(int64((d + time.Millisecond - 1) / time.Millisecond))
}

func fromMillis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// failure reads what is stored of a failed message.
func failure(entry string) (n int, reason string) {
	count, reason, _ := strings.Cut(entry, " ")
	n, _ = strconv.Atoi(count)
	return n, reason
}
