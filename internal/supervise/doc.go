// Package supervise runs a command while a lease is held, and ends the command before the lease can run
// out.
//
//	func main() {
//		supervise.GuardMain() // returns unless this process is the guard
//		…
//	}
//
//	outcome, err := supervise.Run(lease, supervise.Command{
//		Path: path, Args: argv, Env: os.Environ(), Times: supervise.DefaultTimes(ttl),
//	}, signals)
//
// # Processes
//
// On Unix three processes take part:
//
//	redoubt          holds and renews the lease, forwards signals
//	└─ redoubt-guard ends the command when it must end
//	   └─ command    and its descendants
//
// The guard exists because the process that holds the lease can be killed or stopped itself. It is the
// same binary, started with another argv[0]. redoubt sends it the lease's deadline through a pipe. A closed
// pipe means that redoubt is gone, and the guard ends the command. If redoubt is only stopped, by ^Z or
// SIGSTOP, no renewal arrives, and the guard ends the command in time. If the guard is killed, redoubt
// ends the command. If both are killed at once, the kernel kills the command (PR_SET_PDEATHSIG), but not
// its descendants: that is the limit on Linux.
//
// On Linux the guard is the subreaper of the command: when a process dies, its children become children of
// the guard, including daemons in their own sessions. So killing direct children until none are left kills
// all descendants. A pid can't be reused between look and kill, because only the guard can reap its
// children. Rejected: a process group misses processes that call setsid, and would take the command out of
// the terminal's foreground; a cgroup or a pid namespace needs privileges.
//
// The command stays in redoubt's process group, as with nice(1) or flock(1). So ^C and ^Z reach it from the
// terminal, it can read the terminal, and pipelines work. Only the guard has its own group, so that ^Z
// does not stop it.
//
// On other Unix systems the guard ends only the command itself. There the kernel does not kill the command
// of a dead guard: redoubt does, by the pid that the guard has reported. The command continues if redoubt
// and the guard are killed at once, or the guard in the instant in which it starts the command. Windows
// has no guard: a command survives when redoubt is killed.
//
// # Time
//
// With the lease's local deadline D (see Lease), a grace g and a margin m:
//
//	D-m-g  SIGTERM to the command and all its descendants
//	D-m    SIGKILL to them, repeated until none is left
//	D-m/2  redoubt kills the guard if it has not reported, and kills what it left
//	D      the lease may end on the server, and another process may get it
//
// If the lease is known to be lost, there is no grace: SIGKILL at once. If redoubt has died, the grace
// begins at once, and D-m still ends it.
//
// On Linux the guard's clock advances while the machine sleeps (CLOCK_BOOTTIME), so that a laptop that
// wakes up after D kills the command at once. A virtual machine can't notice that it was paused; only a
// fencing token that the resource checks helps there.
package supervise
