package ttlhash

import (
	"context"
	"errors"
	"time"

	"github.com/redoubt-go/redoubt"
)

// Condition says what must be so for a field to get another deadline.
type Condition uint8

const (
	// Always: whatever it has.
	Always Condition = iota
	// IfNone: it has no deadline.
	IfNone
	// IfSome: it has one.
	IfSome
	// IfLater: the new one is later than the one it has. None is later than any.
	IfLater
	// IfSooner: the new one is sooner than the one it has.
	IfSooner
)

// String returns the word that the script has for it.
func (c Condition) String() string {
	return [...]string{"always", "none", "some", "later", "sooner"}[c]
}

// A Change is what became of a field that was to get another deadline.
type Change int8

const (
	// Missing: it is not there.
	Missing Change = -2
	// Unchanged: the condition was not so.
	Unchanged Change = 0
	// Changed: it has the new deadline.
	Changed Change = 1
)

// Expire gives fields ttl from now on, or [Never] a deadline, each if when is so. At
// most [MaxTogether], and [MaxBytes].
func (h *Hashes) Expire(ctx context.Context, name string, ttl time.Duration, when Condition, fields ...string) ([]Change, error) {
	changes, _, err := h.expire(ctx, name, ttl, when, false, fields)
	return changes, err
}

// Touch returns the value of a field and gives it ttl from now on: what is used stays.
// ok is false when it is not there.
func (h *Hashes) Touch(ctx context.Context, name, field string, ttl time.Duration) (value string, ok bool, err error) {
	changes, values, err := h.expire(ctx, name, ttl, Always, true, []string{field})
	if err != nil || changes[0] == Missing {
		return "", false, err
	}
	return values[0], true, nil
}

func (h *Hashes) expire(ctx context.Context, name string, ttl time.Duration, when Condition, want bool, fields []string) (changes []Change, values []string, err error) {
	keys, err := h.keysFor(name, fields)
	if when > IfSooner {
		err = errors.Join(err, errors.New("ttlhash: condition is none of this package's"))
	}
	if err = errors.Join(err, CheckTTL(ttl)); err != nil {
		return nil, nil, err
	}
	err = h.write(ctx, keys, func(how How) redoubt.Cmd { return ExpireCmd(keys, how, when, ttl, want, fields) },
		func(r redoubt.Reply) (now int64, err error) {
			changes, values, now, err = ReadExpired(r, len(fields))
			return now, err
		})
	return changes, values, err
}
