package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/supervise"
	"github.com/redoubt-go/redoubt/lock"
)

// minLockTTL is the smallest TTL whose grace and margin in package supervise are long enough to act.
const minLockTTL = time.Second

type lockFlags struct {
	serverFlags

	label string
	ttl   time.Duration
	wait  waitFlags
	grace durationOr

	shared    bool
	fair      bool
	semaphore bool // --semaphore was given
	permits   int
}

// newLock returns `redoubt lock NAME -- COMMAND` with the subcommands for locks.
func newLock() *cobra.Command {
	cmd := lockCommand("lock NAME [flags] -- COMMAND [ARGS…]")
	cmd.Short = "Run a command while holding a lock; list, show and release locks"
	run := lockCommand("run NAME [flags] -- COMMAND [ARGS…]")
	run.Short = "The same as redoubt lock NAME, for a NAME that is also a subcommand, like ls"
	cmd.AddCommand(newLockLS(), newLockInfo(), newLockRelease(), run)
	return cmd
}

func lockCommand(use string) *cobra.Command {
	f := lockFlags{grace: durationOr{word: "auto", isWord: true}}
	cmd := &cobra.Command{
		Use: use,
		Long: `Run COMMAND while holding the lock NAME. Of all processes that use the same server,
only one holds the lock at a time. If another process holds it, redoubt waits: for
as long as --wait says, or not at all with --no-wait. It holds the lock until
COMMAND ends, however long that takes, and then releases it.

With --shared it holds the lock as a reader, together with other readers. With
--fair it waits in a queue. With --semaphore N up to N commands run at a time.

ls, info, release and run are subcommands. To lock one of these names, use
redoubt lock run NAME.

The environment of COMMAND has the name of the lock in REDOUBT_LOCK_NAME, and in
REDOUBT_FENCE the fencing token, a number that grows with each holder.

redoubt passes signals on to COMMAND; ^C and ^Z on a terminal reach COMMAND directly.
If redoubt can't renew the lock, because the server is unreachable or redoubt itself
was killed or stopped, COMMAND and all its descendants get SIGTERM, and SIGKILL
before another process can hold the lock. On macOS and the BSDs this covers only
COMMAND itself; on Windows COMMAND survives when redoubt is killed.

Exit codes: the exit code of COMMAND, or 128+n if signal n killed it; 64 wrong usage;
65 the key has another type; 69 no server; 70 the lock was lost and COMMAND was
ended; 71 the guard process was killed, and COMMAND with it; 75 the lock was not
free within --wait, or with --no-wait; 126 COMMAND can't be executed; 127 there is
no such COMMAND.`,
		Example: `  redoubt lock deploy -- ./deploy.sh production
  redoubt lock geocoder --semaphore 3 -- ./geocode batch-7
  redoubt lock nightly --no-wait -- ./report || test $? -eq 75
  redoubt lock migrate --wait 5m --ttl 1m --backend redis://10.0.0.5:6379 -- ./migrate up`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch dash := cmd.ArgsLenAtDash(); {
			case dash < 0:
				text := "want NAME -- COMMAND [ARGS…]: the -- is missing"
				if len(args) > 0 {
					if near := suggestion(cmd, args[0]); near != "" {
						text += fmt.Sprintf("; or did you mean %q?", near)
					}
				}
				return errors.New(text)
			case dash != 1:
				return fmt.Errorf("want one NAME before the --, not %d", dash)
			case len(args) == 1:
				return errors.New("want a COMMAND after the --")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.semaphore = cmd.Flags().Changed("semaphore")
			return runUnderLock(f, args[0], args[1:], cmd.ErrOrStderr())
		},
	}
	f.wait.flags(cmd, "others hold the lock")
	flags := cmd.Flags()
	flags.DurationVar(&f.ttl, "ttl", lock.DefaultTTL, "how long the lock stays held if this machine crashes; redoubt renews it while COMMAND runs")
	flags.Var(&f.grace, "grace", "time between SIGTERM and SIGKILL when the lock can't be renewed; auto: a sixth of the TTL, at most 10s")
	flags.StringVar(&f.label, "label", "", "text shown to processes that find the lock held (default host:pid)")
	flags.BoolVar(&f.shared, "shared", false, "hold the lock as a reader, together with other readers")
	flags.BoolVar(&f.fair, "fair", false, "wait in the order of arrival, among all processes with --fair")
	flags.IntVar(&f.permits, "semaphore", 0, "take one of `N` permits instead of the lock: up to N commands run at a time")
	onThisLine(flags, "shared", "fair", "semaphore")
	f.flags(flags, "locks")
	return cmd
}

