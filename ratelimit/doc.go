// Package ratelimit limits how often things happen, among all processes that use
// one Redis.
//
// Make one [Limiter] for each limit and use it for every name. Allow takes one
// token, if there is one:
//
//	limits, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerMinute(30)})
//	…
//	d, err := limits.Allow(ctx, "user:42")
//	switch {
//	case err != nil:
//		return err // the server didn't answer: you decide whether to refuse or to go on
//	case !d.Allowed:
//		return fmt.Errorf("too many requests: retry after %v", d.RetryAfter)
//	}
//
// AllowN takes several tokens, all or none; TakeUpTo takes as many as are left;
// AllowMany decides for many names in one round trip. Info reads the state and takes
// nothing, Refund gives tokens back, Reset gives back all of them. Wait blocks until
// the tokens are there, and Reserve says when they will be.
//
// Options.And adds further limits to the same call. Options.Stored reads the limits
// from the server, where [Limiter.Set] changes them for all processes. Options.Scope
// gives each client a budget of its own. Options.OnFailure decides what happens while
// the server doesn't answer.
//
// # Which type
//
// The four algorithms have a type each, with the same methods:
//
//   - [Limiter], the generic cell rate algorithm (GCRA): a rate with a burst. It
//     spreads calls out, keeps one number for each name, and is the only one with
//     Wait and Reserve. Use it unless you need one of the others.
//   - [Window], the sliding-window log: at most n calls in any minute, and all of them
//     at once after a minute without calls. It keeps the time of every call in the window.
//   - [Quota], the fixed window of a calendar: n calls a day or a month, in a time
//     zone. Around the end of a period up to twice as many pass.
//   - [Concurrency]: n calls at the same time, each with a lease.
//
// [Leased] takes tokens of a Limiter in advance and decides in this process, almost
// always without a round trip. Packages httplimit, grpclimit, connectlimit and
// fiberlimit are middleware.
//
// # What is promised
//
// While the primary keeps its data and its clock runs evenly:
//
//   - In any time t a limit gives at most Burst + t ÷ T tokens, to all callers
//     together; T is Period ÷ Rate.
//   - No token is lost: an unused limit gives Burst tokens at once, and over a long
//     run the rate is the one asked for, to 1%, and never lower.
//   - A refusal takes nothing. RetryAfter is exact, to the microsecond of the server's
//     clock, if nobody else takes tokens.
//   - A call takes its tokens at most once. It is not sent again after a lost reply:
//     its error matches redoubt.ErrUnknownOutcome.
//   - Tokens that were taken stay taken when a limit changes.
//   - Waiters are served in the order of arrival and never early.
//   - With several limits a call takes from all of them or from none.
//   - Every key expires, except stored limits.
//
// docs/promises.md lists every promise with the tests that check it.
//
// # What is not promised
//
// A failover may forget tokens that were taken: Redis replicates asynchronously, and
// tokens whose taking had not reached the new primary can be taken again. The same
// holds for keys that the server evicts.
//
// A step of the server's clock changes the rate. A step forward by s gives back the
// tokens of a time s at once, up to Burst. After a step back by s, a name that has
// used tokens gets none for up to s longer; a Window and a Quota go on from the last
// call that they admitted. However the clock steps, a limit gives at most its Burst
// and the tokens of the time from the first call to the latest time that the clock
// has shown.
//
// Allow is not fair: the first caller takes what there is, and many calls for one
// token can starve a call for many. Waiters are served in turn, and Allow is refused
// while one waits.
//
// # Cost
//
// Every method costs one round trip, AllowMany one to each server. Concurrent calls of
// Allow for one name go to the server as one command; a lone caller never waits for
// others. The server runs TIME and GET, and SET when tokens are taken. A name in use
// is one key, "<prefix>:{<name>}:gcra", of about 70 bytes; it expires when all its
// tokens are back.
//
// Options.DenyCache answers from known refusals: a flood of refused calls then costs
// one round trip each RetryAfter, at most one a second. A Leased costs about one round
// trip for k calls. N of them, each with at most k tokens for at most TTL, use in any
// time W at most
//
//	B + r·W + min(N·k, r·TTL)
//
// tokens, where B is Burst and r the rate: each token was taken from the limit, but
// may be used up to TTL later. A crash only makes the limit stricter for a while.
//
// # How GCRA works
//
// A Limiter keeps one number for each name, the theoretical arrival time (TAT): the
// moment at which all tokens will be back. Three durations decide:
//
//	emission interval  T = Period ÷ Rate   in which one token comes back
//	tolerance          τ = Burst × T       in which all of them do
//	increment          n × T               the cost of n tokens
//
//	new TAT = max(now, TAT) + n × T
//	allowed   if new TAT − now ≤ τ, and then it is stored
//	remaining = (τ − (TAT − now)) ÷ T
//	retry     = new TAT − now − τ
//	reset     = TAT − now
//
// As a token bucket: the bucket holds Burst tokens and gets one each T, and τ − (TAT −
// now) is the time that its content is worth. As a leaky bucket, the funnel of many
// articles: each token taken pours one unit of water into the funnel, and TAT − now is
// the time until it has run out. A funnel with capacity c that leaks r units a second
// is the limit
//
//	ratelimit.Limit{Rate: r, Period: time.Second, Burst: c}
//
// Its quantity of n is AllowN with n, and its quota left is Remaining. Unlike a fixed
// window GCRA has no edges, and unlike a log of calls it keeps one number, whatever the
// rate.
//
// The number is a string of decimal nanoseconds, as the redis-cell module keeps it, so
// CL.THROTTLE on the same key decides alike; several limits are several numbers with
// blanks between them. One script reads them, decides by the server's TIME and writes
// them. It splits times into seconds and nanoseconds, because Lua's numbers don't hold
// nanoseconds since 1970 exactly.
//
// A Window admits n calls if at most limit − n earlier calls are still in it. Its log is
// a ring of 8-byte times, with an entry for each admitted call. A Quota counts in the
// periods of the calendar, by the server's clock. A Concurrency is a sorted set of calls
// by the ends of their leases.
//
// # Sources
//
// GCRA is from the ATM Forum, Traffic Management Specification 4.0 (af-tm-0056.000,
// 1996), section 4.4.2, in its form of virtual scheduling. It is equivalent to the
// leaky bucket as a meter of J. Turner, "New Directions in Communications (or Which Way
// to the Information Age?)", IEEE Communications Magazine 24(10), 1986. Its use on Redis
// and the wire format are from B. Leach's redis-cell (2016).
package ratelimit
