// Package ratelimit limits how often things happen, among all processes that
// use one Redis.
//
// # Use
//
// A [Limiter] holds each name to one limit. Allow takes one token, if there is
// one:
//
//	limits, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerMinute(30)})
//	…
//	d, err := limits.Allow(ctx, "user:42")
//	switch {
//	case err != nil:
//		return err // nothing is known of the limit: refuse or go on, as suits
//	case !d.Allowed:
//		return fmt.Errorf("too many requests: retry after %v", d.RetryAfter)
//	}
//
// AllowN takes several tokens at once, all or none, TakeUpTo as many as there
// are, and AllowMany does it for many names; Peek looks without taking; Refund
// gives back; Reset forgets what was taken. Wait returns when the token is there,
// and Reserve says when that will be. Options.And holds a name to further limits in the
// same call, Options.Stored takes the limits from the server, where they can be
// changed for all, and Options.Scope gives each client a budget of its own.
//
// # Which one
//
// There are four algorithms, each with a type of its own and the same methods:
//
//   - [Limiter], the generic cell rate algorithm (GCRA): a rate, with a burst.
//     It spreads calls out, keeps one number a name, and is the only one on
//     which callers can wait. Take it unless one of the others is asked for.
//   - [Window], the sliding-window log: so many in any minute, exactly. It keeps
//     the time of every call in the window.
//   - [Quota], the fixed window of a calendar: so many a day or a month, in a
//     time zone. Around its edge twice as many come through.
//   - [Concurrency]: so many at the same time, each with a lease.
//
// # How GCRA works
//
// The algorithm of a Limiter is GCRA, the generic cell rate algorithm. It keeps one number
// for each name, the theoretical arrival time (TAT): the moment at which all
// tokens will be back. Three times decide:
//
//	emission interval  T = Period ÷ Rate   in which one token comes back
//	tolerance          τ = Burst × T       in which all of them do
//	increment          n × T               what n tokens cost
//
//	new TAT = max(now, TAT) + n × T
//	allowed   if new TAT − now ≤ τ, and then it is stored
//	remaining = (τ − (TAT − now)) ÷ T
//	retry     = new TAT − now − τ
//	reset     = TAT − now
//
// It can be read in two ways. As a token bucket: the bucket holds Burst tokens
// and is filled by one each T; τ − (TAT − now) is what is in it. As a leaky
// bucket, the funnel of many articles: each token taken pours one unit of water
// into it, and TAT − now is how full it is, as the time in which it will have
// run out. A funnel of capacity c with a leak rate of r units a second is the limit
//
//	ratelimit.Limit{Rate: r, Period: time.Second, Burst: c}
//
// and its quantity of n is AllowN with n; what the articles call the quota left
// is Remaining (TestFunnel). Unlike a fixed window, which lets
// through twice its limit around its edge, it has no edges, and unlike a log of
// calls it keeps one number whatever the rate.
//
// The number is a plain string of decimal nanoseconds, as the redis-cell module
// keeps it; several limits are as many numbers, a blank between them. One script reads it, decides by the server's TIME and writes it; it
// holds times as seconds and nanoseconds, two integers, because nanoseconds
// since 1970 are more than Lua's numbers hold exactly.
//
// # Cost
//
// Every method is one round trip, AllowMany one to each server, and concurrent calls on one client share
// them (TestRoundTrips). The server runs TIME and GET, and SET when tokens are
// taken (TestServerCommands). A name in
// use is one key, "<prefix>:{<name>}:gcra", of some 70 bytes (TestStorage);
// it expires when all its tokens are back, so that an unused name costs nothing.
//
// # What is promised
//
// While the primary keeps its data and its clock runs evenly:
//
//   - In any time t, at most Burst + t ÷ T tokens are given, to all callers
//     together. (TestConcurrentCallers, TestIsTokenBucket)
//   - None is lost: an unused limit gives Burst tokens at once, and over a long
//     run the rate is that asked to 1%, up to 10,000,000 a second. It is never
//     set lower than asked. (TestNoTokenLost, TestLongRun, FuzzLimit)
//   - A refusal takes nothing, and neither does a peek.
//     (TestRefusalsAndPeeksWriteNothing)
//   - RetryAfter comes true, to the microsecond of the server's clock, if
//     nobody else takes tokens. (TestRetryAfterIsExact)
//   - A call takes its tokens at most once: after a lost reply it is not sent
//     again, and its error matches redoubt.ErrUnknownOutcome. (TestLostReplies)
//   - When a limit changes, what was taken stays taken. (TestScenarios/change,
//     TestSeveralLimitsChange)
//   - Of many who define a stored limit the first does, and a change holds for
//     all calls after it. (TestStoredLimitsAreShared, TestStoredLimitsDecideAlike)
//   - Who waits is served in the order of arrival, never early; a wait that
//     would pass its ctx's deadline returns at once and takes nothing, and one
//     that is given up gives its place to the next. (TestTwentyCallersAreServedInOrder,
//     TestWaitIsNeverEarly, TestWaitRefusesAtOnce, TestWaitGivenUp,
//     TestWaitGivenUpBeforeItsReply)
//   - What is reserved or taken keeps to every limit at the time when it
//     happens; a cancellation gives back what x/time/rate would.
//     (TestReservationsKeepEveryLimit, TestReservationsLikeXTimeRate)
//   - A refund never gives more than is out, and once for its id. (TestRefund)
//   - Of several limits a call takes from all or from none. (TestSeveralLimits)
//   - Every key expires but stored limits. (TestKeysExpire, TestEveryKeyExpires)
//   - CL.THROTTLE on the same key decides alike, and keys that redis-cell has
//     written go on. (TestBareKeysShareWithThrottle, TestThrottleVectors)
//
// # Beyond one round trip
//
// Concurrent calls of Allow for one name go to the server as one, whose outcome is
// that of the calls one by one, in the order in which they came; a lone caller
// never waits for others. (TestCoalescedDecideAlike, TestLoneCallersDoNotWait,
// TestCoalescedCancelled)
//
// Options.DenyCache remembers refusals. Since a TAT moves only forward, a flood of
// calls that are refused costs one round trip each RetryAfter, and at most
// one a second, and allocates nothing (TestDeniedFlood, TestDeniedFloodOnServer,
// TestDenialsAllocateNothing). What this process gives back or
// changes ends it at once; what another does is seen up to DenyCache later
// (TestDenialsEnd).
//
// A [Leased] takes k tokens before they are used, and decides in this process,
// without allocating (TestLeasedAllocatesNothing). N of them together use in any time W at
// most
//
//	B + r·W + min(N·k, r·TTL)
//
// tokens: what is granted in that time is B + r·W, each may hold k from before, and
// none holds any for longer than TTL. What is given back is less by what has come
// back by itself meanwhile, or the bound would not hold. A crash only
// under-admits. (TestLeasesKeepTheirBound, TestLeasesLapse, TestLeasesReturnNothingTwice,
// TestLeasesOfAChangedLimit, TestLeasedHolders, TestLeasesGiveBack,
// TestLeaseMadeDuringASweep, TestLeasedCloseWaits, TestLeasesSaveRoundTrips) Those who come while more tokens are
// on the way get theirs in turn, and one call asks for all of them
// (TestLeasedServesInTurn).
//
// Options.OnFailure says what holds while the server doesn't answer: an error,
// all, nothing, or the same limit kept in this process; Decision.Degraded tells.
// (TestOnFailure, TestOnFailureLocal)
//
// # What is not promised
//
// The limit through a failover: Redis replicates asynchronously, and what a new
// primary doesn't know was taken can be taken again, at most what was taken in
// the time that it was behind. The same holds for keys that the server evicts.
//
// An even rate through a step of the server's clock. A step forward by s gives
// back what s is worth at once, up to Burst; after a step back by s nobody who
// has used tokens gets any for up to s longer. In neither case is more given
// than by a clock that had shown the latest time all along. (TestClockSteps)
//
// Fairness among callers of Allow: whoever comes first takes what there is, and a
// call for many tokens can be starved by many calls for one. Those who Wait are
// served in turn, and while any waits Allow is refused.
//
// # The other three
//
// A [Window] admits n calls if the n-th of those that would then be over the
// limit has left it. Its log is a ring of 8-byte times that only admitted calls
// are written to: it holds no more than the limit (TestWindowMemory), calls of the
// same microsecond are as many as they are, and it decides as a list of all calls
// would (TestWindowAgreesWithModel), without the faults of the sorted sets that
// articles build (TestWindowAgreesWithSortedSet, TestFaultsOfTheArticles). A [Quota] counts as the calendar on the wall
// does, whatever clocks do at midnight (TestQuotaAgreesWithCalendar), by the
// server's clock (TestQuotaTimeIsTheServers); its edge is shown by
// TestQuotaHasAnEdge. Of a [Concurrency] never more calls than the limit are under
// way, unless one is still at work that has not been prolonged for a TTL
// (TestConcurrencyLimit, TestConcurrencyLeases, TestConcurrencyDo).
//
// When the clock steps back, a Window and a Quota go on from the last call that
// they have admitted.
//
// # Sources
//
// GCRA is from the ATM Forum, Traffic Management Specification 4.0
// (af-tm-0056.000, 1996), section 4.4.2, in its form of virtual scheduling. It
// is equivalent to the leaky bucket as a meter of J. Turner, "New Directions in
// Communications (or Which Way to the Information Age?)", IEEE Communications
// Magazine 24(10), 1986. Its use on Redis and the wire format are those of
// B. Leach's redis-cell (2016).
package ratelimit
