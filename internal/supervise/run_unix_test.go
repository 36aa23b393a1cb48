//go:build unix

package supervise

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/await"
)

// TestMain runs the test binary as the guard, or as the process that calls Run in tests that kill it.
func TestMain(m *testing.M) {
	// Under the race detector a process sleeps for a second before it exits.
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	GuardMain()
	if file := os.Getenv("SUPERVISE_RECEIVER"); file != "" {
		os.Exit(receiver(file))
	}
	if script := os.Getenv("SUPERVISE_HELPER"); script != "" {
		os.Exit(helper(script))
	}
	signalsByDefault()
	os.Exit(m.Run())
}

// fakeLease is a lease whose deadline the test moves.
type fakeLease struct {
	deadline func() time.Time
	done     chan struct{}
}

func (l *fakeLease) Deadline() time.Time   { return l.deadline() }
func (l *fakeLease) Done() <-chan struct{} { return l.done }

// renewed never ends: its deadline is always ttl away.
func renewed(ttl time.Duration) *fakeLease {
	return &fakeLease{func() time.Time { return time.Now().Add(ttl) }, make(chan struct{})}
}

// until ends at a fixed time.
func until(deadline time.Time) *fakeLease {
	return &fakeLease{func() time.Time { return deadline }, make(chan struct{})}
}

// roomy are times for a busy machine: SIGTERM after a quarter of the TTL, SIGKILL after a half.
func roomy(ttl time.Duration) Times {
	return Times{Grace: ttl / 4, Margin: ttl / 2, Poll: DefaultTimes(ttl).Poll}
}

func shell(script string, times Times, args ...string) Command {
	return Command{
		Path: "/bin/sh", Args: append([]string{"sh", "-c", script, "sh"}, args...),
		Env: os.Environ(), Times: times,
	}
}

// helper is a process that runs a script under a lease. The lease lasts SUPERVISE_TTL from now, and helper
// writes its end to a file beside SUPERVISE_ARG; or it is always renewed.
func helper(script string) int {
	ttl, err := time.ParseDuration(os.Getenv("SUPERVISE_TTL"))
	if err != nil {
		panic(err)
	}
	deadline := time.Now().Add(ttl)
	if err := os.WriteFile(os.Getenv("SUPERVISE_ARG")+".deadline", []byte(deadline.Format(time.RFC3339Nano)), 0o600); err != nil {
		panic(err)
	}
	lease := until(deadline)
	if os.Getenv("SUPERVISE_RENEW") != "" {
		lease = renewed(ttl)
	}
	times := roomy(ttl)
	if os.Getenv("SUPERVISE_DEFAULT") != "" {
		times = DefaultTimes(ttl)
	}
	signals := make(chan os.Signal, 8)
	notify(signals)
	out, err := Run(lease, shell(script, times, os.Getenv("SUPERVISE_ARG")), signals)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 71
	}
	if out.Lost {
		return 70
	}
	return out.Status
}

func startHelper(t *testing.T, script, arg, ttl string, env ...string) *exec.Cmd {
	t.Helper()
	return startHelperAs(t, `exec "$0"`, script, arg, ttl, env...)
}

// helperDeadline returns when the lease of the helper with this arg ends.
func helperDeadline(t *testing.T, arg string) time.Time {
	t.Helper()
	text, rerr := os.ReadFile(arg + ".deadline")
	deadline, err := time.Parse(time.RFC3339Nano, string(text))
	if rerr != nil || err != nil {
		t.Fatal(rerr, err)
	}
	return deadline
}

// eventually polls until ok is true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	await.Until(t, 20*time.Second, what, ok)
}

// lines waits until a file has n lines.
func lines(t *testing.T, file string, n int) []string {
	t.Helper()
	var got []string
	eventually(t, fmt.Sprintf("%d lines in %s", n, file), func() bool {
		got = nil
		f, err := os.Open(file)
		if err != nil {
			return false
		}
		defer func() { _ = f.Close() }()
		for s := bufio.NewScanner(f); s.Scan(); {
			got = append(got, s.Text())
		}
		return len(got) >= n
	})
	return got
}

func pids(t *testing.T, texts []string) []int {
	t.Helper()
	var ns []int
	for _, text := range texts {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		ns = append(ns, n)
	}
	return ns
}

// running reports whether a process is alive and not a zombie.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// family is a script that starts a command, a child and a daemon in its own session. All ignore SIGTERM and
// write their pids to $1.
const family = `
trap '' TERM
echo $$ >> "$1"
sh -c 'echo $$ >> "$1"; while :; do sleep 1; done' sh "$1" &
setsid sh -c 'echo $$ >> "$1"; while :; do sleep 1; done' sh "$1" &
wait
while :; do sleep 1; done`

