package ratelimit

import (
	"context"
)

// Refund gives n tokens of the limit called name back, at least 1: work that
// was let through and then not done. At most what is out comes back; more is
// dropped, so that there are never more than Burst.
//
// The id names the refund, like the id of the order that failed: again with
// the same id it gives nothing, until all tokens that are out now are back and a
// minute has passed. With an empty id each call is a refund of its own, known for
// a minute. Either way it is safe to send again after a lost reply, and is. The
// Decision is that of a [Limiter.Peek] after it.
func (l *Limiter) Refund(ctx context.Context, name string, n int, id string) (Decision, error) {
	cmd, err := l.wire.RefundCmd(name, n, id)
	if err != nil {
		return Decision{}, err
	}
	defer l.denials.forget(name)
	d, err := l.wire.ReadRefund(l.client.Do(ctx, cmd))
	return decision(d), err
}
