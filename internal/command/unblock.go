package command

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// How [Unblocker.Unblock] ends a wait.
var (
	// ErrTimedOut: as if the time to wait had run out.
	ErrTimedOut = errors.New("command: unblocked as if out of time")
	// ErrUnblocked: with an error.
	ErrUnblocked = errors.New("command: unblocked with an error")
)

// UnblockedReply is the error reply to a command that was unblocked with [ErrUnblocked].
const UnblockedReply = "UNBLOCKED client unblocked via CLIENT UNBLOCK"

// An Unblocker ends the wait of one [Plan] while its client stays: CLIENT UNBLOCK. Its methods may
// be called by many goroutines at once.
type Unblocker struct {
	ctx   context.Context //nolint:containedctx // the wait
	end   context.CancelCauseFunc
	waits atomic.Bool
	ended atomic.Bool
}

type unblockerKey struct{}

// WithUnblocker returns the context for a [Plan]'s Wait, which ends with ctx alone, and what
// unblocks it. Call stop when Wait has returned.
func WithUnblocker(ctx context.Context) (with context.Context, u *Unblocker, stop func()) {
	u = &Unblocker{}
	with = context.WithValue(ctx, unblockerKey{}, u)
	u.ctx, u.end = context.WithCancelCause(with)
	return with, u, func() { u.end(nil) }
}

// Waiting returns the part of a Wait's ctx in which the command waits for others: it ends with ctx,
// and when the client is unblocked. A command that never calls it can't be unblocked.
func Waiting(ctx context.Context) context.Context {
	u, ok := ctx.Value(unblockerKey{}).(*Unblocker)
	if !ok {
		return ctx
	}
	u.waits.Store(true)
	return u.ctx
}

// Unblocked returns how the client was unblocked, or nil if it was not. A command that calls it
// answers accordingly.
func Unblocked(ctx context.Context) error {
	u, ok := ctx.Value(unblockerKey{}).(*Unblocker)
	select {
	case <-ctx.Done(): // by its client or the server
		return nil
	default:
	}
	if !ok {
		return nil
	}
	how := context.Cause(u.ctx)
	if how != nil {
		u.ended.Store(true)
	}
	return how
}

// Waits reports whether the command waits for others.
func (u *Unblocker) Waits() bool { return u.waits.Load() && u.ctx.Err() == nil }

// Unblock ends the wait: how is [ErrTimedOut] or [ErrUnblocked]. It reports false when the command
// doesn't wait.
func (u *Unblocker) Unblock(how error) bool {
	if !u.Waits() {
		return false
	}
	u.end(how)
	return true
}

// Ended reports whether the command's answer is that it was unblocked.
func (u *Unblocker) Ended() bool { return u.ended.Load() }

func unblockedOutcome() Outcome {
	return Outcome{Append: func(dst []byte, _ resp.Protocol) []byte { return resp.AppendError(dst, UnblockedReply) }}
}
