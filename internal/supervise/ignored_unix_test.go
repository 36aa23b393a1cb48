//go:build unix

package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

// signalsByDefault makes child processes start with the default for SIGHUP and SIGINT, even if the tests run
// under nohup(1) or in the background of a script: a shell can't trap a signal that was ignored when it
// started. A caught signal is not inherited as ignored.
func signalsByDefault() {
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// startHelperAs starts the helper by a shell that runs the script as; $0 is the helper.
func startHelperAs(t *testing.T, as, script, arg, ttl string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", as, self)
	cmd.Env = append(os.Environ(), "SUPERVISE_HELPER="+script, "SUPERVISE_ARG="+arg, "SUPERVISE_TTL="+ttl)
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// An orphaned process group gets SIGHUP when a member is stopped and another ends. That must not be the
	// group of the tests.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestIgnoredStaysIgnored: a command under nohup(1), or in the background of a script, ignores the signals that
// redoubt was started to ignore, and redoubt does not forward them.
func TestIgnoredStaysIgnored(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "ready")
			script := fmt.Sprintf(`kill -%d $$; echo >> "$1"; while [ ! -e "$1.go" ]; do sleep 0.05; done; exit 7`, int(sig))
			cmd := startHelperAs(t, fmt.Sprintf(`trap '' %d; exec "$0"`, int(sig)), script, file, "60s", "SUPERVISE_RENEW=1")
			lines(t, file, 1) // the command got one, and lives
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file+".go", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != 7 {
				t.Errorf("exit %d; want 7", code)
			}
		})
	}
}
