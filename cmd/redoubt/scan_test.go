//go:build unix

package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
	"github.com/redoubt-go/redoubt/scan"
)

// TestScan scans the keys of a server and of a cluster, and deletes some.
func TestScan(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) (url string, rdb redis.UniversalClient){
		"redis": func(t *testing.T) (string, redis.UniversalClient) {
			t.Helper()
			s := redistest.Start(t)
			return s.URL(), redis.NewClient(&redis.Options{Addr: s.Addr()})
		},
		"cluster": func(t *testing.T) (string, redis.UniversalClient) {
			t.Helper()
			c := redistest.StartCluster(t, 3, 0)
			return c.URL(), redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, rdb := start(t)
			defer rdb.Close()
			for i := range 300 {
				if err := rdb.Set(t.Context(), fmt.Sprint("tmp:", i), strings.Repeat("x", i), 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 600 { // reads rehash a table that has grown
				if err := rdb.Exists(t.Context(), fmt.Sprint("tmp:", i%300)).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if err := rdb.RPush(t.Context(), "keep:\xff\n", make([]string, 500)).Err(); err != nil {
				t.Fatal(err)
			}
			checkScan(t, url)
		})
	}
}

func checkScan(t *testing.T, url string) {
	t.Helper()
	run := func(want int, args ...string) (out, stderr string) {
		t.Helper()
		code, out, stderr := runToEnd(t, nil, append(args, "--backend", url)...)
		if code != want {
			t.Errorf("redoubt %q: exit %d, %q, %q; want %d", args, code, out, stderr, want)
		}
		return out, stderr
	}
	count := func(args ...string) int {
		out, _ := run(0, append([]string{"scan"}, args...)...)
		return strings.Count(out, "\n")
	}
	if a, b, c := count(), count("--match", "tmp:1?"), count("--type", "list"); a != 301 || b != 10 || c != 1 {
		t.Errorf("%d, %d and %d keys; want 301, 10 and 1", a, b, c)
	}
	checkLimit(t, run)
	if out, _ := run(0, "scan", "--type=list"); out != `"keep:\xff\n"`+"\n" {
		t.Errorf("a key that is no text is printed as %q", out)
	}
	if out, _ := run(0, "scan", "--type=list", "--null"); out != "keep:\xff\n\x00" {
		t.Errorf("with --null as %q", out)
	}

	out, _ := run(0, "bigkeys", "--top=3")
	mustContain(t, "bigkeys", out, "301 keys, ", "TYPE", "list", "string", "PREFIX", "tmp:", "KEY", "tmp:2")
	var r reportState
	asJSON(t, &r, "bigkeys", "--backend", url, "--by=elements", "--top=2", "--json")
	if r.Found != 301 || r.Measured != 301 || len(r.Biggest) != 2 || r.Biggest[0].Weight != 500 || r.Biggest[1] != (keyJSON{"tmp:299", "string", 299}) {
		t.Errorf("by elements: %+v", r)
	}
	if _, stderr := run(exitUnavailable, "bigkeys", "--by=heat"); !strings.Contains(stderr, "allkeys-lfu") || strings.Contains(stderr, "--from") {
		t.Errorf("heat where nobody counts: %q", stderr)
	}

	out, _ = run(0, "del", "--match=tmp:*", "--dry-run")
	mustContain(t, "a dry run", out, "would delete 300 keys\n  tmp:", "  and 290 more\n")
	if n := count(); n != 301 {
		t.Errorf("after a dry run: %d keys", n)
	}
	if out, _ := run(0, "del", "--match=tmp:*", "--force"); out != "300 keys deleted\n" {
		t.Errorf("del says %q", out)
	}
	if n := count(); n != 1 {
		t.Errorf("after del: %d keys", n)
	}
	_, stderr := run(exitUsage, "scan", "--from=scan1.e30.x")
	mustContain(t, "a bad token", stderr, "scan: invalid token: it is cut off or altered")
}

// checkLimit scans all keys in several runs with --limit: each key is printed once.
func checkLimit(t *testing.T, run func(want int, args ...string) (out, stderr string)) {
	t.Helper()
	printed, runs, args := map[string]int{}, 0, []string{"scan", "--limit=40"}
	for more := true; more; runs++ {
		out, stderr := run(0, args...)
		for key := range strings.Lines(out) {
			printed[key]++
		}
		n := strings.Count(out, "\n")
		_, token, found := strings.Cut(strings.TrimSpace(stderr), "redoubt: 40 keys printed; to continue: --from ")
		if more = found; more != (n == 40) {
			t.Fatalf("%d keys, and it says %q", n, stderr)
		}
		args = []string{"scan", "--limit=40", "--from", token}
	}
	if len(printed) != 301 || runs != 8 {
		t.Errorf("in %d runs of at most 40, %d keys; want 301 in 8", runs, len(printed))
	}
	for key, n := range printed {
		if n > 1 {
			t.Errorf("%q is printed %d times", key, n)
		}
	}
	// --limit may end a run within its first step.
	some, stderr := run(0, "scan", "--limit=7", "--count=1000")
	_, token, _ := strings.Cut(strings.TrimSpace(stderr), "redoubt: 7 keys printed; to continue: --from ")
	rest, _ := run(0, "scan", "--from", token)
	if all := some + rest; strings.Count(some, "\n") != 7 || strings.Count(all, "\n") != 301 {
		t.Errorf("%q, %q, and then %d keys", some, stderr, strings.Count(rest, "\n"))
	}
	if _, stderr := run(0, "scan", "--limit=7", "--quiet"); stderr != "" {
		t.Errorf("with --quiet it says %q", stderr)
	}
}

// A report shows the unit of its numbers.
func TestPrintReport(t *testing.T) {
	r := scan.Report{
		Found: 40, Measured: 20, Weight: 5<<20 + 300,
		Types:      map[string]scan.Sum{"set": {Keys: 4, Weight: 300}, "string": {Keys: 36, Weight: 5 << 20}},
		Keys:       []scan.Key{{Name: "b\x00", Type: "string", Weight: 3 << 20}},
		Prefixes:   []scan.Prefix{{Name: "a:", Keys: 39, Weight: 2 << 20, MaxError: 1 << 20}},
		Unprefixed: scan.Sum{Keys: 1, Weight: 3 << 20},
	}
	for by, want := range map[scan.Measure]string{
		scan.Bytes: `40 keys, 5.0 MiB; estimated from 20 of them

TYPE    KEYS  SIZE     SHARE
string  36    5.0 MiB  100.0%
set     4     300 B    0.0%

PREFIX  KEYS  SIZE     SHARE
a:      39    2.0 MiB  40.0%  at least 1.0 MiB
(none)  1     3.0 MiB  60.0%

KEY      TYPE    SIZE     SHARE
"b\x00"  string  3.0 MiB  60.0%
`,
		scan.Elements: `40 keys, 300 elements and 5.0 MiB of strings; estimated from 20 of them

TYPE    KEYS  LENGTH
string  36    5242880
set     4     300

PREFIX  KEYS  LENGTH
a:      39    2097152  at least 1048576
(none)  1     3145728

KEY      TYPE    LENGTH
"b\x00"  string  3145728
`,
		scan.Heat: `40 keys, about 5243180 accesses lately; estimated from 20 of them

TYPE    KEYS  ACCESSES  SHARE
string  36    5242880   100.0%
set     4     300       0.0%

PREFIX  KEYS  ACCESSES  SHARE
a:      39    2097152   40.0%  at least 1048576
(none)  1     3145728   60.0%

KEY      TYPE    ACCESSES  SHARE
"b\x00"  string  3145728   60.0%
`,
	} {
		var out strings.Builder
		if err := printReport(&out, by, r); err != nil || out.String() != want {
			t.Errorf("by %s: %v\n%s\nwant\n%s", by, err, out.String(), want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 10_188: "9.9 KiB", 10_240: "10 KiB", 1023 << 10: "1.0 MiB", 88 << 20: "88 MiB", 1 << 42: "4.0 TiB", 1 << 52: "4096 TiB"} {
		if got := byteSize(n); got != want {
			t.Errorf("%d bytes are %s; want %s", n, got, want)
		}
	}
}

func TestCompletion(t *testing.T) {
	for args, want := range map[string]string{"scan --type=": "zset\n", "bigkeys --by=": "heat\n", "de": "del\t"} {
		_, out, _ := runToEnd(t, nil, append([]string{"__complete"}, strings.Fields(args)...)...)
		mustContain(t, args, out, want)
	}
}

// An interrupted run prints how far it got and how to continue, and the rest misses no key.
func TestInterruptedDel(t *testing.T) {
	slow.Test(t, "it interrupts deletions of many keys")
	s := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer rdb.Close()
	const n = 200_000
	fill := `for i = 1, 20000 do redis.call('SET', 'k:' .. ARGV[1] .. ':' .. i, '') end return redis.status_reply('OK')`
	for i := range n / 20_000 {
		if err := rdb.Eval(context.WithoutCancel(t.Context()), fill, nil, i).Err(); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"del", "--match=k:*", "--force", "--count=10", "--backend", s.URL()}
	p := start(t, nil, args...)
	eventually(t, "some are deleted", func() bool { return rdb.DBSize(t.Context()).Val() < n-1000 })
	p.signal(syscall.SIGINT)
	if code := p.wait(); code != 128+int(syscall.SIGINT) {
		t.Fatalf("exit %d, %q, %q", code, p.stdout.String(), p.stderr.String())
	}
	m := regexp.MustCompile(`interrupted: (\d+) keys deleted; to continue: --from (scan1\S+)`).FindStringSubmatch(p.stderr.String())
	if m == nil {
		t.Fatalf("it said %q", p.stderr.String())
	}
	args[3] = "--count=1000"
	code, out, stderr := runToEnd(t, nil, append(args, "--from", m[2])...)
	if left := rdb.DBSize(t.Context()).Val(); code != 0 || left != 0 || !strings.Contains(out, " keys deleted\n") {
		t.Errorf("going on: exit %d, %q, %q; %d keys are left", code, out, stderr, left)
	}
}
