//go:build unix

package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
)

var recordRelease = flag.Bool("record-release", false, "write the data of the version in VERSION to testdata/releases")

// words splits a line of program.txt.
func words(t *testing.T, line string) (args []any) {
	t.Helper()
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		word, rest, _ := strings.Cut(line, " ")
		if line[0] == '"' {
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if word, err = strconv.Unquote(quoted); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			rest = line[len(quoted):]
		}
		args, line = append(args, word), rest
	}
	return args
}

// replyTo returns the reply to a line as text.
func replyTo(t *testing.T, conn *redis.Conn, line string) string {
	t.Helper()
	reply, err := conn.Do(t.Context(), words(t, line)...).Result()
	if err != nil && err != redis.Nil { //nolint:errorlint // go-redis returns it as it is
		return "error: " + err.Error()
	}
	return replyText(reply)
}

func replyText(reply any) string {
	switch v := reply.(type) {
	case string:
		return strconv.Quote(v)
	case []any:
		var parts []string
		for _, e := range v {
			parts = append(parts, replyText(e))
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return fmt.Sprint(reply)
}

// questions asks the questions in a recording, and returns it with the replies of the server.
func questions(t *testing.T, conn *redis.Conn, text string) string {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(text) {
		if question, found := strings.CutPrefix(line, "? "); found {
			fmt.Fprintf(&b, "%s%s\n", line, replyTo(t, conn, question))
		}
	}
	return b.String()
}

func readText(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// record writes the data of this version to dir.
func record(t *testing.T, dir, program string) {
	t.Helper()
	data, users := filepath.Join(dir, "data"), filepath.Join(dir, "users.acl")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(data, 0o755); err != nil { //nolint:gosec // files of the repository
		t.Fatal(err)
	}
	if err := os.WriteFile(users, []byte("user default on nopass ~* &* +@all\n"), 0o644); err != nil { //nolint:gosec // as above
		t.Fatal(err)
	}
	s := startServe(t, "--dir", data, "--aclfile", users)
	conn := dial(t, s.addr).Conn()
	defer conn.Close() //nolint:errcheck // nothing is left to do
	for line := range strings.Lines(program) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' || line[0] == '?' {
			continue
		}
		if got := replyTo(t, conn, line); strings.HasPrefix(got, "error") {
			t.Fatalf("%s: %s", line, got)
		}
		if line == "BGREWRITEAOF" {
			eventually(t, "the log is compacted", func() bool {
				found, err := filepath.Glob(filepath.Join(data, "*.base"))
				return err == nil && len(found) == 1 && strings.Contains(replyTo(t, conn, "INFO persistence"), "aof_rewrite_in_progress:0")
			})
		}
	}
	for _, line := range []string{"SAVE", "ACL SAVE"} {
		if got := replyTo(t, conn, line); got != `"OK"` {
			t.Fatalf("%s: %s", line, got)
		}
	}
	replies := questions(t, conn, program)
	if err := os.WriteFile(filepath.Join(dir, "replies.txt"), []byte(replies), 0o644); err != nil { //nolint:gosec // as above
		t.Fatal(err)
	}
	s.signal(syscall.SIGTERM)
	s.wait()
	for _, name := range []string{"lock", "reserve"} { // these are made anew
		if err := os.Remove(filepath.Join(data, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(filepath.Join(data, "dump.rdb"), filepath.Join(dir, "dump.rdb")); err != nil {
		t.Fatal(err)
	}
}

// TestDataOfReleases reads the directory, the snapshot and the users of each release with this version, and wants
// the replies that the release itself gave. -record-release writes the replies of the version in VERSION.
//
// Promise: A release reads the keys and directories that the release before it wrote.
func TestDataOfReleases(t *testing.T) {
	const releases = "testdata/releases"
	version := strings.TrimSpace(readText(t, "../../VERSION"))
	if *recordRelease {
		record(t, filepath.Join(releases, version), readText(t, filepath.Join(releases, "program.txt")))
	}
	recorded, err := filepath.Glob(filepath.Join(releases, "v*"))
	if err != nil {
		t.Fatal(err)
	}
	has := false
	for _, dir := range recorded {
		has = has || filepath.Base(dir) == version
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			want := readText(t, filepath.Join(dir, "replies.txt"))
			users, log, imported := filepath.Join(t.TempDir(), "users.acl"), t.TempDir(), t.TempDir()
			if err := os.CopyFS(log, os.DirFS(filepath.Join(dir, "data"))); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(users, []byte(readText(t, filepath.Join(dir, "users.acl"))), 0o600); err != nil {
				t.Fatal(err)
			}
			if code, stdout, stderr := runToEnd(t, nil, "check", log); code != 0 {
				t.Errorf("redoubt check: exit %d: %s%s", code, stdout, stderr)
			}
			if code, stdout, stderr := runToEnd(t, nil, "import", filepath.Join(dir, "dump.rdb"), "--dir", imported); code != 0 {
				t.Fatalf("redoubt import: exit %d: %s%s", code, stdout, stderr)
			}
			for from, data := range map[string]string{"the log": log, "the snapshot": imported} {
				conn := dial(t, startServe(t, "--dir", data, "--aclfile", users).addr).Conn()
				if got := questions(t, conn, want); got != want {
					t.Errorf("from %s:\n%s", from, firstDifference(got, want))
				}
				conn.Close() //nolint:errcheck // nothing is left to do
			}
		})
	}
	if !has {
		t.Errorf("testdata/releases lacks %s: make release-data", version)
	}
}

// firstDifference returns the first question with another reply, and both.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range w {
		if g[i] != w[i] {
			return fmt.Sprintf("%s\n got %s\nwant %s", w[max(0, i-1)], g[i], w[i])
		}
	}
	return ""
}
