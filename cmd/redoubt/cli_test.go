package main

import (
	"encoding/json"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

func TestUsage(t *testing.T) {
	slow.Test(t, "it runs the command line in very many ways")
	for _, c := range []struct{ args, want string }{
		{"nope", `unknown command "nope"`},
		{"srve", `unknown command "srve"; did you mean "serve"?`},
		{"limt try a --rate=1/s", `unknown command "limt"; did you mean "limit"?`},
		{"limit tri a --rate=1/s", `limit: unknown command "tri"; did you mean "try"?`},
		{"limit tri a", `limit: unknown command "tri"; did you mean "try"?`},
		{"limit nope --rate=1/s", `limit: unknown command "nope"`},
		{"lock relase a --force", `lock: unknown command "relase"; did you mean "release"?`},
		{"lock relase a", `want NAME -- COMMAND [ARGS…]: the -- is missing; or did you mean "release"?`},
		{"serve --nope", "unknown flag: --nope"},
		{"serve --lisen=:1", "unknown flag: --lisen; did you mean --listen?"},
		{"lock x --wiat 5s -- true", "unknown flag: --wiat; did you mean --wait?"},
		{"serve --max-clients=many", `--max-clients: "many" is not a whole number`},
		{"serve --idle-timeout=soon", `--idle-timeout: "soon" is not a duration; want one like 300ms, 90s or 1h30m`},
		{"del --force=perhaps", `--force: "perhaps" is neither true nor false`},
		{"queue take a --wait=soon", `--wait: "soon" is neither a duration like 90s or 5m, nor forever`},
		{"serve now", `serve: unknown argument "now"`},
		{"del x*", `del: unknown argument "x*"; to choose by a pattern: --match PATTERN`},
		{"queue ls x", `queue ls: unknown argument "x"; to choose by a pattern: --match PATTERN`},
		{"import", "import: want one SOURCE, not 0"},
		{"check a b", "check: want one DIR, not 2"},
		{"cache get a", "cache get: want NAME KEY, not 1 arguments"},
		{"help srve", `unknown command "srve"; did you mean "serve"?`},
		{"help queue putt", `queue: unknown command "putt"; did you mean "put"?`},
		{"serve --max-clients=0", "max-clients is 0; want at least 1"},
		{"serve --max-bulk=much", `"much" is not a size`},
		{"serve --log-level=loud", `log-level is "loud"; want debug, info, warn or error`},
		{"serve --log-format=xml", `log-format is "xml"; want text or json`},
		{"serve --backend=embedded:/data --dir=/other", "backend is embedded:/data, but dir is /other; leave out one"},
		{"serve --dir=/data --backend=redis://:s3cret@h:1", "dir is /data, but the back end is h:1, which saves its data itself"},
		{"serve --fsync=always --backend=redis://h:1", "fsync is always, but the back end is h:1"},
		{"serve --fsync=always", "nothing is saved without a directory; name one with --backend embedded:/path or --dir"},
		{"serve --maxmemory=1GiB --backend=redis://h:1", "maxmemory is 1GiB, but the back end is h:1, which has its own"},
		{"serve --maxmemory-policy=allkeys-lru", "there is no limit; set one with --maxmemory"},
		{"serve --maxmemory=1GiB --maxmemory-policy=lru", `unknown policy "lru"; want noeviction, allkeys-lru, `},
		{"serve --maxmemory=much", `"much" is not a size`},
		{"serve --dir=/data --fsync=daily", `unknown policy "daily"; want always, everysec or never`},
		{"serve --backend=http://x", `URL scheme "http" is not known; want redis, rediss, unix, redis-sentinel, rediss-sentinel, redis-cluster, rediss-cluster and embedded`},
		{"serve --password=a --password-file=b", "give one"},
		{"lock", "the -- is missing"},
		{"lock deploy true", "the -- is missing"},
		{"lock -- true", "one NAME before the --, not 0"},
		{"lock a b -- true", "one NAME before the --, not 2"},
		{"lock deploy --", "want a COMMAND after the --"},
		{"lock deploy --ttl=500ms -- true", "ttl is 500ms; want 1s to "},
		{"lock deploy --grace=20s -- true", "too long for a lease of 30s: at most 14s"},
		{"lock deploy --wait=-1s -- true", `"-1s" is neither a duration like 90s or 5m, nor forever`},
		{"lock deploy --wait=0 -- true", `"0" is not a time to wait: use --no-wait to not wait at all, or --wait forever`},
		{"lock deploy --wait=0s -- true", `"0s" is not a time to wait: use --no-wait`},
		{"lock deploy --wait=5m --no-wait -- true", "--wait and --no-wait exclude each other: give one"},
		{"lock deploy --backend=embedded: -- true", "embedded: is the memory of this process alone"},
		{"lock x --shared --semaphore=2 -- true", "exclude each other"},
		{"lock x --shared --fair -- true", "exclude each other"},
		{"lock x --fair --semaphore=2 -- true", "exclude each other"},
		{"lock x --semaphore=0 -- true", "limit is 0; want 1 to 1000000"},
		{"lock run ls", "lock run: want NAME -- COMMAND"},
		{"lock ls -- true", "redoubt lock run ls -- COMMAND"},
		{"lock info -- true", "redoubt lock run info -- COMMAND"},
		{"lock ls orders", "to choose by a pattern: --match PATTERN"},
		{"lock info", "want one NAME, not 0"},
		{"lock release a b --force", "want one NAME, not 2"},
		{"lock release a", "pass --force"},
		{"lock release a --force --fence=0", "--fence: token is 0; want the token of the holder"},
		{"lock ls --backend=embedded:", "embedded: is the memory of this process alone"},
		{"limit nope", `limit: unknown command "nope"`},
		{"limit try", "limit try: want one NAME, not 0"},
		{"limit reset a b", "limit reset: want one NAME, not 2"},
		{"limit try a --rate=often", `"often" is not a rate; want a number of at least 1, a slash, and`},
		{"limit try a --rate=1/s --burst=0", "burst is 0; want at least 1, and --rate with it"},
		{"limit peek a --burst=3", "burst is 3; want at least 1, and --rate with it"},
		{"limit try a --rate=1/s --n=0", "n is 0; want at least 1"},
		{"limit peek a --n=3", "unknown flag: --n"},
		{"queue nope", `queue: unknown command "nope"`},
		{"queue stats", "queue stats: want one NAME, not 0"},
		{"queue put", "queue put: want NAME and at most one PAYLOAD, not 0 arguments"},
		{"queue put a b --lines=c", "both PAYLOAD and --lines are given"},
		{"queue put a b --at=tomorrow", `at is "tomorrow"; want a time like`},
		{"queue put a b --attempts=0", "attempts is 0; want 1 to 65535, or -1"},
		{"queue take a --count=0", "count is 0; want at least 1"},
		{"queue take a --wait=-1s", `"-1s" is neither a duration like 90s or 5m, nor forever`},
		{"queue take a --wait=0", `"0" is not a time to wait: use --no-wait to not wait at all, or --wait forever`},
		{"queue take a --no-wait --wait=5m", "--wait and --no-wait exclude each other: give one"},
		{"queue dead a b", "IDs and --all need --delete"},
		{"queue dead a --count=0", "count is 0; want 1 to 1000"},
		{"queue dead a --delete", "want the ID of a message, or --all"},
		{"queue requeue a", "want the ID of a message, or --all"},
		{"queue requeue a b --all", "both IDs and --all are given"},
		{"queue cancel a", "want the ID of a message"},
		{"queue drain a", "pass --force"},
		{"stock nope", `stock: unknown command "nope"`},
		{"stock info", "stock info: want NAME, not 0 arguments"},
		{"stock set sku", "want NAME and N, not 1 arguments"},
		{"stock set sku many", `N is "many"; want a whole number from 0 to 1000000000000000`},
		{"stock set sku -- -1", `N is "-1"; want a whole number from 0 to`},
		{"stock add sku -5", "to remove units: redoubt stock add NAME -- -N"},
		{"stock rm sku", "pass --force"},
		{"stock rm", "stock rm: want one NAME, not 0"},
		{"limit ls mail", `limit ls: unknown argument "mail"`},
		{"scan --null --json", "both --null and --json are given"},
		{"top --interval=1ms", "interval is 1ms; want at least 100ms"},
		{"top", "top needs a terminal; --json prints what it shows once"},
		{"top now", "top: unknown argument"},
		{"scan tmp:*", "scan: unknown argument"},
		{"scan --match=[a", `invalid pattern: "[a" has a [ without a ]`},
		{"scan --type=hsah", `Type is "hsah"; want string, list, `},
		{"scan --count=0", "count is 0; want 1 to 100000"},
		{"scan --backend=embedded:/nowhere", "backend: stat /nowhere"},
		{"scan --limit=-1", "limit is -1; want at least 1"},
		{"scan --backend=embedded:", "the memory of another process"},
		{"del --force", "want the pattern of the keys to delete with --match"},
		{"del --match=a", "pass --force, or --dry-run to count them first"},
		{"del --match=a --force --dry-run", "both --dry-run and --force are given"},
		{"bigkeys --top=0", "top, depth and sample must be more than 0"},
		{"health --http=8080", `http is "8080"; want host:port`},
		{"health --http=http://h:1", "http is a URL"},
		{"health now", "health: unknown argument"},
		{"man", "man: want one DIR, not 0"},
		{"commands --format=xml", `format is "xml"; want table, json or markdown`},
	} {
		code, out, stderr := runToEnd(t, nil, strings.Fields(c.args)...)
		if code != exitUsage || out != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("redoubt %s: exit %d, %q, %q; want %d and %q", c.args, code, out, stderr, exitUsage, c.want)
		}
	}
	if code, out, _ := runToEnd(t, nil); code != 0 || !strings.Contains(out, "Available Commands:") {
		t.Errorf("without arguments: exit %d, %q", code, out)
	}
}

