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
	semaphore bool
	fence     int64
	fenced    bool // --fence was given
}

func newLockRelease() *cobra.Command {
	var f forceFlags
	cmd := &cobra.Command{
		Use:   "release NAME --force [--fence N]",
		Short: "Take a lock away from its holder",
		Long: `Take the lock called NAME away from whoever holds it, and give it to one that
waits. With --fence only from the holder with that fencing token, as ls and
info show it; without, from the one that holds it now. Readers share a token
and lose the lock together. With --semaphore NAME is that of a semaphore, and
--fence says which permit, unless only one is taken.

The holder learns of it when it renews, after a third of its TTL at most; redoubt
lock then kills its command at once. Until then it goes on beside the next one. So
be sure that it has stopped, or that what it works on refuses its token.

It asks nothing: --force is required instead.

Exit codes: 0 released, or it was free already; 64 wrong usage; 69 no server; 75 it
is held with another token than --fence, and stays so.`,
		Example: `  redoubt lock release deploy --force
  redoubt lock release geocoder --semaphore --force --fence 1760000000000000`,
		Args: oneLock,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.fenced = cmd.Flags().Changed("fence")
			if f.fenced {
				if f.fence < 1 {
					return usagef("--fence: token is %d; want that of the holder", f.fence)
				}
			}
			if !f.force {
				return usagef("a lock is released by its holder, when its command ends; to take it away, say --force")
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
	flags.BoolVar(&f.force, "force", false, "required: what is taken away may be in use")
	flags.Int64Var(&f.fence, "fence", 0, "take it away only from the holder with this fencing token, `N`")
	flags.BoolVar(&f.semaphore, "semaphore", false, "NAME is that of a semaphore")
	onThisLine(flags, "force", "fence", "semaphore")
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
		return f.nothing(name, before, stderr)
	case f.fenced:
	case f.semaphore && before.Count > 1:
		return usagef("%s has %d permits taken: name one with --fence; redoubt lock info --semaphore shows them", f.what(name), before.Count)
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
		return f.nothing(name, now, stderr)
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
	_, err = fmt.Fprintf(stdout, "released %s, held%s%s with fence %d\n", f.what(name), by(label), many, fence)
	return err
}

// nothing says why nothing was released.
func (f *forceFlags) nothing(name string, s lockState, stderr io.Writer) error {
	switch {
	case s.Count == 0:
		_, _ = fmt.Fprintf(stderr, "redoubt: %s is free: there is nothing to release\n", f.what(name))
		return nil
	case f.semaphore:
		return failf(exitBusy, "no permit of %s is held with this fence; %d others are: nothing was released", f.what(name), s.Count)
	}
	return failf(exitBusy, "%s is held%s with fence %d, which is another: nothing was released", f.what(name), by(s.Holders[0].Label), s.Fence)
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
