package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// pty returns the two sides of a new terminal.
func pty(t *testing.T) (keyboard, screen *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		// Some sandboxes have no terminals, and nothing else here needs one.
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { _ = keyboard.Close() })
	fd := int(keyboard.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	return keyboard, screen
}

// startOnTerminal starts a shell script as the leader of a session on a terminal. $1 is this binary and $2 is
// arg; helper runs the script under.
func startOnTerminal(t *testing.T, screen *os.File, script, under, arg, ttl string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script, "sh", self, arg)
	cmd.Env = append(os.Environ(), "SUPERVISE_HELPER="+under, "SUPERVISE_ARG="+arg,
		"SUPERVISE_TTL="+ttl, "SUPERVISE_RENEW=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestInterruptFromTerminal: ^C reaches the command exactly once. Many programs exit at once on a second one.
func TestInterruptFromTerminal(t *testing.T) {
	t.Parallel()
	keyboard, screen := pty(t)
	file := filepath.Join(t.TempDir(), "got")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := startOnTerminal(t, screen, `exec "$1"`, `SUPERVISE_RECEIVER="$1" exec `+self, file, "60s")
	lines(t, file, 1)
	if _, err := keyboard.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	lines(t, file, 2)
	// A second SIGINT would be forwarded before this.
	if err := cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 7 {
		t.Errorf("exit %d; want 7", code)
	}
	if got := lines(t, file, 3); !slices.Equal(got, []string{"ready", "interrupt", "user defined signal 1"}) {
		t.Errorf("the command got %q", got)
	}
}

// TestInputFromTerminal: the command may read from the terminal.
func TestInputFromTerminal(t *testing.T) {
	t.Parallel()
	keyboard, screen := pty(t)
	file := filepath.Join(t.TempDir(), "got")
	cmd := startOnTerminal(t, screen, `exec "$1"`,
		`echo ready >> "$1"; read line; echo "$line" >> "$1"`, file, "60s")
	lines(t, file, 1)
	if _, err := keyboard.WriteString("hello\n"); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if got := lines(t, file, 2); got[1] != "hello" {
		t.Errorf("the command read %q", got[1])
	}
}

// TestStopFromTerminal: ^Z stops the command and returns the terminal to the shell. If it stays stopped, it is
// killed by the deadline: fg finds a lost lease, and the command did not run another step.
func TestStopFromTerminal(t *testing.T) {
	t.Parallel()
	keyboard, screen := pty(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "got")
	cmd := startOnTerminal(t, screen, `
		set -m
		"$1"; echo stopped $? >> "$2"
		while [ ! -e "$2.go" ]; do sleep 0.05; done
		fg > /dev/null; echo ended $? >> "$2"`,
		`echo $$ >> "$1"; while :; do sleep 0.05; done; echo on >> "$1"`, file, "8s")
	pid := pids(t, lines(t, file, 1))[0]
	if _, err := keyboard.WriteString("\x1a"); err != nil {
		t.Fatal(err)
	}
	if got := lines(t, file, 2)[1]; got != fmt.Sprintf("stopped %d", 128+int(syscall.SIGTSTP)) {
		t.Fatalf("after ^Z the shell says %q", got)
	}
	eventually(t, "the stopped command is killed", func() bool { return !running(pid) })
	if err := os.WriteFile(file+".go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if got := lines(t, file, 3)[2]; got != "ended 70" {
		t.Errorf("after fg the shell says %q; want 70, lost", got)
	}
}
