package proxy

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// ErrTimeout is the cause of an end of moved that unblocks a command as if its time had run out: see
// [Exclusive.Block].
var ErrTimeout = errors.New("proxy: unblocked as if out of time")

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

// unblockInterval is the time between two attempts to unblock a command. After it, a command
// that was sent has usually begun to wait, or its reply has arrived.
const unblockInterval = 20 * time.Millisecond

// An Unblocking is how CLIENT UNBLOCK ends a wait.
type Unblocking string

const (
	// UnblockTimeout is as if the time had run out.
	UnblockTimeout Unblocking = "TIMEOUT"
	// UnblockError is with an error.
	UnblockError Unblocking = "ERROR"
)

var errNoID = errors.New("the back end doesn't tell the id of a connection, or doesn't know CLIENT UNBLOCK")

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
