package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

const (
	maxIdle  = 64               // connections of a server that are kept for the next who needs one
	idleTime = 30 * time.Second // and for how long at least
)

// An Exclusive is a connection to a server of a pool that one client borrows, for a command that occupies
// a connection, like BLPOP, or leaves state in it, like WATCH. One goroutine at a time may use it.
type Exclusive struct {
	node     *Node
	d        *Dedicated
	protocol resp.Protocol
	asking   bool      // before the next command
	since    time.Time // when it was given back; guarded by Node.mu

	mu    sync.Mutex
	left  int   // replies still to come
	id    int64 // what the server calls the connection; see Block
	raw   []byte
	payer Counted       // nil: nobody counts
	fault *Fault        // the last reply was this, and not the server's; nil: it was
	all   chan struct{} // gets a value when left is 0 again
}

// Ask sends n commands and returns their replies, one after the other. When the connection is lost, an
// error reply takes the place of each missing reply. When ctx ends before the last reply, Ask closes the
// connection and returns both: the replies, with errors for the missing ones, and an error. There are no
// replies if nothing was sent.
func (x *Exclusive) Ask(ctx context.Context, n int, commands []byte) ([]byte, error) {
	return x.ask(ctx, firstReply, n, commands)
}

// Fault returns why the last reply to [Exclusive.Ask] is missing; nil: the server sent it. Call it before
// Return.
func (x *Exclusive) Fault() *Fault { return x.fault }

// Asking says that the next command is for a slot that is still on its way to this node: see
// [Attempt].
func (x *Exclusive) Asking() { x.asking = true }

// The tag of the first command says what its reply is for.
const (
	ownID      = iota // of the connection
	firstReply        // for the caller of Ask
)

// ask is Ask with the tag of the first command.
func (x *Exclusive) ask(ctx context.Context, first uint64, n int, commands []byte) ([]byte, error) {
	x.mu.Lock()
	x.left, x.raw, x.fault = n, nil, nil
	x.mu.Unlock()
	stop := context.AfterFunc(ctx, x.d.Close)
	defer stop()
	if x.asking {
		x.asking = false
		if err := x.d.SendSilently(Expect{}, askingRaw); err != nil {
			return nil, err
		}
	}
	if err := x.d.Send(first, n, commands); err != nil {
		return nil, err
	}
	x.d.Flush()
	<-x.all
	raw := x.raw
	x.raw = nil // which may be large, and the connection idle for long
	if !stop() {
		x.d.Close() // now, so that nobody borrows it
		if x.fault != nil {
			return raw, fmt.Errorf("%w: %w", context.Cause(ctx), x.fault)
		}
	}
	return raw, nil
}

// Return makes the connection available to others. It closes a lost connection.
func (x *Exclusive) Return() {
	n := x.node
	x.CountBy(nil)
	n.mu.Lock()
	delete(n.lent, x)
	keep := !n.closed && len(n.idle) < maxIdle && x.d.alive()
	if keep {
		x.since = time.Now()
		n.idle = append(n.idle, x)
		if n.trimmer == nil {
			n.trimmer = time.AfterFunc(idleTime, n.trim)
		}
	}
	n.mu.Unlock()
	if !keep {
		x.d.Close()
	}
}

// Close ends the connection, and with it all that it held on the server. It may be
// called while another goroutine asks.
func (x *Exclusive) Close() {
	x.node.mu.Lock()
	delete(x.node.lent, x)
	x.node.mu.Unlock()
	x.d.Close()
}

// CountBy sets the counter of the memory of replies, until Return: see [Counted].
func (x *Exclusive) CountBy(c Counted) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.payer = c
}

func (x *Exclusive) counted() Counted {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.payer
}

// Reply implements [ReplyHandler].
func (x *Exclusive) Reply(tag uint64, raw []byte) bool { return x.take(tag, raw, nil) }

// Fail implements [Failer].
func (x *Exclusive) Fail(tag uint64, f *Fault) bool { return x.take(tag, f.Reply(), f) }

func (x *Exclusive) take(tag uint64, raw []byte, f *Fault) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if tag == ownID {
		x.id = integer(raw)
	} else {
		x.raw, x.fault = append(x.raw, raw...), f
	}
	if x.left--; x.left == 0 {
		x.all <- struct{}{}
	}
	return false
}

// Flush implements [ReplyHandler].
func (x *Exclusive) Flush() {}

// Push implements [Listener]: nothing is subscribed to.
func (x *Exclusive) Push([]byte) bool { return false }

// Gone implements [Listener].
func (x *Exclusive) Gone(error) {}

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
