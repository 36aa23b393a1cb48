//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// holdUntil starts a command under a lock. The command runs until the returned function is called, or until it is
// killed.
func holdUntil(t *testing.T, url string, args ...string) (p *program, let func()) {
	t.Helper()
	dir := t.TempDir()
	p = start(t, []string{"REDOUBT_BACKEND=" + url}, slices.Concat([]string{"lock"}, args, []string{"--", "sh", "-c",
		`echo $REDOUBT_FENCE > "$1"; while [ ! -e "$2" ]; do sleep 0.05; done`, "sh", dir + "/ready", dir + "/go"})...)
	lines(t, dir+"/ready", 1)
	return p, func() {
		t.Helper()
		if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if code := p.wait(); code != 0 {
			t.Errorf("%q exits with %d: %s", p.cmd.Args[1:], code, p.stderr.String())
		}
	}
}

// asJSON runs a command that prints JSON.
func asJSON(t *testing.T, into any, args ...string) {
	t.Helper()
	code, out, stderr := runToEnd(t, nil, args...)
	if err := json.Unmarshal([]byte(out), into); code != 0 || err != nil {
		t.Fatalf("%q: exit %d, %q, %v in %s", args, code, stderr, err, out)
	}
}

// TestLockList: lock ls lists exactly the held locks, on every kind of server.
func TestLockList(t *testing.T) {
	check := func(t *testing.T, url string) {
		began := time.Now()
		_, first := holdUntil(t, url, "deploy", "--label", "me")
		_, second := holdUntil(t, url, "docs", "--shared", "--label", "reader")
		_, third := holdUntil(t, url, "docs", "--shared", "--label", "reader")
		_, fourth := holdUntil(t, url, "geocoder", "--semaphore", "2", "--label", "batch 7")
		_, fifth := holdUntil(t, url, "run", "ls")
		if code, _, stderr := runToEnd(t, nil, "lock", "over", "--backend", url, "--", "true"); code != 0 {
			t.Fatalf("exit %d: %s", code, stderr)
		}

		var states []lockState
		asJSON(t, &states, "lock", "ls", "--backend", url, "--json")
		var got []string
		for _, s := range states {
			got = append(got, fmt.Sprint(s.Name, " ", s.Mode, " ", s.Count, " ", s.Waiters))
			for _, h := range s.Holders {
				if s.Fence < h.Fence || h.TTL < 1 || h.TTL > 30_000 || h.Since.Before(began.Add(-time.Second)) || h.Since.After(time.Now()) {
					t.Errorf("%s: %+v", s.Name, h)
				}
			}
		}
		want := []string{"deploy exclusive 1 0", "docs shared 2 0", "geocoder semaphore 1 0", "ls exclusive 1 0"}
		if !slices.Equal(got, want) {
			t.Errorf("ls: %q, want %q", got, want)
		}
		asJSON(t, &states, "lock", "ls", "--backend", url, "--json", "--match", "d[^e]*")
		if len(states) != 1 || states[0].Name != "docs" {
			t.Errorf("ls --match: %+v", states)
		}
		_, table, _ := runToEnd(t, nil, "lock", "ls", "--backend", url)
		rows := strings.Split(strings.TrimSpace(table), "\n")
		if len(rows) != 5 || !strings.HasPrefix(rows[0], "NAME ") {
			t.Fatalf("the table:\n%s", table)
		}
		for _, row := range rows[1:] { // aligned with their titles
			if at := strings.Index(rows[0], "FENCE"); len(row) < at || row[at-1] != ' ' || row[at] == ' ' {
				t.Errorf("not aligned:\n%s", table)
			}
		}
		mustContain(t, "table", table, "reader and 1 more", "batch 7")

		_, text, _ := runToEnd(t, nil, "lock", "info", "deploy", "--backend", url)
		mustContain(t, "info", text, "exclusive", "me ", "HELD BY", strconv.FormatInt(deployState(t, url).Fence, 10))
		var one lockState
		asJSON(t, &one, "lock", "info", "geocoder", "--semaphore", "--backend", url, "--json")
		if one.Mode != "semaphore" || one.Count != 1 || one.Holders[0].Label != "batch 7" {
			t.Errorf("info --semaphore: %+v", one)
		}
		asJSON(t, &one, "lock", "info", "nobody's", "--backend", url, "--json")
		if one.Mode != "free" || one.Count != 0 || len(one.Holders) != 0 {
			t.Errorf("info of a free lock: %+v", one)
		}
		for _, let := range []func(){first, second, third, fourth, fifth} {
			let()
		}
		asJSON(t, &states, "lock", "ls", "--backend", url, "--json")
		if states == nil || len(states) != 0 {
			t.Errorf("when all are over: %+v", states)
		}
	}
	eachServer(t, check)
	t.Run("cluster", func(t *testing.T) { check(t, redistest.StartCluster(t, 3, 0).URL()) })
}

