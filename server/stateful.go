package server

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/proxy"
	"github.com/redoubt-go/redoubt/resp"
)

var noDeadline time.Time

// dedicate gives the client a connection of its own, with its protocol and
// name, once everything it sent before has been answered. It reports false
// when the command has been answered with an error instead.
func (c *session) dedicate() bool {
	if c.dedicated != nil {
		return true
	}
	c.leave()
	if !c.settle() {
		return false
	}
	c.out.Flush() // connecting may take long
	opts := c.srv.proxyOptions(c.protocol)
	opts.Scripts = nil // the shared connection has loaded them; one that is missing is sent again
	var setup [][]string
	if name := c.shownName(); name != "" {
		setup = append(setup, []string{"CLIENT", "SETNAME", name})
	}
	ctx, cancel := context.WithTimeout(c.ctx, proxy.DefaultDialTimeout)
	defer cancel()
	d, err := proxy.OpenDedicated(ctx, opts, c, setup...)
	if err != nil {
		c.refused(err)
		return false
	}
	c.dedicated = d
	c.detached.Store(false)
	c.srv.stats.dedicated.Add(1)
	c.own.Store(d)
	if c.out.failed() {
		d.Close() // killed meanwhile
	}
	return true
}

// refused answers a command for which no connection could be opened.
func (c *session) refused(cause error) {
	c.srv.stats.backendErrors.Add(1)
	if refused, ok := errors.AsType[resp.Error](cause); ok {
		c.fail(string(refused)) // as the back end put it
		return
	}
	c.scratch = append(c.scratch[:0], proxy.UnreachableReply(c.srv.opts.Backend.Name(), cause)...)
	c.reply(c.scratch)
}

// undedicate closes the client's own connection, and with it all state.
func (c *session) undedicate() {
	c.endWatch()
	c.endSubscriptions()
	if c.dedicated == nil {
		return
	}
	c.detached.Store(true)
	c.dedicated.Close()
	<-c.dedicated.Done()
	c.own.Store(nil)
	c.dedicated = nil
	c.scripted = 0
	c.tracked.Swap(nil).release()
	c.shown(func(a *about) { a.readonly, a.watches, a.behind = false, false, "" })
	c.srv.stats.dedicated.Add(-1)
}

// occupy is for commands that hold or change their connection and have one
// reply.
func (c *session) occupy(_ [][]byte, raw []byte) {
	c.commands[Passed]++
	if c.dedicate() {
		c.forward(raw, nil)
	}
}

// readOnly is occupy for READONLY and READWRITE.
func (c *session) readOnly(args [][]byte, raw []byte) {
	c.commands[Passed]++
	on := bytes.EqualFold(args[0], []byte("READONLY"))
	if c.dedicate() {
		c.forward(raw, func(dst, raw []byte) []byte {
			if bytes.Equal(raw, okRaw) {
				c.shown(func(a *about) { a.readonly = on })
			}
			return append(dst, raw...)
		})
	}
}

// blockingCommand is occupy for commands that may wait.
func (c *session) blockingCommand(_ [][]byte, raw []byte) {
	c.commands[Passed]++
	if c.dedicate() {
		c.forwardBlocking(raw)
	}
}

// forwardBlocking sends a command that may wait on the dedicated connection.
func (c *session) forwardBlocking(raw []byte) {
	if c.tx.active { // in which it doesn't wait
		c.forward(raw, nil)
		return
	}
	if !c.settleScript() {
		return
	}
	t := c.tag()
	c.out.prepare(t, slot{change: c.orHangUp, mute: c.muted, blocks: true})
	if err := c.dedicated.SendBlocking(t, raw); err != nil {
		c.unsent(t, err)
	}
}

// orHangUp is the reply to a command that has waited, unless [session.hangUp] has ended that.
func (c *session) orHangUp(dst, raw []byte) []byte {
	if c.hanging.Load() && (bytes.HasPrefix(raw, unblockedCode) || proxy.MayHaveRun(raw)) {
		c.out.hungUp = true // mu is held
		return dst
	}
	return append(dst, raw...)
}

// hangUp ends what the client waits for on the back end, when the server ends. Like Redis, it
// closes the client without a reply; but what the command has taken already is told. Other
// commands have their replies.
func (c *session) hangUp() {
	o := &c.out
	written := func() bool { return len(o.buf) == 0 && !o.writing }
	over := func() bool { return o.head.Load() == c.next && written() }
	if c.dedicated == nil || !o.await(noDeadline, func() bool { return over() || o.slot(o.head.Load()).blocks && written() }) {
		return
	}
	c.hanging.Store(true)
	ctx, cancel := context.WithCancel(context.Background())
	var asking sync.WaitGroup
	asking.Go(func() { c.dedicated.Unblock(ctx, c.upstream) })
	o.await(noDeadline, func() bool { return over() || o.hungUp && written() })
	cancel()
	asking.Wait()
}

// stream is for XREAD and XREADGROUP, which wait when they have BLOCK before
// STREAMS.
func (c *session) stream(args [][]byte, raw []byte) {
	if blocks(args[1:]) {
		c.blockingCommand(args, raw)
		return
	}
	c.commands[Passed]++
	c.forward(raw, nil)
}