func TestStatus(t *testing.T) {
	for script, want := range map[string]int{
		"exit 0":                    0,
		"exit 3":                    3,
		"kill -TERM $$":             128 + 15,
		"kill -KILL $$":             128 + 9,
		`test "$X" = y`:             0,
		"sleep 9 >&- 2>&- & exit 5": 5, // what it leaves in the background isn't waited for
	} {
		t.Run(script, func(t *testing.T) {
			c := shell(script, DefaultTimes(30*time.Second))
			c.Env = append(c.Env, "X=y")
			out, err := Run(renewed(30*time.Second), c, nil)
			if err != nil || out.Lost || out.Status != want {
				t.Errorf("Run = %+v, %v; want %d", out, err, want)
			}
		})
	}
}

func TestNotStarted(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(dir, "garbage")
	if err := os.WriteFile(garbage, []byte("\x00\x01"), 0o700); err != nil { //nolint:gosec // must be executable
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		filepath.Join(dir, "none"): fs.ErrNotExist,
		plain:                      fs.ErrPermission,
		garbage:                    syscall.ENOEXEC,
	} {
		_, err := Run(renewed(time.Minute), Command{Path: path, Args: []string{path}, Times: DefaultTimes(time.Minute)}, nil)
		if !errors.Is(err, ErrStart) || !errors.Is(err, want) {
			t.Errorf("%s: %v; want %v", path, err, want)
		}
	}
}

func TestOverBeforeStart(t *testing.T) {
	witness := filepath.Join(t.TempDir(), "ran")
	out, err := Run(until(time.Now()), shell(`: > "$1"`, DefaultTimes(time.Second), witness), nil)
	if err != nil || !out.Lost {
		t.Errorf("Run = %+v, %v; want lost", out, err)
	}
	if _, err := os.Stat(witness); err == nil {
		t.Error("the command ran without a lease")
	}
}

func TestTermBeforeDeadline(t *testing.T) {
	const ttl = 8 * time.Second
	deadline := time.Now().Add(ttl)
	file := filepath.Join(t.TempDir(), "got")
	script := `trap 'echo TERM >> "$1"; exit 9' TERM; while :; do sleep 1; done`
	out, err := Run(until(deadline), shell(script, roomy(ttl), file), nil)
	if err != nil || !out.Lost || out.Status != 9 {
		t.Errorf("Run = %+v, %v; want lost with the command's own status 9", out, err)
	}
	if left := time.Until(deadline); left <= roomy(ttl).Margin {
		t.Errorf("ended %v before the deadline, after the time for SIGKILL", left)
	}
	if got := lines(t, file, 1); len(got) != 1 {
		t.Errorf("the command got %q", got)
	}
}

func TestFamilyKilledBeforeDeadline(t *testing.T) {
	t.Parallel()
	const ttl = 8 * time.Second
	deadline := time.Now().Add(ttl)
	file := filepath.Join(t.TempDir(), "pids")
	out, err := Run(until(deadline), shell(family, roomy(ttl), file), nil)
	left := time.Until(deadline)
	if err != nil || !out.Lost {
		t.Errorf("Run = %+v, %v; want lost", out, err)
	}
	if left <= 0 {
		t.Errorf("ended %v after the deadline", -left)
	}
	for _, pid := range pids(t, lines(t, file, 3)) {
		if running(pid) {
			t.Errorf("process %d outlived the lease", pid)
		}
	}
}

func TestLostLeaseKillsAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	lease := renewed(time.Hour)
	var ps []int
	go func() {
		defer close(lease.done)
		ps = pids(t, lines(t, file, 3))
	}()
	out, err := Run(lease, shell(family, DefaultTimes(time.Hour), file), nil)
	if err != nil || !out.Lost {
		t.Errorf("Run = %+v, %v; want lost", out, err)
	}
	<-lease.done
	for _, pid := range ps {
		if running(pid) {
			t.Errorf("process %d outlived the lease", pid)
		}
	}
}

func TestRenewalKeepsItRunning(t *testing.T) {
	const ttl = 3 * time.Second // the renewal may be told 1.8 s late, by a machine that does much else
	start := time.Now()
	lease := &fakeLease{func() time.Time {
		if time.Since(start) < 500*time.Millisecond {
			return start.Add(ttl)
		}
		return start.Add(time.Hour)
	}, make(chan struct{})}
	out, err := Run(lease, shell("sleep 3.2", DefaultTimes(ttl)), nil)
	if err != nil || out.Lost || out.Status != 0 {
		t.Errorf("Run = %+v, %v; want success past the first deadline", out, err)
	}
}

func TestSignalsAreForwarded(t *testing.T) {
	for _, sig := range []syscall.Signal{
		syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2,
	} {
		t.Run(sig.String(), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "ready")
			signals := make(chan os.Signal, 1)
			go func() {
				lines(t, file, 1)
				signals <- sig
			}()
			script := fmt.Sprintf(`trap 'exit 42' %d; echo >> "$1"; while :; do sleep 0.05; done`, int(sig))
			out, err := Run(renewed(time.Minute), shell(script, DefaultTimes(time.Minute), file), signals)
			if err != nil || out.Lost || out.Status != 42 {
				t.Errorf("Run = %+v, %v; want the trap's 42", out, err)
			}
		})
	}
}

