//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
	"github.com/redoubt-go/redoubt/lock"
)

// eachServer runs a test on every kind of server for `redoubt lock`: a Redis, and `redoubt serve` in front of each
// kind of back end. make test leaves out pools.
func eachServer(t *testing.T, run func(t *testing.T, url string)) {
	eachSingle(t, run)
	if !testing.Short() {
		eachPool(t, run)
	}
}

func eachSingle(t *testing.T, run func(t *testing.T, url string)) {
	t.Run("redis", func(t *testing.T) { run(t, redistest.Start(t).URL()) })
	t.Run("serve on redis", func(t *testing.T) {
		run(t, "redis://"+startServe(t, "--backend", redistest.Start(t).URL()).addr)
	})
	t.Run("serve on embedded", func(t *testing.T) {
		run(t, "redis://"+startServe(t).addr)
	})
}

func eachPool(t *testing.T, run func(t *testing.T, url string)) {
	t.Run("serve on a pool", func(t *testing.T) {
		conf := "servers:\n"
		for i := range 3 {
			conf += fmt.Sprintf("   - %s:1 redis-%d\n", redistest.Start(t).Addr(), i+1)
		}
		run(t, servePool(t, conf))
	})
	t.Run("serve on a cluster", func(t *testing.T) {
		run(t, servePool(t, "cluster:\n   - "+redistest.StartCluster(t, 3, 0).Addrs()[0]+"\n"))
	})
}

// servePool serves the pool that servers describe, and returns its URL.
func servePool(t *testing.T, servers string) (url string) {
	t.Helper()
	addr := freeAddr(t)
	startServing(t, "--pools", writePools(t, fmt.Sprintf("a:\n  listen: %s\n  redis: true\n  hash_tag: \"{}\"\n  %s", addr, servers)))
	return "redis://" + addr
}

