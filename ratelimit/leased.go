package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
)

// LeasedOptions configure a [Leased].
type LeasedOptions struct {
	// Tokens is how many tokens one holder takes in advance at most, beyond the tokens
	// that callers wait for: 1 to the Burst of the limit, and at most 100,000. More tokens
	// save round trips; fewer are shared more evenly among holders. Defaults to 100, or to
	// Burst if that is less.
	Tokens int
	// TTL is how long the tokens may be used after they were taken: at least 1 ms.
	// Defaults to 1 s.
	TTL time.Duration
}

const (
	defaultLease = 100
	minLeaseTTL  = time.Millisecond
)

// A Leased decides for a [Limiter] in this process, almost always without a round trip.
// It takes k tokens at a time from the server in advance and gives them to callers: about
// one round trip for k calls.
//
// Over a long time the rate is the limit's, because every token was taken from the limit;
// but a token may be used up to TTL later. In any time W, N holders together use at most
//
//	B + r·W + min(N·k, r·TTL)
//
// tokens, where B is Burst, r the rate, and each Leased is one holder. Use the Limiter
// itself where B + r·W must hold exactly.
//
// A holder takes at most half of the tokens that are left, unless its callers need more,
// so that other holders get some when tokens are short. Tokens that it doesn't use for
// half a TTL go back to the server, less the tokens that have come back there by
// themselves. A crashed holder loses at most k tokens.
//
// All methods may be called by many goroutines at once. Close a Leased after use.
type Leased struct {
	limiter *Limiter
	most    int64
	ttl     time.Duration
	base    time.Time // the zero of its times
	seed    maphash.Seed
	shards  [leaseShards]leaseShard
	sweeps  struct {
		sync.Mutex
		timer   *time.Timer
		closed  bool
		returns map[chan struct{}]struct{} // returns under way, each closed at its end
	}
}

const leaseShards = 64

// leaseShard has a part of the names. A local decision is made under its lock, which is
// quicker than a finer lock.
type leaseShard struct {
	mu     sync.Mutex
	closed bool
	leases map[string]*lease
	_      [40]byte // shards on cache lines of their own
}

// lease is the tokens that a holder has of one name. Times count from Leased.base.
type lease struct {
	left    int64         // tokens to give out
	until   time.Duration // when the tokens lapse
	granted int64         // when the first of them were taken, by the server's clock in µs
	by      *wire.Terms   // the limits under which they were taken
	used    time.Duration // when the last one was given out

	asking bool       // a call for more is under way
	queue  []*waiting // the callers that wait for it, oldest first

	// The last answer of the server.
	terms   *wire.Terms
	outcome wire.Outcome
	at      time.Duration // when it was asked
	last    Decision
	// By that answer this many more tokens are refused, until this process gives
	// tokens back.
	refused      int64
	refusedUntil time.Duration
	given        uint64
}

// NewLeased returns a Leased on limiter. It sends nothing. The error joins all
// that is wrong with the options.
func NewLeased(limiter *Limiter, opts LeasedOptions) (*Leased, error) {
	if limiter == nil {
		return nil, errors.New("ratelimit: limiter is nil")
	}
	burst := maxCoalesced
	for _, l := range limiter.wire.Terms().Limits { // none when they are stored
		burst = min(burst, l.Burst)
	}
	if opts.Tokens == 0 {
		opts.Tokens = min(defaultLease, burst)
	}
	if opts.TTL == 0 {
		opts.TTL = time.Second
	}
	var errs []error
	if opts.Tokens < 1 || opts.Tokens > burst {
		errs = append(errs, fmt.Errorf("ratelimit: Tokens is %d; want 1 to %d, the burst", opts.Tokens, burst))
	}
	if opts.TTL < minLeaseTTL {
		errs = append(errs, fmt.Errorf("ratelimit: TTL is %v; want at least %v", opts.TTL, minLeaseTTL))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	l := &Leased{limiter: limiter, most: int64(opts.Tokens), ttl: opts.TTL, base: time.Now(), seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i].leases = map[string]*lease{}
	}
	return l, nil
}

// Allow takes one token of the limit called name, if there is one. See
// [Leased.AllowN].
func (l *Leased) Allow(ctx context.Context, name string) (Decision, error) {
	return l.AllowN(ctx, name, 1)
}

// AllowN takes n tokens of the limit called name, all of them or none. It takes them from
// the leased tokens, or leases more in one round trip. A call for more than
// LeasedOptions.Tokens, or for none, goes to the Limiter. A refusal is repeated without a
// round trip until RetryAfter has passed, for a second at most.
//
// Remaining and ResetAfter are the last answer of the server, with the tokens that are
// leased here. When the server doesn't answer, Options.OnFailure of the Limiter decides.
// After [Leased.Close] the error is redoubt.ErrClosed.
func (l *Leased) AllowN(ctx context.Context, name string, n int) (Decision, error) {
	if n <= 0 || int64(n) > l.most {
		if l.isClosed() {
			return Decision{}, redoubt.ErrClosed
		}
		return l.limiter.AllowN(ctx, name, n)
	}
	d, err := l.take(ctx, name, int64(n))
	return reported(ctx, l.limiter.client, name, n, d, err)
}

