package ratelimit

import (
	"context"

	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
)

// SetIfAbsent stores the limits of name if none are stored, and reports whether it
// did: of many concurrent callers, the first one decides. They stay until
// [Limiter.Set] changes them or [Limiter.Delete] removes them. It needs
// Options.Stored. It is sent once: after an error that matches
// redoubt.ErrUnknownOutcome, [Limiter.Info] tells what is stored. One round trip.
func (l *Limiter) SetIfAbsent(ctx context.Context, name string, limit Limit, and ...Limit) (set bool, err error) {
	cmd, err := l.wire.TrySetCmd(name, wireLimits(limit, and))
	if err != nil {
		return false, err
	}
	defer l.denials.forget(name)
	set, _, err = wire.ReadLimits(l.client.Do(ctx, cmd))
	return set, err
}

// Set stores the limits of name, replacing any others. Tokens that were taken stay
// taken: they are kept by the place of a limit among the others. Later calls from
// any process are held to the new limits. It needs Options.Stored. It may be sent
// again after a lost reply. One round trip.
func (l *Limiter) Set(ctx context.Context, name string, limit Limit, and ...Limit) error {
	cmd, err := l.wire.SetCmd(name, wireLimits(limit, and))
	if err != nil {
		return err
	}
	defer l.denials.forget(name)
	return l.client.Do(ctx, cmd).Err
}

// Delete removes name with all its keys: its stored limits, what was taken, and
// the ids of its refunds; with [PerClient], what this Client took. It reports
// whether there was any. It may be sent again after a lost reply, and may then
// report false. One round trip.
func (l *Limiter) Delete(ctx context.Context, name string) (deleted bool, err error) {
	cmd, err := l.wire.DeleteCmd(name)
	if err != nil {
		return false, err
	}
	defer l.denials.forget(name)
	n, err := l.client.Do(ctx, cmd).Int()
	return n > 0, err
}
