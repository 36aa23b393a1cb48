package supervise

import (
	"errors"
	"fmt"
	"time"
)

// A Lease is what [Run] needs to know of a held lock. Something else renews
// it.
type Lease interface {
	// Deadline is the time until which nobody else can have the lock, by
	// this machine's clock: when the last successful acquire or extend was
	// sent, plus the TTL, less an allowance for drift. It moves with every
	// renewal. Its monotonic reading counts, not the wall clock.
	Deadline() time.Time
	// Done is closed when the lease is lost.
	Done() <-chan struct{}
}

// A Command says what to run. It gets the standard input, output and error of
// this process.
type Command struct {
	// Path is the file to execute, as exec.LookPath finds it.
	Path string
	// Args are argv, with argv[0].
	Args []string
	// Env is the whole environment, as in os.Environ.
	Env []string
	// Times say how long ending the command may take. See [DefaultTimes].
	Times Times
}

// Times say how long before the lease's deadline the command is ended.
type Times struct {
	// Grace is how long a command that got SIGTERM has until it is killed.
	Grace time.Duration
	// Margin is how long before the deadline it is killed. It must be enough
	// for the kernel to kill and reap all its processes.
	Margin time.Duration
	// Poll is how often the lease is asked for its deadline.
	Poll time.Duration
}

// DefaultTimes derives them from the lease's TTL: a sixth of it as the grace,
// at most 10 s; a twentieth as the margin, at least 50 ms and at most 1 s. So
// with 30 s, whose renewals are sent each 10 s, two renewals in a row must
// fail until SIGTERM is sent.
func DefaultTimes(ttl time.Duration) Times {
	return Times{
		Grace:  min(ttl/6, 10*time.Second),
		Margin: min(max(ttl/20, 50*time.Millisecond), time.Second),
		Poll:   min(max(ttl/30, 10*time.Millisecond), time.Second),
	}
}

// WithGrace returns t with another grace. It is an error when grace and
// margin would take more than half of ttl, because then one late renewal
// would end the command.
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

// An Outcome says how a command ended.
type Outcome struct {
	// Status is the command's exit status, or 128+n when signal n killed it.
	Status int
	// Lost is true when the command was ended because of its lease. Status
	// then says little.
	Lost bool
}

// ErrStart is matched by the error of [Run] when the command could not be
// started. The cause is wrapped, and may match fs.ErrNotExist or
// fs.ErrPermission.
var ErrStart = errors.New("supervise: command not started")
