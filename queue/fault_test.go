package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

// flaky loses replies of pumps that the server has run.
type flaky struct {
	redoubt.Conn
	mu   sync.Mutex
	lose int
}

func (f *flaky) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	r := f.Conn.Do(ctx, cmd)
	f.mu.Lock()
	defer f.mu.Unlock()
	if taken, _ := r.Val.([]any); f.lose > 0 && cmd.Script != nil && cmd.Script.Name() == "queue.pump" && len(taken) == 6 && len(taken[5].([]any)) > 0 {
		f.lose--
		return redoubt.Reply{Err: redoubt.UnknownOutcome(errors.New("connection reset"))}
	}
	return r
}

// Messages of a lost reply come with the next one, at once and as the same attempt; and the messages that
// the call settled are not lost.
//
// Promise: A repeated pump returns the same messages, so a lost reply loses no message and uses
// up no attempt.
func TestLostPumpReply(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		var log events
		conn := &flaky{Conn: clienttest.Wrap(t, e.Redis), lose: 3}
		q, err := queue.New[string](e.ClientOn(conn), queue.Options{OnEvent: log.add})
		must(t, err)
		for i := range 20 {
			_, err := q.PutRequest(t.Context(), "q", queue.Request[string]{ID: fmt.Sprint(i)})
			must(t, err)
		}
		began := time.Now()
		run(t, q, func(_ context.Context, d *queue.Delivery[string]) error {
			if d.Attempt != 1 {
				t.Errorf("attempt %d of %s", d.Attempt, d.ID)
			}
			return nil
		}, queue.RunOptions{Concurrency: 5})
		e.gone(t)
		if took := time.Since(began); took > queue.DefaultLease {
			t.Errorf("it took %v", took)
		}
		for i := range 20 {
			if kinds := log.of(fmt.Sprint(i)); !slices.Equal(kinds, []queue.EventKind{queue.Completed}) {
				t.Errorf("%d: %v", i, kinds)
			}
		}
		if n := len(log.serverError()); n != 3 {
			t.Errorf("%d errors of the server were told", n)
		}
	})
}

