package engine

import (
	"strconv"
	"time"
)

// A command of a script keeps the script's shards, and SCRIPT KILL can't stop the script while the
// command runs. So a command that goes over much data counts its work, and checks now and then
// whether the script must end. It does so before it changes anything. A command outside a script is
// never stopped: it takes as long as in Redis.

const errStopped = "ERR the command was stopped: its script has to end"

// A stopped is the panic that ends a command whose script must end. scriptHost.Call finds the
// reason.
type stopped struct{}

// stepsPerCheck is the number of steps between two checks. A step takes some ten nanoseconds.
const stepsPerCheck = 1 << 16

const (
	bytesPerStep    = 32 // compared, copied or counted
	stepsPerMember  = 16 // to look for a member, or to add one
	stepsPerElement = 4  // of a list, to reply with it or to add it
)

// work counts n steps. It may end the command, so the command must not have changed anything yet.
func (c *call) work(n int) {
	if c.worked += n; c.worked >= stepsPerCheck {
		c.checkInterrupt()
	}
}

// inParts calls f for one part of n bytes after the other. It counts times passes over each byte.
func (c *call) inParts(n, times int, f func(from, to int)) {
	const part = 64 << 10
	for from := 0; from < n; from += part {
		to := min(from+part, n)
		f(from, to)
		c.work((to - from) * times / bytesPerStep)
	}
}

// workBytes counts one pass over n bytes.
func (c *call) workBytes(n int) { c.work(n / bytesPerStep) }

// workElement counts the work of adding an element to a value.
func (c *call) workElement(b []byte) { c.work(2*stepsPerMember + len(b)/bytesPerStep) }

// longValue is the length in bytes from which a script checks for its end while it copies a value.
const longValue = 1 << 20

// copied is [clone] of a value that may be long.
func (c *call) copied(b []byte) []byte {
	if own := c.copiedIfLong(b); own != nil {
		return own
	}
	return clone(b)
}

// copiedIfLong returns nil for a value that is short enough to be copied without a check.
func (c *call) copiedIfLong(b []byte) []byte {
	if c.running == nil || len(b) < longValue {
		return nil
	}
	out := make([]byte, len(b))
	c.inParts(len(b), 1, func(from, to int) { copy(out[from:to], b[from:to]) })
	return out
}

// longBulk is bulk for a value that may be long. The command must not have changed anything yet.
func (c *call) longBulk(b []byte) {
	if c.running == nil || len(b) < longValue {
		c.bulk(b)
		return
	}
	c.room(len(b))
	if n := len(c.w) + len(b) + replySlack; n > cap(c.w) {
		grown := make([]byte, len(c.w), n) // which does not touch the memory, as append does
		copy(grown, c.w)
		c.w = grown
	}
	c.w = strconv.AppendInt(append(c.w, '$'), int64(len(b)), 10)
	c.w = append(c.w, '\r', '\n')
	c.inParts(len(b), 1, func(from, to int) { c.w = append(c.w, b[from:to]...) })
	c.w = append(c.w, '\r', '\n')
}

// mostRemoved is how many elements a command of a script removes one by one, which can't be stopped
// halfway. With more, the command makes a new value of the elements that stay.
const mostRemoved = 1 << 15

// workMatch counts the work of comparing a name with a pattern.
func (c *call) workMatch(pattern []byte, name string) { c.work(2 + (len(pattern)+len(name))/2) }

// checkInterrupt ends the command when its script must end.
func (c *call) checkInterrupt() {
	c.worked = 0
	r := c.running
	if r == nil {
		return
	}
	if r.onCheck != nil {
		r.onCheck()
	}
	if r.interrupt.IsSet() || !r.deadline.IsZero() && time.Now().After(r.deadline) {
		panic(stopped{})
	}
}
