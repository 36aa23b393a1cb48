package server

import "github.com/redoubt-go/redoubt/internal/proxy/latency"

// latencyShards are enough for few sessions that are served at once to have the same one.
const latencyShards = 16

// A timer measures how long commands of a client take, in front of a pool. The output's
// mu guards it.
type timer struct {
	meter latency.Meter
	to    *latency.Shared // nil: nothing is measured
}

// readItNow notes that what comes next has just been read.
func (c *session) readItNow() {
	if c.out.to != nil {
		c.readAt = latency.Now()
	}
}

// askedAt notes that all commands before next had been read at a time.
func (o *output) askedAt(next uint64, at latency.Time) {
	if o.to == nil {
		return
	}
	o.mu.Lock()
	o.meter.Begin(next, at)
	o.mu.Unlock()
}

// measureReplies notes which commands have their replies. The caller holds mu.
func (o *output) measureReplies() {
	if o.to != nil {
		o.meter.End(o.head.Load(), latency.Last(), o.to.Observe)
	}
}
