package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/lock"
)

// A lockState is the JSON form of a lock or a semaphore.
type lockState struct {
	Name    string        `json:"name"`
	Mode    string        `json:"mode"` // free, exclusive, shared, semaphore
	Count   int64         `json:"count"`
	Fence   int64         `json:"fence"`
	Waiters int64         `json:"waiters"`
	Holders []holderState `json:"holders"`
}

type holderState struct {
	Label string    `json:"label"`
	Fence int64     `json:"fence"`
	Since time.Time `json:"since"`
	TTL   int64     `json:"ttl_ms"`
}

func stateOf(name, mode string, count, fence, waiters int64, holders []lock.Holder) lockState {
	s := lockState{Name: name, Mode: mode, Count: count, Fence: fence, Waiters: waiters, Holders: []holderState{}}
	for _, h := range holders {
		s.Holders = append(s.Holders, holderState{Label: h.Label, Fence: h.Token, Since: h.Since.UTC(), TTL: h.TTL.Milliseconds()})
	}
	return s
}

func lockStateOf(i lock.Info) lockState {
	return stateOf(i.Name, i.Mode.String(), i.Count, i.Token, i.Waiters, i.Holders)
}

func semaphoreStateOf(i lock.SemaphoreInfo) lockState {
	return stateOf(i.Name, "semaphore", i.Taken, i.Token, i.Waiters, i.Holders)
}

func newLockLS() *cobra.Command {
	return newLS(&cobra.Command{
		Short: "List the locks and semaphores that are held or waited for",
		Long: `List the locks and semaphores that are held or have waiters. For each: mode, number
of holders, one holder's label, since when by the server's clock, the rest of its
TTL, the number of waiters and the last fencing token.

It scans all keys of the server, or of all primaries of a cluster, in small steps
that don't block other clients.

Exit codes: 0 listed, 64 wrong usage, 69 no server.`,
		Example: `  redoubt lock ls
  redoubt lock ls --match 'orders:*' --json | jq -r '.[].name'`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case cmd.ArgsLenAtDash() >= 0:
				return errors.New("this lists locks; to run a COMMAND under a lock called ls: redoubt lock run ls -- COMMAND")
			}
			return noArguments(cmd, args)
		},
	}, "locks", listLocks, printLocks)
}

// listLocks returns the locks and semaphores in use, sorted by name.
func listLocks(ctx context.Context, client *redoubt.Client, match string) ([]lockState, error) {
	locks, err := lock.NewRWMutex(client, lock.RWMutexOptions{})
	if err != nil {
		return nil, err
	}
	semaphores, err := lock.NewSemaphore(client, lock.SemaphoreOptions{})
	if err != nil {
		return nil, err
	}
	found := map[[2]string]lockState{} // a scan may return a name twice
	if err := collect(found, "lock", locks.List(ctx, match), lockStateOf); err != nil {
		return nil, err
	}
	if err := collect(found, "semaphore", semaphores.List(ctx, match), semaphoreStateOf); err != nil {
		return nil, err
	}
	states := slices.AppendSeq([]lockState{}, maps.Values(found)) // never nil: JSON null is no array
	slices.SortFunc(states, func(a, b lockState) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Mode, b.Mode))
	})
	return states, nil
}

func collect[I lock.Info | lock.SemaphoreInfo](found map[[2]string]lockState, kind string, all iter.Seq2[I, error], state func(I) lockState) error {
	for info, err := range all {
		if err != nil {
			return err
		}
		s := state(info)
		found[[2]string{kind, s.Name}] = s
	}
	return nil
}

func printLocks(w io.Writer, states []lockState) error {
	table := newTable(w)
	_, _ = fmt.Fprintln(table, "NAME\tMODE\tHOLDERS\tHELD BY\tSINCE\tTTL\tWAITERS\tFENCE")
	for _, s := range states {
		by, since, ttl := "-", "-", "-"
		if len(s.Holders) > 0 {
			h := s.Holders[0]
			by, since, ttl = h.by(), h.since(), h.ttl()
			if s.Count > 1 {
				by += fmt.Sprintf(" and %d more", s.Count-1)
			}
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\t%d\t%d\n", printable(s.Name), s.Mode, s.Count, by, since, ttl, s.Waiters, s.Fence)
	}
	return table.Flush()
}

func (h holderState) by() string {
	if h.Label == "" {
		return "-"
	}
	return printable(h.Label)
}

func (h holderState) since() string { return ago(h.Since) }

func (h holderState) ttl() string { return rounded(h.TTL) }

func newLockInfo() *cobra.Command {
	var f serverFlags
	var semaphore, asJSON bool
	cmd := &cobra.Command{
		Use:   "info NAME",
		Short: "Show the holders of a lock or a semaphore, and how many processes wait",
		Long: `Show the lock NAME, or the semaphore NAME with --semaphore: the number of waiters,
and for each holder its label, since when by the server's clock, the rest of its TTL
and its fencing token.

Exit codes: 0 shown, also if it is free; 64 wrong usage; 65 the key has another type;
69 no server.`,
		Example: `  redoubt lock info deploy
  redoubt lock info geocoder --semaphore --json`,
		Args: oneLock,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd.Context(), cmd.ErrOrStderr(), func(ctx context.Context, client *redoubt.Client) error {
				s, err := lookAt(ctx, client, args[0], semaphore)
				if err != nil {
					return serverFault(kindOf(semaphore)+" "+strconv.Quote(args[0]), err)
				}
				if asJSON {
					return printJSON(cmd.OutOrStdout(), s)
				}
				return printLock(cmd.OutOrStdout(), s)
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&semaphore, "semaphore", false, "NAME is a semaphore")
	flags.BoolVar(&asJSON, "json", false, "print a JSON object")
	onThisLine(flags, "semaphore", "json")
	f.flags(flags, "locks")
	return cmd
}

func oneLock(cmd *cobra.Command, args []string) error {
	switch {
	case cmd.ArgsLenAtDash() == 0 && len(args) > 0:
		return fmt.Errorf("to run a COMMAND under a lock called %s: redoubt lock run %[1]s -- COMMAND", cmd.Name())
	case len(args) != 1:
		return fmt.Errorf("want one NAME, not %d", len(args))
	}
	return nil
}

func lookAt(ctx context.Context, client *redoubt.Client, name string, semaphore bool) (lockState, error) {
	if semaphore {
		s, err := lock.NewSemaphore(client, lock.SemaphoreOptions{})
		if err != nil {
			return lockState{}, err
		}
		info, err := s.Info(ctx, name)
		return semaphoreStateOf(info), err
	}
	rw, err := lock.NewRWMutex(client, lock.RWMutexOptions{})
	if err != nil {
		return lockState{}, err
	}
	info, err := rw.Info(ctx, name)
	return lockStateOf(info), err
}

func printLock(w io.Writer, s lockState) error {
	table := newTable(w)
	_, _ = fmt.Fprintf(table, "name\t%s\nmode\t%s\nholders\t%d\nwaiters\t%d\nlast fence\t%d\n", printable(s.Name), s.Mode, s.Count, s.Waiters, s.Fence)
	if err := table.Flush(); err != nil || len(s.Holders) == 0 {
		return err
	}
	_, _ = fmt.Fprintln(table, "\nHELD BY\tSINCE\tTTL\tFENCE")
	for _, h := range s.Holders {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%d\n", h.by(), h.since(), h.ttl(), h.Fence)
	}
	if more := s.Count - int64(len(s.Holders)); more > 0 {
		_, _ = fmt.Fprintf(table, "and %d more\n", more)
	}
	return table.Flush()
}
