package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
)

// A FailureMode is how Allow, AllowN and AllowMany of a [Limiter] answer when the
// server is unreachable, too slow, or replies with an error. Decision.Degraded is
// then set, except with FailWithError.
//
// It doesn't apply when the caller's ctx has ended, nor to a fault of the call
// itself, like [ErrNotConfigured]: both are always errors. The other methods have
// no sensible answer without the server, and always return the error.
type FailureMode uint8

const (
	// FailWithError returns the error. This is the default.
	FailWithError FailureMode = iota
	// FailOpen allows the call.
	FailOpen
	// FailClosed refuses the call, with a RetryAfter of Options.Timeout.
	FailClosed
	// FailLocal applies the same limits in this process, beginning with all
	// tokens: N processes together allow up to N times as much. It can't be
	// combined with Options.Stored.
	FailLocal
)

const defaultTimeout = time.Second

// errNoAnswer is the cause of a Decision while the server is considered away.
var errNoAnswer = errors.New("ratelimit: the server has not answered in time")

// failure decides for a Limiter without the server.
type failure struct {
	mode    FailureMode
	timeout time.Duration
	base    time.Time
	// away is until when the server is not asked after a missing answer, counted from
	// base; 0 while it answers.
	away  *atomic.Int64
	local *localLimits
}

func newFailure(opts Options) (failure, error) {
	var errs []error
	f := failure{mode: opts.OnFailure, timeout: opts.Timeout, base: time.Now(), away: new(atomic.Int64), local: &localLimits{}}
	switch f.mode {
	case FailWithError:
		if f.timeout != 0 {
			errs = append(errs, errors.New("ratelimit: Timeout needs an OnFailure other than FailWithError"))
		}
	case FailOpen, FailClosed, FailLocal:
		if f.timeout < 0 {
			errs = append(errs, fmt.Errorf("ratelimit: Timeout is %v; want more than 0", f.timeout))
		}
		if f.timeout == 0 {
			f.timeout = defaultTimeout
		}
		if f.mode == FailLocal && opts.Stored {
			errs = append(errs, errors.New("ratelimit: OnFailure FailLocal can't be combined with Stored"))
		}
	default:
		errs = append(errs, fmt.Errorf("ratelimit: OnFailure is %d; want FailWithError, FailOpen, FailClosed or FailLocal", f.mode))
	}
	return f, errors.Join(errs...)
}

// guard asks the server, and decides by OnFailure if that fails.
func (l *Limiter) guard(ctx context.Context, name string, n int, ask func(context.Context) (Decision, error)) (d Decision, err error) {
	if l.failure.mode == FailWithError {
		return ask(ctx)
	}
	err = l.reach(ctx, func(ctx context.Context) error {
		d, err = ask(ctx)
		return err
	})
	if err != nil {
		return l.failed(ctx, name, n, err)
	}
	return d, nil
}

// reach calls ask with a timeout, unless the server is considered away.
func (l *Limiter) reach(ctx context.Context, ask func(context.Context) error) error {
	f := &l.failure
	if f.mode == FailWithError {
		return ask(ctx)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.isAway() {
		return errNoAnswer
	}
	within, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	err := ask(within)
	if err == nil && f.away.Load() != 0 {
		f.away.Store(0)
	}
	return err
}

// isAway reports whether the server is considered away. After Timeout the first caller
// asks it again; the others don't until that is answered.
func (f *failure) isAway() bool {
	away := f.away.Load()
	if away == 0 {
		return false
	}
	now := time.Since(f.base)
	return int64(now) < away || !f.away.CompareAndSwap(away, int64(now+f.timeout))
}

// failed decides a call that the server has not answered.
func (l *Limiter) failed(ctx context.Context, name string, n int, err error) (Decision, error) {
	f := &l.failure
	if f.mode == FailWithError || errors.Is(err, ErrNotConfigured) || ctx.Err() != nil {
		return Decision{}, err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		f.away.Store(int64(time.Since(f.base) + f.timeout))
	}
	return l.degraded(name, n, err)
}

// degraded decides without the server, because of err.
func (l *Limiter) degraded(name string, n int, err error) (Decision, error) {
	f := &l.failure
	d := Decision{Allowed: f.mode == FailOpen, Violated: -1}
	if f.mode == FailLocal {
		key, err := l.wire.Key(name)
		if err != nil {
			return Decision{}, err
		}
		d = f.local.take(key, l.wire.Terms(), int64(n), time.Since(f.base))
	} else if !l.wire.Stored() {
		d.Limit = Limit(l.wire.Terms().Limits[0])
	}
	switch f.mode {
	case FailOpen:
		d.Taken = n
	case FailClosed:
		d.RetryAfter = f.timeout
	case FailWithError, FailLocal:
	}
	d.Degraded = err
	return d, nil
}

// localLimits keeps limits in this process, with the arithmetic of gcra.lua.
type localLimits struct {
	mu    sync.Mutex
	tats  map[string]*[MaxLimits]int64 // ns
	sweep int                          // the number of names at which to drop full ones
}

// minSweep is the number of names below which none is dropped.
const minSweep = 1024

// take takes n tokens of every limit, or none.
func (m *localLimits) take(key string, t *wire.Terms, n int64, now time.Duration) Decision {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tats == nil {
		m.tats, m.sweep = map[string]*[MaxLimits]int64{}, minSweep
	}
	tats := m.tats[key]
	if tats == nil {
		if len(m.tats) >= m.sweep {
			m.forget(now)
		}
		tats = new([MaxLimits]int64)
		m.tats[key] = tats
	}
	o, next := wire.Outcome{First: 1}, *tats
	for i, g := range t.Rates {
		o.Ahead[i] = max(tats[i]-int64(now), 0)
		ahead := wire.Add(o.Ahead[i], g.Cost(n))
		if ahead > g.Tolerance {
			o.First = 0
		}
		next[i] = wire.Add(int64(now), ahead)
	}
	if o.First == 1 {
		*tats = next
		for i := range t.Rates {
			o.Ahead[i] = next[i] - int64(now)
		}
	}
	return decision(t.Decide(o, o.First*n, n))
}

// forget drops the names that have all their tokens. It runs each time that the number of
// names has doubled, so its cost for each name is small.
func (m *localLimits) forget(now time.Duration) {
	for key, tats := range m.tats {
		full := true
		for _, tat := range tats {
			full = full && tat <= int64(now)
		}
		if full {
			delete(m.tats, key)
		}
	}
	m.sweep = max(minSweep, 2*len(m.tats))
}
