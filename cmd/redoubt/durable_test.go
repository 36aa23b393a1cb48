//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/engine"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// dial returns a client without retries.
func dial(t *testing.T, addr string) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// writeUntilEnd writes with several clients until the server is gone, and returns the last acknowledged write of
// each.
func writeUntilEnd(t *testing.T, addr string, enough int64, then func()) []int64 {
	t.Helper()
	const writers = 4
	acked := make([]int64, writers)
	var all atomic.Int64
	var once sync.Once
	var wg sync.WaitGroup
	for w := range writers {
		rdb := dial(t, addr)
		wg.Go(func() {
			for {
				n, err := rdb.Incr(context.Background(), fmt.Sprintf("w%d", w)).Result()
				if err != nil {
					return
				}
				acked[w] = n
				if all.Add(1) >= enough {
					once.Do(then)
				}
			}
		})
	}
	wg.Wait()
	return acked
}

func TestDurable(t *testing.T) {
	slow.Test(t, "it kills servers that keep a log")
	for _, c := range []struct {
		fsync string
		sig   syscall.Signal
		lines []string
	}{
		{"always", syscall.SIGKILL, []string{"fsync always: acknowledged writes survive a power cut"}},
		{"always", syscall.SIGTERM, nil},
		{"everysec", syscall.SIGTERM, []string{"fsync everysec: a power cut loses up to two seconds"}},
		{"never", syscall.SIGTERM, []string{"fsync never: a power cut loses what the system had not written"}},
	} {
		t.Run(fmt.Sprint(c.fsync, " ", c.sig), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "made", "by serve")
			want := make([]int64, 4)
			for round := range 3 {
				s := startServe(t, "--dir", dir, "--fsync", c.fsync)
				for _, line := range append(c.lines, dir) {
					mustContain(t, "durability", s.line["durability"].(string), line)
				}
				rdb := dial(t, s.addr)
				for w := range want {
					if got, err := rdb.Get(t.Context(), fmt.Sprintf("w%d", w)).Int64(); round > 0 && (err != nil || got < want[w]) {
						t.Fatalf("round %d: writer %d was told of %d, there is %d, %v", round, w, want[w], got, err)
					}
				}
				want = writeUntilEnd(t, s.addr, 200, func() { _ = s.cmd.Process.Signal(c.sig) })
				if code := s.wait(); code != 0 && c.sig == syscall.SIGTERM {
					t.Fatalf("exit %d: %s", code, s.stderr.String())
				}
			}
		})
	}
}

// TestDirIsForOne: a second process is refused a directory in use, with the first one's pid, until the first one
// has ended in any way.
func TestDirIsForOne(t *testing.T) {
	dir := t.TempDir()
	first := startServe(t, "--dir", dir)
	code, _, stderr := runToEnd(t, nil, "serve", "--http=", "--listen=127.0.0.1:0", "--dir", dir)
	if code != exitUnavailable || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit %d, %q", code, stderr)
	}
	mustContain(t, "stderr", stderr, dir, "in use", "process "+strconv.Itoa(first.cmd.Process.Pid), "one process at a time")
	first.signal(syscall.SIGKILL)
	first.wait()
	startServe(t, "--dir", dir)
}

