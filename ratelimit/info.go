package ratelimit

import (
	"context"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
)

// Info is the state of a name.
type Info struct {
	// Decision is what Allow would answer: Allowed tells whether there is a token
	// to take, and Remaining counts that token. Taken is 0, and Degraded nil.
	Decision

	// Limits are the limits that the name is held to, in their order, with their
	// bursts filled in. With Options.Stored they come from the server.
	Limits []Limit
}

func info(d Decision, limits []wire.Limit) Info {
	i := Info{Decision: d}
	for _, l := range limits {
		i.Limits = append(i.Limits, Limit(l))
	}
	return i
}

// Info returns the state of the limit called name, and takes nothing. With
// Options.Stored the error matches [ErrNotConfigured] when no limits are stored
// under the name. It always asks the server, also with Options.DenyCache, and
// Options.OnFailure doesn't apply. It may be sent again after a lost reply. One
// round trip.
func (l *Limiter) Info(ctx context.Context, name string) (Info, error) {
	cmd, err := l.wire.TakeCmd(name, 0)
	if err != nil {
		return Info{}, err
	}
	o, t, err := l.wire.Read(l.client.Do(ctx, cmd))
	if err != nil {
		return Info{}, err
	}
	return info(decision(t.Decide(o, 0, 0)), t.Limits), nil
}

// Info returns what [Limiter.Info] does. Leased tokens count as taken. After [Leased.Close]
// the error is redoubt.ErrClosed.
func (l *Leased) Info(ctx context.Context, name string) (Info, error) {
	if l.isClosed() {
		return Info{}, redoubt.ErrClosed
	}
	return l.limiter.Info(ctx, name)
}

// Info returns the state of the window called name, and admits nothing. It may be
// sent again after a lost reply. One round trip.
func (w *Window) Info(ctx context.Context, name string) (Info, error) {
	cmd, err := w.wire.Cmd(name, 0, 0)
	if err != nil {
		return Info{}, err
	}
	d, err := w.wire.Read(w.client.Do(ctx, cmd), 0)
	if err != nil {
		return Info{}, err
	}
	return info(decision(d), w.wire.Limits()), nil
}

// Info returns the state of the quota called name, and takes nothing. It may be
// sent again after a lost reply. One round trip.
func (q *Quota) Info(ctx context.Context, name string) (Info, error) {
	d, err := q.take(ctx, name, 0, 0)
	if err != nil {
		return Info{}, err
	}
	return info(d, q.wire.Limits()), nil
}