func TestCommands(t *testing.T) {
	_, table, _ := runToEnd(t, nil, "commands")
	_, text, _ := runToEnd(t, nil, "commands", "--format=json")
	_, markdown, _ := runToEnd(t, nil, "commands", "--format", "markdown")
	var list []commandJSON
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != len(command.All()) {
		t.Errorf("%d commands; want %d", len(list), len(command.All()))
	}
	for _, c := range command.All() {
		mustContain(t, "table", table, c.Syntax()+"\n", c.Summary)
	}
	mustContain(t, "table", table, "ttl        integer, ms ")
	if markdown != command.Markdown() {
		t.Error("markdown differs from docs/commands.md")
	}
}

func TestVersion(t *testing.T) {
	_, long, _ := runToEnd(t, nil, "version")
	for _, args := range [][]string{{"version"}, {"--version"}, {"-v"}} {
		code, out, _ := runToEnd(t, nil, args...)
		if code != 0 || out != long {
			t.Errorf("%q: exit %d, %q; want %q", args, code, out, long)
		}
		mustContain(t, "version", out, "redoubt ", "revision ", "go1.")
	}
	var b build
	if _, out, _ := runToEnd(t, nil, "version", "--json"); json.Unmarshal([]byte(out), &b) != nil || b.Version == "" || b.String() != long {
		t.Errorf("as JSON: %q; want what %q says", out, long)
	}

	info := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "true"},
	}}
	mustContain(t, "version", readBuild(info, true).String(), "redoubt v1.2.3\nrevision abc with local changes, 2026-01-02T03:04:05Z\n")
	if v := readBuild(nil, false).Version; v != "(unknown)" {
		t.Errorf("without build info: %q", v)
	}
}