// TestReleaseWakesTheNext: a waiting redoubt gets the lock as soon as the holder releases it, long before the lease
// ends, on any server of a pool.
func TestReleaseWakesTheNext(t *testing.T) {
	check := func(t *testing.T, url string) {
		locks, err := lock.New(clienttest.Open(t, url), lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			name, done := fmt.Sprint("deploy", i), filepath.Join(t.TempDir(), "done")
			take := func(script string) *program {
				return start(t, nil, "lock", name, "--backend", url, "--ttl", "10m", "--", "sh", "-c", script, "sh", done)
			}
			holds := take(`until [ -e "$1" ]; do sleep 0.02; done`)
			waiters := func(n int64) func() bool {
				return func() bool {
					info, err := locks.Info(t.Context(), name)
					return err == nil && info.Mode != lock.Free && info.Waiters == n
				}
			}
			eventually(t, "the first has it", waiters(0))
			waits := take("exit 0")
			eventually(t, "the second waits", waiters(1))
			if err := os.WriteFile(done, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, p := range []*program{holds, waits} {
				if code := p.wait(); code != 0 {
					t.Errorf("exit %d: %s", code, p.stderr.String())
				}
			}
		}
	}
	eachSingle(t, check)
	eachPool(t, check)
}

// TestLocksExclude: many redoubts run a command that fails if another one runs at the same time.
//
// Promise: Of all commands under one lock only one runs at a time.
func TestLocksExclude(t *testing.T) {
	slow.Test(t, "many processes compete for a lock")
	eachServer(t, func(t *testing.T, url string) {
		dir := t.TempDir()
		witness, log := filepath.Join(dir, "witness"), filepath.Join(dir, "log")
		// mkdir is atomic, and fails while another command runs.
		const script = `mkdir "$1" || echo overlap >> "$2"; sleep 0.03; rmdir "$1"; echo $REDOUBT_FENCE >> "$2"`
		const n = 12
		var ps []*program
		for range n {
			ps = append(ps, start(t, nil, "lock", "deploy", "--backend", url, "--", "sh", "-c", script, "sh", witness, log))
		}
		for _, p := range ps {
			if code := p.wait(); code != 0 {
				t.Errorf("exit %d: %s", code, p.stderr.String())
			}
		}
		fences := lines(t, log, n)
		if len(fences) != n || slices.Contains(fences, "overlap") {
			t.Fatalf("the commands wrote %q", fences)
		}
		if !slices.IsSorted(fences) || len(slices.Compact(fences)) != n { // all have 16 digits
			t.Errorf("fencing tokens don't rise: %q", fences)
		}
	})
}

// TestRefusedWhereServersAreEjected: a pool with auto_eject_hosts refuses the command line what it refuses the RESP
// commands, and redoubt runs no command. Limits work.
func TestRefusedWhereServersAreEjected(t *testing.T) {
	t.Parallel()
	url := servePool(t, fmt.Sprintf("auto_eject_hosts: true\n  servers:\n   - %s:1 redis-1\n   - %s:1 redis-2\n",
		redistest.Start(t).Addr(), redistest.Start(t).Addr()))
	for _, args := range [][]string{
		{"lock", "n", "--backend", url, "--", "echo", "it ran"},
		{"lock", "n", "--no-wait", "--backend", url, "--", "echo", "it ran"},
		{"lock", "n", "--fair", "--backend", url, "--", "echo", "it ran"},
		{"queue", "put", "n", "x", "--backend", url},
	} {
		code, stdout, stderr := runToEnd(t, nil, args...)
		if code == 0 || stdout != "" || !strings.Contains(stderr, "is refused where auto_eject_hosts is true") {
			t.Errorf("%q: exit %d, %q, %q", args, code, stdout, stderr)
		}
	}
	if code, _, stderr := runToEnd(t, nil, "limit", "peek", "n", "--rate", "5/1m", "--backend", url); code != 0 {
		t.Errorf("limit: exit %d, %q", code, stderr)
	}
}

// TestLockInDirectory: in a directory, without a server, tokens grow too, and the lock of a killed redoubt lasts for
// its TTL.
func TestLockInDirectory(t *testing.T) {
	dir, log := filepath.Join(t.TempDir(), "locks"), filepath.Join(t.TempDir(), "log")
	args := []string{"lock", "deploy", "--backend", "embedded:" + dir, "--ttl", "2s"}
	with := func(argv ...string) []string { return append(slices.Clone(args), argv...) }
	script := `echo $REDOUBT_FENCE >> "` + log + `"`
	for range 2 {
		if code, _, stderr := runToEnd(t, nil, with("--", "sh", "-c", script)...); code != 0 {
			t.Fatalf("exit %d: %s", code, stderr)
		}
	}
	p := start(t, nil, with("--", "sh", "-c", script+`; exec sleep 1000`)...)
	lines(t, log, 3)
	code, _, stderr := runToEnd(t, nil, with("--no-wait", "--", "true")...)
	if code != exitUnavailable {
		t.Errorf("beside another: exit %d", code)
	}
	mustContain(t, "beside another", stderr, dir, "in use", "by process ")
	p.signal(syscall.SIGKILL)
	p.wait()
	began := time.Now()
	if code, _, stderr := runToEnd(t, nil, with("--", "sh", "-c", script)...); code != 0 {
		t.Errorf("after a kill: exit %d: %s", code, stderr)
	} else if !strings.Contains(stderr, "waiting for lock") {
		t.Errorf("the lock of a killed process was gone after %v", time.Since(began))
	}
	if fences := lines(t, log, 4); !slices.IsSorted(fences) || len(slices.Compact(fences)) != 4 {
		t.Errorf("fencing tokens don't rise: %q", fences)
	}
}

// holding starts a command under a lock, with a child and a daemon in its own session. All ignore SIGTERM. It
// returns their pids.
func holding(t *testing.T, args ...string) (*program, []int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pids")
	const member = `sh -c 'trap "" TERM; echo $$ >> "$1"; while :; do sleep 1; done' sh "$1" &`
	script := `trap "" TERM; ` + member + ` setsid ` + member + `
		echo $$ >> "$1"; while :; do sleep 1; done`
	p := start(t, nil, append(append([]string{"lock"}, args...), "--", "sh", "-c", script, "sh", file)...)
	var pids []int
	for _, line := range lines(t, file, 3) {
		pid, err := strconv.Atoi(line)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return p, pids
}

// next is a command that writes which processes of the previous holder still run.
func next(t *testing.T, pids []int, args ...string) (*program, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "seen")
	script := `f=$1; shift; for p; do
		case $(cat /proc/$p/stat 2>/dev/null) in ''|*') Z '*) ;; *) echo overlap $p >> $f;; esac
	done; echo started >> $f`
	full := append(append([]string{"lock"}, args...), "--", "sh", "-c", script, "sh", file)
	for _, pid := range pids {
		full = append(full, strconv.Itoa(pid))
	}
	p := start(t, nil, full...)
	eventually(t, "the second waits", func() bool { return strings.Contains(p.stderr.String(), "waiting for lock") })
	return p, file
}

func checkNext(t *testing.T, p *program, file string) {
	t.Helper()
	if code := p.wait(); code != 0 {
		t.Errorf("the second exits with %d: %s", code, p.stderr.String())
	}
	if got := lines(t, file, 1); !slices.Equal(got, []string{"started"}) {
		t.Errorf("the second saw %q", got)
	}
}

// TestKilledHolder: kill -9 of a redoubt ends its command with all descendants, and the next one gets the lock
// within the TTL.
func TestKilledHolder(t *testing.T) {
	const ttl = 3 * time.Second
	eachServer(t, func(t *testing.T, url string) {
		t.Parallel()
		first, pids := holding(t, "deploy", "--backend", url, "--ttl", ttl.String())
		second, seen := next(t, pids, "deploy", "--backend", url, "--ttl", ttl.String())
		killed := time.Now()
		first.signal(syscall.SIGKILL)
		checkNext(t, second, seen)
		if took := time.Since(killed); took > ttl+5*time.Second { // time to start and to be noticed, on a machine that does much else
			t.Errorf("the second ran %v after the kill; the TTL is %v", took, ttl)
		}
	})
}

// TestLostServer: a holder that loses its server ends its command before another can have the lock.
//
// Promise: A command under a lock ends before another can have the lock when the server is unreachable.
func TestLostServer(t *testing.T) {
	slow.Test(t, "a lease of 3 s runs out while the server is cut off")
	t.Parallel()
	srv := redistest.Start(t)
	net := faultnet.New(t, srv.Addr())
	first, pids := holding(t, "deploy", "--backend", "redis://"+net.Addr(), "--ttl", "3s")
	second, seen := next(t, pids, "deploy", "--backend", srv.URL(), "--ttl", "3s")
	net.Blackhole(faultnet.Both)
	checkNext(t, second, seen)
	if code := first.wait(); code != exitLost {
		t.Errorf("the first exits with %d; want %d", code, exitLost)
	}
	mustContain(t, "stderr", first.stderr.String(), `lock "deploy": sh was ended: `)
}

// An orphaned process group gets SIGHUP when a member is stopped and another ends. That must not be the group of the
// tests.
func init() { ownGroup = &syscall.SysProcAttr{Setpgid: true} }

// TestStoppedHolder: a stopped redoubt (kill -STOP) can't renew, and its command is ended in time.
func TestStoppedHolder(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	first, pids := holding(t, "deploy", "--backend", srv.URL(), "--ttl", "3s")
	second, seen := next(t, pids, "deploy", "--backend", srv.URL(), "--ttl", "3s")
	first.signal(syscall.SIGSTOP)
	checkNext(t, second, seen)
	first.signal(syscall.SIGCONT)
	if code := first.wait(); code != exitLost {
		t.Errorf("the first exits with %d; want %d", code, exitLost)
	}
}

// TestForcedAway: the first renewal after another client deletes the key kills the command.
func TestForcedAway(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	first, pids := holding(t, "deploy", "--backend", srv.URL(), "--ttl", "9s")
	srv.CLI("DEL", "rd:{deploy}:lock")
	pulse := await.NewPulse(t)
	deleted := pulse.Now()
	if code := first.wait(); code != exitLost {
		t.Errorf("exit %d; want %d", code, exitLost)
	}
	if took := pulse.Now() - deleted; took > 6*time.Second { // the renewal comes within 3 s, the deadline in 7 at the least
		t.Errorf("the command was ended %v after its lock was taken away", took)
	}
	for _, pid := range pids {
		if syscall.Kill(pid, 0) == nil {
			if stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); !strings.Contains(string(stat), ") Z ") {
				t.Errorf("process %d still runs", pid)
			}
		}
	}
}

