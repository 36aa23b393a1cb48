package redistest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// Owned has the kernel kill a server of a test when the thread that started it
// ends, so when the test's process ends.
//
// The child has a process group of its own. Where no terminal watches over a group,
// the kernel sends SIGHUP to all of it when one of it is stopped and another ends:
// a paused server would end make, and all tests that run.
func Owned() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitStopped returns when no thread of a process runs any more, also when it is
// gone.
func awaitStopped(pid int) error {
	look := time.NewTicker(100 * time.Microsecond)
	defer look.Stop()
	for began := time.Now(); time.Since(began) < time.Minute; <-look.C {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(threads, runs) {
			return nil
		}
	}
	return fmt.Errorf("process %d has not stopped within a minute", pid)
}

// runs says whether a thread does, by its file stat: its state is behind its name,
// which is in parentheses.
func runs(stat string) bool {
	text, err := os.ReadFile(stat)
	if err != nil {
		return false // it has ended
	}
	i := bytes.LastIndexByte(text, ')')
	return i < 0 || i+2 >= len(text) || !bytes.ContainsRune([]byte("TtZX"), rune(text[i+2]))
}
