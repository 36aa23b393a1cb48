//go:build unix

package main

import (
	"encoding/json"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
	"github.com/redoubt-go/redoubt/queue"
)

func TestQueueSchedule(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		q := func(code int, verb string, args ...string) (stdout, stderr string) {
			t.Helper()
			got, stdout, stderr := runToEnd(t, nil, append([]string{"queue", "schedule", verb, "--backend", url}, args...)...)
			if got != code {
				t.Errorf("schedule %s %q: exit %d, want %d; %s%s", verb, args, got, code, stdout, stderr)
			}
			return stdout, stderr
		}
		if out, _ := q(0, "put", "jobs", "report", "sales", "--cron", "0 9 * * MON-FRI", "--zone", "Asia/Shanghai", "--start", "2100-01-01T00:00:00Z"); out != "2100-01-01T09:00:00+08:00\n" {
			t.Errorf("put: %q", out)
		}
		if out, _ := q(0, "put", "jobs", "sweep", "now", "--every", "10m", "--start", "2100-01-01T00:00:00Z", "--header", "a=1=1", "--json"); !strings.Contains(out, `"every_ms": 600000`) {
			t.Errorf("put: %q", out)
		}
		for want, args := range map[string][]string{
			`hour is "24"; want 0 to 23`:   {"--cron", "0 24 * * *"},
			"neither cron nor every":       {},
			`start is "soon"; want a time`: {"--every", "1h", "--start", "soon"},
			`catch-up is "some"`:           {"--every", "1h", "--catch-up", "some"},
			`header is "a"; want NAME=`:    {"--every", "1h", "--header", "a"},
		} {
			if _, stderr := q(exitUsage, "put", append([]string{"jobs", "bad", "x"}, args...)...); !strings.Contains(stderr, want) {
				t.Errorf("put %q: %q", args, stderr)
			}
		}
		q(0, "pause", "jobs", "sweep")
		out, _ := q(0, "ls", "jobs")
		rows := strings.Split(strings.TrimSpace(out), "\n")
		if len(rows) != 3 || !strings.HasPrefix(rows[1], "report ") || !strings.Contains(rows[1], "2100-01-01T01:00:00Z") || !strings.HasSuffix(rows[2], "paused") {
			t.Errorf("ls:\n%s", out)
		}
		q(0, "resume", "jobs", "sweep")
		if _, stderr := q(exitFault, "pause", "jobs", "none"); !strings.Contains(stderr, `queue "jobs" has no schedule "none"`) {
			t.Errorf("pause: %q", stderr)
		}
		var states []scheduleState
		asJSON(t, &states, "queue", "schedule", "ls", "--backend", url, "--json", "jobs")
		if len(states) != 2 || states[0].ID != "sweep" || states[0].Paused || states[1].Payload != "sales" || states[0].Headers["a"] != "1=1" {
			t.Errorf("%+v", states)
		}
		if out, _ := q(exitFault, "remove", "jobs", "report", "sweep", "none"); out != "2 schedules removed\n" {
			t.Errorf("remove: %q", out)
		}
	})
}

// Three redoubt serve in front of one Redis put the messages of a schedule that a client gave to one of them, which is
// killed. The others go on.
//
// Promise: Each time of a schedule is put once, by any number of schedulers, whenever one of them dies.
func TestServeSchedules(t *testing.T) {
	slow.Test(t, "it waits for times of a schedule, which are a second apart")
	t.Parallel()
	s := redistest.Start(t)
	var serves []*serving
	for range 3 {
		serves = append(serves, startServe(t, "--backend", s.URL()))
	}
	code, _, stderr := runToEnd(t, nil, "queue", "schedule", "put", "jobs", "tick", "now", "--every", "1s", "--catch-up", "all", "--backend", "redis://"+serves[0].addr)
	if code != 0 {
		t.Fatal(stderr)
	}
	client := clienttest.Open(t, s.URL())
	jobs, err := queue.New[[]byte](client, queue.Options{Codec: queue.Bytes{}})
	if err != nil {
		t.Fatal(err)
	}
	ready := func(n int) func() bool {
		return func() bool {
			info, err := jobs.Info(t.Context(), "jobs")
			return err == nil && info.Ready >= n
		}
	}
	eventually(t, "the server that heard of it puts messages", ready(2))
	serves[0].signal(syscall.SIGKILL)
	eventually(t, "the others go on", ready(8))
	serves[1].signal(syscall.SIGKILL)
	eventually(t, "the last goes on", ready(11))
	info, err := queue.NewSchedules(jobs).Info(t.Context(), "jobs", "tick")
	if err != nil {
		t.Fatal(err)
	}
	last := time.Time{}
	n := 0
	for m, err := range jobs.Messages(t.Context(), "jobs", queue.StateReady) {
		if err != nil {
			t.Fatal(err)
		}
		ms, err := strconv.ParseInt(strings.TrimPrefix(m.ID, "tick@"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if at := time.UnixMilli(ms); n > 0 && at.Sub(last) != time.Second || m.When.Before(at) {
			t.Errorf("%v after %v, put at %v", at, last, m.When)
		} else {
			last = at
		}
		n++
	}
	if n < info.Count {
		text, _ := json.Marshal(info)
		t.Errorf("%d messages; %s", n, text)
	}
}
