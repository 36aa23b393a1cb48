//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
	"github.com/redoubt-go/redoubt/internal/transfer"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

// kill makes n messages of a queue dead.
func kill(t *testing.T, url, name string, n int) {
	t.Helper()
	client := clienttest.Open(t, url)
	q, err := queue.New[[]byte](client, queue.Options{Codec: queue.Bytes{}})
	if err != nil {
		t.Fatal(err)
	}
	requests := make([]queue.Request[[]byte], n)
	for i := range requests {
		requests[i] = queue.Request[[]byte]{ID: fmt.Sprintf("dead-%04d", i), Value: []byte("x")}
	}
	if _, err := q.PutMany(t.Context(), name, requests); err != nil {
		t.Fatal(err)
	}
	keys, err := wire.KeysOf(client, name)
	if err != nil {
		t.Fatal(err)
	}
	for n > 0 {
		p := wire.Pump{Take: wire.NewTake(), Consumer: "test", N: min(n, wire.MaxSettle), Lease: time.Minute}
		pumped, err := wire.ReadPump(client.Do(t.Context(), wire.PumpCmd(keys, p)))
		if err != nil || len(pumped.Taken) == 0 {
			t.Fatalf("%d left: %v", n, err)
		}
		p = wire.Pump{Take: wire.NewTake(), Consumer: "test", Lease: time.Minute}
		for _, m := range pumped.Taken {
			p.Nacks = append(p.Nacks, wire.Nack{Receipt: m.Receipt, Kind: wire.Kill, Reason: "no such address"})
		}
		if err := client.Do(t.Context(), wire.PumpCmd(keys, p)).Err; err != nil {
			t.Fatal(err)
		}
		n -= len(pumped.Taken)
	}
}

