package ratelimit

import (
	"errors"

	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
)

var (
	// ErrNotConfigured is matched by the errors of a [Limiter] with Options.Stored
	// when no limits are stored under the name.
	ErrNotConfigured = wire.ErrNotConfigured

	// ErrTooLate is matched by the error of [Limiter.Wait] when the tokens come after
	// the deadline of its ctx, or after Options.MaxWait. Nothing was taken.
	ErrTooLate = errors.New("ratelimit: the tokens come too late")

	// ErrExceedsBurst is matched by the error of [Limiter.Wait] for more tokens than
	// a limit ever has at once. Nothing was taken.
	ErrExceedsBurst = errors.New("ratelimit: more tokens than the burst")

	// ErrCallLost is the cause that ends the ctx of [Concurrency.Do] when the call was
	// not extended in time, so that the server may consider it over. The error of Do
	// matches it too.
	ErrCallLost = errors.New("ratelimit: the call was not extended in time")

	// ErrClockSkew is matched when a [Quota] told the server the wrong periods twice,
	// because the server's clock is days from the local clock and moves. Nothing was
	// taken: call again.
	ErrClockSkew = wire.ErrClockSkew
)

const (
	// Never, -1, is the RetryAfter of a call for more tokens than a limit ever has at
	// once.
	Never = wire.Never
	// MaxLimits, 8, is the largest number of limits in one call.
	MaxLimits = wire.MaxLimits
	// MaxWindow, 100,000, is the largest Rate of a [Window]: its log has 8 bytes for
	// each call, and a script takes 7 ms to write that many. A [Limiter] has no such
	// bound.
	MaxWindow = wire.MaxWindow
	// MaxAllowance, 2^50, is the largest [Allowance].
	MaxAllowance = wire.MaxAllowance
	// MaxConcurrency is the largest limit of a [Concurrency].
	MaxConcurrency = 1_000_000
)
