package proxy

import (
	"bytes"
	"context"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// A Listener is the [ReplyHandler] of a [Dedicated]. It also gets the messages.
type Listener interface {
	ReplyHandler
	// Push takes a message that is no reply: a published message, an
	// invalidation, the confirmation of a subscription, a line of MONITOR.
	// The bytes are valid only during the call. It belongs between the
	// replies where it came. The result is as for Reply.
	Push(raw []byte) (flush bool)
	// Gone is called last, when the connection was lost. By then every command in
	// flight has an answer.
	Gone(err error)
}

// An Accountant is a [Listener] that counts the memory of its connection in this process, so that a limit
// can bound it.
type Accountant interface {
	Listener
	// Account opens a part of the account, for one buffer. hold sets the bytes of that
	// part. It reports false, and sets nothing, when there is no room for them.
	Account() (hold func(bytes int) bool)
}

// accounted is a connection to a server in this process.
type accounted interface {
	SetAccount(part func() (hold func(bytes int) bool))
}

// Expect describes the replies to a command.
type Expect struct {
	// Subscription is set for the commands that are confirmed once for each
	// channel.
	Subscription Subscription
	// Channels is how many channels such a command names. 0 means all, for a
	// command that ends subscriptions.
	Channels int
	// Protocol, when not 0, is the connection's protocol after this reply.
	Protocol resp.Protocol
	// Monitor says that lines of MONITOR follow this reply.
	Monitor bool
	// Vital says that an error is the reply to the next command of the listener too, which depends on this one.
	Vital bool
}

// A Dedicated is a connection for one [Listener] alone. It doesn't reconnect: a
// lost connection loses its state.
type Dedicated struct {
	conn     *conn
	listener Listener
	done     chan struct{}

	// Of the goroutine that reads.
	protocol   resp.Protocol
	monitor    bool
	counts     [families]int64 // subscriptions of each family
	confirming int             // confirmations still to come for the head
	instead    []byte          // the error of a vital command, for the next one

	id        atomic.Int64           // what the server calls the connection; 0: not known; see SendBlocking
	listening atomic.Bool            // monitor, or counts is not zero
	monitors  atomic.Bool            // monitor
	shown     [families]atomic.Int64 // counts
}

// OpenDedicated opens a connection for listener and runs the setup commands on it.
// If one of them fails, so does OpenDedicated. Close the Dedicated after use.
func OpenDedicated(ctx context.Context, o Options, listener Listener, setup ...[]string) (*Dedicated, error) {
	if o.Protocol == 0 {
		o.Protocol = resp.RESP2
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	opts := config{Options: o}
	until := opts.until()
	conn, err := opts.openUntil(ctx, until, setup...)
	if err != nil {
		return nil, err
	}
	d := &Dedicated{
		conn: newConn(conn, false, opts), listener: listener,
		protocol: opts.Protocol, done: make(chan struct{}),
	}
	if c, ok := listener.(Counted); ok {
		d.conn.listener = c
	}
	d.conn.mayDrop = d.mayDrop
	if a, ok := listener.(Accountant); ok {
		d.conn.pendingHeld = a.Account()
		if c, ok := conn.(accounted); ok {
			c.SetAccount(a.Account)
		}
	}
	stay := context.AfterFunc(until, func() { d.conn.close(context.Cause(until)) })
	go d.run(stay)
	return d, nil
}

// run calls stay once the connection can't be given up any more.
func (d *Dedicated) run(stay func() bool) {
	defer close(d.done)
	defer stay()
	err := d.conn.read(4<<10, d.deliver)
	d.conn.close(err)
	d.conn.abandon()
	d.listener.Gone(err)
}

// Send is [Upstream.Send] for n commands with one reply each.
func (d *Dedicated) Send(tag uint64, n int, commands []byte) error {
	return d.conn.send(request{handler: d.listener, tag: tag, n: n}, commands)
}

// SendExpecting is Send for one command with special replies. A command that is
// confirmed once for each channel gets an empty reply behind the last confirmation.
func (d *Dedicated) SendExpecting(tag uint64, e Expect, command []byte) error {
	return d.conn.send(request{handler: d.listener, tag: tag, n: 1, expect: e}, command)
}

// SendScript is [Upstream.SendScript].
func (d *Dedicated) SendScript(tag uint64, cmd *redoubt.Cmd) error {
	return d.conn.sendScript(request{handler: d.listener, tag: tag}, cmd)
}

// SendSilently sends a command and drops its reply.
func (d *Dedicated) SendSilently(e Expect, command []byte) error {
	return d.conn.send(request{n: 1, expect: e}, command)
}

// Flush sends the appended commands.
func (d *Dedicated) Flush() { d.conn.flushPending() }

// Close ends the connection, and with it everything it held on the server. It
// does not wait; the Listener's Gone is called soon after.
func (d *Dedicated) Close() { d.conn.close(errClosed) }

// Listening reports whether messages may come: there are subscriptions, or lines
// of MONITOR. It may be called by any goroutine.
func (d *Dedicated) Listening() bool { return d.listening.Load() }

// Subscriptions returns how many subscriptions of a family there are. It may be called by any
// goroutine.
func (d *Dedicated) Subscriptions(family Subscription) int64 { return d.shown[family].Load() }

// Monitors reports whether lines of MONITOR may come. It may be called by any goroutine.
func (d *Dedicated) Monitors() bool { return d.monitors.Load() }

// alive reports whether the connection is not known to have ended.
func (d *Dedicated) alive() bool {
	d.conn.mu.Lock()
	defer d.conn.mu.Unlock()
	return d.conn.err == nil
}

// Done is closed after Gone has returned.
func (d *Dedicated) Done() <-chan struct{} { return d.done }

// mayDrop reports whether a reply begins with this byte. Replies may be dropped, messages may not.
func (d *Dedicated) mayDrop(first byte) bool {
	return first != '>' && !d.listening.Load() && d.confirming == 0 && d.conn.head() != nil
}

// deliver tells replies from messages. In RESP3 messages have a type of their own.
// Confirmations of subscriptions have it too, although they are replies. In RESP2
// messages are arrays like others, but while there are subscriptions no reply begins
// with their words.
func (d *Dedicated) deliver(raw []byte) error {
	pushed := raw[0] == '>'
	if pushed || raw[0] == '*' && d.protocol == resp.RESP2 {
		family, verb, count := pubsub(raw)
		switch {
		case verb == confirmation && d.confirmed(family, count, raw):
			return nil
		case pushed, verb == message && d.counts != [families]int64{}:
			d.push(raw)
			return nil
		}
	}
	if d.monitor && isMonitorLine(raw) {
		d.push(raw)
		return nil
	}
	e := d.conn.head()
	if e == nil {
		d.push(raw) // a server's farewell, like an idle time-out
		return nil
	}
	if e.expect.Vital && raw[0] == '-' {
		d.instead = bytes.Clone(raw)
	} else if d.instead != nil && e.handler == ReplyHandler(d.listener) {
		raw, d.instead = d.instead, nil
	}
	if raw[0] != '-' {
		if e.expect.Protocol != 0 {
			d.protocol = e.expect.Protocol
		}
		if e.expect.Monitor {
			d.monitor = true
			d.monitors.Store(true)
			d.listening.Store(true)
		}
	}
	d.confirming = 0
	return d.conn.reply(raw)
}

// SendBlocking is [Dedicated.Send] for one command that may wait on the server, like BLPOP:
// [Dedicated.Unblock] ends that. It is not for commands within a transaction.
func (d *Dedicated) SendBlocking(tag uint64, command []byte) error {
	if err := d.AskID(); err != nil {
		return err
	}
	return d.Send(tag, 1, command)
}

// AskID asks the server what it calls the connection, unless that is known: [Dedicated.ID] returns
// it soon after Flush. It is not for use within a transaction.
func (d *Dedicated) AskID() error {
	if d.id.Load() > 0 {
		return nil
	}
	return d.conn.send(request{handler: idHandler{d}, n: 1}, clientID)
}

// LearnID is ID, and waits until the server has told it.
func (d *Dedicated) LearnID(ctx context.Context) (int64, error) {
	if id, known := d.ID(); known {
		return id, nil
	}
	told := make(answer, 1)
	if err := d.conn.send(request{handler: told, n: 1}, clientID); err != nil {
		return 0, err
	}
	d.Flush()
	select {
	case id := <-told:
		if id == noID {
			return 0, errNoID
		}
		d.id.Store(id)
		return id, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// ID returns what the server calls the connection. It reports false when that is not known (yet).
// It may be called by any goroutine.
func (d *Dedicated) ID() (int64, bool) {
	id := d.id.Load()
	return id, id > 0
}

// An idHandler takes the reply to CLIENT ID.
type idHandler struct{ d *Dedicated }

// Reply implements [ReplyHandler].
func (c idHandler) Reply(_ uint64, raw []byte) bool {
	c.d.id.Store(integer(raw))
	return false
}

// Flush implements [ReplyHandler].
func (c idHandler) Flush() {}

// Unblock asks the server, over u, to unblock what runs on the connection. It asks again and
// again until ctx ends, because the command may not be waiting yet. When the server can't be
// asked, it closes the connection.
func (d *Dedicated) Unblock(ctx context.Context, u *Upstream) {
	if !u.unblockAgain(ctx, UnblockError, d.id.Load) && ctx.Err() == nil {
		d.Close()
	}
}

// UnblockOnce asks the server, over u, to unblock what runs on the connection, until it has done so,
// for as long as waits returns true: the command may be under way to the server. It reports whether
// the server did.
func (d *Dedicated) UnblockOnce(ctx context.Context, u *Upstream, how Unblocking, waits func() bool) (bool, error) {
	if err := u.Ready(ctx); err != nil {
		return false, err
	}
	again := time.NewTicker(unblockInterval)
	defer again.Stop()
	for waits() {
		switch id := d.id.Load(); {
		case id == noID:
			return false, errNoID
		case id != 0:
			switch n := u.unblock(ctx, id, how); {
			case n > 0:
				return true, nil
			case ctx.Err() != nil:
				return false, context.Cause(ctx)
			case n == noID:
				return false, errNoID
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	return false, nil
}
