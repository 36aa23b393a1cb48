package ratelimit

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/calendar"
)

// MaxAllowance is the largest [Allowance].
const MaxAllowance = 1 << 50

// An Allowance is how many calls there are in each period of a calendar.
type Allowance struct {
	Calls int
	Per   Period
}

// A Period is one of a calendar, in a time zone.
type Period uint8

// The periods: a week begins before Monday.
const (
	Day Period = iota + 1
	Week
	Month
	Year
)

// Starts returns when four periods begin, by the clocks of t's location: the period before t's own,
// its own, and the two after it.
func (p Period) Starts(t time.Time) (starts [4]time.Time) {
	year, month, day := t.Date()
	for i := range starts {
		y, m, d, k := year, month, day, i-1
		switch p {
		case Day:
			d += k
		case Week:
			d += 7*k - (int(t.Weekday())+6)%7
		case Month:
			m, d = m+time.Month(k), 1
		case Year:
			y, m, d = y+k, time.January, 1
		}
		starts[i] = calendar.Midnight(y, m, d, t.Location())
	}
	return starts
}

// A Quota makes the commands of a quota, and reads their replies.
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

// NewQuota returns the Quota of allowances, which it does not check, in a time zone.
func NewQuota(client *redoubt.Client, suffix string, loc *time.Location, allowances []Allowance) *Quota {
	return &Quota{keyspace: keyspace{client, suffix}, loc: loc, allowances: allowances}
}

// Key returns the key of the quota called name.
func (q *Quota) Key(name string) (string, error) { return q.taken(name, "quota") }

// ErrClockSkew is matched when the server got the wrong periods, because its clock is days from the
// local clock. Nothing was taken, and the next call sends the periods around the server's time.
var ErrClockSkew = errors.New("ratelimit: the server's clock is days from the clock here: ask again")

// Cmd is the command that takes at most most calls from the quota called name,
// and none if it would be fewer than least, and what reads its reply.
func (q *Quota) Cmd(name string, most, least int) (redoubt.Cmd, func(redoubt.Reply) (Decision, error), error) {
	if most < 0 {
		return redoubt.Cmd{}, nil, fmt.Errorf("ratelimit: n is %d; want at least 0", most)
	}
	key, err := q.Key(name)
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
			return Decision{}, ErrClockSkew
		}
		return readCount(r, n, p.limits)
	}, nil
}

// Limits are the allowances as Decisions show them now: their periods have the lengths of the
// current ones.
func (q *Quota) Limits() []Limit { return q.around().limits }

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
		starts := a.Per.Starts(now)
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
