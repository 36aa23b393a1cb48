package ratelimit

import (
	"context"
)

// Refund gives n tokens of the limit called name back, at least 1, for work that was
// allowed and then not done. At most the taken tokens come back; the rest is dropped, so
// there are never more than Burst.
//
// The id names the refund, like the id of the order that failed. A second refund with the
// same id gives nothing, until a minute after all tokens that are taken now have come
// back. With an empty id each call is a refund of its own, known for a minute. Either way
// it may be sent again after a lost reply. The Decision is the state afterwards, as of
// [Limiter.Info]. One round trip.
func (l *Limiter) Refund(ctx context.Context, name string, n int, id string) (Decision, error) {
	cmd, err := l.wire.RefundCmd(name, n, id)
	if err != nil {
		return Decision{}, err
	}
	defer l.denials.forget(name)
	d, err := l.wire.ReadRefund(l.client.Do(ctx, cmd))
	return decision(d), err
}