// TestJSONEverywhere: every command that prints a result has --json. The others run a program, print a
// script or serve.
func TestJSONEverywhere(t *testing.T) {
	without := []string{"serve", "lock", "lock run", "man"}
	for cmd := range within(newRoot()) {
		_, path, _ := strings.Cut(cmd.CommandPath(), " ")
		if cmd.HasSubCommands() && path != "lock" || slices.Contains(without, path) {
			continue
		}
		if cmd.Flags().Lookup("json") == nil {
			t.Errorf("redoubt %s has no --json", path)
		}
	}
}

func TestRounded(t *testing.T) {
	for ms, want := range map[int64]string{
		0: "0ms", 850: "850ms", 999: "999ms", 1000: "1s", 4240: "4.2s", 59_949: "59.9s", 59_950: "1m", 192_000: "3m12s", 3_599_499: "59m59s",
		3_599_500: "1h", 7_500_000: "2h5m", 86_399_999: "1d", 273_600_000: "3d4h", -4240: "-4.2s",
	} {
		if got := rounded(ms); got != want {
			t.Errorf("rounded(%d) = %q; want %q", ms, got, want)
		}
	}
	if got := ago(time.Now().Add(time.Hour)); got != "just now" {
		t.Errorf("in an hour: %q", got)
	}
	if got := ago(time.Now().Add(-3 * time.Hour)); got != "3h ago" {
		t.Errorf("3 hours ago: %q", got)
	}
}

// TestLineWriter: a bar that is wider than the terminal stays on its line.
func TestLineWriter(t *testing.T) {
	var b strings.Builder
	long := strings.Repeat("锁", 60)
	if n, err := (lineWriter{&b}).Write([]byte("\r" + long + "\r" + "short")); n != 2+len(long)+5 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if want := "\r" + strings.Repeat("锁", 39) + "…\rshort"; b.String() != want { // 79 columns
		t.Errorf("it wrote %q; want %q", b.String(), want)
	}
}

func TestPasswordIsNotShown(t *testing.T) {
	for url, want := range map[string]string{
		"redis://me:s3cret@10.0.0.5:6379/1": "10.0.0.5:6379",
		"unix://:s3cret@/run/redis.sock":    "/run/redis.sock",
		"redis://me:s3c%ret@h":              "the back end",
	} {
		if got := address(url); got != want && !strings.HasSuffix(got, want) || strings.Contains(got, "s3c") {
			t.Errorf("address(%q) = %q; want %q", url, got, want)
		}
	}
}

func TestWithPassword(t *testing.T) {
	for _, c := range [][3]string{
		{"redis://h:1/2", "p@ss", "redis://:p%40ss@h:1/2"},
		{"redis://u:own@h:1", "p", "redis://u:own@h:1"},
		{"redis://h:1", "", "redis://h:1"},
		{"unix:///run/s?db=1", "p", "unix://:p@/run/s?db=1"},
		{"redis-cluster://h:1,i:2", "p/", "redis-cluster://:p%2F@h:1,i:2"},
		{"redis-sentinel://h:1,i:2/m?sentinel_password=a", "p", "redis-sentinel://:p@h:1,i:2/m?sentinel_password=a"},
		{"redis-cluster://:own@h:1,i:2", "p", "redis-cluster://:own@h:1,i:2"},
	} {
		if got := withPassword(c[0], c[1]); got != c[2] {
			t.Errorf("withPassword(%q, %q) = %q; want %q", c[0], c[1], got, c[2])
		}
	}
}
