package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/ratelimit"
)

// A limitState is the JSON form of a decision. Times are rounded up.
type limitState struct {
	Name       string `json:"name"`
	Kind       string `json:"kind"` // limiterKind or throttleKind
	Allowed    bool   `json:"allowed"`
	Taken      int    `json:"taken"`
	Rate       int    `json:"rate"`
	Period     int64  `json:"period_ms"`
	Burst      int    `json:"burst"`
	Remaining  int    `json:"remaining"`
	RetryAfter int64  `json:"retry_after_ms"`
	ResetAfter int64  `json:"reset_after_ms"`
}

// The kinds of limits: of the library's Limiter, and of CL.THROTTLE and redis-cell. Their keys differ.
const (
	limiterKind  = "limiter"
	throttleKind = "throttle"
)

func limitStateOf(name, kind string, d ratelimit.Decision) limitState {
	return limitState{
		Name: name, Kind: kind, Allowed: d.Allowed, Taken: d.Taken,
		Rate: d.Limit.Rate, Period: millis(d.Limit.Period), Burst: d.Limit.Burst,
		Remaining: d.Remaining, RetryAfter: millis(d.RetryAfter), ResetAfter: millis(d.ResetAfter),
	}
}

func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

func (s limitState) String() string {
	switch left := fmt.Sprintf("%d of %d left", s.Remaining, s.Burst); {
	case !s.Allowed:
		return left + ", retry after " + rounded(s.RetryAfter)
	case s.ResetAfter > 0:
		return left + ", full again in " + rounded(s.ResetAfter)
	default:
		return left
	}
}

func newLimit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "limit",
		Short: "Take from a rate limit, show it, reset it; list limits",
		Long: `Take from a rate limit, show what it has left, or reset it; list limits. The library's
ratelimit.Limiter uses the same state under the same name. With --throttle NAME is a
key of CL.THROTTLE, of this server or of the redis-cell module, which is another
limit even under the same name.

Exit codes: 0 allowed, or done; 64 wrong usage; 65 the key has another type; 69 no
server; 75 over the limit.`,
		Example: "  redoubt limit try mail:42 --rate 10/h && ./send-mail\n  redoubt limit peek mail:42 --rate 10/h",
		Args:    noSuchCommand,
		RunE:    showHelp,
	}
	cmd.AddCommand(newLimitTry(), newLimitPeek(), newLimitReset(), newLimitLS())
	return cmd
}

// limitFlags describe the limit.
type limitFlags struct {
	serverFlags

	rate     rate
	burst    int
	throttle bool
	asJSON   bool
}

func (f *limitFlags) command(cmd *cobra.Command, ask func(ctx context.Context, l *ratelimit.Limiter, name string) (ratelimit.Decision, error)) *cobra.Command {
	cmd.Args = one("NAME")
	flags := cmd.Flags()
	flags.Var(&f.rate, "rate", "the limit, like 10/s, 100/m, 5/h, 1/d or 3/10s (default the limit stored on the server for NAME)")
	flags.IntVar(&f.burst, "burst", 0, "maximum taken at once (default the N of --rate N/TIME)")
	flags.BoolVar(&f.asJSON, "json", false, "print a JSON object")
	flags.BoolVar(&f.throttle, "throttle", false, "NAME is a key of CL.THROTTLE or redis-cell, whose max_burst is one less than --burst")
	onThisLine(flags, "rate", "burst", "throttle", "json")
	f.flags(flags, "limits")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		opts := ratelimit.Options{Stored: true}
		if f.rate != (rate{}) {
			opts = ratelimit.Options{Limit: ratelimit.Limit{Rate: f.rate.n, Period: f.rate.per, Burst: f.burst}, BareKeys: f.throttle}
		}
		if f.throttle && opts.Stored {
			return usagef("a key of CL.THROTTLE stores no limit: give one with --rate")
		}
		if cmd.Flags().Changed("burst") && (f.burst < 1 || opts.Stored) {
			return usagef("burst is %d; want at least 1, and --rate with it", f.burst)
		}
		return f.with(cmd.Context(), cmd.ErrOrStderr(), func(ctx context.Context, client *redoubt.Client) error {
			l, err := ratelimit.New(client, opts)
			if err != nil {
				return fail(exitUsage, err)
			}
			d, err := ask(ctx, l, args[0])
			if err != nil {
				return limitFault(args[0], err)
			}
			f.hint(ctx, cmd, client, opts, args[0], d)
			return f.print(cmd, limitStateOf(args[0], f.kind(), d))
		})
	}
	return cmd
}

func (f *limitFlags) kind() string {
	if f.throttle {
		return throttleKind
	}
	return limiterKind
}

// hint warns on standard error if nothing was taken from the limit, but something was from a limit of the
// other kind with the same name.
func (f *limitFlags) hint(ctx context.Context, cmd *cobra.Command, client *redoubt.Client, opts ratelimit.Options, name string, d ratelimit.Decision) {
	if opts.Stored || d.Taken > 0 || d.ResetAfter > 0 {
		return
	}
	opts.BareKeys = !opts.BareKeys
	l, err := ratelimit.New(client, opts)
	if err != nil {
		return
	}
	other, err := l.Info(ctx, name)
	switch {
	case err != nil || other.ResetAfter == 0: // no such limit, or no limit
	case f.throttle:
		cmd.PrintErrf("redoubt: the library has another limit %q: leave out --throttle to see it\n", name)
	default:
		cmd.PrintErrf("redoubt: CL.THROTTLE has another limit with the key %q: add --throttle to see it\n", name)
	}
}

