package engine

import "time"

// A command that a script runs keeps the script's shards, and the script can't be stopped
// while the command runs. So what goes over much data counts its work, and looks now and
// then whether the script has to end. It does so before it changes anything. A command that
// no script runs is never stopped: it takes as long as in Redis.

const errStopped = "ERR the command was stopped: its script has to end"

// A stopped is the panic that ends a command whose script has to end. The script finds
// the reason by itself: see scriptHost.Call.
type stopped struct{}

// stepsPerLook is how many steps pass between two looks. A step is some ten nanoseconds.
const stepsPerLook = 1 << 16

const (
	bytesPerStep   = 32 // compared, copied or counted
	stepsPerMember = 16 // to look for a member, or to add one
)

// work counts n steps. It may end the command, so nothing may have been changed.
func (c *call) work(n int) {
	if c.worked += n; c.worked >= stepsPerLook {
		c.look()
	}
}

// inParts calls f for one part of n bytes after the other, and counts each byte as often
// as it is gone over.
func (c *call) inParts(n, times int, f func(from, to int)) {
	const part = 64 << 10
	for from := 0; from < n; from += part {
		to := min(from+part, n)
		f(from, to)
		c.work((to - from) * times / bytesPerStep)
	}
}

// workMatch counts what it takes to compare a name with a pattern.
func (c *call) workMatch(pattern []byte, name string) { c.work(2 + (len(pattern)+len(name))/2) }

// look ends the command when its script has to end.
func (c *call) look() {
	c.worked = 0
	r := c.running
	if r == nil {
		return
	}
	if r.looked != nil {
		r.looked()
	}
	if r.interrupt.IsSet() || !r.deadline.IsZero() && time.Now().After(r.deadline) {
		panic(stopped{})
	}
}
