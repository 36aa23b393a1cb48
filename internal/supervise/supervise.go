package supervise

import (
	"errors"
	"fmt"
	"time"
)

// A Lease is a held lock, as far as [Run] needs it. The caller keeps renewing it.
type Lease interface {
	// Deadline returns the time until which no other process can have the lock, by this machine's clock:
	// the time at which the last successful acquire or extend was sent, plus the TTL, less an allowance
	// for drift. It moves with every renewal. Run uses its monotonic reading, not the wall clock.
	Deadline() time.Time
	// Done is closed when the lease is lost.
	Done() <-chan struct{}
}

// A Command describes the command to run. It inherits the standard input, output and error of this process.
type Command struct {
	// Path is the file to execute, as exec.LookPath finds it.
	Path string
	// Args is argv, including argv[0].
	Args []string
	// Env is the whole environment, as in os.Environ.
	Env []string
	// Times limit how long ending the command takes. See [DefaultTimes].
	Times Times
}

// Times determine how long before the lease's deadline Run ends the command.
type Times struct {
	// Grace is the time between SIGTERM and SIGKILL.
	Grace time.Duration
	// Margin is the time between SIGKILL and the deadline. The kernel must be able to kill and reap all
	// processes in that time.
	Margin time.Duration
	// Poll is how often Run reads the lease's deadline.
	Poll time.Duration
}

// DefaultTimes derives Times from the lease's TTL. The grace is a sixth of it, at most 10 s. The margin is a
// twentieth of it, at least 50 ms and at most 1 s. So with a TTL of 30 s, renewed each 10 s, two renewals in
// a row must fail before SIGTERM is sent.
func DefaultTimes(ttl time.Duration) Times {
	return Times{
		Grace:  min(ttl/6, 10*time.Second),
		Margin: min(max(ttl/20, 50*time.Millisecond), time.Second),
		Poll:   min(max(ttl/30, 10*time.Millisecond), time.Second),
	}
}

// WithGrace returns t with another grace. It returns an error if grace and margin take more than half of
// ttl, because a single late renewal would then end the command.
func (t Times) WithGrace(grace, ttl time.Duration) (Times, error) {
	if grace < 0 {
		return t, fmt.Errorf("grace %v is negative", grace)
	}
	if grace+t.Margin > ttl/2 {
		return t, fmt.Errorf("grace %v is too long for a lease of %v: at most %v", grace, ttl, ttl/2-t.Margin)
	}
	t.Grace = grace
	return t, nil
}

// An Outcome describes how a command ended.
type Outcome struct {
	// Status is the command's exit status, or 128+n if signal n killed it.
	Status int
	// Lost is true if Run ended the command because of its lease. Status then has little meaning.
	Lost bool
}

// ErrStart matches the error of [Run] if the command could not be started. The error wraps the cause, which
// may match fs.ErrNotExist or fs.ErrPermission.
var ErrStart = errors.New("supervise: command not started")
