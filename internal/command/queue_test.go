package command_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

// answer runs a command as a server does, and returns its reply.
func answer(ctx context.Context, env *command.Env, words ...string) (any, error) {
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	var raw []byte
	switch p := command.Lookup(words[0]).Plan(env, args); {
	case p.Err != "":
		return nil, redoubt.ServerError(p.Err)
	case p.Wait != nil:
		raw = p.Wait(ctx).Append(nil, resp.RESP2)
	default:
		raw = p.Translate(nil, resp.RESP2, env.Client.Do(ctx, *p.Cmd))
	}
	v, _, err := resp.Parse(raw)
	return v, err
}

func reply(t *testing.T, env *command.Env, words ...string) any {
	t.Helper()
	v, err := answer(t.Context(), env, words...)
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	return v
}

// The commands work where a queue's keys share a slot and the queues none, as behind
// a client of a cluster.
func TestQueueOnACluster(t *testing.T) {
	conn, err := goredis.Open(t.Context(), redistest.StartCluster(t, 3, 0).URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	env := newEnv(t, conn)
	names := []string{"a", "b", "c", "d"}
	type taken struct {
		name  string
		reply any
	}
	got := make(chan taken)
	for _, name := range names {
		go func() {
			v, _ := answer(t.Context(), env, "QUEUE.TAKE", name, "1", "60000", "BLOCK", "0")
			got <- taken{name, v}
		}()
	}
	for _, name := range names {
		if id := reply(t, env, "QUEUE.PUT", name, "to "+name, "DELAY", "20", "ID", name); id != name {
			t.Errorf("put: %v", id)
		}
	}
	for range names {
		var a taken
		select {
		case a = <-got:
		case <-time.After(20 * time.Second):
			t.Fatal("a message did not come")
		}
		list, _ := a.reply.([]any)
		if len(list) != 1 {
			t.Fatalf("%s: %v", a.name, a.reply)
		}
		m := list[0].([]any)
		if m[1] != a.name || m[2] != int64(1) || m[3] != "to "+a.name {
			t.Errorf("%s: %v", a.name, m)
		}
		if n := reply(t, env, "QUEUE.ACK", a.name, m[0].(string)); n != int64(1) {
			t.Errorf("ack: %v", n)
		}
	}
}

// marks is a Conn that waits with a pop of the marker until it is told to go on.
type marks struct {
	redoubt.Conn
	begun  chan struct{} // it waits
	popped chan struct{} // a marker is on its way
	arrive chan struct{} // and arrives
}

func (c marks) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	if cmd.Name == "BZPOPMIN" {
		select {
		case c.begun <- struct{}{}:
		default:
		}
	}
	r := c.Conn.Do(ctx, cmd)
	if cmd.Name == "BZPOPMIN" && r.Val != nil {
		c.popped <- struct{}{}
		<-c.arrive
	}
	return r
}

// A marker that comes when no client waits here any more is put back, for waiters in other
// processes.
func TestMarkerIsHandedOn(t *testing.T) {
	conn, err := goredis.Open(t.Context(), redistest.Start(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := marks{conn, make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})}
	here, elsewhere := newEnv(t, c), newEnv(t, conn)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, _ = answer(ctx, here, "QUEUE.TAKE", "q", "1", "60000", "BLOCK", "0")
	}()
	<-c.begun
	reply(t, elsewhere, "QUEUE.PUT", "q", "x", "DELAY", "3600000", "ID", "later") // a marker
	<-c.popped
	leave()
	<-left
	keys, err := wire.KeysOf(elsewhere.Client, "q")
	if err != nil {
		t.Fatal(err)
	}
	there := func() bool {
		n, err := elsewhere.Client.Do(t.Context(), redoubt.Cmd{Name: "EXISTS", Keys: []string{keys.Wake()}, Flags: redoubt.ReadOnly}).Int()
		return err == nil && n == 1
	}
	if there() {
		t.Fatal("the marker was not popped")
	}
	close(c.arrive)
	await.Until(t, 20*time.Second, "the marker is back", there)
}

