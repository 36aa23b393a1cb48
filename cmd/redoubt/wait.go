package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"
)

// waitFlags are the flags of commands that can wait. --wait refuses 0, because BLOCK 0 of the server's
// commands waits for ever.
type waitFlags struct {
	time waitTime
	no   bool
}

// flags adds --wait and --no-wait to cmd, whose Args must be set. while completes "wait while …".
func (w *waitFlags) flags(cmd *cobra.Command, while string) {
	w.time = waitTime{durationOr{word: "forever", isWord: true}}
	flags := cmd.Flags()
	flags.Var(&w.time, "wait", "how long to wait while "+while+": a duration or forever; see also --no-wait")
	flags.BoolVar(&w.no, "no-wait", false, "do not wait: exit with 75 if "+while)
	onThisLine(flags, "no-wait")
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if w.no && cmd.Flags().Changed("wait") { // settings are filled in later
			return errors.New("--wait and --no-wait exclude each other: give one")
		}
		return check(cmd, args)
	}
}

// within returns a context that ends with the time to wait.
func (w *waitFlags) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.time.isWord {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, w.time.d)
}

// rest returns the rest of the time to wait of a command that began at began.
func (w *waitFlags) rest(began time.Time) time.Duration {
	switch {
	case w.no:
		return 0
	case w.time.isWord:
		return math.MaxInt64
	default:
		return w.time.d - time.Since(began)
	}
}

// A waitTime is the value of --wait.
type waitTime struct{ durationOr }

// Set implements pflag.Value.
func (v *waitTime) Set(s string) error {
	if d, err := time.ParseDuration(s); err == nil && d == 0 {
		return fmt.Errorf("%q is not a time to wait: use --no-wait to not wait at all, or --wait %s", s, v.word)
	}
	return v.durationOr.Set(s)
}
