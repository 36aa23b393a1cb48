package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
)

// An Allowance is how many calls there are in each period of a calendar.
type Allowance struct {
	// Calls is at least 1 and at most [MaxAllowance].
	Calls int
	// Per is the period.
	Per Period
}

// MaxAllowance is the largest [Allowance].
const MaxAllowance = 1 << 50

// QuotaOptions configure a [Quota]. Allowance must be set.
type QuotaOptions struct {
	// Allowance is what each name is held to.
	Allowance Allowance

	// And are further allowances that a call must keep to as well, as in
	// [Options]: so many a day and so many a month.
	And []Allowance

	// Location is the time zone in which periods begin. Defaults to UTC.
	Location *time.Location

	// Scope says who shares what was taken. Defaults to Overall.
	Scope Scope
}

// A Quota holds each of any number of names to a number of calls in each
// period of a calendar, like 1,000 a day in Paris. What was not used is lost
// when the period ends: it is a fixed window, aligned with the calendar.
//
// It has the edge that fixed windows have: around the end of a period up to
// twice the calls come through in any short time, those of the period that ends
// and those of the one that begins. Where that matters use a [Window], or have a
// [Limiter] beside it.
//
// The server's clock says which period it is; this process says when periods
// begin and end, by its time zone database, so that days have 23, 24 or 25
// hours. All methods may be called by many goroutines at once, and each costs
// one round trip; one more when the clock of this process is days off.
//
// What was taken is one string, "<prefix>:{<name>}:quota", which expires with
// the period.
type Quota struct {
	keyspace
	allowances []Allowance
	loc        *time.Location
	periods    atomic.Pointer[periods]
}

// periods are the beginnings of periods around a time.
type periods struct {
	skew   time.Duration // of the server's clock, as far as it matters
	until  time.Time     // by the clock here, with the skew
	limits []Limit       // as Decisions show them
	args   []string
}