func TestRenewal(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	// On a machine with much else to do a second can pass without a renewal.
	code, _, stderr := runToEnd(t, nil, "lock", "deploy", "--backend", srv.URL(), "--ttl", "4s", "--", "sleep", "6")
	if code != 0 {
		t.Errorf("exit %d, %q; want a lock that outlives its TTL", code, stderr)
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("echo x"), 0o600); err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(dir, "garbage")
	if err := os.WriteFile(garbage, []byte("\x00"), 0o700); err != nil { //nolint:gosec // must be executable
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		argv []string
		want int
		says string
	}{
		{"success", []string{"true"}, 0, ""},
		{"failure", []string{"sh", "-c", "exit 3"}, 3, ""},
		{"signal", []string{"sh", "-c", "kill -SEGV $$"}, 128 + 11, ""},
		{"not found", []string{"no-such-command"}, exitNotFound, "no-such-command"},
		{"no such file", []string{dir + "/none"}, exitNotFound, dir + "/none"},
		{"not executable", []string{plain}, exitCannotRun, plain},
		{"not a program", []string{garbage}, exitCannotRun, "exec format error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, _, stderr := runToEnd(t, nil, append([]string{"lock", "codes", "--backend", srv.URL(), "--"}, c.argv...)...)
			if code != c.want || !strings.Contains(stderr, c.says) || c.says == "" && stderr != "" {
				t.Errorf("exit %d, %q; want %d, %q", code, stderr, c.want, c.says)
			}
		})
	}
	t.Run("bad name", func(t *testing.T) {
		code, _, stderr := runToEnd(t, nil, "lock", "}x", "--backend", srv.URL(), "--", "true")
		if code != exitUsage {
			t.Errorf("exit %d, %q", code, stderr)
		}
	})
	// The lock is free again.
	if code, _, stderr := runToEnd(t, nil, "lock", "codes", "--no-wait", "--backend", srv.URL(), "--", "true"); code != 0 {
		t.Errorf("the lock is still held: exit %d, %q", code, stderr)
	}
}