func (f *limitFlags) print(cmd *cobra.Command, s limitState) error {
	switch {
	case f.asJSON:
		if err := printJSON(cmd.OutOrStdout(), s); err != nil {
			return err
		}
	case s.Allowed:
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), s); err != nil {
			return err
		}
	default:
		return failf(exitBusy, "limit %q: %v", s.Name, s)
	}
	if !s.Allowed {
		return fail(exitBusy, nil) // the JSON says it
	}
	return nil
}

func newLimitTry() *cobra.Command {
	var f limitFlags
	var n int
	cmd := f.command(&cobra.Command{
		Use:   "try NAME --rate N/TIME",
		Short: "Take from a limit, if enough is left",
		Long: `Take 1 from the limit NAME, or --n: all of it or nothing. It does not wait.

Exit codes: 0 taken; 64 wrong usage, or --n is larger than the burst; 65 the key has
another type; 69 no server; 75 over the limit, and nothing was taken.`,
		Example: `  redoubt limit try mail:42 --rate 10/h --burst 3 && ./send-mail
  redoubt limit try api --rate 100/s --n 5 --json | jq .retry_after_ms`,
	}, func(ctx context.Context, l *ratelimit.Limiter, name string) (ratelimit.Decision, error) {
		d, err := l.AllowN(ctx, name, n)
		if err == nil && d.RetryAfter == ratelimit.Never {
			err = usagef("n is %d; the limit %q allows at most %d at once", n, name, d.Limit.Burst)
		}
		return d, err
	})
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if n < 1 {
			return usagef("n is %d; want at least 1", n)
		}
		return nil
	}
	cmd.Flags().IntVar(&n, "n", 1, "how many to take")
	onThisLine(cmd.Flags(), "n")
	return cmd
}

func newLimitPeek() *cobra.Command {
	var f limitFlags
	return f.command(&cobra.Command{
		Use:   "peek NAME --rate N/TIME",
		Short: "Show what a limit has left",
		Long: `Show what the limit NAME has left, and take nothing.

Exit codes: 0 at least 1 is left; 64 wrong usage; 65 the key has another type; 69 no
server; 75 nothing is left.`,
		Example: `  redoubt limit peek mail:42 --rate 10/h --burst 3
  redoubt limit peek user:42 --rate 30/m --burst 16 --throttle   # CL.THROTTLE user:42 15 30 60`,
	}, func(ctx context.Context, l *ratelimit.Limiter, name string) (ratelimit.Decision, error) {
		info, err := l.Info(ctx, name)
		return info.Decision, err
	})
}

func newLimitReset() *cobra.Command {
	var f serverFlags
	var throttle, asJSON bool
	cmd := &cobra.Command{
		Use:   "reset NAME",
		Short: "Reset a limit, as if nothing had been taken",
		Long: `Reset the limit NAME, as if nothing had been taken. The limit that the server stores for
NAME stays.

Exit codes: 0 done, 64 wrong usage, 65 the key has another type, 69 no server.`,
		Example: `  redoubt limit reset mail:42`,
		Args:    one("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd.Context(), cmd.ErrOrStderr(), func(ctx context.Context, client *redoubt.Client) error {
				opts := ratelimit.Options{Stored: true}
				if throttle {
					opts = ratelimit.Options{Limit: ratelimit.PerSecond(1), BareKeys: true} // any limit does
				}
				l, err := ratelimit.New(client, opts)
				if err == nil {
					err = l.Reset(ctx, args[0])
				}
				if err != nil {
					return limitFault(args[0], err)
				}
				if asJSON {
					return printJSON(cmd.OutOrStdout(), map[string]any{"name": args[0], "reset": true})
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&throttle, "throttle", false, "NAME is a key of CL.THROTTLE or redis-cell")
	onThisLine(cmd.Flags(), "throttle")
	jsonFlag(cmd.Flags(), &asJSON, "print a JSON object")
	f.flags(cmd.Flags(), "limits")
	return cmd
}

func limitFault(name string, err error) error {
	if _, ok := errors.AsType[*exitError](err); ok {
		return err
	}
	if errors.Is(err, ratelimit.ErrNotConfigured) {
		return usagef("the server stores no limit for %q: give one with --rate", name)
	}
	return serverFault("limit "+strconv.Quote(name), err)
}

// A rate is a flag's value: n per duration.
type rate struct {
	n   int
	per time.Duration
}

// Set implements pflag.Value.
func (v *rate) Set(s string) error {
	count, per, _ := strings.Cut(s, "/")
	n, err := strconv.Atoi(count)
	d, named := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[per]
	if !named {
		var bad error
		d, bad = time.ParseDuration(per)
		err = errors.Join(err, bad)
	}
	if err != nil || n < 1 || d <= 0 {
		return fmt.Errorf("%q is not a rate; want a number of at least 1, a slash, and s, m, h, d or a duration: 10/s, 3/10s", s)
	}
	*v = rate{n, d}
	return nil
}

// String implements pflag.Value.
func (v *rate) String() string {
	if *v == (rate{}) {
		return ""
	}
	return strconv.Itoa(v.n) + "/" + v.per.String()
}

// Type implements pflag.Value: it names the value in help.
func (v *rate) Type() string { return "rate" }
