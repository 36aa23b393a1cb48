package queue

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
)

// waitSlice bounds how long a consumer sleeps without looking at the queue: what it
// costs when the process dies that was woken. A lease that is shorter bounds it too,
// so that each lease is known to somebody else before it is over.
const waitSlice = 10 * time.Second

// wait waits for the marker whenever it is armed, and wakes the pump: when it has
// come, when the slice is over, and after any trouble. The connection is one for
// commands that block. It carries no message, so nothing is lost with it.
func (c *consumer) wait(ctx context.Context) {
	slice := min(waitSlice, c.opts.Lease)
	cmd := redoubt.Cmd{
		Name: "BZPOPMIN", Keys: []string{c.keys.Wake()},
		Args: []string{strconv.FormatFloat(slice.Seconds(), 'f', 3, 64)}, Flags: redoubt.Blocking,
	}
	var p pauses
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.arm:
		}
		// A server that says nothing for longer than it was asked to is gone.
		bound, cancel := context.WithTimeout(ctx, slice+2*time.Second)
		err := c.client.Do(bound, cmd).Err
		cancel()
		if ctx.Err() != nil {
			return
		}
		c.waiting.Store(false)
		select {
		case c.woken <- struct{}{}:
		default:
		}
		if err != nil {
			p.sleep(ctx.Done())
		} else {
			p.n = 0
		}
	}
}

// pauses are the times between attempts, from 10 ms to a second, at random.
type pauses struct{ n int }

func (p *pauses) sleep(stop <-chan struct{}) {
	d := min(10*time.Millisecond<<min(p.n, 10), time.Second)
	p.n++
	t := time.NewTimer(d/2 + rand.N(d/2)) //nolint:gosec // no secret
	defer t.Stop()
	select {
	case <-t.C:
	case <-stop:
	}
}