func TestBusy(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	env := []string{"REDOUBT_BACKEND=" + srv.URL()}
	ready := filepath.Join(t.TempDir(), "ready")
	holder := start(t, env, "lock", "deploy", "--label=me", "--", "sh", "-c", `echo x > "$1"; exec sleep 600`, "sh", ready)
	lines(t, ready, 1)

	code, _, stderr := runToEnd(t, env, "lock", "deploy", "--no-wait", "--", "true")
	if code != exitBusy || !strings.Contains(stderr, `lock "deploy" is held by "me"`) {
		t.Errorf("--no-wait: exit %d, %q", code, stderr)
	}
	began := time.Now()
	code, _, stderr = runToEnd(t, env, "lock", "deploy", "--wait=300ms", "--", "true")
	if took := time.Since(began); code != exitBusy || took < 300*time.Millisecond || !strings.Contains(stderr, `lock "deploy" was not free within 300ms`) {
		t.Errorf("--wait=300ms: exit %d after %v, %q", code, took, stderr)
	}

	// The command line overrides the environment. 0 is invalid there, too.
	code, _, stderr = runToEnd(t, append(env, "REDOUBT_WAIT=1h"), "lock", "deploy", "--no-wait", "--", "true")
	if code != exitBusy || !strings.Contains(stderr, `lock "deploy" is held by "me"`) {
		t.Errorf("--no-wait and REDOUBT_WAIT: exit %d, %q", code, stderr)
	}
	code, _, stderr = runToEnd(t, append(env, "REDOUBT_WAIT=0"), "lock", "deploy", "--", "true")
	if code != exitUsage || !strings.Contains(stderr, `environment: REDOUBT_WAIT: "0" is not a time to wait: use --no-wait`) {
		t.Errorf("REDOUBT_WAIT=0: exit %d, %q", code, stderr)
	}

	// A signal ends a waiter with 128+n.
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		waiter := start(t, env, "lock", "deploy", "--", "true")
		eventually(t, "it waits", func() bool { return strings.Contains(waiter.stderr.String(), "waiting for lock") })
		waiter.signal(sig)
		if code := waiter.wait(); code != 128+int(sig) {
			t.Errorf("%v while waiting: exit %d; want %d", sig, code, 128+int(sig))
		}
	}
	// Waiters that left don't delay another.
	waiter := start(t, env, "lock", "deploy", "--", "true")
	eventually(t, "it waits", func() bool { return strings.Contains(waiter.stderr.String(), "waiting for lock") })
	began = time.Now()
	holder.signal(syscall.SIGTERM)
	if code := holder.wait(); code != 128+15 {
		t.Errorf("the holder exits with %d; want %d", code, 128+15)
	}
	if code := waiter.wait(); code != 0 {
		t.Errorf("the waiter exits with %d: %s", code, waiter.stderr.String())
	}
	if took := time.Since(began); took > 10*time.Second { // far below the TTL of 30 s
		t.Errorf("the waiter was woken after %v", took)
	}
}

