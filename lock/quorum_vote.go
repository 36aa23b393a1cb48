package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
)

// patience is how long a master may take to answer.
func (f *family) patience() time.Duration { return min(f.opts.TTL/3, cleanUpTimeout) }

// ask calls each master at the same time and passes each result to enough, until enough
// returns true. It returns then, or when all masters have answered, or with the error of
// ctx when ctx ends. Calls that are still under way go on: their contexts end after limit,
// and not with ctx.
func (f *family) ask(ctx context.Context, limit time.Duration, call func(ctx context.Context, i int) error, enough func(i int, err error) bool) error {
	type answer struct {
		i   int
		err error
	}
	answers := make(chan answer, len(f.masters))
	for i, m := range f.masters {
		m.client.Go(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
			defer cancel()
			answers <- answer{i, call(ctx, i)}
		})
	}
	for range f.masters {
		select {
		case a := <-answers:
			if enough(a.i, a.err) {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// A vote is the answer of one master to one attempt.
type vote struct {
	sent     time.Time
	attempt  wire.Attempt
	answered bool
	err      error
}

func (v vote) granted() bool { return v.answered && v.attempt.Status == wire.Acquired }
func (v vote) held() bool    { return v.answered && v.attempt.Status == wire.Held }

// A quorumAttempt is one attempt to get a majority. It goes on until all masters have answered,
// also after its caller has left.
type quorumAttempt struct {
	q  *Quorum
	ts []target
	r  Request

	mu    sync.Mutex
	votes []vote
	lease *Lease // of an attempt that won a majority
	lost  bool   // grants from now on are given back
}

// votes are the answers so far, when an attempt is decided.
type votes []vote

// attempt tries to acquire a majority once. Without lease and err other holders have too many
// masters.
func (q *Quorum) attempt(ctx context.Context, ts []target, w *wakeups) (*Lease, votes, error) {
	b := &quorumAttempt{q: q, ts: ts, r: q.newRequest(), votes: make([]vote, len(ts))}
	need, all := q.need(), len(ts)
	granted, answered, seen := 0, 0, 0
	err := q.ask(ctx, q.patience(),
		func(ctx context.Context, i int) error { return b.acquire(ctx, i, w) },
		func(i int, err error) bool {
			seen++
			if err == nil {
				answered++
				if b.vote(i).granted() {
					granted++
				}
			}
			// Lost, and it is certain whether to other holders or to unreachable masters.
			lost := granted+all-seen < need && (answered >= need || answered+all-seen < need)
			return granted >= need || lost
		})
	if granted < need {
		votes := b.lose(ctx)
		if err == nil && answered < need {
			err = votes.noMajority()
		}
		return nil, votes, err
	}
	lease, err := b.confirm(ctx)
	if err != nil {
		b.lose(ctx)
		return nil, nil, err
	}
	return lease, nil, nil
}

// acquire asks one master.
func (b *quorumAttempt) acquire(ctx context.Context, i int, w *wakeups) error {
	m := b.q.masters[i]
	waiter := w.listen(ctx, i)
	v := vote{sent: time.Now()}
	v.attempt, v.err = wire.ReadAttempt(m.client.Do(ctx, b.ts[i].kind.acquire(b.ts[i].keys, b.r, waiter)))
	v.answered = v.err == nil
	if v.held() || errors.Is(v.err, redoubt.ErrUnknownOutcome) {
		w.queued(i)
	}
	b.mu.Lock()
	b.votes[i] = v
	lost, lease := b.lost, b.lease
	b.mu.Unlock()
	// The release of a lease voids acquires that are still under way, but the master
	// remembers only the last one: so a later grant is given back.
	switch {
	case lost:
		b.giveBack(ctx, i, v)
	case lease != nil && lease.Err() != nil && (v.granted() || errors.Is(v.err, redoubt.ErrUnknownOutcome)):
		lease.parts[i].freeAgain(v.err)
	}
	return v.err
}

func (b *quorumAttempt) vote(i int) vote {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.votes[i]
}

// lose gives back the grants, and returns the votes. It returns when that is done or ctx
// ends; the rest is done in the background.
func (b *quorumAttempt) lose(ctx context.Context) votes {
	b.mu.Lock()
	b.lost = true
	votes := slices.Clone(b.votes)
	b.mu.Unlock()
	_ = b.q.ask(ctx, cleanUpTimeout,
		func(ctx context.Context, i int) error { b.giveBack(ctx, i, votes[i]); return nil },
		func(int, error) bool { return false })
	return votes
}

// giveBack undoes the grant that one master may have given.
func (b *quorumAttempt) giveBack(ctx context.Context, i int, v vote) {
	m, t := b.q.masters[i], b.ts[i]
	switch {
	case v.granted():
		if m.client.Do(ctx, t.void(b.r.ID)).Err != nil {
			m.cleanUp(ctx, t.void(b.r.ID))
		}
	case errors.Is(v.err, redoubt.ErrUnknownOutcome):
		m.undo(ctx, t, b.r.ID)
	}
}

// confirm makes the lease of an attempt that won a majority. Its token is the largest one of the
// majority. A majority must store it before the lease counts; masters that have not granted
// the lease yet get it too.
func (b *quorumAttempt) confirm(ctx context.Context) (*Lease, error) {
	q, need := b.q, b.q.need()
	b.mu.Lock()
	votes := slices.Clone(b.votes)
	b.mu.Unlock()
	l := &Lease{family: q.family, done: make(chan struct{}), need: need, forming: true}
	var fence int64
	for _, v := range votes {
		if v.granted() {
			fence = max(fence, v.attempt.Token)
			if end := deadline(v); l.deadline.IsZero() || end.Before(l.deadline) {
				l.deadline = end // until it is formed
			}
		}
	}
	for i, v := range votes {
		t := b.ts[i]
		t.kind = quorate{fence: fence, label: q.opts.Label}
		h := &heldLease{target: t, family: q.masters[i], lease: l, id: b.r.ID, fence: fence, releasing: make(chan struct{}, 1)}
		if v.granted() && v.attempt.Token == fence {
			h.deadline = deadline(v)
		}
		l.parts = append(l.parts, h)
	}
	b.mu.Lock()
	b.lease = l
	b.mu.Unlock()
	seen := 0
	err := q.ask(ctx, q.patience(),
		func(ctx context.Context, i int) error { return l.parts[i].confirm(ctx, q.opts.TTL) },
		func(int, error) bool {
			seen++
			confirmed := l.confirmed()
			return confirmed >= need || confirmed+len(votes)-seen < need
		})
	if err == nil {
		err = l.form()
	}
	if err != nil {
		// All masters may have granted it now.
		b.mu.Lock()
		for i := range b.votes {
			b.votes[i].attempt.Status, b.votes[i].answered = wire.Acquired, true
		}
		b.mu.Unlock()
		return nil, err
	}
	return l, nil
}

func deadline(v vote) time.Time { return v.sent.Add(v.attempt.TTL - drift(v.attempt.TTL)) }

// confirm extends the part unless its master has confirmed the lease's token.
func (h *heldLease) confirm(ctx context.Context, ttl time.Duration) error {
	if !h.until().IsZero() {
		return nil
	}
	return h.prolong(ctx, ttl)
}

// prolong extends the part on its own master.
func (h *heldLease) prolong(ctx context.Context, ttl time.Duration) error {
	sent := time.Now()
	held, granted, err := wire.ReadExtend(h.family.client.Do(ctx, h.kind.extend(h.keys, h.id, ttl)))
	if err != nil {
		h.undoLate(err)
		return err
	}
	if err := h.extended(sent, held, granted); err != nil {
		return err
	}
	if !held {
		return ErrTaken
	}
	return nil
}

// undoLate undoes an extension with a lost reply that may have taken a master again after the
// end of the lease.
func (h *heldLease) undoLate(err error) {
	if h.lease.need > 0 && errors.Is(err, redoubt.ErrUnknownOutcome) && h.lease.Err() != nil {
		h.freeAgain(err)
	}
}

// confirmed is the number of masters that hold the lease.
func (l *Lease) confirmed() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for _, h := range l.parts {
		if h.deadline.After(now) {
			n++
		}
	}
	return n
}

// form lets l last as long as a majority of its parts.
func (l *Lease) form() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forming = false
	l.schedule()
	if err := l.check(); err != nil {
		return fmt.Errorf("%w before a majority had confirmed it", err)
	}
	l.given = true
	if l.family.opts.NoRenew {
		return nil
	}
	ttl := l.family.opts.TTL
	for _, h := range l.parts {
		at := time.Now().Add(min(ttl/20, time.Second)) // masters that have not granted it yet
		if !h.deadline.IsZero() {
			at = renewAt(h.deadline.Add(-ttl), ttl)
		}
		h.family.renewer.add(h, at)
	}
	return nil
}

// noMajority returns an error that names the unreachable masters.
func (v votes) noMajority() error {
	errs := []error{ErrNoMajority}
	for i, vote := range v {
		switch {
		case vote.err != nil:
			errs = append(errs, fmt.Errorf("master %d: %w", i, vote.err))
		case !vote.answered:
			errs = append(errs, fmt.Errorf("master %d: it has not answered in time", i))
		}
	}
	return errors.Join(errs...)
}

// held returns the votes for the other holder that has most masters.
func (v votes) held() (most []wire.Attempt) {
	by := make(map[int64][]wire.Attempt)
	for _, vote := range v {
		if a := vote.attempt; vote.held() {
			by[a.Token] = append(by[a.Token], a)
			if len(by[a.Token]) > len(most) {
				most = by[a.Token]
			}
		}
	}
	return most
}

// left is how long other holders will keep need masters from being free, if they renew
// nothing and give nothing back. It is false when they may be about to give back: when
// nobody has a majority, and the holders have changed since the attempt before.
func (v votes) left(need int, before votes) (time.Duration, bool) {
	stay := v.held()
	if len(stay) < need {
		stay = nil
		for i, vote := range v {
			if vote.held() && i < len(before) && before[i].held() && before[i].attempt.Token == vote.attempt.Token {
				stay = append(stay, vote.attempt)
			}
		}
	}
	if len(stay) < need {
		return 0, false
	}
	slices.SortFunc(stay, func(a, b wire.Attempt) int { return cmp.Compare(a.TTL, b.TTL) })
	return stay[len(stay)-need].TTL, true
}

// busy describes the holder that has most masters.
func (v votes) busy() *Busy {
	most := v.held()
	if len(most) == 0 {
		return &Busy{}
	}
	last := slices.MaxFunc(most, func(a, b wire.Attempt) int { return cmp.Compare(a.TTL, b.TTL) })
	return &Busy{Remaining: last.TTL, Token: last.Token, Label: last.Label}
}
