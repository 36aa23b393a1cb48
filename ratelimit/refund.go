package ratelimit

import (
	"context"
	"fmt"
	"strings"

	"github.com/redoubt-go/redoubt"
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
	cmd, read, err := l.RefundCmd(name, n, id)
	if err != nil {
		return Decision{}, err
	}
	defer l.denials.forget(name)
	return read(l.client.Do(ctx, cmd))
}

// maxID is the longest id of a refund, in bytes.
const maxID = 512

// refundsKey returns the key of the ids of refunds.
func (l *Limiter) refundsKey(name string) (string, error) {
	if !l.bare {
		return l.taken(name, "refunds")
	}
	// It must share the slot of the bare key: the hash tag is what stands in
	// the first braces, or all of the key.
	if _, tag, ok := strings.Cut(name, "{"); ok {
		if end := strings.IndexByte(tag, '}'); end > 0 {
			return name + ":refunds", nil
		}
	}
	if strings.Contains(name, "}") {
		return "", fmt.Errorf("%w: %q has a brace and no hash tag, so nothing can be given back on it", redoubt.ErrInvalidName, name)
	}
	return "{" + name + "}:refunds", nil
}