// runUnderLock returns nil if the command succeeded.
func runUnderLock(f lockFlags, name string, argv []string, stderr io.Writer) error {
	if f.shared && f.fair || f.semaphore && (f.shared || f.fair) {
		return usagef("--shared, --fair and --semaphore exclude each other: give one")
	}
	if f.semaphore {
		if f.permits < 1 || f.permits > lock.MaxLimit {
			return usagef("--semaphore: limit is %d; want 1 to %d", f.permits, lock.MaxLimit)
		}
	}
	times, err := lockTimes(f)
	if err != nil {
		return err
	}
	path, err := findCommand(argv[0]) // before taking a lock in vain
	if err != nil {
		return err
	}
	password, err := f.password.read()
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, supervise.Signals()...)
	defer signal.Stop(signals)

	lease, closeConn, err := obtain(f, password, name, signals, stderr)
	if err != nil {
		return err
	}
	defer closeConn()
	out, err := supervise.Run(lease, supervise.Command{
		Path: path, Args: argv, Times: times,
		Env: append(os.Environ(), "REDOUBT_LOCK_NAME="+name, "REDOUBT_FENCE="+strconv.FormatInt(lease.Token(), 10)),
	}, signals)
	lost := lease.Err()
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	released := lease.Release(ctx)
	switch {
	case errors.Is(err, supervise.ErrStart):
		if errno, ok := errors.AsType[syscall.Errno](err); ok {
			err = errno
		}
		return failf(startCode(err), "%s: %w", argv[0], err)
	case err != nil:
		return fail(exitOS, err)
	case out.Lost:
		if lost == nil {
			lost = errors.New("the server could not be reached to renew it")
		}
		return failf(exitLost, "%s: %s was ended: %w", f.what(name), argv[0], lost)
	case errors.Is(released, lock.ErrNotHeld):
		// The command ended by itself, just after the lease did.
		return failf(exitLost, "%s was lost before %s ended: %w", f.what(name), argv[0], released)
	case released != nil:
		_, _ = fmt.Fprintf(stderr, "redoubt: %s was not released and stays held for up to %v: %s\n", f.what(name), f.ttl, textOf(released))
	}
	if out.Status != 0 {
		return fail(out.Status, nil) // the command printed its own error
	}
	return nil
}

func lockTimes(f lockFlags) (supervise.Times, error) {
	if f.ttl < minLockTTL || f.ttl > lock.MaxTTL {
		return supervise.Times{}, usagef("ttl is %v; want %v to %v", f.ttl, minLockTTL, lock.MaxTTL)
	}
	times := supervise.DefaultTimes(f.ttl)
	if f.grace.isWord {
		return times, nil
	}
	times, err := times.WithGrace(f.grace.d, f.ttl)
	if err != nil {
		return times, fail(exitUsage, err)
	}
	return times, nil
}

func findCommand(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) { // a PATH with ".": the shell allows it
		err = nil
	}
	if err != nil {
		return "", fail(startCode(err), err)
	}
	return path, nil
}

// startCode is the exit code of a shell that can't run a command.
func startCode(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitCannotRun
}

// obtain acquires the lock, or returns an error with an exit code. A signal that arrives meanwhile ends
// it; later signals are left to the caller.
func obtain(f lockFlags, password, name string, signals <-chan os.Signal, stderr io.Writer) (*lock.Lease, func(), error) {
	ctx, interrupted, stop := untilSignal(signals)
	lease, closeAll, err := open(ctx, f, password, name, stderr)
	stop()
	if code := interrupted(); code != 0 {
		err = fail(code, nil)
		if lease != nil { // acquired at the same moment
			ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
			defer cancel()
			_ = lease.Release(ctx) // on an error its TTL ends it
		}
	}
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	return lease, closeAll, nil
}

// open connects and acquires. closeAll is never nil; it also waits until an interrupted acquire was
// undone.
func open(ctx context.Context, f lockFlags, password, name string, stderr io.Writer) (lease *lock.Lease, closeAll func(), err error) {
	client, closeAll, err := f.connect(ctx, password, stderr)
	if err != nil {
		return nil, func() {}, err
	}
	lease, err = acquire(ctx, client, f, name, stderr)
	return lease, closeAll, err
}

// releaseTimeout limits the release at the end. A lock that was not released ends with its TTL.
const releaseTimeout = 5 * time.Second

func acquire(ctx context.Context, client *redoubt.Client, f lockFlags, name string, stderr io.Writer) (*lock.Lease, error) {
	if f.label == "" {
		host, _ := os.Hostname() // the pid alone is still useful
		f.label = host + ":" + strconv.Itoa(os.Getpid())
	}
	try, err := f.kind(client)
	if err != nil {
		return nil, fail(exitUsage, err)
	}
	lease, busy, err := try(ctx, name)
	if err == nil && busy != nil {
		if f.wait.no {
			return nil, failf(exitBusy, "%s is held%s", f.what(name), by(busy.Label))
		}
		_, _ = fmt.Fprintf(stderr, "redoubt: waiting for %s, held%s\n", f.what(name), by(busy.Label))
		waiting, cancel := f.wait.within(ctx)
		defer cancel()
		lease, err = busy.Wait(waiting)
		if err != nil && waiting.Err() != nil && ctx.Err() == nil {
			return nil, failf(exitBusy, "%s was not free within %v", f.what(name), &f.wait.time)
		}
	}
	if err != nil {
		return nil, serverFault(f.what(name), err)
	}
	return lease, nil
}

// kind returns the function that acquires the kind of lock in the flags.
func (f lockFlags) kind(client *redoubt.Client) (try func(context.Context, string) (*lock.Lease, *lock.Busy, error), err error) {
	if f.semaphore {
		s, err := lock.NewSemaphore(client, lock.SemaphoreOptions{TTL: f.ttl, Label: f.label})
		return func(ctx context.Context, name string) (*lock.Lease, *lock.Busy, error) {
			return s.TryAcquire(ctx, name, f.permits)
		}, err
	}
	if f.fair {
		m, err := lock.New(client, lock.Options{TTL: f.ttl, Label: f.label, Fair: true})
		return m.TryAcquire, err
	}
	// Not a Mutex: a waiting RW writer keeps new readers out.
	rw, err := lock.NewRWMutex(client, lock.RWMutexOptions{TTL: f.ttl, Label: f.label})
	if f.shared {
		return rw.TryAcquireShared, err
	}
	return rw.TryAcquire, err
}

// what is the name of the lock in messages.
func (f lockFlags) what(name string) string { return kindOf(f.semaphore) + " " + strconv.Quote(name) }

func kindOf(semaphore bool) string {
	if semaphore {
		return "semaphore"
	}
	return "lock"
}

func by(label string) string {
	if label == "" {
		return ""
	}
	return " by " + strconv.Quote(label)
}