// take takes tokens that are leased, or are then.
func (l *Leased) take(ctx context.Context, name string, need int64) (Decision, error) {
	s := &l.shards[maphash.String(l.seed, name)%leaseShards]
	s.mu.Lock()
	now := time.Since(l.base)
	h := s.leases[name]
	if h != nil && h.left >= need && now < h.until {
		d := h.give(need, now)
		s.mu.Unlock()
		return d, nil
	}
	if s.closed {
		s.mu.Unlock()
		return Decision{}, redoubt.ErrClosed
	}
	if h == nil {
		if _, err := l.limiter.wire.Key(name); err != nil {
			s.mu.Unlock()
			return Decision{}, err
		}
		h = &lease{}
		s.leases[name] = h
		l.sweepLater()
	}
	if !h.asking {
		h.asking = true
		return l.turn(ctx, s, h, name, need)
	}
	w := &waiting{n: need, done: make(chan struct{})}
	h.queue = append(h.queue, w)
	s.mu.Unlock()
	return l.wait(ctx, s, h, name, w)
}

// ask takes more tokens from the server, for a caller that needs need of them and for the
// callers in the queue. done is false when the server gave them and the earlier tokens
// have been used meanwhile. s.mu is held, and released during the call.
func (l *Leased) ask(ctx context.Context, s *leaseShard, h *lease, name string, need int64, now time.Duration) (_ Decision, done bool, _ error) {
	least := need - h.left
	wanted := least
	for _, w := range h.queue {
		wanted += w.n
	}
	most := max(wanted, min(h.share(l.limiter, now), l.most-h.left))
	given := l.limiter.denials.given(name)
	s.mu.Unlock()

	var o wire.Outcome
	var t *wire.Terms
	err := l.limiter.reach(ctx, func(ctx context.Context) (err error) {
		o, t, err = l.limiter.upTo(ctx, name, most)
		return err
	})

	s.mu.Lock()
	if h.left > 0 && (time.Since(l.base) >= h.until || err == nil && !slices.Equal(h.by.Limits, t.Limits)) {
		l.giveBack(h.take(name)) // they have lapsed, or belong to other limits
	}
	if err != nil {
		d, err := l.limiter.failed(ctx, name, int(need), err)
		return d, true, err
	}
	if h.left == 0 {
		// It lapses counted from the sending: the server took the tokens later.
		h.until, h.granted, h.by = now+l.ttl, o.Now, t
	}
	h.left += o.First
	h.terms, h.outcome, h.at, h.used, h.given = t, o, now, now, given
	h.last = decision(t.Decide(o, o.First, 1))
	h.last.Allowed, h.last.RetryAfter, h.last.Violated = true, 0, -1
	if o.First < most {
		after, _ := t.Retry(o, max(least-o.First, 1))
		if after == Never || after > maxDeny {
			after = maxDeny
		}
		h.refused, h.refusedUntil = max(least-o.First, 1), now+after
	} else {
		h.refusedUntil = 0
	}
	switch {
	case h.left >= need:
		return h.give(need, now), true, nil
	case o.First == most:
		return Decision{}, false, nil
	}
	return h.refuse(need, now), true, nil
}

// give gives out tokens. There are enough of them.
func (h *lease) give(n int64, now time.Duration) Decision {
	h.left -= n
	h.used = now
	d := h.last
	d.Taken = int(n)
	d.Remaining += int(h.left)
	d.ResetAfter = max(0, d.ResetAfter-(now-h.at))
	return d
}

// share is how many tokens to take in advance: half of what should be left on the
// server.
func (h *lease) share(l *Limiter, now time.Duration) int64 {
	t, o, passed := h.terms, h.outcome, int64(now-h.at)
	if t == nil {
		t, o, passed = l.wire.Terms(), wire.Outcome{}, 0
	}
	half := int64(maxCoalesced)
	for i, g := range t.Rates {
		half = min(half, (g.Tolerance-max(o.Ahead[i]-passed, 0))/g.Interval/2)
	}
	return half
}

// refuse returns the refusal of more tokens than are left.
func (h *lease) refuse(need int64, now time.Duration) Decision {
	d := decision(h.terms.Refuse(h.outcome, need-h.left, now-h.at))
	d.Remaining += int(h.left)
	return d
}

// unused is tokens to give back.
type unused struct {
	name    string
	n       int64
	granted int64
	by      *wire.Terms
}

