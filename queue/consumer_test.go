package queue_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/queue"
)

// bubble runs a test in a bubble of testing/synctest, whose time passes when nobody
// works, with an engine behind a network that can be cut.
func bubble(t *testing.T, f func(t *testing.T, client *redoubt.Client, net *network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e, err := engine.Open(t.Context(), engine.Options{})
		must(t, err)
		defer func() { _ = e.Close() }()
		net := &network{Conn: e}
		client, err := redoubt.New(net, redoubt.Options{})
		must(t, err)
		defer client.Close()
		f(t, client, net)
	})
}

// A network loses what it is told to.
type network struct {
	redoubt.Conn
	cut   atomic.Bool                                 // nothing comes through
	loses func(cmd redoubt.Cmd, r redoubt.Reply) bool // the reply to cmd; nil: none
}

func (n *network) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	if !n.cut.Load() {
		if r := n.Conn.Do(ctx, cmd); n.loses == nil || !n.loses(cmd, r) {
			return r
		}
	}
	<-ctx.Done()
	return redoubt.Reply{Err: redoubt.UnknownOutcome(ctx.Err())}
}

func queueOn(t *testing.T, client *redoubt.Client, opts queue.Options) *queue.Queue[string] {
	t.Helper()
	q, err := queue.New[string](client, opts)
	must(t, err)
	return q
}

// However few messages come at a time, no more batches are at work than places.
func TestBatchesAtOnce(t *testing.T) {
	for _, places := range []int{1, 3} {
		bubble(t, func(t *testing.T, client *redoubt.Client, _ *network) {
			q := queueOn(t, client, queue.Options{})
			ctx, cancel := context.WithCancel(t.Context())
			var calls, most, handled atomic.Int64
			ended := make(chan error, 1)
			go func() {
				ended <- q.RunBatch(ctx, "q", func(_ context.Context, batch []*queue.Delivery[string]) []error {
					if n := calls.Add(1); n > most.Load() {
						most.Store(n)
					}
					time.Sleep(time.Second)
					calls.Add(-1)
					handled.Add(int64(len(batch)))
					return nil
				}, queue.BatchOptions{Size: 40, Concurrency: places})
			}()
			for i := range 30 {
				_, err := q.Put(ctx, "q", fmt.Sprint(i))
				must(t, err)
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(5 * time.Second)
			cancel()
			must(t, <-ended)
			if most.Load() != int64(places) || handled.Load() != 30 {
				t.Errorf("%d batches at once, want %d; %d messages were handled", most.Load(), places, handled.Load())
			}
		})
	}
}
