package command

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/lock"
)

// TestBlockEndsBeforeItsTimer: when a busy machine runs the timer of BLOCK late, the wait is over all the same,
// and the answer is that of a wait that is over, not an error.
func TestBlockEndsBeforeItsTimer(t *testing.T) {
	var count lockCounter
	w := way{count: &count, take: func(context.Context, lock.Request) (lock.Handle, error) {
		return lock.Handle{}, fmt.Errorf("redoubt: %w", context.DeadlineExceeded)
	}}
	o := (&Env{}).acquire(t.Context(), w, acquire{block: time.Hour})
	if got := string(o.Append(nil, resp.RESP2)); got != "*-1\r\n" || count.refused.Load() != 1 {
		t.Errorf("answered %q, counted %d refusals; want a null array and 1", got, count.refused.Load())
	}
}
