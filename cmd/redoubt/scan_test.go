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

	"github.com/redoubt-go/redoubt/internal/redistest"
)

// TestScan goes over the keys of one server, and of a cluster, and deletes some.
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
	if n := count("--limit", "7"); n != 7 {
		t.Errorf("with --limit 7: %d", n)
	}
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
	if _, stderr := run(exitUnavailable, "bigkeys", "--by=heat"); !strings.Contains(stderr, "LFU") {
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

func TestCompletion(t *testing.T) {
	for args, want := range map[string]string{"scan --type=": "zset\n", "bigkeys --by=": "heat\n", "de": "del\t"} {
		_, out, _ := runToEnd(t, nil, append([]string{"__complete"}, strings.Fields(args)...)...)
		mustContain(t, args, out, want)
	}
}

// An interrupted run says how far it was and how to go on, and nothing is left out.
func TestInterruptedDel(t *testing.T) {
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
	m := regexp.MustCompile(`interrupted: (\d+) keys deleted; to go on: --from (scan1\S+)`).FindStringSubmatch(p.stderr.String())
	if m == nil {
		t.Fatalf("it said %q", p.stderr.String())
	}
	args[3] = "--count=1000"
	code, out, stderr := runToEnd(t, nil, append(args, "--from", m[2])...)
	if left := rdb.DBSize(t.Context()).Val(); code != 0 || left != 0 || !strings.Contains(out, " keys deleted\n") {
		t.Errorf("going on: exit %d, %q, %q; %d keys are left", code, out, stderr, left)
	}
}