func TestQueue(t *testing.T) {
	slow.Test(t, "it runs the command line many times on each kind of server")
	check := func(t *testing.T, url string) {
		q := func(code int, verb string, args ...string) (stdout, stderr string) {
			t.Helper()
			got, stdout, stderr := runToEnd(t, nil, append([]string{"queue", verb, "--backend", url}, args...)...)
			if got != code {
				t.Errorf("queue %s %q: exit %d, want %d; %s%s", verb, args, got, code, stdout, stderr)
			}
			return stdout, stderr
		}
		says := func(want, verb string, args ...string) {
			t.Helper()
			if out, stderr := q(0, verb, args...); out != want || stderr != "" {
				t.Errorf("queue %s %q: %q, %q; want %q", verb, args, out, stderr, want)
			}
		}
		stats := func(want queueState) {
			t.Helper()
			var s queueState
			asJSON(t, &s, "queue", "stats", "--backend", url, "--json", "mail")
			if s.Ready != want.Ready || s.Due != want.Due || s.Running != want.Running || s.Waiting != want.Waiting || s.Dead != want.Dead || s.Paused != want.Paused {
				t.Errorf("stats: %+v, want %+v", s, want)
			}
		}

		if _, stderr := q(exitBusy, "take", "mail", "--no-wait"); !strings.Contains(stderr, `queue "mail" has no message to take`) {
			t.Errorf("take of nothing: %q", stderr)
		}
		says("m1\n", "put", "mail", "hello", "--id", "m1")
		says("m1\n", "put", "mail", "hello", "--id", "m1")
		says("m2\n", "put", "mail", "urgent", "--id", "m2", "--lane", "2", "--unique", "k")
		if out, stderr := q(0, "put", "mail", "again", "--unique", "k"); out != "m2\n" || !strings.Contains(stderr, `dropped: the message m2 already has the key "k"`) {
			t.Errorf("put of a duplicate: %q, %q", out, stderr)
		}
		says("m3\n", "put", "mail", "later", "--id", "m3", "--delay", "1h")
		says("m4\n", "put", "mail", "later", "--id", "m4", "--at", "2190-01-02T15:04:05Z")
		says("g1\n", "put", "mail", "x", "--id", "g1", "--group", "g", "--header", "a=1=1", "--header", "b=")
		if out, _ := q(0, "put", "mail", "x", "--id", "after", "--after", "m3", "--after", "m4", "--json"); out != `{"id":"after","status":"blocked"}`+"\n" && !strings.Contains(out, `"blocked"`) {
			t.Errorf("put after others: %q", out)
		}
		if out, _ := q(0, "stats", "mail"); !strings.Contains(out, "after others") {
			t.Errorf("stats: %q", out)
		}
		if out, _ := q(0, "cancel", "mail", "after"); out != "after cancelled\n" {
			t.Errorf("cancel of a message that comes after others: %q", out)
		}
		if _, stderr := q(exitUsage, "put", "mail", "x", "--ignore-failure"); !strings.Contains(stderr, "it comes after no message") {
			t.Errorf("put that ignores failures of nothing: %q", stderr)
		}
		for _, bad := range [][]string{{"--header", "a"}, {"--header", "=a"}, {"--header", "a=1", "--header", "a=2"}} {
			if _, stderr := q(exitUsage, "put", append([]string{"mail", "x"}, bad...)...); !strings.Contains(stderr, "want NAME=VALUE, and each name once") {
				t.Errorf("put with %q: %q", bad, stderr)
			}
		}
		says("g2\n", "put", "mail", "x", "--id", "g2", "--group", "g")
		stats(queueState{Ready: 3, Due: 2, Waiting: 1})
		says("", "pause", "mail")
		stats(queueState{Ready: 3, Due: 2, Waiting: 1, Paused: true})
		if _, stderr := q(exitBusy, "take", "mail", "--wait", "10ms"); !strings.Contains(stderr, `queue "mail" had no message to take within 10ms`) {
			t.Errorf("take that waits for nothing: %q", stderr)
		}
		says("", "resume", "mail")
		says("urgent\nhello\n", "take", "mail", "--count", "2")
		out, _ := q(0, "take", "mail", "--json")
		var m messageState
		if err := json.Unmarshal([]byte(out), &m); err != nil || m.ID != "g1" || *m.Payload != "x" || m.Attempt != 1 || m.Attempts != 10 || m.Group != "g" || !maps.Equal(m.Headers, map[string]string{"a": "1=1", "b": ""}) {
			t.Errorf("take: %s", out)
		}
		if out, _ := q(exitFault, "cancel", "mail", "m3", "nobody"); out != "m3 cancelled\nnobody is not in the queue\n" {
			t.Errorf("cancel: %q", out)
		}
		if _, stderr := q(exitUsage, "cancel", "mail"); !strings.Contains(stderr, "want the ID of a message") {
			t.Errorf("cancel of nothing: %q", stderr)
		}
		if _, stderr := q(exitUsage, "cancel", "mail", strings.Repeat("x", 600)); !strings.Contains(stderr, "id has 600 bytes; want 1 to ") {
			t.Errorf("cancel of a long ID: %q", stderr)
		}
		if _, stderr := q(exitUsage, "drain", "mail"); !strings.Contains(stderr, "pass --force") {
			t.Errorf("drain: %q", stderr)
		}
		says("2 messages removed\n", "drain", "mail", "--force")
		stats(queueState{})

		// Lines with IDs are put once, even if the command runs twice.
		lines := filepath.Join(t.TempDir(), "lines")
		if err := os.WriteFile(lines, []byte("one\n\ntwo\nthree"), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, _ := q(0, "put", "mail", "--lines", lines, "--id", "l:"); !strings.HasPrefix(out, `put 3 messages into "mail" in `) {
			t.Errorf("put of lines: %q", out)
		}
		if out, _ := q(0, "put", "mail", "--lines", lines, "--id", "l:"); !strings.HasPrefix(out, `put 0 messages into "mail"; 3 were already there in `) {
			t.Errorf("put of lines again: %q", out)
		}
		says("one\ntwo\nthree\n", "take", "mail", "--count", "10")

		// More bytes of lines than one call can put.
		if err := os.WriteFile(lines, []byte(strings.Repeat(strings.Repeat("x", 1<<20)+"\n", 6)), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, _ := q(0, "put", "mail", "--lines", lines); !strings.HasPrefix(out, `put 6 messages into "mail" in `) {
			t.Errorf("put of long lines: %q", out)
		}
		says("6 messages removed\n", "drain", "mail", "--force")

		// Dead messages.
		kill(t, url, "mail", 1500)
		out, stderr := q(0, "dead", "mail", "--count", "2")
		rows := strings.Split(strings.TrimSpace(out), "\n")
		if len(rows) != 3 || !strings.HasPrefix(rows[1], "dead-0000 ") || !strings.Contains(rows[1], "no such address") || !strings.Contains(stderr, "1498 more dead messages") {
			t.Errorf("dead: %s%s", out, stderr)
		}
		out, _ = q(0, "dead", "mail", "--json", "--count", "1")
		if err := json.Unmarshal([]byte(out), &m); err != nil || m.ID != "dead-0000" || m.Failures != 1 || m.Died == nil || m.Reason != "no such address" {
			t.Errorf("dead: %s", out)
		}
		says("1 message requeued\n", "requeue", "mail", "dead-0001")
		if _, stderr := q(exitFault, "requeue", "mail", "dead-0001", "dead-0002"); !strings.Contains(stderr, "1 message requeued; not dead: dead-0001") {
			t.Errorf("requeue: %q", stderr)
		}
		says("1 message deleted\n", "dead", "mail", "--delete", "dead-0000")
		says("1497 messages requeued\n", "requeue", "mail", "--all")
		stats(queueState{Ready: 1499})
		says("1499 messages removed\n", "drain", "mail", "--force")
		kill(t, url, "mail", 1200)
		says("1200 messages deleted\n", "dead", "mail", "--delete", "--all")
		stats(queueState{})

		// Listing.
		says("a\n", "put", "mail", "x", "--id", "a")
		says("b\n", "put", "other", "x", "--id", "b")
		out, _ = q(0, "ls")
		rows = strings.Split(strings.TrimSpace(out), "\n")
		if len(rows) != 3 || !strings.HasPrefix(rows[1], "mail ") || !strings.HasPrefix(rows[2], "other ") {
			t.Errorf("ls:\n%s", out)
		}
		var states []queueState
		asJSON(t, &states, "queue", "ls", "--backend", url, "--json", "--match", "o*")
		if len(states) != 1 || states[0].Name != "other" || states[0].Ready != 1 {
			t.Errorf("ls --match: %+v", states)
		}
		if _, stderr := q(exitUsage, "stats", "}"); !strings.Contains(stderr, "begins with '}'") {
			t.Errorf("a bad name: %q", stderr)
		}
	}
	eachServer(t, check)
	t.Run("cluster", func(t *testing.T) { check(t, redistest.StartCluster(t, 3, 0).URL()) })
}

// take does not print an entry that is not a message: dead lists it.
func TestQueueTakeOfUnreadable(t *testing.T) {
	s := redistest.Start(t)
	q := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := runToEnd(t, nil, append([]string{"queue", "--backend", s.URL()}, args...)...)
		if code != 0 {
			t.Fatalf("%q: exit %d: %s", args, code, stderr)
		}
		return stdout
	}
	for _, id := range []string{"bad", "good"} {
		q("put", "mail", "hello", "--id", id)
	}
	s.CLI("HSET", strings.TrimSpace(s.CLI("KEYS", "*:queue")), "bad", "?")
	if out := q("take", "mail"); out != "hello\n" {
		t.Errorf("took %q", out)
	}
	var m messageState
	if out := q("dead", "mail", "--json"); json.Unmarshal([]byte(out), &m) != nil || m.ID != "bad" || *m.Payload != "?" || !m.Unreadable {
		t.Errorf("dead: %s", out)
	}
	if out := q("dead", "mail"); !strings.Contains(out, "a stored entry is not a message") {
		t.Errorf("dead: %s", out)
	}
}

// take waits for a message, including one that is due later, or for a signal.
func TestQueueTakeWaits(t *testing.T) {
	url := redistest.Start(t).URL()
	for _, delay := range []string{"0s", "50ms"} {
		p := start(t, nil, "queue", "take", "mail", "--backend", url)
		code, _, stderr := runToEnd(t, nil, "queue", "put", "mail", "hello", "--delay", delay, "--backend", url)
		if code != 0 {
			t.Fatal(stderr)
		}
		if code := p.wait(); code != 0 || p.stdout.String() != "hello\n" {
			t.Errorf("%s: exit %d, %q, %q", delay, code, p.stdout.String(), p.stderr.String())
		}
	}
	s := redistest.Start(t)
	p := start(t, nil, "queue", "take", "mail", "--backend", s.URL(), "--wait", "forever")
	eventually(t, "it waits", func() bool { return strings.Contains(s.CLI("CLIENT", "LIST"), "cmd=bzpopmin") })
	p.signal(syscall.SIGINT)
	if code := p.wait(); code != 128+int(syscall.SIGINT) {
		t.Errorf("exit %d after SIGINT: %q", code, p.stderr.String())
	}
}

// A message that can't be printed goes back to the queue.
func TestQueueTakeToAFullPlace(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = full.Close() }()
	url := redistest.Start(t).URL()
	if code, _, stderr := runToEnd(t, nil, "queue", "put", "mail", "hello", "--backend", url); code != 0 {
		t.Fatal(stderr)
	}
	var stderr bytes.Buffer
	if code := run([]string{"queue", "take", "mail", "--backend", url}, full, &stderr); code != exitFault || !strings.Contains(stderr.String(), "1 message returned to the queue") {
		t.Errorf("exit %d, %q", code, stderr.String())
	}
	if code, out, _ := runToEnd(t, nil, "queue", "take", "mail", "--backend", url); code != 0 || out != "hello\n" {
		t.Errorf("exit %d, %q", code, out)
	}
}

