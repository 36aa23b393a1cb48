package engine

import (
	"strconv"
	"time"
)

// A command that a script runs keeps the script's shards, and the script can't be stopped
// while the command runs. So what goes over much data counts its work, and looks now and
// then whether the script has to end. It does so before it changes anything. A command that
// no script runs is never stopped: it takes as long as in Redis.

const errStopped = "ERR the command was stopped: its script has to end"

// A stopped is the panic that ends a command whose script has to end. The script finds
// the reason by itself: see scriptHost.Call.
type stopped struct{}

// stepsPerCheck is how many steps pass between two looks. A step is some ten nanoseconds.
const stepsPerCheck = 1 << 16

const (
	bytesPerStep    = 32 // compared, copied or counted
	stepsPerMember  = 16 // to look for a member, or to add one
	stepsPerElement = 4  // of a list, to reply with it or to add it
)

// work counts n steps. It may end the command, so nothing may have been changed.
func (c *call) work(n int) {
	if c.worked += n; c.worked >= stepsPerCheck {
		c.checkInterrupt()
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

// workBytes counts n bytes that were gone over.
func (c *call) workBytes(n int) { c.work(n / bytesPerStep) }

// workElement counts what it takes to add an element to a value.
func (c *call) workElement(b []byte) { c.work(2*stepsPerMember + len(b)/bytesPerStep) }

// longValue is the length in bytes from which a script's copy of a value looks.
const longValue = 1 << 20

// copied is [clone] of a value that may be long.
func (c *call) copied(b []byte) []byte {
	if own := c.copiedIfLong(b); own != nil {
		return own
	}
	return clone(b)
}

// copiedIfLong returns nil for a value that is copied without a look.
func (c *call) copiedIfLong(b []byte) []byte {
	if c.running == nil || len(b) < longValue {
		return nil
	}
	out := make([]byte, len(b))
	c.inParts(len(b), 1, func(from, to int) { copy(out[from:to], b[from:to]) })
	return out
}

// longBulk is bulk for a value that may be long, of a command that has changed nothing yet.
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

// mostRemoved is how many elements a command of a script removes one by one, which can't be
// stopped halfway. When there are more it makes a new value of what stays.
const mostRemoved = 1 << 15

// workMatch counts what it takes to compare a name with a pattern.
func (c *call) workMatch(pattern []byte, name string) { c.work(2 + (len(pattern)+len(name))/2) }

// checkInterrupt ends the command when its script has to end.
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