func TestDirFaults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := runToEnd(t, nil, "serve", "--http=", "--dir", filepath.Join(file, "below"))
	if code != exitUnavailable || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "can't be used: mkdir "+file) {
		t.Errorf("below a file: exit %d, %q", code, stderr)
	}

	dir := t.TempDir()
	s := startServe(t, "--dir", dir, "--fsync=always")
	rdb := dial(t, s.addr)
	for i := range 20 {
		if err := rdb.Set(t.Context(), "k", i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	s.signal(syscall.SIGKILL)
	s.wait()
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("%q, %v", logs, err)
	}
	whole, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	// A torn write is only logged.
	if err := os.WriteFile(logs[0], append(slices.Clone(whole), "RDf1 and"...), 0o600); err != nil {
		t.Fatal(err)
	}
	s = startServe(t, "--dir", dir)
	mustContain(t, "log", s.stderr.String(), `"level":"WARN"`, "torn", filepath.Base(logs[0]), `"cut_bytes":8`, `"msg":"loaded"`, `"size_bytes":`, `"took_seconds":0.`)
	if got, err := dial(t, s.addr).Get(t.Context(), "k").Int(); err != nil || got != 19 {
		t.Errorf("k is %d, %v", got, err)
	}
	s.signal(syscall.SIGKILL)
	s.wait()
	// Damage of synced data is an error: a missing end, or a changed byte.
	changed := slices.Clone(whole)
	changed[len(changed)-10] ^= 1
	for _, damaged := range [][]byte{whole[:len(whole)-3], nil, changed} {
		if err := os.WriteFile(logs[0], damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		code, _, stderr = runToEnd(t, nil, "serve", "--http=", "--listen=127.0.0.1:0", "--dir", dir)
		if code != exitData {
			t.Errorf("damaged: exit %d, %q", code, stderr)
		}
		mustContain(t, "stderr", stderr, dir+" is damaged; nothing was changed", filepath.Base(logs[0]), "offset", "were on disk", "redoubt check "+dir)
		if now, err := os.ReadFile(logs[0]); err != nil || string(now) != string(damaged) {
			t.Errorf("the damaged log was changed: %v", err)
		}
	}
}

// TestFileSizeLimit: a server with a limit on file sizes refuses no write and loses none.
func TestFileSizeLimit(t *testing.T) {
	by := filepath.Join(t.TempDir(), "limited")
	if err := os.WriteFile(by, []byte("#!/bin/sh\nulimit -f 60\nexec "+binary+` "$@"`), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := startServingAs(t, by, "--listen=127.0.0.1:0", "--dir", dir)
	rdb := dial(t, s.addr)
	value := strings.Repeat("x", 1000)
	const n = 300
	for i := range n {
		if err := rdb.Set(t.Context(), strconv.Itoa(i), value, 0).Err(); err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
	}
	rdb.Set(t.Context(), "the last one", "", 0)
	eventually(t, "everything is written", func() bool {
		logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
		text, err := os.ReadFile(logs[len(logs)-1])
		return err == nil && strings.Contains(string(text), "the last one")
	})
	s.signal(syscall.SIGKILL)
	s.wait()
	if got := size(t, startServe(t, "--dir", dir).addr); got != n+1 {
		t.Errorf("%d keys are there, want %d", got, n+1)
	}
	if logs, _ := filepath.Glob(filepath.Join(dir, "*.log")); len(logs) < 3 {
		t.Errorf("the logs are %q; the limit does not limit", logs)
	}
}

// TestCheck checks and repairs a directory, and serves it again.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	s := startServe(t, "--dir", dir)
	rdb := dial(t, s.addr)
	for _, key := range []string{"first", "second"} {
		if err := rdb.Set(t.Context(), key, key, 0).Err(); err != nil {
			t.Fatal(err)
		}
		eventually(t, key+" in the log", func() bool {
			text, err := os.ReadFile(filepath.Join(dir, "0000000001.log"))
			return err == nil && strings.Contains(string(text), key)
		})
	}
	if code, _, stderr := runToEnd(t, nil, "check", dir); code != exitUnavailable || !strings.Contains(stderr, "in use") {
		t.Errorf("in use: exit %d, %q", code, stderr)
	}
	s.signal(syscall.SIGTERM)
	s.wait()
	code, stdout, stderr := runToEnd(t, nil, "check", dir)
	if code != 0 || !strings.HasPrefix(stdout, dir+" is intact: 2 changes, ") {
		t.Errorf("whole: exit %d, %q, %q", code, stdout, stderr)
	}
	log := filepath.Join(dir, "0000000001.log")
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	text[strings.LastIndex(string(text), "second")] ^= 1
	if err := os.WriteFile(log, text, 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr = runToEnd(t, nil, "check", dir)
	if code != exitData {
		t.Errorf("damaged: exit %d", code)
	}
	mustContain(t, "stderr", stderr, "0000000001.log at offset ", "the checksum is wrong", "Readable before that: 1 change; ", "are lost", "check "+dir+" --repair")
	code, stdout, stderr = runToEnd(t, nil, "check", dir, "--repair")
	if code != 0 {
		t.Errorf("repair: exit %d, %q", code, stderr)
	}
	mustContain(t, "stdout", stdout, "repaired "+dir, "0000000001.log at offset ", "kept 1 change before", "are lost", ".damaged")
	rdb = dial(t, startServe(t, "--dir", dir).addr)
	if n, err := rdb.Exists(t.Context(), "first", "second").Result(); err != nil || n != 1 {
		t.Errorf("%d of the keys are there, %v", n, err)
	}
	if code, _, stderr := runToEnd(t, nil, "check", filepath.Join(dir, "none")); code != exitUsage {
		t.Errorf("no directory: exit %d, %q", code, stderr)
	}
}

func TestMaxMemory(t *testing.T) {
	for _, policy := range evictions {
		e, err := engine.New(engine.Options{MaxMemory: 1 << 20, MaxMemoryPolicy: policy})
		if err != nil {
			t.Fatalf("the engine doesn't know %s: %v", policy, err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	refusing, evicting := startServe(t, "--maxmemory=1MiB"), startServe(t, "--maxmemory=1mb", "--maxmemory-policy=allkeys-lru")
	value := strings.Repeat("x", 10_000)
	for _, s := range []*serving{refusing, evicting} {
		rdb := dial(t, s.addr)
		var refused error
		for i := 0; i < 300 && refused == nil; i++ {
			refused = rdb.Set(t.Context(), strconv.Itoa(i), value, 0).Err()
		}
		n := size(t, s.addr)
		if s == refusing && (refused == nil || !strings.HasPrefix(refused.Error(), "OOM ")) || s == evicting && refused != nil || n < 10 || n > 105 {
			t.Errorf("%d keys, %v", n, refused)
		}
		if got, err := rdb.ConfigGet(t.Context(), "maxmemory").Result(); err != nil || got["maxmemory"] != "1048576" {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// TestDurabilityIsTold: the server logs the durability that each source of settings asks for.
func TestDurabilityIsTold(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "redoubt.yaml")
	if err := os.WriteFile(file, []byte("dir: "+dir+"\nfsync: never\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	told := func(s *serving) string {
		rdb := dial(t, s.addr)
		said := ""
		for _, name := range []string{"appendonly", "appendfsync", "dir"} {
			v, err := rdb.ConfigGet(t.Context(), name).Result()
			if err != nil {
				t.Fatal(err)
			}
			said += v[name] + " "
		}
		s.signal(syscall.SIGTERM)
		s.wait()
		return strings.TrimSpace(said)
	}
	if got := told(startServe(t)); got != "no everysec" {
		t.Errorf("in memory: %q", got)
	}
	if got := told(startServe(t, "--config", file)); got != "yes no "+dir {
		t.Errorf("by the file: %q", got)
	}
	if got := told(startServe(t, "--config", file, "--fsync=everysec")); got != "yes everysec "+dir {
		t.Errorf("by a flag: %q", got)
	}
}
