package ratelimit

import (
	"context"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
)

// ErrNotConfigured is matched by the error of a call of a [Limiter] with
// Options.Stored, when no limits are stored under the name.
var ErrNotConfigured = wire.ErrNotConfigured

// TrySet stores the limits of name if none are stored, and reports whether it
// did: of many who try, the first decides. They stay until [Limiter.Set]
// changes them or [Limiter.Unset] removes them. It is sent once: after an error
// that matches redoubt.ErrUnknownOutcome, [Limiter.Get] tells what is stored.
func (l *Limiter) TrySet(ctx context.Context, name string, limit Limit, and ...Limit) (bool, error) {
	cmd, err := l.wire.TrySetCmd(name, wireLimits(limit, and))
	if err != nil {
		return false, err
	}
	defer l.denials.forget(name)
	stored, _, err := wire.ReadLimits(l.client.Do(ctx, cmd))
	return stored, err
}

// Set stores the limits of name, in the place of others. What was taken stays
// taken: it is kept by the place of a limit among the others. Calls that come
// after it, from any process, are held to the new limits.
func (l *Limiter) Set(ctx context.Context, name string, limit Limit, and ...Limit) error {
	cmd, err := l.wire.SetCmd(name, wireLimits(limit, and))
	if err != nil {
		return err
	}
	defer l.denials.forget(name)
	return l.client.Do(ctx, cmd).Err
}

// Get returns the limits that are stored under name, at least one, or
// [ErrNotConfigured].
func (l *Limiter) Get(ctx context.Context, name string) ([]Limit, error) {
	cmd, err := l.wire.GetCmd(name)
	if err != nil {
		return nil, err
	}
	_, stored, err := wire.ReadLimits(l.client.Do(ctx, cmd))
	if err == nil && stored == nil {
		err = ErrNotConfigured
	}
	var limits []Limit
	for _, l := range stored {
		limits = append(limits, Limit(l))
	}
	return limits, err
}

// Unset removes the limits that are stored under name. What was taken stays
// taken until it comes back: see [Limiter.Reset].
func (l *Limiter) Unset(ctx context.Context, name string) error {
	key, err := l.wire.LimitKey(name)
	if err != nil {
		return err
	}
	defer l.denials.forget(name)
	return l.client.Do(ctx, redoubt.Cmd{Name: "DEL", Keys: []string{key}, Flags: redoubt.Idempotent}).Err
}
