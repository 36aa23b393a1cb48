package ratelimit

import (
	"context"
	"errors"
	"fmt"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
)

// WindowOptions configure a [Window]. Limit must be set.
type WindowOptions struct {
	// Limit is the limit of each name: at most Rate calls in any Period. The Rate is at
	// most [MaxWindow]. The Period is at least a microsecond, and is rounded up to whole
	// microseconds. A window has no burst of its own: Burst is 0 or the Rate.
	Limit Limit

	// And are further limits, as in [Options]. All limits share one log.
	And []Limit

	// Scope says who shares the log. Defaults to Overall.
	Scope Scope
}

// A Window admits at most a number of calls in any period of a given length, for each of
// any number of names, by a log of their times: the sliding-window log. It refuses a call
// only if that many lie in the period before it. Unlike a
// [Limiter] it admits all of them at once, at any time, after a period without calls. It
// costs the memory of the log, and admits the next call only when the oldest one leaves
// the window.
//
// All methods may be called by many goroutines at once, and each costs one round trip. A
// Window keeps nothing between calls and need not be closed.
//
// The log is one string, "<prefix>:{<name>}:window", with 8 bytes for each call in the
// longest window, and up to half as much room to grow. It has only admitted calls, and
// expires with the last one.
type Window struct {
	keyspace
	wire *wire.Window
}

// NewWindow returns a Window on client. It sends nothing. The error joins all
// that is wrong with the options.
func NewWindow(client *redoubt.Client, opts WindowOptions) (*Window, error) {
	keys, err := newKeyspace(client, opts.Scope)
	errs := []error{err}
	if client == nil {
		errs = append(errs, errors.New("ratelimit: client is nil"))
	}
	w, err := wire.NewWindow(client, keys.suffix, wireLimits(opts.Limit, opts.And))
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Window{keys, w}, nil
}

// Allow admits one call under name, if there is room for it. See [Window.AllowN].
func (w *Window) Allow(ctx context.Context, name string) (Decision, error) {
	return w.AllowN(ctx, name, 1)
}

// AllowN admits n calls under name, all of them or none. A refusal leaves no
// trace. n = 0 admits nothing, and Allowed tells whether there is room for a call;
// a negative n is an error. As with
// [Limiter.AllowN] a call is never sent twice, and the error of one whose reply
// was lost matches redoubt.ErrUnknownOutcome.
func (w *Window) AllowN(ctx context.Context, name string, n int) (Decision, error) {
	cmd, err := w.wire.Cmd(name, n, n)
	if err != nil {
		return Decision{}, err
	}
	d, err := w.wire.Read(w.client.Do(ctx, cmd), n)
	return reported(ctx, w.client, name, n, decision(d), err)
}

// TakeUpTo admits up to n calls under name, at least 1, as far as the window has room:
// Decision.Taken says how many.
func (w *Window) TakeUpTo(ctx context.Context, name string, n int) (Decision, error) {
	if n < 1 {
		return Decision{}, fmt.Errorf("ratelimit: n is %d; want at least 1", n)
	}
	cmd, err := w.wire.Cmd(name, n, 0)
	if err != nil {
		return Decision{}, err
	}
	d, err := w.wire.Read(w.client.Do(ctx, cmd), 1)
	return reported(ctx, w.client, name, n, decision(d), err)
}

// Reset removes the calls under name from the log. It may be sent again after a lost
// reply.
func (w *Window) Reset(ctx context.Context, name string) error {
	key, err := w.wire.Key(name)
	if err != nil {
		return err
	}
	return w.client.Do(ctx, redoubt.Cmd{Name: "DEL", Keys: []string{key}, Flags: redoubt.Idempotent}).Err
}