// take takes the tokens out of a lease.
func (h *lease) take(name string) unused {
	u := unused{name, h.left, h.granted, h.by}
	h.left = 0
	return u
}

// giveBack gives tokens back in the background.
func (l *Leased) giveBack(all ...unused) {
	l.background(func() { l.tryReturn(all) })
}

// background runs f, which [Leased.Flush] and [Leased.Close] wait for.
func (l *Leased) background(f func()) {
	done := make(chan struct{})
	l.sweeps.Lock()
	if l.sweeps.returns == nil {
		l.sweeps.returns = map[chan struct{}]struct{}{}
	}
	l.sweeps.returns[done] = struct{}{}
	l.sweeps.Unlock()
	l.limiter.client.Go(func() {
		defer func() {
			l.sweeps.Lock()
			defer l.sweeps.Unlock()
			delete(l.sweeps.returns, done)
			close(done)
		}()
		f()
	})
}

// tryReturn gives tokens back. If that fails they are lost, and the limit is only
// stricter.
func (l *Leased) tryReturn(all []unused) {
	ctx, cancel := context.WithTimeout(redoubt.Patient(context.Background()), cancelTimeout)
	defer cancel()
	_ = l.returnAll(ctx, all)
}

// returnAll gives tokens back by the limits under which they were taken: others may be
// stored now. It is sent once, because tokens that are given back twice are too many.
func (l *Leased) returnAll(ctx context.Context, all []unused) error {
	var cmds []redoubt.Cmd
	var errs []error
	for _, u := range all {
		if u.n == 0 {
			continue
		}
		key, err := l.limiter.wire.Key(u.name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		cmds = append(cmds, wire.ReturnCmd(key, u.granted, u.by, u.n))
	}
	if len(cmds) == 0 {
		return errors.Join(errs...)
	}
	for _, r := range l.limiter.client.Pipeline(ctx, cmds) {
		errs = append(errs, r.Err)
	}
	for _, u := range all {
		l.limiter.denials.forget(u.name)
	}
	return errors.Join(errs...)
}

// sweepLater sets the timer unless it is set.
func (l *Leased) sweepLater() {
	l.sweeps.Lock()
	defer l.sweeps.Unlock()
	if l.sweeps.timer == nil && !l.sweeps.closed {
		l.sweeps.timer = time.AfterFunc(l.ttl/2, func() { l.background(l.sweep) })
	}
}

// sweep gives back tokens that were not used for half a TTL, and drops names without
// tokens.
func (l *Leased) sweep() {
	l.sweeps.Lock()
	l.sweeps.timer = nil // a lease that is made from here on may be missed, and sets it again
	l.sweeps.Unlock()
	now := time.Since(l.base)
	var back []unused
	kept := 0
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		for name, h := range s.leases {
			if !h.asking && (now >= h.until || now-h.used >= l.ttl/2) {
				if h.left > 0 {
					back = append(back, h.take(name))
				}
				if now >= h.refusedUntil {
					delete(s.leases, name)
					continue
				}
			}
			kept++
		}
		s.mu.Unlock()
	}
	if kept > 0 {
		l.sweepLater()
	}
	l.tryReturn(back)
}

// Flush gives all unused leased tokens back to the server now, and goes on. After an error,
// or the end of ctx, they stay taken until they come back by themselves. So do tokens whose
// return in the background has failed; Flush waits for such returns, but doesn't report
// their errors. It costs one round trip for all names.
func (l *Leased) Flush(ctx context.Context) error {
	if l.isClosed() {
		return redoubt.ErrClosed
	}
	return l.flush(ctx, false)
}

func (l *Leased) isClosed() bool {
	l.sweeps.Lock()
	defer l.sweeps.Unlock()
	return l.sweeps.closed
}

// Close gives all unused leased tokens back, as [Leased.Flush] does, within 3 s.
// Later calls fail with redoubt.ErrClosed. Close may be called more than once.
func (l *Leased) Close() error {
	ctx, cancel := context.WithTimeout(redoubt.Patient(context.Background()), cancelTimeout)
	defer cancel()
	return l.flush(ctx, true)
}

func (l *Leased) flush(ctx context.Context, closing bool) error {
	var back []unused
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		s.closed = s.closed || closing
		for name, h := range s.leases {
			back = append(back, h.take(name))
		}
		if closing {
			clear(s.leases)
		}
		s.mu.Unlock()
	}
	// The tokens of every lease are in back, or in a return that is under way.
	l.sweeps.Lock()
	if closing {
		l.sweeps.closed = true
		if l.sweeps.timer != nil {
			l.sweeps.timer.Stop()
		}
	}
	returns := slices.Collect(maps.Keys(l.sweeps.returns))
	l.sweeps.Unlock()
	err := l.returnAll(ctx, back)
	for _, done := range returns {
		select {
		case <-done:
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
	return err
}
