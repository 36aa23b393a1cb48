package proxy

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt/resp"
)

// Block is [Exclusive.Ask] for one command that may wait on the server, like BLPOP. When
// moved ends before it has its reply, the server is told to unblock it: the reply is then an
// error with the code UNBLOCKED, or what the command had done already. A server that can't
// be told within the pool's time-out, or 5 s if there is none, has the connection closed as
// if ctx had ended. It costs no round trip more unless moved ends.
func (x *Exclusive) Block(ctx, moved context.Context, command []byte) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	told := make(chan struct{})
	stop := context.AfterFunc(moved, func() {
		defer close(told)
		if !x.unblock(ctx) {
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
		x.d.Close() // who uses it next must not be unblocked
		cancel()
		<-told
	}
	return raw, err
}

var clientID = resp.AppendCommand(nil, "CLIENT", "ID")

// noID is that of a connection whose server doesn't tell it.
const noID = -1

// integer is what a reply to CLIENT ID or to CLIENT UNBLOCK says, or noID.
func integer(raw []byte) int64 {
	if n, ok := resp.ParseInt(bytes.TrimSuffix(raw[1:], []byte("\r\n"))); ok && raw[0] == ':' {
		return n
	}
	return noID
}

// unblockInterval is how long a command takes to be waiting on the server, or its reply
// to come from there.
const unblockInterval = 20 * time.Millisecond

// unblock has the server unblock what runs on the connection, again and again until ctx
// ends. It reports false when that can't be done.
func (x *Exclusive) unblock(ctx context.Context) bool {
	limit := x.node.pool.opts.Timeout
	if limit <= 0 {
		limit = DefaultDialTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	again := time.NewTicker(unblockInterval)
	defer again.Stop()
	for {
		x.mu.Lock()
		id := x.id
		x.mu.Unlock()
		if id == noID || id != 0 && !x.node.unblock(ctx, x.protocol, id) {
			return false
		}
		select {
		case <-again.C: // it was not waiting yet, or its reply is under way
		case <-ctx.Done():
			return false
		}
	}
}

// unblock asks the server once.
func (n *Node) unblock(ctx context.Context, p resp.Protocol, id int64) bool {
	u, err := n.Upstream(p)
	if err != nil {
		return false
	}
	done := make(answer, 1)
	if u.TrySend(done, 0, 1, resp.AppendCommand(nil, "CLIENT", "UNBLOCK", strconv.FormatInt(id, 10), "ERROR")) != nil {
		return false
	}
	u.Flush()
	select {
	case got := <-done:
		return got != noID
	case <-ctx.Done():
		return false
	}
}

// An answer is the Caller of a command whose reply is a number.
type answer chan int64

// Reply implements [Caller].
func (a answer) Reply(_ uint64, raw []byte) bool {
	a <- integer(raw)
	return false
}

// Flush implements [Caller].
func (a answer) Flush() {}
