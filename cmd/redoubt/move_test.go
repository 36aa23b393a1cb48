//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/rdb"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
	"github.com/redoubt-go/redoubt/internal/transfer"
)

// stocked starts a redis-server with keys of all types, saved to a file.
func stocked(t *testing.T) (r *redistest.Server, file string) {
	t.Helper()
	dir := t.TempDir()
	r = redistest.Start(t, "--dir", dir)
	for _, line := range []string{
		"SET a 1", "SET soon 2 EX 1000", "RPUSH l 1 2 x", "SADD s 1 2", "ZADD z 1.5 m", "HSET h f v", "PFADD p a b c",
		"GEOADD g 13.361389 38.115556 Palermo", "SAVE",
	} {
		if out := r.CLI(strings.Fields(line)...); strings.Contains(out, "ERR") {
			t.Fatalf("%s: %s", line, out)
		}
	}
	return r, filepath.Join(dir, "dump.rdb")
}

const stockedKeys = 8

// moved runs redoubt and checks its exit code and texts in its output.
func moved(t *testing.T, want int, words []string, args ...string) {
	t.Helper()
	code, out, stderr := runToEnd(t, nil, args...)
	if code != want || want != 0 && strings.Count(stderr, "\n") != 1 {
		t.Errorf("redoubt %s: exit %d, %q, %q; want %d", strings.Join(args, " "), code, out, stderr, want)
	}
	mustContain(t, "output of "+strings.Join(args, " "), out+stderr, words...)
}

