package server

import (
	"bytes"
	"context"
	"net"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/proxy"
	"github.com/redoubt-go/redoubt/resp"
)

// A Session runs a client's commands inside of this process: see
// [Options.Sessions]. It is for one goroutine at a time.
type Session interface {
	// Run runs a command and appends its reply to dst. When the command has to
	// wait it waits, until ctx ends. The arguments are only read, and not kept.
	Run(ctx context.Context, dst []byte, args [][]byte) []byte
	// Quick reports whether a command takes microseconds, unless it has to wait
	// or replies with a large value.
	Quick(args [][]byte) bool
	// TryRun is Run for those who can't wait. When the command would have to,
	// nothing is run or appended, and ran is false.
	TryRun(dst []byte, args [][]byte) (out []byte, ran bool)
	// Sync waits until what the replies so far depend on is as safe as the
	// back end promises. After an error none of those since the last Sync may
	// leave; its text is the error reply that takes their place.
	Sync() error
	// Synced reports whether Sync would return at once.
	Synced() bool
	// SetProtocol changes the version in which replies are written.
	SetProtocol(p resp.Protocol)
	// SetAccount sets what counts the memory of a reply that is being made. Each call of part
	// opens a part of it, for one buffer. hold sets the bytes of that part, and reports false
	// when there is no room for them: then the reply is an error.
	SetAccount(part func() (hold func(bytes int) bool))
	// HandedOver tells that the replies so far are counted elsewhere from now on.
	HandedOver()
	// Close forgets the session.
	Close()
}

// A local is what a client needs to have its commands run here, in the
// goroutine that reads them: a poller's, or one of its own. Its replies come at
// once, so they are in order without the ring of slots. The zero value is a
// client whose commands are sent to its upstream.
type local struct {
	session Session
	replies []byte // to the commands of the span
	line    []byte // a command made here
	scanner resp.CommandScanner
}

// handOver is how many bytes of replies gather before they are written while
// more commands run.
const handOver = 64 << 10

// here reports whether commands are run in this goroutine: a connection of the
// client's own, which holds state, comes first.
func (c *session) here() bool { return c.local.session != nil && c.dedicated == nil }

func (c *session) openLocal(conn net.Conn) {
	if open := c.srv.opts.Sessions; open != nil {
		c.local.session = open(conn)
		c.local.session.SetAccount(c.Account)
		c.local.scanner.Limits = c.srv.opts.Limits
	}
}

func (c *session) closeLocal() {
	if c.local.session != nil {
		c.local.session.Close()
	}
}

// runHere runs a command of the span.
func (c *session) runHere(args [][]byte) {
	l := &c.local
	if c.span.n == 0 {
		c.span.tag = c.next
	}
	c.span.n++
	c.next++
	l.replies = c.execute(l.replies, args)
	if len(l.replies) >= handOver {
		c.sendSpan()
		c.out.Flush()
	}
}

// execute runs a command and appends its reply to dst.
func (c *session) execute(dst []byte, args [][]byte) []byte {
	if c.turn == 0 {
		return c.local.session.Run(c.ctx, dst, args)
	}
	s, p, before := c.local.session, c.poller, len(dst)
	if p.slow.has(args) {
		c.stepAside()
		began := time.Now()
		dst = s.Run(c.ctx, dst, args)
		if time.Since(began) < aside/2 && len(dst)-before < large/2 {
			p.slow.forget(args)
		}
		return dst
	}
	quick := s.Quick(args)
	var began time.Time
	if !quick {
		began = time.Now()
		p.guard()
	}
	dst, ran := s.TryRun(dst, args)
	if !ran {
		c.stepAside()
		return s.Run(c.ctx, dst, args)
	}
	if !quick && time.Since(began) >= aside || len(dst)-before >= large {
		p.slow.add(args)
	}
	if len(dst) >= handOver {
		c.stepAside() // it takes as long to write
	}
	return dst
}

// sync is the session's Sync.
func (c *session) sync() error {
	if c.turn != 0 && !c.local.session.Synced() {
		c.stepAside()
	}
	return c.local.session.Sync()
}

// deliver hands over the replies to the n commands from tag on.
func (c *session) deliver(tag uint64, n int) {
	l := &c.local
	if err := c.sync(); err != nil {
		l.replies = resp.AppendError(l.replies[:0], err.Error())
		c.quit = c.quit || n > 1 // an error takes the place of many: there is no telling them apart
	}
	if cap(l.replies) > maxIdleOutput {
		l.session.HandedOver()
	}
	l.replies = c.out.replies(tag, n, l.replies)
}

// runLine runs one command here, as it is on the wire, and returns its reply.
func (c *session) runLine(raw []byte) []byte {
	l := &c.local
	if n, err := l.scanner.Next(raw); err != nil || n != len(raw) {
		return resp.AppendError(nil, "ERR redoubt: internal error")
	}
	reply := c.execute(nil, l.scanner.Args())
	err := c.sync()
	if cap(reply) > maxIdleOutput {
		l.session.HandedOver()
	}
	if err != nil {
		return resp.AppendError(nil, err.Error())
	}
	return reply
}

// runScript runs a script here, loading it when it is missing.
func (c *session) runScript(cmd *redoubt.Cmd) []byte {
	c.local.line = proxy.AppendEvalSHA(c.local.line[:0], cmd)
	reply := c.runLine(c.local.line)
	if bytes.HasPrefix(reply, noScript) {
		reply = c.runLine(proxy.AppendEval(nil, cmd))
	}
	return reply
}

var noScript = []byte("-NOSCRIPT ")