// blocks reads options as the back end does: what stands behind GROUP and
// COUNT is no option, whatever it looks like.
func blocks(options [][]byte) bool {
	for i := 0; i < len(options); i++ {
		switch o := options[i]; {
		case bytes.EqualFold(o, []byte("BLOCK")):
			return true
		case bytes.EqualFold(o, []byte("STREAMS")):
			return false
		case bytes.EqualFold(o, []byte("GROUP")):
			i += 2
		case bytes.EqualFold(o, []byte("COUNT")):
			i++
		}
	}
	return false
}

// wait is for WAIT and WAITAOF, which wait until replicas have what the same
// connection wrote. What the client wrote before went over another one, so a
// PING first brings this one up to date: the server notes its offset after
// every command.
func (c *session) wait(_ [][]byte, raw []byte) {
	c.commands[Passed]++
	if !c.dedicate() {
		return
	}
	if !c.tx.active {
		// A failure to send shows in the next line.
		_ = c.dedicated.SendSilently(proxy.Expect{}, pingRaw)
	}
	c.forwardBlocking(raw)
}

func (c *session) scriptOrFunction(args [][]byte, raw []byte) {
	switch {
	case len(args) > 1 && bytes.EqualFold(args[1], []byte("KILL")):
		c.commands[Passed]++
		c.killScript(raw)
	case len(args) > 1 && bytes.EqualFold(args[1], []byte("DEBUG")):
		c.commands[Local]++
		if c.tx.active {
			c.tx.broken = true
		}
		c.fail("ERR redoubt: SCRIPT DEBUG is not supported through redoubt: connect to the back end itself")
	default:
		c.commands[Passed]++
		c.forward(raw, nil)
	}
}

// killScript ends a script. The shared connection may be the one that waits for
// it, and the back end answers BUSY to almost everything else, so that a
// connection for this client could not be prepared.
func (c *session) killScript(raw []byte) {
	if c.dedicated != nil {
		c.forward(raw, nil)
		return
	}
	if !c.settle() {
		return
	}
	c.out.Flush()
	ctx, cancel := context.WithTimeout(c.ctx, proxy.DefaultDialTimeout)
	defer cancel()
	reply, err := proxy.AskOnce(ctx, c.srv.opts.Backend, raw)
	refused, failed := reply.(resp.Error)
	switch {
	case err != nil:
		c.refused(err)
	case failed:
		c.fail(string(refused))
	default:
		c.ok()
	}
}

// subscription is for commands that are confirmed once for each channel.
func subscription(family proxy.Subscription) func(c *session, args [][]byte, raw []byte) {
	return func(c *session, args [][]byte, raw []byte) {
		c.commands[Passed]++
		if c.tx.active {
			c.refuseQueued(string(bytes.ToUpper(args[0])))
			return
		}
		if !c.dedicate() {
			return
		}
		// In RESP2 too, confirmations come even when CLIENT REPLY is OFF.
		c.forwardExpecting(raw, nil, proxy.Expect{Subscription: family, Channels: len(args) - 1})
	}
}

func (c *session) monitor(_ [][]byte, raw []byte) {
	c.commands[Passed]++
	if c.tx.active {
		c.refuseQueued("MONITOR")
		return
	}
	if c.dedicate() {
		c.forwardExpecting(raw, nil, proxy.Expect{Monitor: true})
	}
}

func (c *session) replication(args [][]byte, _ []byte) {
	c.commands[Local]++
	if c.tx.active {
		c.tx.broken = true
	}
	c.fail("ERR redoubt: " + string(bytes.ToUpper(args[0])) + " is not supported through redoubt: replicate from the back end itself")
}

// selectDB answers for the database that everybody uses, and moves the client
// for another one.
func (c *session) selectDB(args [][]byte, raw []byte) {
	n, ok := resp.ParseInt(args[1])
	home := int64(c.srv.opts.Backend.Database())
	if c.dedicated == nil && ok && n == home {
		c.commands[Local]++
		c.ok()
		return
	}
	c.commands[Passed]++
	if !ok {
		c.forward(raw, nil) // which changes nothing; the back end says why
		return
	}
	if !c.dedicate() {
		return
	}
	// It counts once it was done, which for a transaction is at EXEC.
	c.forward(raw, func(dst, raw []byte) []byte {
		if bytes.Equal(raw, okRaw) {
			c.elsewhere = n != home
			c.shown(func(a *about) { a.shownDB = int(n) })
		}
		return append(dst, raw...)
	})
}

// setProtocol switches a client that has no commands in flight, and whose own
// connection, if it has one, speaks the protocol already.
func (c *session) setProtocol(p resp.Protocol) error {
	if p == c.protocol {
		return nil
	}
	if c.srv.inPool() {
		c.upstream = nil // chosen by the next key
	} else {
		u, err := c.srv.upstream(p)
		if err != nil {
			return err
		}
		c.upstream = u
	}
	c.protocol = p
	if c.local.session != nil {
		c.local.session.SetProtocol(p)
	}
	c.shown(func(a *about) { a.shownProtocol = p })
	return nil
}
