package command

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/resp"
	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
	"github.com/redoubt-go/redoubt/ratelimit"
)

// maxLimitMS keeps periods within 292 years of nanoseconds.
const maxLimitMS = math.MaxInt64 / int64(time.Millisecond)

var (
	limitKey    = Arg{Name: "key", Type: "key", Summary: fmt.Sprintf("the limit: 1 to %d bytes, not beginning with `}`", redoubt.MaxName)}
	limitTokens = Arg{Name: "n", Type: "integer", Summary: "tokens to take, all or none; 0 takes nothing"}
	limitLists  = Arg{Name: "limits", Type: "block", Use: Multiple, Summary: fmt.Sprintf("at most %d; taken tokens are kept by the place of a limit, so a limit may be changed while it is in use", ratelimit.MaxLimits), Args: []Arg{
		{Name: "limit", Type: "integer", Summary: "tokens that come back in each period, evenly spaced: at least 1"},
		{Name: "period", Type: "integer", Unit: "ms", Summary: fmt.Sprintf("1 to %d ms", maxLimitMS)},
		{Name: "burst", Type: "integer", Summary: "tokens available at once: at least 1"},
	}}
	limitMax = Arg{Name: "max", Type: "integer", Unit: "ms", Token: "MAX", Use: Optional, Summary: "take no tokens that come later than this; 0, as without MAX, is no bound"}
)

const (
	decisionReply = "Array of five integers: 1 allowed or 0 refused; tokens remaining; ms until the same call is allowed, 0 when it is, -1 when it never is; ms until all tokens are back; the place, from 0, of the limit that refuses longest, -1 when allowed. Times are rounded up."

	docLimits  = "`ERR redoubt: …` names what is wrong with a limit and what is allowed"
	docMax     = "`ERR redoubt: MAX is …; want 0 to …`"
	docTokens  = "`ERR redoubt: n is …; want …`"
	docNoLimit = "`NOTCONFIGURED redoubt: no limit is defined under this name`"
)

func limitErrors(own ...string) []string {
	return append(own, docInteger, "`ERR redoubt: invalid name: …`", "`"+wrongType+"`: something else has written the limit's key")
}

// limitCommand fills in what the commands of limits share.
func limitCommand(c Command) *Command {
	c.Since, c.Group = "0.1.0", "ratelimit"
	c.FirstKey, c.LastKey, c.KeyStep = 1, 1, 1
	if c.Complexity == "" {
		c.Complexity = "O(N) with N limits"
	}
	return &c
}

// A limitCall is a command of this family without its name, as far as it has
// been read.
type limitCall struct {
	name string
	n    int64
	rest [][]byte
	by   int // the command, in countedLimits
}

// limitCallOf reads name and n.
func limitCallOf(args [][]byte) (limitCall, string) {
	n, ok := integer(args[2])
	switch {
	case !ok:
		return limitCall{}, errInteger
	case n < 0 || n > math.MaxInt:
		return limitCall{}, fmt.Sprintf("ERR redoubt: n is %d; want at least 0", n)
	}
	by := slices.IndexFunc(countedLimits[:], func(name string) bool { return strings.EqualFold(name, string(args[0])) })
	return limitCall{string(args[1]), n, args[3:], max(0, by)}, ""
}

// max reads MAX, which may come next.
func (c *limitCall) max() (time.Duration, string) {
	if len(c.rest) < 2 || !strings.EqualFold(string(c.rest[0]), "MAX") {
		return 0, ""
	}
	ms, fault := milliseconds("MAX", c.rest[1], 0, maxLimitMS)
	c.rest = c.rest[2:]
	return time.Duration(ms) * time.Millisecond, fault
}

// limits reads groups of so many integers: limit, period in ms and, of three,
// burst.
func (c *limitCall) limits(group int) ([]wire.Limit, string) {
	if len(c.rest) == 0 || len(c.rest)%group != 0 {
		return nil, errSyntax
	}
	var limits []wire.Limit
	for rest := c.rest; len(rest) > 0; rest = rest[group:] {
		n := [3]int64{}
		for i := range group {
			var ok bool
			if n[i], ok = integer(rest[i]); !ok {
				return nil, errInteger
			}
		}
		switch {
		case n[1] < 1 || n[1] > maxLimitMS:
			return nil, fmt.Sprintf("ERR redoubt: period_ms is %d; want 1 to %d", n[1], maxLimitMS)
		case n[0] > math.MaxInt || n[2] > math.MaxInt:
			return nil, errInteger
		case group == 3 && n[2] == 0: // which the library would take for a default
			return nil, "ERR redoubt: burst is 0; want at least 1"
		}
		limits = append(limits, wire.Limit{Rate: int(n[0]), Period: time.Duration(n[1]) * time.Millisecond, Burst: int(n[2])})
	}
	return limits, ""
}

// limiter returns one with the limits that follow, or with those stored when
// none do and that is right.
func (c *limitCall) limiter(env *Env, orStored bool) (*wire.Limiter, string) {
	if orStored && len(c.rest) == 0 {
		return env.stored, ""
	}
	limits, fault := c.limits(3)
	if fault != "" {
		return nil, fault
	}
	l, err := wire.NewLimiter(env.Client, "", false, limits)
	if err != nil {
		return nil, faultOf(err)
	}
	return l, ""
}

// planTokens is the plan of a command that takes tokens.
func (env *Env) planTokens(l *wire.Limiter, c limitCall) Plan {
	cmd, err := l.TakeCmd(c.name, int(c.n))
	return env.planCounted(c, cmd, func(r redoubt.Reply) (wire.Decision, error) { return l.ReadTake(r, int(c.n)) }, err)
}

