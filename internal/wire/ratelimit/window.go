package ratelimit

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
)

// MaxWindow is the largest rate of a window.
const MaxWindow = 100_000

// A Window makes the commands of a sliding window, and reads their replies.
type Window struct {
	keyspace
	limits []Limit
	args   []string // limit and window in µs in turn
}

// NewWindow checks limits and returns the Window of them.
func NewWindow(client *redoubt.Client, suffix string, limits []Limit) (*Window, error) {
	var errs []error
	if len(limits) > MaxLimits {
		errs = append(errs, fmt.Errorf("ratelimit: %d limits at once; want at most %d", len(limits), MaxLimits))
	}
	w := &Window{keyspace: keyspace{client, suffix}}
	for i, l := range limits {
		if err := l.window(); err != nil {
			if i > 0 {
				err = fmt.Errorf("limit %d of And: %w", i-1, err)
			}
			errs = append(errs, err)
		}
		l.Burst = l.Rate
		w.limits = append(w.limits, l)
		w.args = append(w.args, strconv.Itoa(l.Rate), strconv.FormatInt(int64(Micros(int64(l.Period)))/1000, 10))
	}
	return w, errors.Join(errs...)
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

// Key returns the key of the log of calls under name.
func (w *Window) Key(name string) (string, error) { return w.taken(name, "window") }

// Cmd is the command that admits at most most calls under name, and none if it
// would be fewer than least.
func (w *Window) Cmd(name string, most, least int) (redoubt.Cmd, error) {
	if most < 0 {
		return redoubt.Cmd{}, fmt.Errorf("ratelimit: n is %d; want at least 0", most)
	}
	key, err := w.Key(name)
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

// Limits are the limits of the window.
func (w *Window) Limits() []Limit { return w.limits }

// Read reads the reply to [Window.Cmd] for at least n calls.
func (w *Window) Read(r redoubt.Reply, n int) (Decision, error) { return readCount(r, n, w.limits) }

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
