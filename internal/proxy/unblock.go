package proxy

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// ErrTimeout is the cause of an end of moved that unblocks a command as if its time had run out: see
// [Exclusive.Block].
var ErrTimeout = errors.New("proxy: unblocked as if out of time")

// Block is [Exclusive.Ask] for one command that may wait on the server, like BLPOP. When
// moved ends before the reply comes, the server is told to unblock the command. The reply is then an
// error with the code UNBLOCKED, or the reply of a time-out if the cause is [ErrTimeout], or the
// result if the command has finished first. If the server can't be told within the pool's time-out,
// or 5 s if there is none, the connection is closed as if ctx had ended. Unless moved ends, it costs
// no more round trips.
func (x *Exclusive) Block(ctx, moved context.Context, command []byte) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	told := make(chan struct{})
	stop := context.AfterFunc(moved, func() {
		defer close(told)
		how := UnblockError
		if errors.Is(context.Cause(moved), ErrTimeout) {
			how = UnblockTimeout
		}
		if !x.unblock(ctx, how) {
			cancel()
		}
	})
	x.mu.Lock()
	known := x.id != 0
	x.mu.Unlock()
	var raw []byte
	var err error
	if !known && x.asking { // which is for the next command alone
		x.asking = false
		if _, err = x.ask(ctx, ownID, 1, clientID); err == nil {
			known, x.asking = true, true
		}
	}
	if err != nil {
		// It is answered below.
	} else if known {
		raw, err = x.ask(ctx, firstReply, 1, command)
	} else {
		raw, err = x.ask(ctx, ownID, 2, slices.Concat(clientID, command))
	}
	if !stop() {
		x.d.Close() // a late UNBLOCK must not hit the next user of the connection
		cancel()
		<-told
	}
	return raw, err
}

var clientID = resp.AppendCommand(nil, "CLIENT", "ID")

// noID stands for the id of a connection whose server doesn't tell it.
const noID = -1

// integer returns the number in a reply to CLIENT ID or CLIENT UNBLOCK, or noID.
func integer(raw []byte) int64 {
	if n, ok := resp.ParseInt(bytes.TrimSuffix(raw[1:], []byte("\r\n"))); ok && raw[0] == ':' {
		return n
	}
	return noID
}

// unblockInterval is the time between two attempts to unblock a command. WithTimeout it, a command
// that was sent has usually begun to wait, or its reply has arrived.
const unblockInterval = 20 * time.Millisecond

// unblock asks the server to unblock what runs on the connection, again and again until ctx
// ends. It reports false when the server can't be asked.
func (x *Exclusive) unblock(ctx context.Context, how Unblocking) bool {
	limit := x.node.pool.opts.Timeout
	if limit <= 0 {
		limit = DefaultDialTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	u, err := x.node.Upstream(x.protocol)
	return err == nil && u.unblockAgain(ctx, how, func() int64 {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.id
	})
}

// An Unblocking is how CLIENT UNBLOCK ends a wait.
type Unblocking string

const (
	// UnblockTimeout is as if the time had run out.
	UnblockTimeout Unblocking = "TIMEOUT"
	// UnblockError is with an error.
	UnblockError Unblocking = "ERROR"
)

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

var errNoID = errors.New("the back end doesn't tell the id of a connection, or doesn't know CLIENT UNBLOCK")

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

// unblockAgain reports false when the server can't be asked, or ctx has ended.
func (u *Upstream) unblockAgain(ctx context.Context, how Unblocking, id func() int64) bool {
	again := time.NewTicker(unblockInterval)
	defer again.Stop()
	for {
		if id := id(); id == noID || id != 0 && u.unblock(ctx, id, how) == noID {
			return false
		}
		select {
		case <-again.C: // the command was not waiting yet, or its reply is under way
		case <-ctx.Done():
			return false
		}
	}
}

// unblock asks the server once. It returns the number of unblocked clients, or noID.
func (u *Upstream) unblock(ctx context.Context, id int64, how Unblocking) int64 {
	done := make(answer, 1)
	if u.TrySend(done, 0, 1, resp.AppendCommand(nil, "CLIENT", "UNBLOCK", strconv.FormatInt(id, 10), string(how))) != nil {
		return noID
	}
	u.Flush()
	select {
	case got := <-done:
		return got
	case <-ctx.Done():
		return noID
	}
}

// An answer is the ReplyHandler of a command whose reply is a number.
type answer chan int64

// Reply implements [ReplyHandler].
func (a answer) Reply(_ uint64, raw []byte) bool {
	a <- integer(raw)
	return false
}

// Flush implements [ReplyHandler].
func (a answer) Flush() {}