// Bulk commands show their progress: a line now and then without a terminal.
func TestProgressOfMessages(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, false, "requeueing")
	p.unit, p.next = "messages", time.Time{}
	p.update(transfer.Progress{Done: 250, Total: 1000})
	if out.String() != "redoubt: requeueing: 250 of 1000 messages (25%)\n" {
		t.Errorf("%q", out.String())
	}
}

// So does cancelling many messages, in steps.
func TestProgressOfCancel(t *testing.T) {
	client := clienttest.Open(t, redistest.Start(t).URL())
	q, err := queue.New[[]byte](client, queue.Options{Codec: queue.Bytes{}})
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]string, 2*wire.MaxSettle)
	requests := make([]queue.Request[[]byte], len(ids)-1)
	for i := range ids {
		ids[i] = fmt.Sprintf("m%04d", i)
		if i < len(requests) {
			requests[i] = queue.Request[[]byte]{ID: ids[i]}
		}
	}
	if _, err := q.PutMany(t.Context(), "mail", requests); err != nil {
		t.Fatal(err)
	}
	var out, told bytes.Buffer
	p := newProgress(&told, false, "cancelling")
	p.next = time.Time{}
	if missed, err := cancelMessages(t.Context(), q, "mail", ids, p, &out, false); missed != 1 || err != nil {
		t.Errorf("%d missed, %v", missed, err)
	}
	if told.String() != "redoubt: cancelling: 1000 of 2000 messages (50%)\n" {
		t.Errorf("told %q", told.String())
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) != len(ids)+1 || lines[0] != "m0000 cancelled" || lines[len(ids)-1] != "m1999 is not in the queue" {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-2:])
	}
}
