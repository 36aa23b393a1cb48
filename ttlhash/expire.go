package ttlhash

import (
	"context"
	"errors"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/ttlhash"
)

// Condition says what must be so for a field to get another deadline.
type Condition = wire.Condition

const (
	// Always: whatever it has.
	Always Condition = wire.Always
	// IfNone: it has no deadline.
	IfNone Condition = wire.IfNone
	// IfSome: it has one.
	IfSome Condition = wire.IfSome
	// IfLater: the new one is later than the one it has. None is later than any.
	IfLater Condition = wire.IfLater
	// IfSooner: the new one is sooner than the one it has.
	IfSooner Condition = wire.IfSooner
)

// A Change is what became of a field that was to get another deadline.
type Change = wire.Change

const (
	// Missing: it is not there.
	Missing Change = wire.Missing
	// Unchanged: the condition was not so.
	Unchanged Change = wire.Unchanged
	// Changed: it has the new deadline.
	Changed Change = wire.Changed
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
	if err = errors.Join(err, checkTTL(ttl)); err != nil {
		return nil, nil, err
	}
	err = h.write(ctx, keys, func(how wire.How) redoubt.Cmd { return wire.ExpireCmd(keys, how, when, ttl, want, fields) },
		func(r redoubt.Reply) (now int64, err error) {
			changes, values, now, err = wire.ReadExpired(r, len(fields))
			return now, err
		})
	return changes, values, err
}
