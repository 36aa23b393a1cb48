package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
)

// WindowOptions configure a [Window]. Limit must be set.
type WindowOptions struct {
	// Limit is what each name is held to: at most Rate calls in any Period.
	// The Rate is at most [MaxWindow], the Period at least a microsecond, to
	// which it is rounded up. A window has no burst of its own: Burst is 0 or
	// the Rate.
	Limit Limit

	// And are further limits that a call must keep to as well, as in
	// [Options]. All share one log.
	And []Limit

	// Scope says who shares the log. Defaults to Overall.
	Scope Scope
}

// MaxWindow is the largest Rate of a [Window]: its log takes 8 bytes a call, and a script
// 7 ms to write that many. A [Limiter] has no such bound.
const MaxWindow = 100_000

// A Window holds each of any number of names to a number of calls in any period
// of a given length, exactly, by a log of their times: the sliding-window log.
// Unlike a [Limiter] it lets all of them come at once at any time, if none were
// made in the period before; it costs the memory of the log, and gives way only
// when the oldest call leaves the window.
//
// All methods may be called by many goroutines at once, and each costs one
// round trip. A Window keeps nothing between calls and need not be closed.
//
// The log is one string, "<prefix>:{<name>}:window", of 8 bytes for each call
// that is still in the longest window, and up to half as much room. It holds
// calls that were admitted and no others, and expires with the last.
type Window struct {
	keyspace
	limits []Limit
	args   []string // limit and window in µs in turn
}

// NewWindow returns a Window on client. It sends nothing. The error joins all
// that is wrong with the options.
func NewWindow(client *redoubt.Client, opts WindowOptions) (*Window, error) {
	keys, err := newKeyspace(client, opts.Scope)
	errs := []error{err}
	if client == nil {
		errs = append(errs, errors.New("ratelimit: client is nil"))
	}
	if len(opts.And) >= MaxLimits {
		errs = append(errs, fmt.Errorf("ratelimit: %d limits at once; want at most %d", 1+len(opts.And), MaxLimits))
	}
	w := &Window{keyspace: keys}
	for i, l := range append([]Limit{opts.Limit}, opts.And...) {
		if err := l.window(); err != nil {
			if i > 0 {
				err = fmt.Errorf("limit %d of And: %w", i-1, err)
			}
			errs = append(errs, err)
		}
		l.Burst = l.Rate
		w.limits = append(w.limits, l)
		w.args = append(w.args, strconv.Itoa(l.Rate), strconv.FormatInt(int64(micros(int64(l.Period)))/1000, 10))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return w, nil
}

// window returns all that is wrong with the limit as that of a [Window].
func (l Limit) window() error {
	var errs []error
	if l.Rate < 1 || l.Rate > MaxWindow {
		errs = append(errs, fmt.Errorf("ratelimit: rate is %d; want 1 to %d", l.Rate, MaxWindow))
	}
	if l.Period <= 0 {
		errs = append(errs, fmt.Errorf("ratelimit: period is %v; want more than 0", l.Period))
	}
	if l.Burst != 0 && l.Burst != l.Rate {
		errs = append(errs, fmt.Errorf("ratelimit: burst is %d; a window has none but its rate: want 0 or %d", l.Burst, l.Rate))
	}
	return errors.Join(errs...)
}

// Allow admits one call under name, if there is room for it. See
// [Window.AllowN].
func (w *Window) Allow(ctx context.Context, name string) (Decision, error) {
	return w.AllowN(ctx, name, 1)
}

// AllowN admits n calls under name, all of them or none. A refusal leaves no
// trace. n = 0 is [Window.Peek]; a negative n is an error. As with
// [Limiter.AllowN] a call is never sent twice, and the error of one whose reply
// was lost matches redoubt.ErrUnknownOutcome.
func (w *Window) AllowN(ctx context.Context, name string, n int) (Decision, error) {
	cmd, err := w.cmd(name, n, n)
	if err != nil {
		return Decision{}, err
	}
	return readCount(w.client.Do(ctx, cmd), n, w.limits)
}

// TakeUpTo admits as many calls under name as there is room for, at most n,
// which is at least 1: Decision.Taken says how many.
func (w *Window) TakeUpTo(ctx context.Context, name string, n int) (Decision, error) {
	if n < 1 {
		return Decision{}, fmt.Errorf("ratelimit: n is %d; want at least 1", n)
	}
	cmd, err := w.cmd(name, n, 0)
	if err != nil {
		return Decision{}, err
	}
	return readCount(w.client.Do(ctx, cmd), 1, w.limits)
}

// Peek answers what [Window.Allow] would and admits nothing. It may be sent
// again after a lost reply.
func (w *Window) Peek(ctx context.Context, name string) (Decision, error) {
	return w.AllowN(ctx, name, 0)
}

// Reset forgets the calls that were made under name. It may be sent again after
// a lost reply.
func (w *Window) Reset(ctx context.Context, name string) error {
	key, err := w.taken(name, "window")
	if err != nil {
		return err
	}
	return w.client.Do(ctx, redoubt.Cmd{Name: "DEL", Keys: []string{key}, Flags: redoubt.Idempotent}).Err
}

// cmd is the command that admits at most most calls under name, and none if it
// would be fewer than least.
func (w *Window) cmd(name string, most, least int) (redoubt.Cmd, error) {
	if most < 0 {
		return redoubt.Cmd{}, fmt.Errorf("ratelimit: n is %d; want at least 0", most)
	}
	key, err := w.taken(name, "window")
	if err != nil {
		return redoubt.Cmd{}, err
	}
	// More than MaxWindow at once is more than any limit.
	args := []string{strconv.Itoa(min(most, MaxWindow+1)), strconv.Itoa(min(least, MaxWindow+1))}
	cmd := redoubt.Cmd{Script: windowScript, Keys: []string{key}, Args: slices.Concat(args, w.args)}
	if most == 0 {
		cmd.Flags = redoubt.ReadOnly
	}
	return cmd, nil
}

// readCount reads the reply of a script that counts: taken, by, left, retry_us
// and reset_us, for at least n calls.
func readCount(r redoubt.Reply, n int, limits []Limit) (Decision, error) {
	var v [5]int64
	if err := r.Ints(v[:]); err != nil {
		return Decision{}, err
	}
	if v[1] < 0 || v[1] >= int64(len(limits)) {
		return Decision{}, fmt.Errorf("ratelimit: reply names limit %d of %d", v[1], len(limits))
	}
	d := Decision{
		Taken:      int(v[0]),
		Limit:      limits[v[1]],
		Violated:   -1,
		Remaining:  int(v[2]),
		ResetAfter: time.Duration(v[4]) * time.Microsecond,
	}
	d.Allowed = d.Taken > 0 || n == 0 && d.Remaining > 0
	if !d.Allowed {
		d.Violated = int(v[1])
		d.RetryAfter = time.Duration(v[3]) * time.Microsecond
		if max(n, 1) > d.Limit.Burst {
			d.RetryAfter = Never
		}
	}
	return d, nil
}