// TestHolderKilled: kill -9 of the process that holds the lease ends the command and all its descendants, long
// before the lease ends.
//
// Promise: A command under a lock and all its descendants end before the lease does when redoubt is killed.
func TestHolderKilled(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pids")
	start := time.Now()
	// The grace of 20 s is 3.3 s, so SIGKILL comes long before the deadline.
	cmd := startHelper(t, family, file, "20s", "SUPERVISE_DEFAULT=1")
	ps := pids(t, lines(t, file, 3))
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for _, pid := range ps {
		eventually(t, fmt.Sprintf("process %d ends", pid), func() bool { return !running(pid) })
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

// TestHolderStopped: a stopped holder can't renew, and the guard ends the command in time.
//
// Promise: A command under a lock ends before the lease does when redoubt is stopped.
func TestHolderStopped(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pids")
	start := time.Now()
	cmd := startHelper(t, family, file, "8s", "SUPERVISE_RENEW=1")
	ps := pids(t, lines(t, file, 3))
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	for _, pid := range ps {
		eventually(t, fmt.Sprintf("process %d ends", pid), func() bool { return !running(pid) })
	}
	if ended := time.Now(); ended.After(stopped.Add(8 * time.Second)) {
		t.Errorf("ended %v after the stop, past the deadline", ended.Sub(stopped))
	} else if ended.Before(start.Add(4 * time.Second)) {
		t.Errorf("ended after %v: the stop itself ended it", ended.Sub(start))
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 70 {
		t.Errorf("helper exited with %d; want 70, lost", code)
	}
}

// TestGuardKilled: the holder ends the command when the guard is killed.
func TestGuardKilled(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pids")
	cmd := startHelper(t, `echo $PPID >> "$1"`+family, file, "60s")
	ps := pids(t, lines(t, file, 4))
	if err := syscall.Kill(ps[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 71 {
		t.Errorf("helper exited with %d; want 71", code)
	}
	for _, pid := range ps {
		if running(pid) {
			t.Errorf("process %d outlived the guard", pid)
		}
	}
}

// TestGuardStopped: the holder ends the command before the deadline when the guard is stopped.
func TestGuardStopped(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pids")
	cmd := startHelper(t, `echo $PPID >> "$1"`+family, file, "8s")
	ps := pids(t, lines(t, file, 4))
	if err := syscall.Kill(ps[0], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 70 {
		t.Errorf("helper exited with %d; want 70, lost", code)
	}
	if late := time.Since(helperDeadline(t, file)); late > 0 {
		t.Errorf("ended %v past the deadline", late)
	}
	for _, pid := range ps {
		if running(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
}

// TestGuardTellsItsCommand: where the kernel does not kill the command of a dead guard, redoubt must know the
// pid of the command.
func TestGuardTellsItsCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	c := shell(`echo $$ > "$1"; exec sleep 60`, DefaultTimes(time.Minute), file)
	r := &runner{lease: renewed(time.Minute), times: c.Times, mine: map[int]bool{}}
	for _, pid := range children() {
		r.mine[pid] = true
	}
	if err := adoptOrphans(); err != nil {
		t.Fatal(err)
	}
	if err := r.startGuard(c); err != nil {
		t.Fatal(err)
	}
	pid := pids(t, lines(t, file, 1))[0]
	eventually(t, "a report", func() bool { return len(r.reports) == 1 })
	if err := r.guard.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	out, err := r.watch(nil)
	if err == nil || out.Lost {
		t.Errorf("watch = %+v, %v; want the guard's end", out, err)
	}
	if r.command != pid {
		t.Errorf("the command is %d to redoubt; want %d", r.command, pid)
	}
	if running(pid) {
		t.Errorf("process %d outlived the guard", pid)
	}
}

// TestUntoldIsToldLater: redoubt keeps records that it could not send to the guard, and does not rely on a
// deadline that the guard does not know.
func TestUntoldIsToldLater(t *testing.T) {
	guard, control, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = guard.Close(), control.Close() }()
	full := 0
	for full == 0 { // the deadline may pass before the write begins
		if err := control.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if full, err = control.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("a full pipe took %d bytes: %v", full, err)
		}
	}

	old, renewed := time.Now().Add(time.Second), time.Now().Add(time.Hour)
	r := &runner{lease: until(renewed), times: DefaultTimes(time.Second), control: control, asked: old, told: old}
	r.tell(recSignal, int64(syscall.SIGTERM))
	r.tellDeadline()
	if !r.told.Equal(old) {
		t.Error("it counts on a deadline that the guard never got")
	}

	if _, err := io.ReadFull(guard, make([]byte, full)); err != nil {
		t.Fatal(err)
	}
	r.tellDeadline()
	if !r.told.Equal(renewed) {
		t.Error("the deadline was not sent again")
	}
	if err := control.Close(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []kind{recSignal, recDeadline} {
		if rec, err := readRecord(guard); err != nil || rec.kind != want {
			t.Errorf("the guard reads %+v, %v; want %q", rec, err, want)
		}
	}
	if rec, err := readRecord(guard); err == nil {
		t.Errorf("and then it reads %+v", rec)
	}
}