// planDecision is the plan of a command whose reply is a Decision.
func planDecision(cmd redoubt.Cmd, read func(redoubt.Reply) (wire.Decision, error), err error) Plan {
	if err != nil {
		return refusal(err)
	}
	return Plan{Cmd: &cmd, Translate: func(dst []byte, _ resp.Protocol, r redoubt.Reply) []byte {
		d, err := read(r)
		if err != nil {
			return appendLimitError(dst, err)
		}
		return appendDecision(resp.AppendArray(dst, 5), d)
	}}
}

func appendLimitError(dst []byte, err error) []byte {
	switch {
	case errors.Is(err, wire.ErrNotConfigured):
		return resp.AppendError(dst, "NOTCONFIGURED redoubt: no limit is defined under this name")
	case errors.Is(err, wire.ErrClockSkew):
		return resp.AppendError(dst, "TRYAGAIN redoubt: "+strings.TrimPrefix(err.Error(), "ratelimit: "))
	}
	return appendError(dst, err)
}

func appendDecision(dst []byte, d wire.Decision) []byte {
	dst = appendBool(dst, d.Allowed)
	dst = resp.AppendInt(dst, int64(d.Remaining))
	if d.RetryAfter == wire.Never {
		dst = resp.AppendInt(dst, -1)
	} else {
		dst = resp.AppendInt(dst, wholeMS(d.RetryAfter))
	}
	dst = resp.AppendInt(dst, wholeMS(d.ResetAfter))
	return resp.AppendInt(dst, int64(d.Violated))
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return resp.AppendInt(dst, 1)
	}
	return resp.AppendInt(dst, 0)
}

// wholeMS rounds up: a ms less might be too early.
func wholeMS(d time.Duration) int64 {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

// quotas are the quotas that were asked for lately: what they know of calendars
// is worth keeping.
type quotas struct {
	mu   sync.Mutex
	byID map[string]*wire.Quota
}

const maxQuotas = 1024

func (q *quotas) get(env *Env, calls int64, per wire.Period, zone string) (*wire.Quota, error) {
	id := fmt.Sprint(calls, " ", per, " ", zone)
	q.mu.Lock()
	defer q.mu.Unlock()
	if found := q.byID[id]; found != nil {
		return found, nil
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fmt.Errorf("time zone %q is not known; want a name like UTC or Europe/Paris", zone)
	}
	made := wire.NewQuota(env.Client, "", loc, []wire.Allowance{{Calls: int(calls), Per: per}})
	if q.byID == nil || len(q.byID) >= maxQuotas {
		q.byID = map[string]*wire.Quota{}
	}
	q.byID[id] = made
	return made, nil
}

// planLimitWait waits for tokens on behalf of a client.
func planLimitWait(env *Env, args [][]byte) Plan {
	c, fault := limitCallOf(args)
	if fault != "" {
		return Plan{Err: fault}
	}
	within, fault := c.max()
	if fault != "" {
		return Plan{Err: fault}
	}
	limits, fault := c.limits(3)
	if fault != "" {
		return Plan{Err: fault}
	}
	taken, err := wire.NewLimiter(env.Client, "", false, limits)
	if err != nil {
		return refusal(err)
	}
	if c.n < 1 {
		return Plan{Err: fmt.Sprintf("ERR redoubt: n is %d; want at least 1", c.n)}
	}
	now := env.planTokens(taken, c)
	if now.Err != "" {
		return now
	}
	return Plan{
		Instead: func() Plan { return now },
		Wait: func(ctx context.Context) Outcome {
			d, err := waitFor(ctx, env.Client, limits, within, c)
			if err == nil {
				env.decisions.limit(c, d.Allowed)
			}
			if errors.Is(err, ErrUnblocked) {
				return unblockedOutcome()
			}
			return Outcome{Append: func(dst []byte, _ resp.Protocol) []byte {
				if err != nil {
					return appendError(dst, err)
				}
				return appendDecision(resp.AppendArray(dst, 5), d)
			}}
		},
	}
}

// waitFor takes tokens and returns when they are there, or gives them back when
// ctx ends. Only the reply tells what there is to give back, so that the call
// itself does not end with ctx.
func waitFor(ctx context.Context, client *redoubt.Client, limits []wire.Limit, within time.Duration, c limitCall) (wire.Decision, error) {
	opts := ratelimit.Options{Limit: ratelimit.Limit(limits[0]), MaxWait: within}
	for _, l := range limits[1:] {
		opts.And = append(opts.And, ratelimit.Limit(l))
	}
	l, err := ratelimit.New(client, opts)
	if err != nil {
		return wire.Decision{}, err
	}
	asked, stop := outliving(ctx, undoTimeout)
	defer stop()
	r, err := l.Reserve(asked, c.name, int(c.n))
	if err != nil {
		return wire.Decision{}, err
	}
	if !r.Allowed {
		return wireDecision(r.Decision), nil
	}
	timer := time.NewTimer(r.Delay())
	defer timer.Stop()
	select {
	case <-timer.C:
		return wireDecision(r.Decision), nil
	case <-Waiting(ctx).Done():
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		_ = r.Cancel(back) // or else the place stays empty
		if Unblocked(ctx) != nil {
			return wire.Decision{}, ErrUnblocked // there is no reply for a place that comes too late
		}
		return wire.Decision{}, errors.New("the server is shutting down")
	}
}

func wireDecision(d ratelimit.Decision) wire.Decision {
	return wire.Decision{
		Allowed: d.Allowed, Taken: d.Taken, Limit: wire.Limit(d.Limit), Violated: d.Violated,
		Remaining: d.Remaining, RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter,
	}
}
