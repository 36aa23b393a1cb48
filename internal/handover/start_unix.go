//go:build unix

package handover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
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
	cmd := exec.Command(program, os.Args[1:]...) //nolint:gosec,noctx // this program, which outlives ctx
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = files
	// The watchdog of systemd is told about this process.
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "WATCHDOG_PID=") }), about)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	closeAll(files) // so that the end of the process ends the pipe
	files = nil
	var status error
	ended := make(chan struct{})
	go func() {
		status = cmd.Wait()
		close(ended)
	}()
	said := make(chan bool, 1)
	go func() {
		text, _ := io.ReadAll(ready)
		said <- len(text) > 0
	}()
	kill := func(why error) error {
		_ = cmd.Process.Kill()
		<-ended
		return why
	}
	select {
	case ok := <-said:
		if ok {
			return &Successor{Pid: cmd.Process.Pid, process: cmd.Process, sockets: s, yield: yield}, nil
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
