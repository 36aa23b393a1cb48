//go:build unix

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
	"github.com/redoubt-go/redoubt/ratelimit"
)

func TestLimit(t *testing.T) {
	slow.Test(t, "it runs the command line many times on each kind of server")
	check := func(t *testing.T, url string) {
		limit := func(code int, verb string, args ...string) (stdout, stderr string) {
			t.Helper()
			got, stdout, stderr := runToEnd(t, nil, append([]string{"limit", verb, "--backend", url}, args...)...)
			if got != code {
				t.Errorf("limit %s %q: exit %d, want %d; %s%s", verb, args, got, code, stdout, stderr)
			}
			return stdout, stderr
		}
		state := func(code int, verb string, args ...string) (s limitState) {
			t.Helper()
			out, stderr := limit(code, verb, append([]string{"--json"}, args...)...)
			if err := json.Unmarshal([]byte(out), &s); err != nil || stderr != "" {
				t.Fatalf("%v in %s, %s", err, out, stderr)
			}
			return s
		}
		if got := state(0, "peek", "mail", "--rate", "2/h", "--burst", "3"); got != (limitState{Name: "mail", Kind: "limiter", Allowed: true, Rate: 2, Period: 3_600_000, Burst: 3, Remaining: 3}) {
			t.Errorf("peek: %+v", got)
		}
		if got := state(0, "try", "mail", "--rate", "2/h", "--burst", "3", "--n", "2"); got.Taken != 2 || got.Remaining != 1 || got.ResetAfter < 3_500_000 || got.ResetAfter > 3_600_000 {
			t.Errorf("try 2: %+v", got)
		}
		// The next one is refused and takes nothing.
		if got := state(exitBusy, "try", "mail", "--rate", "2/h", "--burst", "3", "--n", "2"); got.Allowed || got.Taken != 0 || got.Remaining != 1 || got.RetryAfter < 1_700_000 || got.RetryAfter > 1_800_000 {
			t.Errorf("refused: %+v", got)
		}
		if out, _ := limit(0, "try", "mail", "--rate", "2/h", "--burst", "3"); !strings.HasPrefix(out, "0 of 3 left, full again in 1h") {
			t.Errorf("try: %q", out)
		}
		for _, verb := range []string{"try", "peek"} {
			if out, stderr := limit(exitBusy, verb, "mail", "--rate", "2/h", "--burst", "3"); out != "" || !strings.HasPrefix(stderr, `redoubt: limit "mail": 0 of 3 left, retry after `) {
				t.Errorf("%s: %q, %q", verb, out, stderr)
			}
		}
		if _, stderr := limit(exitUsage, "try", "mail", "--rate", "2/h", "--burst", "3", "--n", "4"); !strings.Contains(stderr, `n is 4; the limit "mail" allows at most 3 at once`) {
			t.Errorf("too many: %q", stderr)
		}
		if out, stderr := limit(0, "reset", "mail"); out != "" || stderr != "" {
			t.Errorf("reset: %q, %q", out, stderr)
		}
		if out, _ := limit(0, "peek", "mail", "--rate", "2/h", "--burst", "3"); out != "3 of 3 left\n" {
			t.Errorf("after reset: %q", out)
		}
		if _, stderr := limit(exitUsage, "try", "}", "--rate", "2/h"); !strings.Contains(stderr, "begins with '}'") {
			t.Errorf("a bad name: %q", stderr)
		}

		// A key of CL.THROTTLE is another limit; each kind hints at the other.
		client := clienttest.Open(t, url)
		call, err := wire.NewThrottle(15, 30, 60, 4) // CL.THROTTLE cell 15 30 60 4
		if err != nil {
			t.Fatal(err)
		}
		if reply, err := call.Reply(client.Do(t.Context(), call.Cmd("cell"))); err != nil || reply[2] != 12 {
			t.Fatalf("CL.THROTTLE: %v, %v", reply, err)
		}
		cell := []string{"cell", "--rate", "30/m", "--burst", "16"}
		if out, stderr := limit(0, "peek", cell...); out != "16 of 16 left\n" || stderr != "redoubt: CL.THROTTLE has another limit with the key \"cell\": add --throttle to see it\n" {
			t.Errorf("without --throttle: %q, %q", out, stderr)
		}
		if got := state(0, "try", append(cell, "--throttle", "--n", "2")...); got.Kind != "throttle" || got.Remaining != 10 {
			t.Errorf("with --throttle: %+v", got)
		}
		if reply, err := call.Reply(client.Do(t.Context(), call.Cmd("cell"))); err != nil || reply[2] != 6 {
			t.Errorf("CL.THROTTLE again: %v, %v", reply, err)
		}
		limit(0, "try", cell...)
		limit(0, "reset", "cell", "--throttle")
		if out, stderr := limit(0, "peek", append(cell, "--throttle")...); out != "16 of 16 left\n" || stderr != "redoubt: the library has another limit \"cell\": leave out --throttle to see it\n" {
			t.Errorf("after reset --throttle: %q, %q", out, stderr)
		}
		if _, stderr := limit(exitUsage, "peek", "cell", "--throttle"); !strings.Contains(stderr, "a key of CL.THROTTLE stores no limit: give one with --rate") {
			t.Errorf("without --rate: %q", stderr)
		}

		// The library uses the same state and the same stored limit.
		if _, stderr := limit(exitUsage, "try", "api"); !strings.Contains(stderr, `the server stores no limit for "api": give one with --rate`) {
			t.Errorf("not kept: %q", stderr)
		}
		l, err := ratelimit.New(client, ratelimit.Options{Stored: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Set(t.Context(), "api", ratelimit.PerHour(5)); err != nil {
			t.Fatal(err)
		}
		if got := state(0, "try", "api"); got.Burst != 5 || got.Remaining != 4 {
			t.Errorf("kept: %+v", got)
		}
		if d, err := l.Info(t.Context(), "api"); err != nil || d.Remaining != 4 {
			t.Errorf("the library: %+v, %v", d, err)
		}
	}
	eachServer(t, check)
	t.Run("cluster", func(t *testing.T) { check(t, redistest.StartCluster(t, 3, 0).URL()) })
}

func TestRate(t *testing.T) {
	for s, want := range map[string]string{
		"10/s": "10/1s", "1/d": "1/24h0m0s", "3/10s": "3/10s", "5/1h30m": "5/1h30m0s",
		"": "not a rate", "10": "not a rate", "10/": "not a rate", "0/s": "not a rate", "-1/s": "not a rate", "x/s": "not a rate", "1/x": "not a rate", "1/0s": "not a rate", "1/-1s": "not a rate", "1/s/s": "not a rate",
	} {
		var r rate
		err := r.Set(s)
		if got := r.String(); err == nil && got != want || err != nil && (got != "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %q, %v; want %q", s, got, err, want)
		}
	}
}
