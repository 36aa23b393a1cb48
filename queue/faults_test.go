package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/faults"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
	"github.com/redoubt-go/redoubt/queue"
)

// Several processes put and consume messages of every sort while a fault strikes.
// A message whose Put has returned is handled at least once, none comes before it is
// due, the messages of a group come in their order, what always fails dies of its
// last attempt, and in the end nothing is left. Of what a fault takes from the
// server only the times are promised, and that nothing is left.
//
// HISTORY=10m go test -run TestHistory -timeout 20h ./queue runs each fault for ten
// minutes on each deployment instead of one to four seconds.
//
// Promise: Once a put has returned, its message is handed to a handler until one returns nil, the
// message is dead, or it is cancelled.
func TestHistory(t *testing.T) {
	faults.Each(t, func(t *testing.T, d *faults.Deployment, f faults.Fault) {
		d.Rounds(t, f, []string{"done", "put late", "dead"}, func(t *testing.T, round uint64, total map[string]int) {
			newCrew(t, d, f, round).run(rand.New(rand.NewPCG(round, 0)), total)
		})
	})
}

// A crew is processes that use the same queues for one round.
type crew struct {
	faults.Site

	t       *testing.T
	fault   faults.Fault
	names   []string
	direct  *queue.Queue[string] // past the fault
	queues  []*queue.Queue[string]
	dismiss []func() // end the consumers that are processes of their own
	ledgers map[string]*ledger
}

func historyOptions(ttl time.Duration) queue.Options {
	return queue.Options{Lease: ttl, Attempts: queue.Unlimited, Backoff: queue.Constant(ttl / 10)}
}

func newCrew(t *testing.T, d *faults.Deployment, f faults.Fault, round uint64) *crew {
	t.Helper()
	c := &crew{t: t, fault: f, names: []string{"one", "two"}, ledgers: map[string]*ledger{}}
	c.Site = faults.Site{
		Deployment: d, Prefix: fmt.Sprint(d.Kind, strings.ReplaceAll(f.Name, " ", ""), round), Tags: c.names,
		Flushing: func(flush func()) { flush() },
	}
	for _, name := range c.names {
		c.ledgers[name] = newLedger()
	}
	for _, s := range wire.Scripts() {
		switch s.Name() {
		case "queue.pump":
			c.Take = append(c.Take, s)
		case "queue.put", "queue.extend":
			c.Give = append(c.Give, s)
		}
	}
	c.direct = c.queueOn(d.Conn(t, d.Direct(), f))
	for range 3 {
		if f.Stops && len(c.Processes) < 2 {
			c.hire()
			continue
		}
		n := d.Network(t)
		c.Networks = append(c.Networks, n)
		c.queues = append(c.queues, c.queueOn(d.Conn(t, n.Client(), f)))
	}
	return c
}

func (c *crew) queueOn(conn redoubt.Conn) *queue.Queue[string] {
	c.t.Helper()
	client, err := redoubt.New(conn, redoubt.Options{Prefix: c.Prefix})
	must(c.t, err)
	c.t.Cleanup(func() { _ = client.Close() })
	q, err := queue.New[string](client, historyOptions(c.TTL))
	must(c.t, err)
	return q
}

// hire starts a consumer as a process of its own.
func (c *crew) hire() {
	c.t.Helper()
	o := workOrders{Invitation: c.Invitation(), Prefix: c.Prefix, Names: c.names, Lease: c.TTL, TTL: c.TTL, Concurrency: 5}
	p, dismiss := faults.Hire(c.t, o, func(text string) error {
		name, text, _ := strings.Cut(text, " ")
		n, err := readNote(text)
		if err == nil {
			c.ledgers[name].add(n)
		}
		return err
	})
	c.Processes, c.dismiss = append(c.Processes, p), append(c.dismiss, dismiss)
}

// work consumes until it is dismissed, and tells what its handlers do.
func (o workOrders) work(ctx context.Context) error {
	rdb, err := faults.Join(o.Invitation)
	if err != nil {
		return err
	}
	conn, err := goredis.Wrap(rdb)
	if err != nil {
		return err
	}
	client, err := redoubt.New(conn, redoubt.Options{Prefix: o.Prefix})
	if err != nil {
		return err
	}
	opts := historyOptions(o.TTL)
	opts.Lease = o.Lease
	q, err := queue.New[string](client, opts)
	if err != nil {
		return err
	}
	var printing sync.Mutex
	return consume(ctx, q, o.Names, o.Concurrency, o.TTL, func(name string, n note) {
		printing.Lock()
		defer printing.Unlock()
		fmt.Println(name, n)
	})
}

