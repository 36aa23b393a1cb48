//go:build unix && !linux

package supervise

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// On this system a tree is only the command: see the package comment.
type tree struct {
	pid     int           // of the command
	exited  chan int      // the command's status, once
	gone    chan struct{} // closed when it has been reaped
	process *os.Process
}

func startTree(path string, argv, env []string, pgid int) (*tree, error) {
	process, err := os.StartProcess(path, argv, &os.ProcAttr{
		Env:   env,
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pgid: pgid},
	})
	if err != nil {
		return nil, err
	}
	t := &tree{pid: process.Pid, exited: make(chan int, 1), gone: make(chan struct{}), process: process}
	go func() {
		status := 1
		if state, err := process.Wait(); err == nil {
			if ws, ok := state.Sys().(syscall.WaitStatus); ok {
				status = statusOf(ws)
			}
		}
		t.exited <- status
		close(t.gone)
	}()
	return t, nil
}

func (t *tree) signal(sig syscall.Signal) { _ = t.process.Signal(sig) } // it may have ended

func (t *tree) terminate() {
	t.signal(syscall.SIGTERM)
	t.signal(syscall.SIGCONT)
}

func (t *tree) kill() { t.signal(syscall.SIGKILL) }

// Without a subreaper this process adopts no orphans.
func adoptOrphans() error { return nil }

func children() []int { return nil }

// sweep kills the command of a dead guard, and returns when it is gone. The command is not a child of this
// process, so sweep polls for its end. Its pid can only have been reused if the command ended in the instant
// before the guard.
func sweep(command int, _ map[int]bool) {
	if command == 0 {
		return // it was not started
	}
	for wait := time.Millisecond; !errors.Is(syscall.Kill(command, syscall.SIGKILL), syscall.ESRCH); wait = min(2*wait, 50*time.Millisecond) {
		time.Sleep(wait)
	}
}