func deployState(t *testing.T, url string) (s lockState) {
	t.Helper()
	asJSON(t, &s, "lock", "info", "deploy", "--backend", url, "--json")
	return s
}

// TestLockRelease: lock release takes a lock from its holder, whose command ends, and the next waiter gets it. With
// --fence it takes the lock from no other holder.
func TestLockRelease(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	env := []string{"REDOUBT_BACKEND=" + url, "REDOUBT_FENCE=7", "REDOUBT_LOCK_NAME=x", "REDOUBT_URL=x"} // of an outer redoubt lock, and of the examples
	release := func(args ...string) (int, string, string) {
		t.Helper()
		return runToEnd(t, env, append([]string{"lock", "release"}, args...)...)
	}
	if code, _, stderr := release("deploy", "--force"); code != 0 || !strings.Contains(stderr, `lock "deploy" is free: there is nothing to release`) {
		t.Errorf("of a free lock: exit %d, %q", code, stderr)
	}
	first, _ := holdUntil(t, url, "deploy", "--ttl", "3s", "--label", "one")
	held := deployState(t, url)
	if code, _, stderr := release("deploy"); code != exitUsage || !strings.Contains(stderr, "pass --force") {
		t.Errorf("without --force: exit %d, %q", code, stderr)
	}
	if code, _, stderr := runToEnd(t, append(env, "REDOUBT_FORCE=true"), "lock", "release", "deploy"); code != exitUsage || !strings.Contains(stderr, "only the command line can set --force") {
		t.Errorf("with --force in the environment: exit %d, %q", code, stderr)
	}
	code, _, stderr := release("deploy", "--force", "--fence", strconv.FormatInt(held.Fence-1, 10))
	if code != exitBusy || !strings.Contains(stderr, fmt.Sprintf(`is held by "one" with fence %d`, held.Fence)) {
		t.Errorf("another fence: exit %d, %q", code, stderr)
	}
	if now := deployState(t, url); now.Count != 1 || now.Fence != held.Fence {
		t.Errorf("after that it is %+v", now)
	}
	ready := filepath.Join(t.TempDir(), "ready")
	second := start(t, env, "lock", "deploy", "--", "sh", "-c", `echo $REDOUBT_FENCE > "$1"`, "sh", ready)
	eventually(t, "it waits", func() bool { return deployState(t, url).Waiters == 1 })
	code, out, _ := release("deploy", "--force")
	if want := fmt.Sprintf("released lock \"deploy\", held by \"one\" with fence %d\n", held.Fence); code != 0 || out != want {
		t.Errorf("exit %d, %q; want %q", code, out, want)
	}
	if code := second.wait(); code != 0 {
		t.Errorf("the second exits with %d: %s", code, second.stderr.String())
	}
	if fence, _ := strconv.ParseInt(lines(t, ready, 1)[0], 10, 64); fence <= held.Fence {
		t.Errorf("the second has fence %d after %d", fence, held.Fence)
	}
	if code := first.wait(); code != exitLost {
		t.Errorf("the first exits with %d; want %d", code, exitLost)
	}
	mustContain(t, "stderr", first.stderr.String(), `lock "deploy": sh was ended: `, "released by force")

	// With two permits taken, --fence is required.
	a, _ := holdUntil(t, url, "geo", "--semaphore", "2", "--ttl", "3s")
	_, let := holdUntil(t, url, "geo", "--semaphore", "2", "--ttl", "3s")
	if code, _, stderr := release("geo", "--semaphore", "--force"); code != exitUsage || !strings.Contains(stderr, "has 2 permits taken: choose one with --fence") {
		t.Errorf("two permits: exit %d, %q", code, stderr)
	}
	var s lockState
	asJSON(t, &s, "lock", "info", "geo", "--semaphore", "--backend", url, "--json")
	fence := min(s.Holders[0].Fence, s.Holders[1].Fence)
	if code, out, stderr := release("geo", "--semaphore", "--force", "--fence", strconv.FormatInt(fence, 10)); code != 0 || !strings.Contains(out, `released semaphore "geo"`) {
		t.Errorf("a permit: exit %d, %q, %q", code, out, stderr)
	}
	if code, _, stderr := release("geo", "--semaphore", "--force", "--fence", strconv.FormatInt(fence, 10)); code != exitBusy || !strings.Contains(stderr, "no permit") {
		t.Errorf("a permit that is back: exit %d, %q", code, stderr)
	}
	if code := a.wait(); code != exitLost {
		t.Errorf("its holder exits with %d; want %d: %s", code, exitLost, a.stderr.String())
	}
	let()
}

