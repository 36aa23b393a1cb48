package proxy

import (
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/latency"
)

// A batch is what left together.
type batch struct {
	last  uint64 // entries ever appended when it left
	first uint64 // commands that left before it
	bytes int
	left  latency.Time
	alone bool   // nothing else was on its way when it left
	buf   []byte // what left, until it has landed; kept for a slow log only
	sent  bool   // the sender no longer uses buf
}

// heard follows each read. It returns the command that was slow, or nil.
func (l *conn) heard() (c *SlowCommand) {
	if l.slow != nil && time.Duration(l.readAt-l.heardAt) >= l.slow.threshold {
		c = l.slowest()
	}
	l.heardAt = l.readAt
	return c
}

// slowest returns the command whose reply comes next if it was sent long ago, or nil.
func (l *conn) slowest() *SlowCommand {
	e := l.head()
	if e == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.batches) == 0 {
		return nil
	}
	f := &l.batches[0]
	took := time.Duration(l.readAt - max(l.heardAt, f.left))
	if took < l.slow.threshold {
		return nil
	}
	c := &SlowCommand{Time: time.Now(), Took: took, Server: l.name, Args: argsOf(f.buf, l.replies-f.first)}
	if who, ok := e.handler.(interface{ Client() string }); ok {
		c.Client = who.Client()
	}
	return c
}

// reuse keeps a buffer for the next batch. The caller holds mu.
func (l *conn) reuse(buf []byte) {
	if cap(buf) <= l.keeps() && len(l.spares) < maxBatches {
		l.spares = append(l.spares, buf[:0])
	}
}

// empty returns a buffer for the next batch. The caller holds mu.
func (l *conn) empty() (buf []byte) {
	if n := len(l.spares); n > 0 {
		buf, l.spares = l.spares[n-1], l.spares[:n-1]
	}
	return buf
}

// latest returns the batch that was sent last if it was kept for the slow log, is not over,
// and is that of buf. The caller holds mu.
func (l *conn) latest(buf []byte) *batch {
	if n := len(l.batches); n > 0 && len(buf) > 0 {
		if f := &l.batches[n-1]; len(f.buf) > 0 && &f.buf[0] == &buf[0] {
			return f
		}
	}
	return nil
}
