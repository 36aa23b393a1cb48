package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/lock"
)

type forceFlags struct {
	serverFlags

	force     bool
	asJSON    bool
	semaphore bool
	fence     int64
	fenced    bool // --fence is given
}

// A releasedState is the JSON form of a release.
type releasedState struct {
	Name     string `json:"name"`
	Released bool   `json:"released"` // false: it was free
	Label    string `json:"label"`    // of the holder
	Fence    int64  `json:"fence"`
}

func newLockRelease() *cobra.Command {
	var f forceFlags
	cmd := &cobra.Command{
		Use:   "release NAME --force [--fence N]",
		Short: "Take a lock away from its holder",
		Long: `Take the lock NAME away from its holder, and wake the first waiter. With --fence only
if the holder has that fencing token, which ls and info show. Readers share a token
and lose the lock together. With --semaphore NAME is a semaphore, and --fence names
the permit, unless only one is taken.

The holder notices at its next renewal, after at most a third of its TTL; redoubt
lock then kills its command. Until then the old and the next holder run at the same
time. Make sure that the old holder has stopped, or that the resource it works on
refuses its token.

There is no prompt; pass --force.

Exit codes: 0 released, or already free; 64 wrong usage; 69 no server; 75 held with
another token than --fence, and not released.`,
		Example: `  redoubt lock release deploy --force
  redoubt lock release geocoder --semaphore --force --fence 1760000000000000`,
		Args: oneLock,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.fenced = cmd.Flags().Changed("fence")
			if f.fenced {
				if f.fence < 1 {
					return usagef("--fence: token is %d; want the token of the holder", f.fence)
				}
			}
			if !f.force {
				return usagef("a lock is released when its holder's command ends; to take it from its holder, pass --force")
			}
			return f.with(cmd.Context(), cmd.ErrOrStderr(), func(ctx context.Context, client *redoubt.Client) error {
				err := f.release(ctx, client, args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
				if _, ok := errors.AsType[*exitError](err); ok || err == nil {
					return err
				}
				return serverFault(f.what(args[0]), err)
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.force, "force", false, "required, because the lock may be in use")
	flags.Int64Var(&f.fence, "fence", 0, "release it only if its holder has the fencing token `N`")
	flags.BoolVar(&f.semaphore, "semaphore", false, "NAME is a semaphore")
	onThisLine(flags, "force", "fence", "semaphore")
	jsonFlag(flags, &f.asJSON, "print a JSON object")
	f.flags(flags, "locks")
	return cmd
}

func (f *forceFlags) what(name string) string { return kindOf(f.semaphore) + " " + strconv.Quote(name) }

func (f *forceFlags) release(ctx context.Context, client *redoubt.Client, name string, stdout, stderr io.Writer) error {
	before, err := lookAt(ctx, client, name, f.semaphore)
	if err != nil {
		return err
	}
	fence := f.fence
	switch {
	case before.Count == 0:
		return f.nothing(name, before, stdout, stderr)
	case f.fenced:
	case f.semaphore && before.Count > 1:
		return usagef("%s has %d permits taken: choose one with --fence; redoubt lock info --semaphore lists them", f.what(name), before.Count)
	default:
		fence = before.Holders[0].Fence
	}
	released, err := forceRelease(ctx, client, name, fence, f.semaphore)
	if err != nil {
		return err
	}
	if !released {
		now, err := lookAt(ctx, client, name, f.semaphore)
		if err != nil {
			return err
		}
		return f.nothing(name, now, stdout, stderr)
	}
	label, many := "", ""
	for _, h := range before.Holders {
		if h.Fence == fence {
			label = h.Label
		}
	}
	if !f.semaphore && before.Count > 1 {
		many = fmt.Sprintf(" and %d more", before.Count-1)
	}
	return answer(stdout, f.asJSON, releasedState{name, true, label, fence},
		fmt.Sprintf("released %s, held%s%s with fence %d", f.what(name), by(label), many, fence))
}

// nothing explains why nothing was released.
func (f *forceFlags) nothing(name string, s lockState, stdout, stderr io.Writer) error {
	switch {
	case s.Count == 0 && f.asJSON:
		return printJSON(stdout, releasedState{Name: name})
	case s.Count == 0:
		_, _ = fmt.Fprintf(stderr, "redoubt: %s is free: there is nothing to release\n", f.what(name))
		return nil
	case f.semaphore:
		return failf(exitBusy, "nothing was released: no permit of %s has this fencing token; %d others are held", f.what(name), s.Count)
	}
	return failf(exitBusy, "nothing was released: %s is held%s with fence %d", f.what(name), by(s.Holders[0].Label), s.Fence)
}

func forceRelease(ctx context.Context, client *redoubt.Client, name string, fence int64, semaphore bool) (bool, error) {
	if semaphore {
		s, err := lock.NewSemaphore(client, lock.SemaphoreOptions{})
		if err != nil {
			return false, err
		}
		return s.ForceRelease(ctx, name, fence)
	}
	rw, err := lock.NewRWMutex(client, lock.RWMutexOptions{})
	if err != nil {
		return false, err
	}
	return rw.ForceRelease(ctx, name, fence)
}
