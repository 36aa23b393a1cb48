package supervise

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A tree is the command and its descendants. The process that starts it becomes the subreaper of all of
// them.
type tree struct {
	pid    int           // of the command
	exited chan int      // the command's own status, once
	gone   chan struct{} // closed when no process of the tree is left

	// mu is held while children are reaped. While it is held, no direct child's pid can be reused.
	mu struct {
		sync.Mutex
		reaped bool // the command
	}
}

// startTree runs a command in process group pgid. The calling goroutine must be locked to a thread that lives
// as long as this process: the kernel sends the parent-death signal when that thread ends.
func startTree(path string, argv, env []string, pgid int) (*tree, error) {
	if err := adoptOrphans(); err != nil {
		return nil, err
	}
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Env:   env,
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pgid: pgid, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return nil, err
	}
	t := &tree{pid: pid, exited: make(chan int, 1), gone: make(chan struct{})}
	go t.reap()
	return t, nil
}

// adoptOrphans makes this process the parent of every descendant whose own parent dies.
func adoptOrphans() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// reap collects every child that ends, including adopted ones.
func (t *tree) reap() {
	for {
		// Wait without reaping, so that mu isn't held while blocking.
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil: // ECHILD: no child left, and so no descendant
			close(t.gone)
			return
		}
		t.mu.Lock()
		for {
			var ws syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if err != nil || pid <= 0 {
				break
			}
			if pid == t.pid && !t.mu.reaped {
				t.mu.reaped = true
				t.exited <- statusOf(ws)
			}
		}
		t.mu.Unlock()
	}
}

// signal sends sig to the command itself, if it is still running.
func (t *tree) signal(sig syscall.Signal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.mu.reaped {
		_ = syscall.Kill(t.pid, sig) // EPERM if it changed its user: redoubt can do nothing
	}
}

// terminate sends SIGTERM to the command and all its descendants, and SIGCONT so that stopped processes can
// act on it. Parents get it before their children: a shell whose child ended first would start the next
// child before it acts on its own SIGTERM.
func (t *tree) terminate() {
	parents := parentsOfAll()
	for _, pid := range descendants(parents, os.Getpid()) {
		signalIfChildOf(pid, parents[pid], syscall.SIGTERM)
		signalIfChildOf(pid, parents[pid], syscall.SIGCONT)
	}
}

// kill sends SIGKILL to the direct children. Grandchildren then become direct children, so the caller
// repeats it until gone is closed.
func (t *tree) kill() {
	t.mu.Lock()
	defer t.mu.Unlock()
	killChildren(nil)
}

// killChildren sends SIGKILL to all direct children that are not in except, and returns how many there
// were. No other goroutine may reap children meanwhile.
func killChildren(except map[int]bool) int {
	n := 0
	for _, pid := range children() {
		if !except[pid] {
			n++
			_ = syscall.Kill(pid, syscall.SIGKILL) // already dead, or not ours to kill
		}
	}
	return n
}

// sweep kills the processes that the dead guard left to this process, until only the children in except are
// left. The kernel has killed the command itself.
func sweep(_ int, except map[int]bool) {
	wait := time.Millisecond
	for killChildren(except) > 0 {
		time.Sleep(wait)
		wait = min(2*wait, 50*time.Millisecond)
		for _, pid := range children() {
			if !except[pid] {
				_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			}
		}
	}
}

// children lists the direct children of this process, including zombies.
func children() []int {
	self := os.Getpid()
	var pids []int
	for pid, parent := range parentsOfAll() {
		if parent == self {
			pids = append(pids, pid)
		}
	}
	return pids
}

// descendants returns the processes below root, parents before their children.
func descendants(parents map[int]int, root int) []int {
	children := map[int][]int{}
	for pid, parent := range parents {
		if pid != root {
			children[parent] = append(children[parent], pid)
		}
	}
	below := children[root]
	for i := 0; i < len(below); i++ {
		below = append(below, children[below[i]]...)
	}
	return below
}

// parentsOfAll maps every process that this process can see to its parent.
func parentsOfAll() map[int]int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(-1) // use the names that were read before an error
	parents := map[int]int{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if parent, ok := parentOf(pid); ok {
			parents[pid] = parent
		}
	}
	return parents
}

func parentOf(pid int) (int, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	return parseParent(stat)
}

// parseParent reads the parent's pid from /proc/PID/stat, as in "12 (a name) S 1 …". A name may contain
// spaces and parentheses, so it ends at the last parenthesis. See proc_pid_stat(5).
func parseParent(stat []byte) (int, bool) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, false
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 2 {
		return 0, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return parent, err == nil && parent >= 0
}

// signalIfChildOf signals a process through a pidfd if it still has that parent, so that it never signals a
// process with a reused pid.
func signalIfChildOf(pid, parent int, sig syscall.Signal) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ENOSYS) { // Linux before 5.3
		_ = syscall.Kill(pid, sig)
		return
	}
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	if p, ok := parentOf(pid); ok && p == parent {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}