func size(t *testing.T, addr string) int64 {
	t.Helper()
	n, err := dial(t, addr).DBSize(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestImportAndExport(t *testing.T) {
	r, file := stocked(t)
	s := startServe(t)
	server := "redis://" + s.addr
	dir := t.TempDir()

	moved(t, 0, []string{"imported 8 keys from " + file + " into " + s.addr}, "import", file, "--backend", server)
	if n := size(t, s.addr); n != stockedKeys {
		t.Fatalf("%d keys", n)
	}
	moved(t, exitExists, []string{s.addr + ": 8 keys exist already, like ", "nothing was imported. --replace overwrites them"}, "import", r.URL(), "--backend", server)
	moved(t, 0, []string{"imported 8 keys from " + r.Addr()}, "import", r.URL(), "--backend", server, "--replace")

	out := filepath.Join(dir, "out.rdb")
	moved(t, 0, []string{"exported 8 keys from " + s.addr + " to " + out}, "export", "file://"+out, "--backend", server)
	moved(t, exitExists, []string{out + " exists already; --replace overwrites it"}, "export", out, "--backend", server)
	loaded := redistest.Start(t, "--dir", dir, "--dbfilename", "out.rdb")
	if got, want := loaded.CLI("DEBUG", "DIGEST"), r.CLI("DEBUG", "DIGEST"); got != want || len(want) != 40 {
		t.Errorf("after the way round the digest is %s, want %s", got, want)
	}
	restored := redistest.Start(t)
	moved(t, 0, nil, "export", restored.URL()+"/2", "--backend", server)
	if n := restored.CLI("-n", "2", "DBSIZE"); n != "8" {
		t.Errorf("%s keys", n)
	}

	// Directly into a directory, and out of it.
	data := filepath.Join(dir, "data")
	moved(t, 0, []string{"into " + data}, "import", r.URL(), "--dir", data)
	durable := startServe(t, "--dir", data)
	if n := size(t, durable.addr); n != stockedKeys {
		t.Errorf("%d keys", n)
	}
	moved(t, exitUnavailable, []string{data, "in use", "To use that process"}, "export", out, "--dir", data, "--replace")
	moved(t, exitUnavailable, []string{data, "in use", "To use that process"}, "import", file, "--backend", "embedded:"+data)
	durable.signal(syscall.SIGKILL)
	durable.wait()
	code, stdout, stderr := runToEnd(t, nil, "export", out, "--dir", data, "--replace", "--quiet")
	if code != 0 || stdout != "" || stderr != "" {
		t.Errorf("quiet: exit %d, %q, %q", code, stdout, stderr)
	}
	loaded.Restart()
	if got, want := loaded.CLI("DEBUG", "DIGEST"), r.CLI("DEBUG", "DIGEST"); got != want {
		t.Errorf("by the directory the digest is %s, want %s", got, want)
	}
}

// TestEmbeddedURLs: every URL may be embedded:/path, a directory.
func TestEmbeddedURLs(t *testing.T) {
	r, file := stocked(t)
	a, b := filepath.Join(t.TempDir(), "a b"), filepath.Join(t.TempDir(), "b")
	moved(t, 0, []string{"imported 8 keys from " + file + " into " + a}, "import", file, "--backend", "embedded:"+a)
	moved(t, 0, []string{"imported 8 keys from " + a + " into " + b}, "import", "embedded:"+a, "--dir", b)
	moved(t, exitExists, []string{"8 keys exist already"}, "export", "embedded:"+b, "--backend", "embedded:"+a)
	moved(t, 0, []string{"exported 8 keys from " + a + " to " + b}, "export", "embedded:"+b, "--backend", "embedded:"+a, "--replace")

	backend := "--backend=embedded:" + b
	s := startServe(t, backend)
	if n := size(t, s.addr); n != stockedKeys {
		t.Errorf("%d keys", n)
	}
	if n := configDir(t, s.addr); n != b {
		t.Errorf("CONFIG GET dir is %s", n)
	}
	code, _, stderr := runToEnd(t, nil, "lock", "deploy", backend, "--", "true")
	if code != exitUnavailable {
		t.Errorf("exit %d", code)
	}
	mustContain(t, "lock beside serve", stderr, b, "in use", "by process", "redoubt serve --dir "+b)
	s.signal(syscall.SIGTERM)
	s.wait()

	restored := redistest.Start(t)
	moved(t, 0, nil, "export", restored.URL(), backend)
	if n := restored.CLI("DBSIZE"); n != r.CLI("DBSIZE") {
		t.Errorf("%s keys", n)
	}
}

func configDir(t *testing.T, addr string) string {
	t.Helper()
	m, err := dial(t, addr).ConfigGet(t.Context(), "dir").Result()
	if err != nil {
		t.Fatal(err)
	}
	return m["dir"]
}

// moduleFile writes an RDB file with a string and the value of a module.
func moduleFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "module.rdb")
	var out bytes.Buffer
	f, err := rdb.NewFileWriter(&out, rdb.Version, time.Now())
	for key, payload := range map[string][]byte{
		"a": rdb.Payload(nil, &rdb.Value{Str: []byte("1")}),
		"m": []byte("\x07\x81\x00\x00\x00\x00\x00\x00\x00\x07\x00" + "\x09\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00"),
	} {
		err = errors.Join(err, f.Write(rdb.Entry{Key: []byte(key), Payload: payload}))
	}
	if err = errors.Join(err, f.Close(), os.WriteFile(path, out.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMoveRefuses(t *testing.T) {
	r, file := stocked(t)
	module := moduleFile(t)
	damaged := filepath.Join(t.TempDir(), "damaged.rdb")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(damaged, text[:len(text)-20], 0o600); err != nil {
		t.Fatal(err)
	}
	gone := redistest.Start(t)
	gone.Kill()
	s := startServe(t)
	to := "--backend=redis://" + s.addr
	for _, c := range []struct {
		args  []string
		code  int
		words []string
	}{
		{[]string{"import"}, exitUsage, nil},
		{[]string{"import", "", to}, exitUsage, []string{"SOURCE is empty; want redis://"}},
		{[]string{"import", "http://x", to}, exitUsage, []string{`SOURCE has the scheme "http"; want redis, rediss, unix, embedded or file`}},
		{[]string{"import", "file://other/x", to}, exitUsage, []string{"a file on another machine"}},
		{[]string{"import", file + "x", to}, exitUsage, []string{"no such file"}},
		{[]string{"import", filepath.Dir(file), to}, exitUsage, []string{"is no file"}},
		{[]string{"import", file, "--backend=embedded:"}, exitUsage, []string{"the memory of another process"}},
		{[]string{"import", "embedded:", to}, exitUsage, []string{"SOURCE is embedded:, which is the memory"}},
		{[]string{"import", "embedded:" + file + "x", to}, exitUsage, []string{"SOURCE: ", "no such file"}},
		{[]string{"import", file, to, "--dir=x"}, exitUsage, []string{"both backend and dir are given"}},
		{[]string{"import", file, "--backend=embedded:/y", "--dir=x"}, exitUsage, []string{"backend is embedded:/y, but dir is x"}},
		{[]string{"export", "x.rdb", "--backend=embedded:does not exist"}, exitUsage, []string{"no such file or directory"}},
		{[]string{"import", file, "--dir", filepath.Join(file, "x")}, exitUnavailable, []string{"can't be used"}},
		{[]string{"import", gone.URL(), to}, exitUnavailable, []string{"source " + gone.Addr() + " does not answer"}},
		{[]string{"import", file, "--backend=redis://:s3cret@" + gone.Addr()}, exitUnavailable, []string{"server " + gone.Addr() + " does not answer", "start `redoubt serve`, or name another"}},
		{[]string{"import", "redis://:s3cret@" + r.Addr(), to}, exitUnavailable, []string{"source " + r.Addr() + " refuses us"}},
		{[]string{"import", damaged, to}, exitData, []string{damaged, "at byte ", "ends too early", "nothing was imported"}},
		{[]string{"import", module, to}, exitData, []string{"can't store 1 value of a module, like key \"m\"", "nothing was imported", "--skip-unsupported"}},
		{[]string{"export", "x.rdb", to, "--rdb-version=8"}, exitUsage, []string{"rdb-version is 8; want 9 to 12"}},
		{[]string{"export", "x.rdb", "--dir=does not exist"}, exitUsage, []string{"no such file or directory"}},
		{[]string{"export", filepath.Join(file, "x"), to}, exitUsage, []string{"TARGET: "}},
	} {
		code, out, stderr := runToEnd(t, nil, c.args...)
		if code != c.code || out != "" || strings.Contains(stderr, "s3cret") {
			t.Errorf("%q: exit %d, %q, %q; want %d", c.args, code, out, stderr, c.code)
		}
		mustContain(t, strings.Join(c.args, " "), stderr, c.words...)
	}
	if n := size(t, s.addr); n != 0 {
		t.Errorf("%d keys were imported", n)
	}
	moved(t, 0, []string{"imported 1 key", "left out 1 value of a module"}, "import", module, to, "--skip-unsupported")
	moved(t, 0, []string{"imported 8 keys"}, "import", r.URL(), to, "--replace")

	// Redis 7.0 has no format for expiring fields.
	if err := dial(t, s.addr).Do(t.Context(), "HEXPIRE", "h", 1000, "FIELDS", 1, "f").Err(); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out.rdb")
	moved(t, exitData, []string{`1 hash with expiring fields, like key "h"`, "nothing was exported", "--rdb-version 12"}, "export", out, to)
	if _, err := os.Stat(out); err == nil {
		t.Error("a file was left")
	}
	moved(t, 0, []string{"exported 8 keys"}, "export", out, to, "--rdb-version=12")
	moved(t, 0, []string{"exported 7 keys", "left out 1 hash"}, "export", out, to, "--skip-unsupported", "--replace")
}

// TestMovePools: an import into a pool of servers finds existing keys before it writes, as into one server. A pool can't
// be copied from, because it doesn't list its keys: export and import refuse it.
func TestMovePools(t *testing.T) {
	r, _ := stocked(t)
	one, two := redistest.Start(t), redistest.Start(t)
	pool := filepath.Join(t.TempDir(), "pool")
	startServing(t, "--pools", writePools(t, fmt.Sprintf("p:\n  listen: %s\n  redis: true\n  servers:\n   - %s:1 one\n   - %s:1 two\n", pool, one.Addr(), two.Addr())))
	backend := "--backend=unix://" + pool
	keys := func() string { return one.CLI("DBSIZE") + " + " + two.CLI("DBSIZE") }

	out := filepath.Join(t.TempDir(), "out.rdb")
	moved(t, 0, []string{"imported 8 keys from " + r.Addr()}, "import", r.URL(), backend)
	refusal := []string{pool + ": it is a pool of servers or another proxy", "nothing was exported. Name each server behind it"}
	moved(t, exitUnavailable, refusal, "export", out, backend)
	if _, err := os.Stat(out); err == nil {
		t.Error("a file was left")
	}
	moved(t, exitUnavailable, []string{"it is a pool of servers", "nothing was imported"}, "import", "unix://"+pool, "--backend="+redistest.Start(t).URL())

	// One of many keys is there, and it is the last that SCAN returns or nearly so.
	many := redistest.Start(t)
	many.CLI("DEBUG", "POPULATE", "3000", "many", "8")
	names := strings.Fields(many.CLI("--scan"))
	last := names[len(names)-1]
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: pool, MaxRetries: -1})
	defer func() { _ = c.Close() }()
	if err := c.Set(t.Context(), last, "old", 0).Err(); err != nil {
		t.Fatal(err)
	}
	before := keys()
	moved(t, exitExists, []string{"exists already", last, "nothing was imported"}, "import", many.URL(), backend)
	if after := keys(); after != before {
		t.Errorf("%s keys; want %s", after, before)
	}
	moved(t, 0, []string{"imported 3000 keys"}, "import", many.URL(), backend, "--replace")
}

func TestMovePasswords(t *testing.T) {
	r, _ := stocked(t)
	r.CLI("CONFIG", "SET", "requirepass", "s3cret")
	secret := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(secret, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServe(t, "--password=other")
	code, out, stderr := runToEnd(t, []string{"REDOUBT_PASSWORD=other"}, "import", r.URL(), "--source-password-file", secret, "--backend=redis://"+s.addr)
	if code != 0 || !strings.Contains(out, "imported 8 keys") {
		t.Errorf("exit %d, %q, %q", code, out, stderr)
	}
	code, _, stderr = runToEnd(t, []string{"REDOUBT_PASSWORD=other"}, "export", r.URL()+"/1", "--target-password-file", secret, "--backend=redis://"+s.addr)
	if code != 0 {
		t.Errorf("exit %d, %q", code, stderr)
	}
}

// TestInterruptedImport: the message has the number of keys that were written.
func TestInterruptedImport(t *testing.T) {
	slow.Test(t, "it interrupts imports of many keys")
	r := redistest.Start(t)
	r.CLI("DEBUG", "POPULATE", "200000", "key", "50")
	s := startServe(t)
	p := start(t, nil, "import", r.URL(), "--backend=redis://"+s.addr)
	eventually(t, "keys arrive", func() bool { return size(t, s.addr) > 0 })
	p.signal(syscall.SIGINT)
	if code := p.wait(); code != 128+int(syscall.SIGINT) {
		t.Fatalf("exit %d, %q, %q", code, p.stdout.String(), p.stderr.String())
	}
	n := size(t, s.addr)
	mustContain(t, "stderr", p.stderr.String(), fmt.Sprintf("interrupted: %d keys were imported before that and remain; to continue, run it again with --replace", n))
	moved(t, 0, []string{"imported 200000 keys"}, "import", r.URL(), "--backend=redis://"+s.addr, "--replace")
	out := filepath.Join(t.TempDir(), "out.rdb")
	p = start(t, nil, "export", out, "--backend=redis://"+s.addr)
	eventually(t, "a file grows", func() bool {
		found, err := filepath.Glob(filepath.Join(filepath.Dir(out), ".*.tmp"))
		return err == nil && len(found) > 0
	})
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 128+int(syscall.SIGTERM) {
		t.Fatalf("exit %d, %q, %q", code, p.stdout.String(), p.stderr.String())
	}
	if names, err := os.ReadDir(filepath.Dir(out)); err != nil || len(names) > 0 {
		t.Errorf("%v were left, %v", names, err)
	}
}

func TestProgress(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, false, "importing")
	p.update(transfer.Progress{Done: 1, Total: 4})
	if b.Len() > 0 {
		t.Errorf("at once: %q", b.String())
	}
	p.next = time.Time{}
	p.update(transfer.Progress{Checking: true, Done: 1, Total: 4})
	p.update(transfer.Progress{Checking: true, Done: 2, Total: 4})
	p.next = time.Time{}
	p.update(transfer.Progress{Done: 3, Total: 4})
	if want := "redoubt: checking: 25%\nredoubt: importing: 3 of 4 keys (75%)\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	newProgress(nil, true, "importing").update(transfer.Progress{Done: 1}) // tells nobody

	b.Reset()
	p.bars = true
	for _, now := range []transfer.Progress{{Checking: true, Total: 0}, {Checking: true, Done: 9, Total: 9}, {Done: 0, Total: 2}, {Done: 3, Total: 2}, {Done: 3, Total: 5}} {
		p.update(now)
	}
	p.done()
	mustContain(t, "bar", b.String(), "importing")
	if !strings.HasSuffix(strings.TrimRight(b.String(), " "), "\r") {
		t.Errorf("the bar stays: %q", b.String())
	}
}
