package queue

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
)

// waitSlice bounds how long a consumer sleeps without a pump. It is the delay that a
// process causes which dies after it was woken. A shorter lease bounds the sleep too, so
// that another consumer knows of each lease before it is over.
const waitSlice = 10 * time.Second

// wait blocks on the wake-up marker whenever it is armed. It wakes the pump when it got
// the marker, when the slice is over, and after any error. Its connection carries no
// message, so a dropped connection loses none.
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
		// A server that is silent for longer than the command's timeout is gone.
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

// pauses are the random times between attempts, from 10 ms to a second.
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
