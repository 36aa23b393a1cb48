//go:build unix

package handover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A Successor is a process that can take the place of this one.
type Successor struct {
	Pid int

	process *os.Process
	sockets *Sockets
	yield   *os.File // stays open until this process ends: the caller keeps the Successor
}

// patience is how long a successor may take until it is ready.
const patience = time.Minute

// program is how this process was called, in the directory where it began: an update may have put a new file there.
var program = func() string {
	path, err := exec.LookPath(os.Args[0])
	if err == nil && !strings.HasPrefix(path, "/") {
		var dir string
		dir, err = os.Getwd()
		path = dir + "/" + path
	}
	if err != nil {
		path, _ = os.Executable()
	}
	return path
}()

// Start starts this program again, with its arguments and all its sockets, and waits until that process is ready. It kills
// the process when ctx ends before that, or after a minute.
func (s *Sockets) Start(ctx context.Context) (_ *Successor, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it was not ready within %v", patience))
	defer cancel()
	files, about, err := s.files()
	if err != nil {
		return nil, err
	}
	defer func() { closeAll(files) }()
	ready, theirReady, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ready.Close()
	theirYield, yield, err := os.Pipe()
	files = append([]*os.File{theirReady, theirYield}, files...)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = yield.Close()
		}
	}()
	// The watchdog of systemd is told about this process.
	env := append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "WATCHDOG_PID=") }), about)
	process, err := start(env, append([]*os.File{os.Stdin, os.Stdout, os.Stderr}, files...))
	if err != nil {
		return nil, err
	}
	closeAll(files) // so that the end of the process ends the pipe
	files = nil
	var status error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		state, err := process.Wait()
		if status = err; err == nil && !state.Success() {
			status = &exec.ExitError{ProcessState: state}
		}
	}()
	said := make(chan bool, 1)
	go func() {
		text, _ := io.ReadAll(ready)
		said <- len(text) > 0
	}()
	kill := func(why error) error {
		_ = process.Kill()
		<-ended
		return why
	}
	select {
	case ok := <-said:
		if ok {
			return &Successor{Pid: process.Pid, process: process, sockets: s, yield: yield}, nil
		}
		select {
		case <-ended:
			if status == nil {
				status = errors.New("exit status 0")
			}
			return nil, fmt.Errorf("it ended before it was ready: %w", status)
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
	return nil, kill(context.Cause(ctx))
}

// start starts this program with its arguments and these files. Package os/exec would set the sockets to blocking
// mode, for this process too: then Accept holds a thread, and Close waits for the next client.
func start(env []string, files []*os.File) (*os.Process, error) {
	fds := make([]uintptr, len(files))
	for i, f := range files {
		c, err := f.SyscallConn()
		if err == nil {
			err = c.Control(func(fd uintptr) { fds[i] = fd })
		}
		if err != nil {
			return nil, err
		}
	}
	pid, _, err := syscall.StartProcess(program, os.Args, &syscall.ProcAttr{Env: env, Files: fds})
	runtime.KeepAlive(files)
	if err != nil {
		return nil, &os.PathError{Op: "fork/exec", Path: program, Err: err}
	}
	return os.FindProcess(pid)
}

// Yield gives the place of this process to the successor, which owns the paths of the unix sockets from now on. An error
// means that the successor has ended, and nothing has changed.
func (n *Successor) Yield() error {
	if _, err := n.yield.Write([]byte{1}); err != nil {
		return err
	}
	n.sockets.giveUp()
	return nil
}

// Stop ends the successor as a signal would.
func (n *Successor) Stop() { _ = n.process.Signal(syscall.SIGTERM) }

func closeOnExec(fds ...int) {
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
	}
}