// consume works on all queues until ctx ends.
func consume(ctx context.Context, q *queue.Queue[string], names []string, concurrency int, ttl time.Duration, add func(name string, n note)) error {
	errs := make(chan error, len(names))
	for _, name := range names {
		go func() {
			errs <- q.Run(ctx, name, told(ttl, func(n note) { add(name, n) }), queue.RunOptions{Concurrency: concurrency, Grace: ttl})
		}()
	}
	var first error
	for range names {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}

// run lets all work while the fault strikes, and checks what came of it.
func (c *crew) run(rng *rand.Rand, total map[string]int) {
	c.t.Helper()
	for _, name := range c.names { // past the fault: put again after its death it would come again
		c.put(c.t.Context(), c.direct, name, queue.Request[string]{ID: poison + ":1", Attempts: poisonAttempts})
		c.put(c.t.Context(), c.direct, name, queue.Request[string]{ID: poison + ":2", Attempts: poisonAttempts, Delay: c.TTL})
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), c.fault.Round(c.Deployment))
	defer cancel()
	var wg sync.WaitGroup
	for i, q := range c.queues {
		wg.Go(func() {
			if err := consume(ctx, q, c.names, 5, c.TTL, func(name string, n note) { c.ledgers[name].add(n) }); err != nil {
				c.t.Log("a consumer:", err)
			}
		})
		for _, name := range c.names {
			rng := rand.New(rand.NewPCG(rng.Uint64(), 0))
			wg.Go(func() { c.putAll(ctx, rng, q, name, i) })
		}
	}
	c.fault.Strike(ctx, c.t, &c.Site, rng)
	wg.Wait()
	for _, dismiss := range c.dismiss {
		dismiss()
	}
	c.check(total)
}

// put puts messages again and again until that is known to have worked.
func (c *crew) put(ctx context.Context, q *queue.Queue[string], name string, rs ...queue.Request[string]) bool {
	l := c.ledgers[name]
	ids := make([]string, len(rs))
	for i, r := range rs {
		ids[i] = r.ID
		l.put(r.ID, r.Delay)
	}
	for ctx.Err() == nil {
		if _, err := q.PutMany(ctx, name, rs); err == nil {
			l.ack(ids...)
			return true
		}
		pause(ctx, c.TTL/10)
	}
	return false
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// putAll puts messages of every sort until ctx ends.
func (c *crew) putAll(ctx context.Context, rng *rand.Rand, q *queue.Queue[string], name string, who int) {
	kinds := []string{plain, plain, long, fails, panics, snooze, after}
	group := fmt.Sprint(who)
	for n := 0; ctx.Err() == nil; n++ {
		rs := make([]queue.Request[string], 0, 4)
		for i := range 1 + rng.IntN(3) {
			r := queue.Request[string]{ID: fmt.Sprint(kinds[rng.IntN(len(kinds))], ":", who, ":", n, ":", i)}
			if rng.IntN(2) == 0 {
				r.Delay = time.Duration(rng.Int64N(int64(2 * c.TTL)))
			}
			r.Lane = queue.Lane(rng.IntN(3) - 1) //nolint:gosec // small
			rs = append(rs, r)
		}
		// One goroutine puts the messages of a group, each after the one before.
		rs = append(rs, queue.Request[string]{ID: fmt.Sprint(line1, ":", group, ":", n), Group: group})
		if !c.put(ctx, q, name, rs...) {
			return
		}
		pause(ctx, time.Duration(rng.Int64N(int64(c.TTL/3))))
	}
}

// check drains the queues and wants all promises to be kept.
func (c *crew) check(total map[string]int) {
	t := c.t
	t.Helper()
	for _, name := range c.names {
		l := c.ledgers[name]
		if c.fault.Steps() < 0 { // what is left takes that much longer to come
			for _, id := range l.undone() {
				found, err := c.direct.MessageInfo(t.Context(), name, id)
				must(t, err)
				if found.State == queue.StateAbsent {
					t.Errorf("%s is lost", id)
				}
			}
		} else {
			c.drain(name)
			if lost := l.undone(); len(lost) > 0 && !c.fault.Loses {
				t.Errorf("%d of %d messages are lost: %.200q", len(lost), len(l.acked), lost)
			}
		}
		if c.fault.Steps() <= 0 {
			l.checkTimes(t)
		}
		if !c.fault.Loses {
			l.checkLines(t)
		}
		total["dead"] += l.checkPoison(t, c.fault.Loses)
		total["done"] += len(l.done)
		total["done again"] += l.doubles()
		for id := range l.done {
			if l.late[id] {
				total["put late"]++
			}
		}
	}
}

// drain works until the queue has only dead messages, and deletes those. Then no
// key is left.
func (c *crew) drain(name string) {
	t := c.t
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- consume(ctx, c.direct, []string{name}, 100, c.TTL, func(name string, n note) { c.ledgers[name].add(n) })
	}()
	var left queue.Info
	defer func() {
		if t.Failed() {
			t.Logf("left of %q: %+v", name, left)
		}
	}()
	await.Until(t, faults.Patience, "all are done or dead", func() (done bool) {
		s, err := c.direct.Info(t.Context(), name)
		left = s
		return err == nil && s.Ready+s.Due+s.Running+s.Waiting == 0
	})
	cancel()
	must(t, <-ended)
	_, err := c.direct.RemoveAllDead(t.Context(), name)
	must(t, err)
	eventually(t, "no key is left", func() bool {
		return len(c.Texts(t, "KEYS", c.Prefix+":{"+name+"}:queue*")) == 0
	})
}
