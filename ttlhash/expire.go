package ttlhash

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/ttlhash"
)

// A Condition decides whether a field gets another deadline.
type Condition = wire.Condition

const (
	// Always: in any case.
	Always Condition = wire.Always
	// IfNone: only if it has no deadline.
	IfNone Condition = wire.IfNone
	// IfSome: only if it has a deadline.
	IfSome Condition = wire.IfSome
	// IfLater: only if the new deadline is later. No deadline is later than any.
	IfLater Condition = wire.IfLater
	// IfSooner: only if the new deadline is sooner.
	IfSooner Condition = wire.IfSooner
)

// A Change is the result of changing a field's deadline.
type Change = wire.Change

const (
	// Missing: the hash does not have the field.
	Missing Change = wire.Missing
	// Unchanged: the [Condition] was not met.
	Unchanged Change = wire.Unchanged
	// Changed: the field has the new deadline.
	Changed Change = wire.Changed
)

// Expire makes a field expire after ttl, or never if ttl is [Never], if the condition
// when is met.
func (h *Hashes) Expire(ctx context.Context, name, field string, ttl time.Duration, when Condition) (Change, error) {
	changes, err := h.ExpireMany(ctx, name, []string{field}, ttl, when)
	if err != nil {
		return Missing, err
	}
	return changes[0], nil
}

// ExpireMany changes the deadlines of fields as [Hashes.Expire] does, each if when is met
// for it. It takes at most [MaxTogether] fields and [MaxBytes].
func (h *Hashes) ExpireMany(ctx context.Context, name string, fields []string, ttl time.Duration, when Condition) ([]Change, error) {
	changes, _, err := h.expire(ctx, name, ttl, when, false, fields)
	return changes, err
}

// Touch returns the value of a field and makes the field expire after ttl. ok is false
// when the hash does not have the field.
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
		err = errors.Join(err, fmt.Errorf("ttlhash: condition is %d; want Always, IfNone, IfSome, IfLater or IfSooner", when))
	}
	if err = errors.Join(err, checkTTL(ttl)); err != nil {
		return nil, nil, err
	}
	err = h.write(ctx, keys, func(mode wire.Mode) redoubt.Cmd { return wire.ExpireCmd(keys, mode, when, ttl, want, fields) },
		func(r redoubt.Reply) (now int64, err error) {
			changes, values, now, err = wire.ReadExpired(r, len(fields))
			return now, err
		})
	return changes, values, err
}