// The keys that make a lost reply harmless are one per concurrent taker, not one per
// take.
func TestTakesLeaveFewKeys(t *testing.T) {
	s := redistest.Start(t)
	conn, err := goredis.Open(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	env := newEnv(t, conn)
	const each, atOnce = 50, 4
	for i := range each * atOnce {
		reply(t, env, "QUEUE.PUT", "q", strconv.Itoa(i))
	}
	var mu sync.Mutex
	seen := map[any]bool{}
	var group sync.WaitGroup
	for range atOnce {
		group.Go(func() {
			for range each {
				v, err := answer(t.Context(), env, "QUEUE.TAKE", "q", "1", "60000", "BLOCK", "0")
				list, _ := v.([]any)
				if err != nil || len(list) != 1 {
					t.Errorf("QUEUE.TAKE: %v, %v", v, err)
					return
				}
				m := list[0].([]any)
				mu.Lock()
				if seen[m[3]] {
					t.Errorf("%v came twice", m[3])
				}
				seen[m[3]] = true
				mu.Unlock()
				if n, err := answer(t.Context(), env, "QUEUE.ACK", "q", m[0].(string)); n != int64(1) || err != nil {
					t.Errorf("QUEUE.ACK: %v, %v", n, err)
				}
			}
		})
	}
	group.Wait()
	if keys := strings.Fields(s.CLI("KEYS", "*:take:*")); len(keys) < 1 || len(keys) > atOnce {
		t.Errorf("%d keys after %d takes: %q", len(keys), each*atOnce, keys)
	}
}

// A full server lets nothing be put, but emptied.
func TestQueueIsEmptiedWhenFull(t *testing.T) {
	for name, want := range map[string]bool{"QUEUE.PUT": true, "QUEUE.TAKE": false, "QUEUE.ACK": false, "QUEUE.NACK": false, "QUEUE.CANCEL": false, "QUEUE.DELETE": false} {
		if got := slices.Contains(command.Lookup(name).Flags, "denyoom"); got != want {
			t.Errorf("%s has denyoom: %v, want %v", name, got, want)
		}
	}
}

// An entry of a queue that another program wrote is dead. No client gets it, and commands that
// show it say so.
func TestTakeOfUnreadable(t *testing.T) {
	s := redistest.Start(t)
	conn, err := goredis.Open(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	env := newEnv(t, conn)
	keys, err := wire.KeysOf(env.Client, "q")
	if err != nil {
		t.Fatal(err)
	}
	put := func(ids ...string) {
		for _, id := range ids {
			reply(t, env, "QUEUE.PUT", "q", "x", "ID", id)
			if strings.HasPrefix(id, "bad") {
				s.CLI("HSET", keys[0], id, "?")
			}
		}
	}
	takes := func(want string, more ...string) {
		t.Helper()
		list, _ := reply(t, env, append([]string{"QUEUE.TAKE", "q", "1", "60000"}, more...)...).([]any)
		got := ""
		for _, v := range list {
			m := v.([]any)
			got = m[1].(string)
			reply(t, env, "QUEUE.ACK", "q", m[0].(string))
		}
		if got != want {
			t.Errorf("QUEUE.TAKE %q: took %q, want %q", more, got, want)
		}
	}
	dead := func() (ids string) {
		list, _ := reply(t, env, "QUEUE.DEAD", "q", "10").([]any)
		for _, m := range list[1].([]any) {
			ids += fields(m)["id"].(string) + " "
		}
		return ids
	}
	put("bad1", "good1")
	takes("")
	await.Until(t, 20*time.Second, "it is dead", func() bool { return dead() == "bad1 " })
	takes("good1")
	put("bad2", "bad3", "good2")
	takes("good2", "BLOCK", "20000")
	if got := dead(); got != "bad1 bad2 bad3 " {
		t.Errorf("dead: %s", got)
	}
	m := fields(reply(t, env, "QUEUE.FIND", "q", "bad2"))
	if m["unreadable"] != int64(1) || m["payload"] != "?" || m["state"] != "dead" || m["failures"] != int64(1) {
		t.Errorf("%v", m)
	}
	put("good3")
	if m := fields(reply(t, env, "QUEUE.FIND", "q", "good3")); m["unreadable"] != int64(0) {
		t.Errorf("%v", m)
	}
}

// fields reads a map as of RESP2.
func fields(v any) map[string]any {
	list, _ := v.([]any)
	m := map[string]any{}
	for pair := range slices.Chunk(list, 2) {
		m[pair[0].(string)] = pair[1]
	}
	return m
}

// An ID that is used again after its lease does not let the first settle for the
// second.
func TestTakeIDUsedAgain(t *testing.T) {
	conn, err := goredis.Open(t.Context(), redistest.Start(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	env := newEnv(t, conn)
	reply(t, env, "QUEUE.PUT", "q", "hello")
	take := func(lease string, more ...string) (receipt string, attempt int64) {
		t.Helper()
		list, _ := reply(t, env, append([]string{"QUEUE.TAKE", "q", "1", lease, "ID", "me"}, more...)...).([]any)
		if len(list) != 1 {
			t.Fatalf("took %v", list)
		}
		m := list[0].([]any)
		return m[0].(string), m[2].(int64)
	}
	first, _ := take("1")
	second, attempt := first, int64(1)
	await.Until(t, 20*time.Second, "the lease is over", func() bool {
		second, attempt = take("60000")
		return attempt == 2
	})
	if again, _ := take("60000"); again != second {
		t.Errorf("%q, repeated %q", second, again)
	}
	if again, _ := take("60000", "BLOCK", "1000"); again != second {
		t.Errorf("%q, repeated with BLOCK %q", second, again)
	}
	if n := reply(t, env, "QUEUE.ACK", "q", first); n != int64(0) || first == second {
		t.Errorf("the first has settled %v; receipts %q, %q", n, first, second)
	}
	if n := reply(t, env, "QUEUE.ACK", "q", second); n != int64(1) {
		t.Errorf("the second has settled %v", n)
	}
}

// queueOn returns the commands on a server, and a queue of the library there.
func queueOn(t *testing.T, b redistest.Backend) (*command.Env, *queue.Queue[string]) {
	t.Helper()
	conn, err := goredis.Open(t.Context(), b.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	env := newEnv(t, conn)
	q, err := queue.New[string](env.Client, queue.Options{Codec: queue.Bytes{}})
	if err != nil {
		t.Fatal(err)
	}
	return env, q
}

// The messages of a schedule have its headers.
func TestScheduleHeaders(t *testing.T) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		env, q := queueOn(t, b)
		name := b.Prefix + "scheduled headers"
		reply(t, env, "QUEUE.SCHEDULE", name, "tick", "now", "EVERY", "1000", "LIMIT", "1", "headers", "2", "b", "2", "a", "1", "ATTEMPTS", "2")
		all, _ := reply(t, env, "QUEUE.SCHEDULES", name, "1").([]any)
		if list := fmt.Sprint(all...); !strings.Contains(list, "payload now headers [a 1 b 2]") {
			t.Errorf("the schedules are %s", list)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- queue.NewSchedules(q).Run(ctx, name) }()
		var got map[string]string
		await.Soon(t, "the message comes", func() bool {
			n, err := q.Work(t.Context(), name, func(_ context.Context, d *queue.Delivery[string]) error {
				got = d.Headers
				return nil
			}, queue.RunOptions{})
			return n == 1 && err == nil
		})
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if want := map[string]string{"a": "1", "b": "2"}; !maps.Equal(got, want) {
			t.Errorf("the headers are %q, want %q", got, want)
		}
	})
}

// Headers are the same on the wire and in the library, both ways: a trace context that a client in another
// language puts reaches a Go consumer, and the other way round.
func TestQueueHeaders(t *testing.T) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		env, q := queueOn(t, b)
		name, context1 := b.Prefix+"headers", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		if id := reply(t, env, "QUEUE.PUT", name, "hello", "headers", "2", "traceparent", context1, "\x00", "", "ID", "m1"); id != "m1" {
			t.Fatalf("put: %v", id)
		}
		var got map[string]string
		n, err := q.Work(t.Context(), name, func(_ context.Context, d *queue.Delivery[string]) error {
			got = d.Headers
			return nil
		}, queue.RunOptions{})
		if want := map[string]string{"traceparent": context1, "\x00": ""}; n != 1 || err != nil || !maps.Equal(got, want) {
			t.Errorf("the library has %d messages, %v, and the headers %q, want %q", n, err, got, want)
		}

		if _, err := q.PutRequest(t.Context(), name, queue.Request[string]{Value: "hi", ID: "m2", Headers: map[string]string{"b": "2", "a": "1"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := q.PutRequest(t.Context(), name, queue.Request[string]{Value: "hi", ID: "m3"}); err != nil {
			t.Fatal(err)
		}
		taken, _ := reply(t, env, "QUEUE.TAKE", name, "9", "60000", "withheaders", "ID", "t").([]any)
		if len(taken) != 2 {
			t.Fatalf("took %v", taken)
		}
		for i, want := range [][]any{{"a", "1", "b", "2"}, {}} {
			m, _ := taken[i].([]any)
			if headers, _ := m[len(m)-1].([]any); len(m) != 5 || !slices.Equal(headers, want) {
				t.Errorf("the message %v, want the headers %v", m, want)
			}
		}
		for _, words := range [][]string{{"BLOCK", "0"}, {}} { // the shape of the reply is as it was
			args := append([]string{"QUEUE.TAKE", name, "9", "60000", "ID", "t"}, words...)
			if taken, _ := reply(t, env, args...).([]any); len(taken) != 2 || len(taken[0].([]any)) != 4 {
				t.Errorf("%q: %v", args, taken)
			}
		}

		for words, want := range map[string]string{
			"HEADERS":                 "syntax error",
			"HEADERS 0":               "HEADERS is 0; want 1 to 1000",
			"HEADERS 1001 a b":        "HEADERS is 1001; want 1 to 1000",
			"HEADERS x a b":           "not an integer",
			"HEADERS 1 a":             "syntax error",
			"HEADERS 2 a b c":         "syntax error",
			"HEADERS 1 a b c d":       "syntax error",
			"HEADERS 1 a b HEADERS 1": "syntax error",
			"HEADERS 2 a b a c":       `HEADERS has "a" twice`,
			"HEADERS 1 a " + strings.Repeat("v", 65535): "headers have 65540 bytes; want at most 65535",
		} {
			args := append([]string{"QUEUE.PUT", "q", "payload"}, strings.Fields(words)...)
			if _, err := answer(t.Context(), env, args...); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%.40q: %v, want %q", words, err, want)
			}
		}
	})
}
