package server

import (
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/proxy/latency"
)

// latencyShards are enough for few sessions that are served at once to have the same one.
const latencyShards = 16

// FamilyRedis is the family of all commands that are not Redoubt's own.
const FamilyRedis = "redis"

// families are the families of commands: FamilyRedis, and the groups of Redoubt's own.
var families = func() []string {
	list := []string{FamilyRedis}
	for _, e := range command.All() {
		if familyIn(list, e.Group) < 0 {
			list = append(list, e.Group)
		}
	}
	return list
}()

const (
	familyRedis = 0
	// unmeasured is for commands that wait for others: how long that takes says nothing of the server.
	unmeasured  = 255
	maxFamilies = 16
)

func familyIn(list []string, name string) int {
	for i, f := range list {
		if f == name {
			return i
		}
	}
	return -1
}

// A timing has a histogram for each family of commands, from its first use on.
type timing [maxFamilies]atomic.Pointer[latency.Shared]

func (t *timing) observe(family uint8, d time.Duration, n uint64) {
	if family == unmeasured {
		return
	}
	h := t[family].Load()
	if h == nil {
		t[family].CompareAndSwap(nil, new(latency.Shared))
		h = t[family].Load()
	}
	h.Observe(d, n)
}

// A timer measures how long commands of a client take, from the read of a command to when its reply can be
// written in order. The output's mu guards it.
type timer struct {
	meter latency.Meter
	to    *timing
	// alone: no other goroutine reads the clock when replies to this client come.
	alone atomic.Bool
}

// readItNow notes that what comes next has just been read.
func (r *responder) readItNow() { r.readAt = latency.Now() }

// askedAt notes that all commands before next had been read at a time, and belong to a family as far as nothing
// is known of them.
func (o *output) askedAt(next uint64, at latency.Time, family uint8) {
	o.mu.Lock()
	o.meter.Begin(next, at, family)
	o.mu.Unlock()
}

// belongs says that what f adds to the commands belongs to a family.
func (r *responder) belongs(family uint8, f func()) {
	r.out.askedAt(r.next, r.readAt, familyRedis)
	f()
	r.out.askedAt(r.next, r.readAt, family)
}

// measureReplies notes which commands have their replies. The caller holds mu.
func (o *output) measureReplies() {
	now := latency.Last()
	if o.alone.Load() {
		now = latency.Now()
	}
	o.meter.End(o.head.Load(), now, o.to.observe)
}