func TestSignalIsForwarded(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	ready := filepath.Join(t.TempDir(), "ready")
	p := start(t, nil, "lock", "deploy", "--backend", srv.URL(), "--", "sh", "-c",
		`trap 'exit 42' TERM; echo x > "$1"; while :; do sleep 0.05; done`, "sh", ready)
	lines(t, ready, 1)
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 42 {
		t.Errorf("exit %d; want the trap's 42", code)
	}
	if code, _, stderr := runToEnd(t, nil, "lock", "deploy", "--no-wait", "--backend", srv.URL(), "--", "true"); code != 0 {
		t.Errorf("the lock was not released: exit %d, %q", code, stderr)
	}
}

// TestServerGoneAtRelease: redoubt exits with the command's status, and warns that the lock stays held.
func TestServerGoneAtRelease(t *testing.T) {
	slow.Test(t, "a release is tried again for seconds")
	t.Parallel()
	srv := redistest.Start(t)
	dir := t.TempDir()
	p := start(t, nil, "lock", "deploy", "--backend", srv.URL(), "--", "sh", "-c",
		`echo x > "$1"; while [ ! -e "$2" ]; do sleep 0.05; done; exit 5`, "sh", dir+"/ready", dir+"/go")
	lines(t, dir+"/ready", 1)
	srv.Kill()
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(); code != 5 {
		t.Errorf("exit %d; want the command's 5", code)
	}
	mustContain(t, "stderr", p.stderr.String(), `lock "deploy" was not released and stays held for up to 30s`)
}

// TestOpenFailure: a wrong URL is wrong usage, also when only the server shows it; a server that refuses, or a
// caller that leaves, is not.
func TestOpenFailure(t *testing.T) {
	t.Parallel()
	clustered := redistest.Start(t, "--cluster-enabled", "yes")
	code, _, stderr := runToEnd(t, nil, "limit", "peek", "x", "--rate", "1/s", "--backend", clustered.URL()+"/3")
	if code != exitUsage || !strings.Contains(stderr, "which has no database 3") || strings.Contains(stderr, "refuses us") {
		t.Errorf("database 3 of a cluster: exit %d, %q", code, stderr)
	}
	locked := redistest.Start(t, "--requirepass", "s3cret")
	code, _, stderr = runToEnd(t, nil, "limit", "peek", "x", "--rate", "1/s", "--backend", locked.URL())
	if code != exitUnavailable || !strings.Contains(stderr, "refuses us: NOAUTH") {
		t.Errorf("no password: exit %d, %q", code, stderr)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := redoubt.Open(ctx, locked.URL(), redoubt.Options{})
	err = openFailure("server", locked.URL(), err)
	if e, ok := errors.AsType[*exitError](err); !ok || e.code != exitUnavailable || !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "refuses us") {
		t.Errorf("canceled: %v", err)
	}
}

func TestNothingAnswers(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Kill()
	ran := filepath.Join(t.TempDir(), "ran")
	code, _, stderr := runToEnd(t, nil, "lock", "deploy", "--backend", "redis://:s3cret@"+srv.Addr(), "--", "touch", ran)
	if code != exitUnavailable || strings.Contains(stderr, "s3cret") {
		t.Errorf("exit %d, %q", code, stderr)
	}
	mustContain(t, "stderr", stderr, "no server answers at "+srv.Addr()+": start one with `redoubt serve`, or name a Redis with --backend redis://…")
	if _, err := os.Stat(ran); err == nil {
		t.Error("the command ran without the lock")
	}
}
