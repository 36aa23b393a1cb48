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

// Owned makes the kernel kill a server of a test when the thread that started it ends, so
// when the test's process ends.
//
// The server has a process group of its own. The kernel may send SIGHUP to a whole group
// when one process of it is stopped and another ends. So a paused server in the group of
// the tests would end make and all tests that run.
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