// TestLockKinds: readers run together and exclude writers; a semaphore of N admits N.
func TestLockKinds(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		busy := func(args ...string) {
			t.Helper()
			code, _, stderr := runToEnd(t, nil, slices.Concat([]string{"lock", "--backend", url, "--no-wait"}, args, []string{"--", "true"})...)
			if code != exitBusy || !strings.Contains(stderr, `is held by "me"`) {
				t.Errorf("%q: exit %d, %q; want %d", args, code, stderr, exitBusy)
			}
		}
		_, one := holdUntil(t, url, "docs", "--shared", "--label", "me")
		_, two := holdUntil(t, url, "docs", "--shared", "--label", "me")
		busy("docs")
		one()
		busy("docs")
		two()
		_, one = holdUntil(t, url, "docs", "--label", "me")
		busy("docs", "--shared")
		one()

		_, one = holdUntil(t, url, "geo", "--semaphore", "2", "--label", "me")
		_, two = holdUntil(t, url, "geo", "--semaphore", "2", "--label", "me")
		busy("geo", "--semaphore", "2")
		waiter := start(t, nil, "lock", "geo", "--semaphore", "2", "--backend", url, "--", "true")
		eventually(t, "it waits", func() bool {
			return strings.Contains(waiter.stderr.String(), `waiting for semaphore "geo", held by "me"`)
		})
		one()
		if code := waiter.wait(); code != 0 {
			t.Errorf("the waiter exits with %d: %s", code, waiter.stderr.String())
		}
		two()
	})
}

// TestLockFair: waiters with --fair get the lock in the order of arrival, and before a client without it.
func TestLockFair(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		_, let := holdUntil(t, url, "deploy", "--fair")
		log := filepath.Join(t.TempDir(), "log")
		var waiters []*program
		for i, flag := range []string{"--shared=false", "--fair", "--fair", "--fair"} {
			waiters = append(waiters, start(t, nil, "lock", "deploy", flag, "--backend", url, "--", "sh", "-c", `echo $1 >> "$2"`, "sh", strconv.Itoa(i), log))
			eventually(t, "it waits", func() bool { return deployState(t, url).Waiters == int64(i+1) })
		}
		let()
		for _, p := range waiters {
			if code := p.wait(); code != 0 {
				t.Errorf("exit %d: %s", code, p.stderr.String())
			}
		}
		if got := lines(t, log, 4); !slices.Equal(got, []string{"1", "2", "3", "0"}) {
			t.Errorf("served in the order %q", got)
		}
	})
}
