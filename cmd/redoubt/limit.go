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

// A limitState is the answer about a limit. Its JSON is what the limit commands
// print; times are rounded up.
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

// The kinds of limits: of the library's Limiter, and of CL.THROTTLE and redis-cell. They have
// different keys.
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
		return left + ", retry after " + (time.Duration(s.RetryAfter) * time.Millisecond).String()
	case s.ResetAfter > 0:
		return left + ", all back in " + (time.Duration(s.ResetAfter) * time.Millisecond).String()
	default:
		return left
	}
}

func newLimit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "limit",
		Short: "Take from a rate limit, look at it, forget what was taken",
		Long: `Take from a rate limit, look at it, or forget what was taken. Its state is that of
the library's ratelimit.Limiter under the same name. With --throttle NAME is a
key of CL.THROTTLE, of this server or of the redis-cell module: other limits,
even where the names are the same.

Exit codes: 0 allowed, or done; 64 wrong usage; 65 the key holds
something else; 69 no server; 75 over the limit.`,
		Args: noSuchCommand,
		RunE: showHelp,
	}
	cmd.AddCommand(newLimitTry(), newLimitPeek(), newLimitReset())
	return cmd
}

// limitFlags say what limit it is.
type limitFlags struct {
	serverFlags

	rate     rate
	burst    int
	throttle bool
	asJSON   bool
}

func (f *limitFlags) command(cmd *cobra.Command, ask func(ctx context.Context, l *ratelimit.Limiter, name string) (ratelimit.Decision, error)) *cobra.Command {
	cmd.Args = oneName
	flags := cmd.Flags()
	flags.Var(&f.rate, "rate", "the limit, like 10/s, 100/m, 5/h, 1/d or 3/10s; without it that which the server keeps for NAME")
	flags.IntVar(&f.burst, "burst", 0, "how much may come at once (default as much as the rate gives in its time)")
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
			return usagef("a key of CL.THROTTLE keeps no limit: give one with --rate")
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

// hint says so when nothing was taken from the limit, but from one of the other kind whose name is
// the same.
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
	case err != nil || other.ResetAfter == 0: // there is none, or something else
	case f.throttle:
		cmd.PrintErrf("redoubt: there is a limit %q of the library, which is another: see it without --throttle\n", name)
	default:
		cmd.PrintErrf("redoubt: there is a limit of CL.THROTTLE with the key %q, which is another: see it with --throttle\n", name)
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
		return fail(exitBusy, nil) // the JSON has said it
	}
	return nil
}

func newLimitTry() *cobra.Command {
	var f limitFlags
	var n int
	cmd := f.command(&cobra.Command{
		Use:   "try NAME --rate N/TIME",
		Short: "Take from a limit, if it has enough",
		Long: `Take one from the limit called NAME, or as many as --n says: all of them or none.
It does not wait.

Exit codes: 0 taken; 64 wrong usage, also more at once than the limit ever has;
65 the key holds something else; 69 no server; 75 over the limit, and nothing was taken.`,
		Example: `  redoubt limit try mail:42 --rate 10/h --burst 3 && ./send-mail
  redoubt limit try api --rate 100/s --n 5 --json | jq .retry_after_ms`,
	}, func(ctx context.Context, l *ratelimit.Limiter, name string) (ratelimit.Decision, error) {
		d, err := l.AllowN(ctx, name, n)
		if err == nil && d.RetryAfter == ratelimit.Never {
			err = usagef("n is %d; the limit %q never has more than %d at once", n, name, d.Limit.Burst)
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
		Short: "Say what a limit has left",
		Long: `Say what the limit called NAME has left, and take nothing.

Exit codes: 0 there is at least one; 64 wrong usage; 65 the key
holds something else; 69 no server; 75 there is none.`,
		Example: `  redoubt limit peek mail:42 --rate 10/h --burst 3
  redoubt limit peek user:42 --rate 30/m --burst 16 --throttle   # CL.THROTTLE user:42 15 30 60`,
	}, func(ctx context.Context, l *ratelimit.Limiter, name string) (ratelimit.Decision, error) {
		info, err := l.Info(ctx, name)
		return info.Decision, err
	})
}

func newLimitReset() *cobra.Command {
	var f serverFlags
	var throttle bool
	cmd := &cobra.Command{
		Use:   "reset NAME",
		Short: "Forget what was taken from a limit",
		Long: `Forget what was taken from the limit called NAME, so that it has all again. A
limit that the server keeps for NAME stays.

Exit codes: 0 done, 64 wrong usage, 65 the key holds something else, 69 no server.`,
		Example: `  redoubt limit reset mail:42`,
		Args:    oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd.Context(), cmd.ErrOrStderr(), func(ctx context.Context, client *redoubt.Client) error {
				opts := ratelimit.Options{Stored: true}
				if throttle {
					opts = ratelimit.Options{Limit: ratelimit.PerSecond(1), BareKeys: true} // any limit: it is forgotten
				}
				l, err := ratelimit.New(client, opts)
				if err == nil {
					err = l.Reset(ctx, args[0])
				}
				if err != nil {
					return limitFault(args[0], err)
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&throttle, "throttle", false, "NAME is a key of CL.THROTTLE or redis-cell")
	onThisLine(cmd.Flags(), "throttle")
	f.flags(cmd.Flags(), "limits")
	return cmd
}

func limitFault(name string, err error) error {
	if _, ok := errors.AsType[*exitError](err); ok {
		return err
	}
	if errors.Is(err, ratelimit.ErrNotConfigured) {
		return usagef("the server keeps no limit for %q: give one with --rate", name)
	}
	return serverFault("limit "+strconv.Quote(name), err)
}

// A rate is a flag's value: so many in a time.
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
		return fmt.Errorf("%q is no rate; want a number from 1 on, a slash, and s, m, h, d or a duration: 10/s, 3/10s", s)
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
