package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
)

// An Allowance is a number of calls in each period of a calendar.
type Allowance struct {
	// Calls is at least 1 and at most [MaxAllowance].
	Calls int
	// Per is the period.
	Per Period
}

// QuotaOptions configure a [Quota]. Allowance must be set.
type QuotaOptions struct {
	// Allowance is the limit of each name.
	Allowance Allowance

	// And are further allowances, as in [Options]: a number a day and a number a month.
	And []Allowance

	// Location is the time zone in which periods begin. Defaults to UTC.
	Location *time.Location

	// Scope says who shares the calls. Defaults to Overall.
	Scope Scope
}

// A Quota admits a number of calls in each period of a calendar, like 1,000 a day in
// Paris, for each of any number of names. Unused calls are lost when the period ends: it
// is a fixed window, aligned with the calendar.
//
// It has the edge of all fixed windows: around the end of a period up to twice as many
// calls pass in a short time, from the old period and from the new one. Where that
// matters use a [Window], or a [Limiter] as well.
//
// The server's clock decides which period it is. This process knows when periods begin
// and end, by its time zone database, so days have 23, 24 or 25 hours. All methods may be
// called by many goroutines at once. Each costs one round trip, and another one when the
// clock of this process is days off.
//
// The count is one string, "<prefix>:{<name>}:quota", which expires with the period.
type Quota struct {
	keyspace
	wire *wire.Quota
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
	if opts.Location == nil {
		opts.Location = time.UTC
	}
	var allowances []wire.Allowance
	for _, a := range append([]Allowance{opts.Allowance}, opts.And...) {
		allowances = append(allowances, wire.Allowance{Calls: a.Calls, Per: wire.Period(a.Per)})
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
	return &Quota{keys, wire.NewQuota(client, keys.suffix, opts.Location, allowances)}, nil
}

// Allow takes one call from the quota called name, if there is one left. See
// [Quota.AllowN].
func (q *Quota) Allow(ctx context.Context, name string) (Decision, error) {
	return q.AllowN(ctx, name, 1)
}

// AllowN takes n calls from the quota called name, all of them or none. A
// refusal takes nothing. n = 0 takes nothing, and Allowed tells whether a call is
// left; a negative n is an error. As with
// [Limiter.AllowN] a call is never taken twice, and the error of one whose reply
// was lost matches redoubt.ErrUnknownOutcome.
func (q *Quota) AllowN(ctx context.Context, name string, n int) (Decision, error) {
	return q.take(ctx, name, n, n)
}

// TakeUpTo takes up to n calls from the quota called name, at least 1, as many as are
// left: Decision.Taken says how many.
func (q *Quota) TakeUpTo(ctx context.Context, name string, n int) (Decision, error) {
	if n < 1 {
		return Decision{}, fmt.Errorf("ratelimit: n is %d; want at least 1", n)
	}
	return q.take(ctx, name, n, 0)
}

// Reset gives the quota called name all its calls back. It may be sent again after a
// lost reply.
func (q *Quota) Reset(ctx context.Context, name string) error {
	key, err := q.wire.Key(name)
	if err != nil {
		return err
	}
	return q.client.Do(ctx, redoubt.Cmd{Name: "DEL", Keys: []string{key}, Flags: redoubt.Idempotent}).Err
}

func (q *Quota) take(ctx context.Context, name string, most, least int) (Decision, error) {
	for range 2 {
		cmd, read, err := q.wire.Cmd(name, most, least)
		if err != nil {
			return Decision{}, err
		}
		r := q.client.Do(ctx, cmd)
		if d, err := read(r); !errors.Is(err, ErrClockSkew) {
			return reported(ctx, q.client, name, most, decision(d), err)
		}
	}
	return Decision{}, ErrClockSkew
}
