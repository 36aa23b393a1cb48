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

// minLockTTL leaves the margins of package supervise enough milliseconds.
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

// newLock is `redoubt lock NAME -- COMMAND`, and has the commands about locks
// below it.
func newLock() *cobra.Command {
	cmd := lockCommand("lock NAME [flags] -- COMMAND [ARGS…]")
	cmd.Short = "Run a command while holding a lock; list, look at and release locks"
	run := lockCommand("run NAME [flags] -- COMMAND [ARGS…]")
	run.Short = "The same as redoubt lock NAME, for a NAME that is a word like ls"
	cmd.AddCommand(newLockLS(), newLockInfo(), newLockRelease(), run)
	return cmd
}

func lockCommand(use string) *cobra.Command {
	f := lockFlags{grace: durationOr{word: "auto", isWord: true}}
	cmd := &cobra.Command{
		Use: use,
		Long: `Run COMMAND while holding the lock called NAME: among all that use the same
server, one at a time. The lock is held until COMMAND ends, however long that
takes, and is then released. It waits for its turn, for as long as --wait says, or
with --no-wait not at all.

With --shared it holds the lock as a reader: beside other readers, and while no
plain redoubt lock has it. With --fair those who wait are served in the order in
which they asked. With --semaphore N up to N commands run at a time.

The words ls, info, release and run after lock are commands of their own: a
lock that is called so is taken with redoubt lock run NAME.

COMMAND finds the lock's name in REDOUBT_LOCK_NAME and the fencing token, a
number that is larger for each later holder, in REDOUBT_FENCE.

Signals sent to redoubt are passed on to COMMAND; ^C and ^Z of a terminal reach
it directly. When the server can't be reached for so long that the lock is in
danger, COMMAND and all that it started get SIGTERM, and SIGKILL before another
could hold the lock. The same happens when redoubt itself is killed or stopped.
On macOS and the BSDs this covers COMMAND, not what it started; on Windows a
COMMAND outlives a redoubt that is killed.

Exit codes: COMMAND's own, or 128+n when signal n killed it; 64 wrong usage;
65 the key holds something else; 69 no server; 70 the lock was lost and COMMAND
ended; 71 the guard process was killed, and COMMAND with it; 75 others held the lock
for as long as --wait, or there was --no-wait; 126 COMMAND can't be executed; 127 there is no such COMMAND.`,
		Example: `  redoubt lock deploy -- ./deploy.sh production
  redoubt lock geocoder --semaphore 3 -- ./geocode batch-7
  redoubt lock nightly --no-wait -- ./report || test $? -eq 75
  redoubt lock migrate --wait 5m --ttl 1m --backend redis://10.0.0.5:6379 -- ./migrate up`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch dash := cmd.ArgsLenAtDash(); {
			case dash < 0:
				return errors.New("want NAME -- COMMAND [ARGS…]: the -- is missing")
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
	flags.DurationVar(&f.ttl, "ttl", lock.DefaultTTL, "how long others wait at most when this machine dies; the lock is renewed meanwhile")
	flags.Var(&f.grace, "grace", "time between SIGTERM and SIGKILL when the lock is in danger; auto is a sixth of the TTL, at most 10s")
	flags.StringVar(&f.label, "label", "", "shown to others who find the lock busy (default host:pid)")
	flags.BoolVar(&f.shared, "shared", false, "hold the lock as a reader, beside all others that say so")
	flags.BoolVar(&f.fair, "fair", false, "take turns with all others that say so, in the order in which they asked")
	flags.IntVar(&f.permits, "semaphore", 0, "take one of `N` permits instead of the lock: N commands run at a time")
	onThisLine(flags, "shared", "fair", "semaphore")
	f.flags(flags, "locks")
	return cmd
}

// runUnderLock returns nil when the command succeeded.
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
	path, err := findCommand(argv[0]) // before others have to wait for nothing
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
		// It ended by itself, and a moment too late to know.
		return failf(exitLost, "%s was lost before %s ended: %w", f.what(name), argv[0], released)
	case released != nil:
		_, _ = fmt.Fprintf(stderr, "redoubt: %s was not released and stays for up to %v: %s\n", f.what(name), f.ttl, textOf(released))
	}
	if out.Status != 0 {
		return fail(out.Status, nil) // what there is to say the command has said
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
	if errors.Is(err, exec.ErrDot) { // the shell's rule about a PATH that names "."
		err = nil
	}
	if err != nil {
		return "", fail(startCode(err), err)
	}
	return path, nil
}

// startCode is what a shell exits with when it can't run a command.
func startCode(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitCannotRun
}

// obtain acquires the lock, or says why not by an exit code. Signals that come
// meanwhile end it; later ones are left to the caller.
func obtain(f lockFlags, password, name string, signals <-chan os.Signal, stderr io.Writer) (*lock.Lease, func(), error) {
	ctx, interrupted, stop := untilSignal(signals)
	lease, closeAll, err := open(ctx, f, password, name, stderr)
	stop()
	if code := interrupted(); code != 0 {
		err = fail(code, nil)
		if lease != nil { // got it at the same moment
			ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
			defer cancel()
			_ = lease.Release(ctx) // its TTL ends it otherwise
		}
	}
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	return lease, closeAll, nil
}

// open connects and acquires. closeAll is never nil; it also waits until an
// acquire that was interrupted has been taken back.
func open(ctx context.Context, f lockFlags, password, name string, stderr io.Writer) (lease *lock.Lease, closeAll func(), err error) {
	client, closeAll, err := f.connect(ctx, password, stderr)
	if err != nil {
		return nil, func() {}, err
	}
	lease, err = acquire(ctx, client, f, name, stderr)
	return lease, closeAll, err
}

// releaseTimeout bounds the release at the end. What can't be released ends
// with its TTL.
const releaseTimeout = 5 * time.Second

func acquire(ctx context.Context, client *redoubt.Client, f lockFlags, name string, stderr io.Writer) (*lock.Lease, error) {
	if f.label == "" {
		host, _ := os.Hostname() // a label without it still tells something
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

// kind returns how to acquire what the flags ask for.
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
	// Not a Mutex: a writer that waits keeps new readers out.
	rw, err := lock.NewRWMutex(client, lock.RWMutexOptions{TTL: f.ttl, Label: f.label})
	if f.shared {
		return rw.TryAcquireShared, err
	}
	return rw.TryAcquire, err
}

// what is how messages call it.
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
