package queue

import (
	"context"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
)

// keep extends the leases of messages with long-running handlers. It ends a handler's
// context when its lease is lost: another consumer has the message, it was cancelled, or
// the server could not be reached until the lease was nearly over by this process's
// clock.
func (c *consumer) keep(ctx context.Context) {
	every := min(c.opts.Lease/6, 2500*time.Millisecond)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, receipts := range c.aging(every) {
			sent := time.Now()
			call, cancel := context.WithTimeout(redoubt.Patient(ctx), every)
			held, err := wire.ReadFlags(c.client.Do(call, wire.ExtendCmd(c.keys, c.opts.Lease, receipts...)))
			cancel()
			if err == nil {
				c.extended(receipts, held, sent)
			} else if ctx.Err() == nil {
				c.client.Report(ctx, redoubt.Event{Kind: redoubt.EventRenewalFailed, Primitive: "queue", Name: c.name, Err: err})
			}
		}
		c.loseOverdue(every)
	}
}

// aging returns the receipts that are due for an extension, in chunks of what one call
// takes.
func (c *consumer) aging(age time.Duration) (chunks [][]string) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for receipt, h := range c.held {
		if h.lost || now.Sub(h.proven) < age {
			continue
		}
		if n := len(chunks); n == 0 || len(chunks[n-1]) == wire.MaxSettle {
			chunks = append(chunks, nil)
		}
		last := &chunks[len(chunks)-1]
		*last = append(*last, receipt)
	}
	return chunks
}

func (c *consumer) extended(receipts []string, held []bool, sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, receipt := range receipts {
		h := c.held[receipt]
		switch {
		case h == nil || i >= len(held): // the handler has returned
		case held[i]:
			h.proven = sent
		default:
			h.lost = true
			h.end(ErrLeaseLost)
		}
	}
}

// loseOverdue ends the contexts of handlers whose lease would be over before the next
// tick. It still settles their results, because the server may not have ended the lease.
func (c *consumer) loseOverdue(margin time.Duration) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.held {
		if now.Add(margin).Sub(h.proven) > c.opts.Lease {
			h.overdue = true
			h.end(ErrLeaseLost)
		}
	}
}
