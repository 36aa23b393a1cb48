//go:build unix

package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// guardName is the guard's argv[0], which ps shows.
const guardName = "redoubt-guard"

// GuardMain runs the guard and never returns in a process that [Run] started as its guard; elsewhere it does
// nothing. Call it at the start of main, and of TestMain in tests of Run.
func GuardMain() {
	if len(os.Args) == 0 || os.Args[0] != guardName {
		return
	}
	// The kernel sends the parent-death signal when the thread that started the command ends. This is the
	// main goroutine, locked to a thread that lives as long as the process.
	runtime.LockOSThread()
	if err := guard(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, guardName+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// guard runs the guard. args are the descriptors of the control and the report pipe, the path of the
// command, and its argv.
func guard(args []string) error {
	if len(args) < 4 {
		return errors.New("this process is a part of `redoubt lock`: don't start it by hand")
	}
	control, err := inherited(args[0])
	if err != nil {
		return err
	}
	report, err := inherited(args[1])
	if err != nil {
		return err
	}
	surviveSignals()

	g := &guardian{records: make(chan record), report: report}
	if g.alarm, err = newAlarm(); err != nil {
		return err
	}
	go func() {
		defer close(g.records)
		for {
			rec, err := readRecord(control)
			if err != nil {
				return
			}
			g.records <- rec
		}
	}()
	kind, value := g.run(args[2], args[3:])
	if kind == 0 {
		return nil
	}
	_ = writeRecord(report, kind, value) // redoubt may be gone
	return nil
}

// inherited opens a descriptor that the parent passed on. The command does not inherit it.
func inherited(arg string) (*os.File, error) {
	fd, err := strconv.Atoi(arg)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("invalid descriptor %q", arg)
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "pipe"), nil
}

// surviveSignals makes SIGKILL the only signal that ends the guard. It catches signals instead of ignoring
// them, because the command would inherit ignored signals. A SIGHUP or SIGINT that was ignored from the
// start, as by nohup(1), stays ignored; Go's runtime can't tell for other signals.
func surviveSignals() {
	c := make(chan os.Signal, 1) // never read; Notify doesn't block
	for _, sig := range []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM, syscall.SIGPIPE, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGWINCH,
	} {
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
}

// A guardian is the state of the guard process.
type guardian struct {
	records chan record // closed when redoubt is gone
	report  *os.File
	alarm   *alarm
	plan    plan
	group   int
	tree    *tree
}

// run returns the last record to report, or kind 0 if redoubt is gone.
func (g *guardian) run(path string, argv []string) (kind, int64) {
	for g.plan.deadline == 0 {
		rec, ok := <-g.records
		if !ok {
			return 0, 0 // redoubt died before the command was started
		}
		g.note(rec)
	}
	if do, _ := g.plan.step(now()); do != leave {
		return recEnded, 0 // too late to start the command
	}
	var err error
	if g.tree, err = startTree(path, argv, os.Environ(), g.group); err != nil {
		errno := syscall.EIO
		errors.As(err, &errno)
		return recNoStart, int64(errno)
	}
	_ = writeRecord(g.report, recStarted, int64(g.tree.pid)) // redoubt may be gone
	exited := g.tree.exited
	status := 0
	for {
		do, next := g.plan.step(now())
		switch do {
		case kill:
			g.killAll()
			return recEnded, int64(status)
		case term:
			g.tree.terminate()
		case leave:
		}
		if err := g.alarm.set(next); err != nil {
			g.killAll() // without a clock the guard can't keep the deadline
			return recEnded, int64(status)
		}
		select {
		case status = <-exited:
			if !g.plan.ending() {
				return recExited, int64(status)
			}
			exited = nil // its descendants must end too
		case <-g.tree.gone:
			// Both channels may be ready. If the guard ends the command because of the lease, it
			// reports that, whichever came first.
			select {
			case status = <-exited:
			default:
			}
			if g.plan.ending() {
				return recEnded, int64(status)
			}
			return recExited, int64(status)
		case rec, ok := <-g.records:
			if !ok {
				g.plan.orphaned = true
				g.records = nil
				continue
			}
			g.note(rec)
		case <-g.alarm.C:
		}
	}
}

func (g *guardian) note(rec record) {
	switch rec.kind {
	case recGroup:
		g.group = int(rec.value)
	case recGrace:
		g.plan.grace = time.Duration(rec.value)
	case recMargin:
		g.plan.margin = time.Duration(rec.value)
	case recDeadline:
		g.plan.deadline = instant(rec.value)
	case recSignal:
		g.tree.signal(syscall.Signal(rec.value))
	case recLost:
		g.plan.lost = true
	case recStarted, recExited, recEnded, recNoStart: // never sent this way
	}
}

// killAll returns when no process of the tree is left. It never returns if a process is stuck in the
// kernel, which nothing can kill.
func (g *guardian) killAll() {
	wait := time.Millisecond
	for {
		g.tree.kill()
		select {
		case <-g.tree.gone:
			return
		case <-time.After(wait):
			wait = min(2*wait, 50*time.Millisecond)
		}
	}
}

// statusOf returns the exit status of a command as a shell shows it.
func statusOf(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}