// NewQuota returns a Quota on client. It sends nothing. The error joins all
// that is wrong with the options.
func NewQuota(client *redoubt.Client, opts QuotaOptions) (*Quota, error) {
	keys, err := newKeyspace(client, opts.Scope)
	errs := []error{err}
	if client == nil {
		errs = append(errs, errors.New("ratelimit: client is nil"))
	}
	if len(opts.And) >= MaxLimits {
		errs = append(errs, fmt.Errorf("ratelimit: %d limits at once; want at most %d", 1+len(opts.And), MaxLimits))
	}
	q := &Quota{keyspace: keys, loc: opts.Location}
	if q.loc == nil {
		q.loc = time.UTC
	}
	q.allowances = append([]Allowance{opts.Allowance}, opts.And...)
	for _, a := range q.allowances {
		if a.Calls < 1 || int64(a.Calls) > MaxAllowance {
			errs = append(errs, fmt.Errorf("ratelimit: allowance is %d calls; want 1 to %d", a.Calls, int64(MaxAllowance)))
		}
		if a.Per < Day || a.Per > Year {
			errs = append(errs, fmt.Errorf("ratelimit: period is %v; want Day, Week, Month or Year", a.Per))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return q, nil
}

// Allow takes one call from the quota called name, if there is one left. See
// [Quota.AllowN].
func (q *Quota) Allow(ctx context.Context, name string) (Decision, error) {
	return q.AllowN(ctx, name, 1)
}

// AllowN takes n calls from the quota called name, all of them or none. A
// refusal takes nothing. n = 0 is [Quota.Peek]; a negative n is an error. As with
// [Limiter.AllowN] a call is never taken twice, and the error of one whose reply
// was lost matches redoubt.ErrUnknownOutcome.
func (q *Quota) AllowN(ctx context.Context, name string, n int) (Decision, error) {
	return q.take(ctx, name, n, n)
}

// TakeUpTo takes as many calls from the quota called name as are left, at most
// n, which is at least 1: Decision.Taken says how many.
func (q *Quota) TakeUpTo(ctx context.Context, name string, n int) (Decision, error) {
	if n < 1 {
		return Decision{}, fmt.Errorf("ratelimit: n is %d; want at least 1", n)
	}
	return q.take(ctx, name, n, 0)
}

// Peek answers what [Quota.Allow] would and takes nothing. It may be sent again
// after a lost reply.
func (q *Quota) Peek(ctx context.Context, name string) (Decision, error) {
	return q.take(ctx, name, 0, 0)
}

// Reset forgets what was taken from the quota called name. It may be sent again
// after a lost reply.
func (q *Quota) Reset(ctx context.Context, name string) error {
	key, err := q.taken(name, "quota")
	if err != nil {
		return err
	}
	return q.client.Do(ctx, redoubt.Cmd{Name: "DEL", Keys: []string{key}, Flags: redoubt.Idempotent}).Err
}

func (q *Quota) take(ctx context.Context, name string, most, least int) (Decision, error) {
	for range 2 {
		cmd, read, err := q.cmd(name, most, least)
		if err != nil {
			return Decision{}, err
		}
		r := q.client.Do(ctx, cmd)
		if d, err := read(r); !errors.Is(err, ErrElsewhen) {
			return d, err
		}
	}
	return Decision{}, ErrElsewhen
}

// ErrElsewhen is matched by the error of [Quota.AllowCmd]'s reply when the
// server's clock is so far from the clock here that it was told of the wrong
// periods. Nothing was taken, and the next call tells it of those around its time.
var ErrElsewhen = errors.New("ratelimit: the server's clock is days from the clock here: ask again")

// cmd is the command that takes at most most calls from the quota called name,
// and none if it would be fewer than least, and what reads its reply.
func (q *Quota) cmd(name string, most, least int) (redoubt.Cmd, Read, error) {
	if most < 0 {
		return redoubt.Cmd{}, nil, fmt.Errorf("ratelimit: n is %d; want at least 0", most)
	}
	key, err := q.taken(name, "quota")
	if err != nil {
		return redoubt.Cmd{}, nil, err
	}
	p := q.around()
	limit := func(n int) string { return strconv.FormatInt(min(int64(n), MaxAllowance+1), 10) }
	cmd := redoubt.Cmd{Script: quotaScript, Keys: []string{key}, Args: slices.Concat([]string{limit(most), limit(least)}, p.args)}
	if most == 0 {
		cmd.Flags = redoubt.ReadOnly
	}
	n := least
	if most > 0 {
		n = max(least, 1)
	}
	return cmd, func(r redoubt.Reply) (Decision, error) {
		var v [5]int64
		if err := r.Ints(v[:]); err == nil && v[0] < 0 {
			q.set(time.Until(time.Unix(v[2], 0)))
			return Decision{}, ErrElsewhen
		}
		return readCount(r, n, p.limits)
	}, nil
}

// around returns the periods around the server's time, as far as it is known.
func (q *Quota) around() *periods {
	p := q.periods.Load()
	switch {
	case p == nil:
		return q.set(0)
	case time.Now().Add(p.skew).Before(p.until):
		return p
	}
	return q.set(p.skew)
}

func (q *Quota) set(skew time.Duration) *periods {
	p := &periods{skew: skew}
	now := time.Now().Add(skew).In(q.loc)
	for _, a := range q.allowances {
		starts := a.Per.starts(now)
		p.args = append(p.args, strconv.Itoa(a.Calls))
		for _, s := range starts {
			p.args = append(p.args, strconv.FormatInt(s.Unix(), 10))
		}
		if p.until.IsZero() || starts[2].Before(p.until) {
			p.until = starts[2]
		}
		p.limits = append(p.limits, Limit{Rate: a.Calls, Period: starts[2].Sub(starts[1]), Burst: a.Calls})
	}
	q.periods.Store(p)
	return p
}
