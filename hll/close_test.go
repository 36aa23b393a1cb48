package hll_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/hll"
)

// silent is a server that never answers.
type silent struct{}

func (silent) Do(ctx context.Context, _ redoubt.Cmd) redoubt.Reply {
	<-ctx.Done()
	return redoubt.Reply{Err: ctx.Err()}
}

func (s silent) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	replies := make([]redoubt.Reply, len(cmds))
	for i := range replies {
		replies[i] = s.Do(ctx, cmds[i])
	}
	return replies
}

// Close gives up when the server does not answer within 10 seconds, and says how much it has not
// sent. The clock is the bubble's.
//
// Promise: Close sends counts for at most 10 seconds and says how much it could not send.
func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := redoubt.New(silent{}, redoubt.Options{DownAfter: -1})
		must(t, err)
		v, err := hll.New(client, hll.Options{FlushEvery: time.Hour})
		must(t, err)
		must(t, v.Add("p", "x"))
		began := time.Now()
		err = v.Close()
		is(t, err, context.DeadlineExceeded)
		says(t, err, "bytes of counts are not sent")
		if took := time.Since(began); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("Close gave up after %v, want 10s", took)
		}
		must(t, client.Close())
	})
}
