// Package supervise runs a command for as long as a lease is held, and makes
// sure that the command has ended before the lease can run out.
//
// # Processes
//
// On Unix three processes take part:
//
//	redoubt          holds and renews the lease, forwards signals
//	└─ redoubt-guard ends the command when it must end
//	   └─ command    with whatever it starts
//
// The guard exists because the process that holds the lease can be killed or
// stopped itself. It is the same binary, started with another argv[0]. It
// learns the lease's deadline through a pipe. When the pipe closes, redoubt is
// gone, and the guard ends the command. When redoubt is merely stopped, by ^Z
// or SIGSTOP, no renewal arrives, and the guard ends the command in time.
// When the guard is killed, redoubt does its work. When both are killed at
// once, the kernel kills the command (PR_SET_PDEATHSIG), but not what the
// command started: that is the limit on Linux.
//
// On Linux the guard is the command's subreaper: every process that descends
// from the command becomes the guard's child when its parent dies, daemons in
// sessions of their own too. So killing direct children until there are none
// kills them all, and a process number is never reused between the look and
// the kill, because nobody but the guard can reap a child of the guard. Other
// ways were looked at: a process group loses what calls setsid and would take
// the command away from the terminal's foreground; a cgroup or a process
// namespace needs privileges.
//
// The command stays in redoubt's process group, as with nice(1) or flock(1).
// So ^C and ^Z reach it from the terminal, it can read from the terminal, and
// a pipeline works. Only the guard has a group of its own, and thus isn't
// stopped by ^Z.
//
// On other Unix systems the guard ends the command itself, not what it
// started. There the kernel doesn't kill the command of a dead guard: redoubt
// does, by the pid that the guard has told it. The command goes on when redoubt
// and the guard are killed at once, or the guard in the instant in which it
// starts the command. Where there is no Unix there is no guard: a command outlives
// redoubt when redoubt is killed.
//
// # Time
//
// With the lease's local deadline D (see Lease), a grace g and a margin m:
//
//	D-m-g  SIGTERM to the command and all its descendants
//	D-m    SIGKILL to them, again and again until none is left
//	D-m/2  redoubt kills the guard, if that hasn't reported yet, and sweeps up
//	D      the lease may be over on the server, another may get it
//
// When the lease is known to be lost, there is no grace: SIGKILL at once. When
// redoubt died, the grace begins at once, and D-m still ends it.
//
// On Linux the guard's clock goes on while the machine sleeps
// (CLOCK_BOOTTIME), so a command on a laptop that wakes up after D is killed
// at once. A virtual machine that is paused from outside can't notice;
// against that helps only a fencing token that the resource checks.
package supervise