// The connection that waits is killed, or the scripts are flushed: the next message is handled without waiting for the end of a slice.
//
// Promise: A dropped connection that blocks on the queue loses no message.
func TestWaiterIsDisturbed(t *testing.T) {
	e := &env{testenv.New(t, ownServer(t))}
	q := e.queue(t, queue.Options{})
	handled := make(chan string, 10)
	run(t, q, func(_ context.Context, d *queue.Delivery[string]) error {
		handled <- d.ID
		return nil
	}, queue.RunOptions{})
	blocked := func() string {
		for line := range strings.Lines(e.Redis.ClientList(t.Context()).Val()) {
			if strings.Contains(line, "cmd=bzpopmin") && strings.Contains(line, "flags=b") {
				id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
				return id
			}
		}
		return ""
	}
	pulse := await.NewPulse(t)
	for i, disturb := range []func(){
		func() {},
		func() { must(t, e.Redis.Do(t.Context(), "CLIENT", "KILL", "ID", blocked()).Err()) },
		func() { must(t, e.Redis.ScriptFlush(t.Context()).Err()) },
	} {
		eventually(t, "a connection waits", func() bool { return blocked() != "" })
		disturb()
		began := pulse.Now()
		id := fmt.Sprint(i)
		_, err := q.PutRequest(t.Context(), "q", queue.Request[string]{ID: id})
		must(t, err)
		select {
		case got := <-handled:
			if got != id {
				t.Fatalf("%s was handled, want %s", got, id)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s was not handled", id)
		}
		if took := pulse.Now() - began; took > 8*time.Second {
			t.Errorf("%s took %v", id, took)
		}
	}
}

// While it has nothing to do, a consumer asks three times in ten seconds at most:
// here the slice is a second, the lease's.
func TestIdleConsumerIsQuiet(t *testing.T) {
	e := &env{testenv.New(t, ownServer(t))}
	q := e.queue(t, queue.Options{Lease: time.Second})
	run(t, q, func(context.Context, *queue.Delivery[string]) error { return nil }, queue.RunOptions{})
	calls := func() (n int64) {
		for line := range strings.Lines(e.Redis.Info(t.Context(), "commandstats").Val()) {
			var c int64
			for _, name := range []string{"evalsha", "bzpopmin"} {
				if _, err := fmt.Sscanf(line, "cmdstat_"+name+":calls=%d", &c); err == nil {
					n += c
				}
			}
		}
		return n
	}
	eventually(t, "it waits", func() bool { return calls() >= 2 })
	before := calls()
	await.Always(t, 3*time.Second, "at most nine calls in three slices", func() bool { return calls()-before <= 9 })
}

// The consumer that was to work is dead: another one has its message within a lease
// and a little, however long it sleeps otherwise.
func TestAbandonedMessage(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		l := e.line(t, "q")
		q := e.queue(t, queue.Options{Lease: time.Second})
		handled := make(chan int, 10)
		run(t, q, func(_ context.Context, d *queue.Delivery[string]) error {
			handled <- d.Attempt
			return nil
		}, queue.RunOptions{})
		// This one takes it and is never heard of again.
		for i := 0; ; i++ {
			l.put(wire.Message{ID: fmt.Sprint(i), Payload: []byte(`"a"`)})
			if cmd := wire.PumpCmd(l.keys, wire.Pump{Consumer: "dead", Take: wire.NewTake(), N: 1, Lease: time.Second}); len(taken(t, l, cmd)) == 1 {
				break
			}
			<-handled
		}
		pulse := await.NewPulse(t)
		began := pulse.Now()
		select {
		case attempt := <-handled:
			if attempt != 2 {
				t.Errorf("attempt %d", attempt)
			}
		case <-time.After(time.Minute):
			t.Fatal("nobody has it")
		}
		if took := pulse.Now() - began; took > 7*time.Second {
			t.Errorf("it took %v", took)
		}
		e.gone(t)
	})
}

func taken(t *testing.T, l *line, cmd redoubt.Cmd) []any {
	t.Helper()
	reply, err := l.do(cmd).Array()
	must(t, err)
	list, _ := reply[5].([]any)
	return list[:len(list)/4]
}

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	client := clienttest.Open(t, cluster.URL())
	q, err := queue.New[int](client, queue.Options{Backoff: queue.Constant(time.Millisecond)})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var mu sync.Mutex
	got := map[string]int{}
	for i := range 6 {
		name := fmt.Sprint("q", i)
		all.Go(func() {
			if err := q.Run(ctx, name, func(_ context.Context, d *queue.Delivery[int]) error {
				if d.Value%10 == 0 && d.Attempt == 1 {
					return errors.New("again")
				}
				mu.Lock()
				defer mu.Unlock()
				got[name]++
				return nil
			}, queue.RunOptions{}); err != nil {
				t.Error(err)
			}
		})
		requests := make([]queue.Request[int], 100)
		for i := range requests {
			requests[i] = queue.Request[int]{Value: i, Delay: time.Duration(i%3) * 20 * time.Millisecond, Group: fmt.Sprint(i % 7), Unique: fmt.Sprint(i), UniqueFor: time.Second}
		}
		_, err := q.PutMany(t.Context(), name, requests)
		must(t, err)
	}
	eventually(t, "all are done", func() bool {
		for i := range 6 {
			s, err := q.Info(t.Context(), fmt.Sprint("q", i))
			must(t, err)
			if s.Ready+s.Due+s.Running+s.Waiting > 0 {
				return false
			}
		}
		return true
	})
	cancel()
	all.Wait()
	for name, n := range got {
		if n != 100 || len(got) != 6 {
			t.Errorf("%s: %d", name, n)
		}
	}
}
