package lock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/fence"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/embedded"
	"github.com/redoubt-go/redoubt/internal/test/faults"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
	"github.com/redoubt-go/redoubt/lock"
)

// Several processes use locks of every kind while a fault strikes. Whatever order
// the answers came in, one order exists in which one lock could have given them.
// Data that a fault takes from the server is not promised; then tokens rise all
// the same.
//
// Holders of a mutex write to two registers that its token fences, now and then
// also when their lease is over: one on the servers of the lock, and one on a
// server that no fault strikes. Whatever the fault, that one never lets a smaller
// token through than it has seen.
//
// HISTORY=10m go test -run TestHistory -timeout 20h ./lock runs each fault for ten
// minutes on each deployment instead of one to four seconds.
//
// Promise: At most one lease on a name is valid at a time, through faults of
// the network, flushed scripts, moving slots, a dead shard, and a server with
// a log that is killed and restarted.
//
// Promise: The tokens of a name rise strictly, also when the key has expired, and through each of
// FLUSHALL, a failover, and a step of the server's clock by itself.
//
// Promise: With Fair, waiters are served in the order in which they queued,
// across all processes, by two commands each; no later caller gets in between,
// and a dead waiter delays the others by 3 s at most.
//
// Promise: At most limit permits of a semaphore are held at a time, with
// tokens that rise; the permits of dead holders come back.
//
// Promise: No writer holds an RWMutex or a Mutex together with readers or
// another writer; readers carry the token of the last writer, and a dead
// reader is in the way until its own lease ends.
//
// Promise: A Multi holds all its names or, in the end, none; Multis whose sets
// overlap never wait for each other.
func TestHistory(t *testing.T) {
	server, err := embedded.Start()
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	faults.Each(t, func(t *testing.T, d *faults.Deployment, f faults.Fault) {
		wanted := []string{acquired}
		switch f.Name {
		case faults.All[0].Name: // the others are about the fault
			wanted = append(wanted, extended, busy, lost, wrote, refused)
		case "FLUSHALL":
			wanted = append(wanted, twice)
		}
		d.Rounds(t, f, wanted, func(t *testing.T, round uint64, total map[string]int) {
			c := newCrew(t, d, f, server.Addr(), round)
			c.run(t, rand.New(rand.NewPCG(round, 0)))
			c.check(t, total)
		})
	})
}

// The registers that a mutex fences.
const beside, apart = "beside", "apart"

// A crew is processes that use the same names for one round.
type crew struct {
	faults.Site

	t         *testing.T
	fault     faults.Fault
	names     map[string][]string // by kind
	workers   []*worker
	dismiss   []func()            // end the workers that are processes of their own
	histories map[string]*history // by kind, and of the registers
}

func newCrew(t *testing.T, d *faults.Deployment, f faults.Fault, server string, round uint64) *crew {
	t.Helper()
	began := time.Now()
	c := &crew{t: t, fault: f, names: map[string][]string{}, histories: map[string]*history{}}
	c.Site = faults.Site{Deployment: d, Prefix: fmt.Sprint(d.Kind, strings.ReplaceAll(f.Name, " ", ""), round), Flushing: func(flush func()) { flush() }}
	for _, kind := range slices.Concat(slices.Collect(maps.Keys(contests)), []string{beside, apart}) {
		c.histories[kind] = &history{began: began, known: map[event]bool{}}
	}
	for kind := range contests {
		for _, name := range []string{kind + "1", kind + "2"} {
			c.names[kind] = append(c.names[kind], name)
			c.Tags = append(c.Tags, name)
			if kind == "multi" { // as suffixed names them
				c.Tags = append(c.Tags, name+"-c")
			}
		}
	}
	for _, s := range wire.Scripts() {
		switch name := s.Name(); {
		case strings.Contains(name, "acquire"), strings.Contains(name, "read"), strings.Contains(name, "fair"):
			c.Take = append(c.Take, s)
		case strings.Contains(name, "release"):
			c.Give = append(c.Give, s)
		}
	}
	for i := range 5 {
		if f.Stops && i < 2 {
			c.hire(i, server)
			continue
		}
		n := d.Network(t)
		c.Networks = append(c.Networks, n)
		w, err := newWorker(i, d.Conn(t, n.Client(), f), server, c.Prefix, d.TTL)
		must(t, err)
		t.Cleanup(w.end)
		w.add = func(kind string, e event, call, ret time.Time) { c.histories[kind].add(i, e, call, ret) }
		c.workers = append(c.workers, w)
	}
	return c
}

// run lets all work while the fault strikes.
func (c *crew) run(t *testing.T, rng *rand.Rand) {
	ctx, cancel := context.WithTimeout(t.Context(), c.fault.Round(c.Deployment))
	defer cancel()
	var wg sync.WaitGroup
	for _, w := range c.workers {
		seed := rng.Uint64()
		wg.Go(func() { w.work(ctx, seed, c.names) })
	}
	c.fault.Strike(ctx, t, &c.Site, rng)
	wg.Wait()
	for _, dismiss := range c.dismiss {
		dismiss()
	}
}

// twice counts how often two held a lock that is for one.
const twice = "held twice"

// check counts what happened.
func (c *crew) check(t *testing.T, total map[string]int) {
	t.Helper()
	for kind, h := range c.histories {
		model := registerModel
		if contest, ok := contests[kind]; ok {
			model = contest.model
			if c.fault.Loses {
				model = tokenModel
			}
		} else if kind == beside && c.fault.Loses {
			continue
		}
		for what, n := range h.check(t, kind, model) {
			total[what] += n
		}
	}
	for _, kind := range []string{"mutex", "fair", "multi"} {
		doubles := c.histories[kind].doubles()
		total[twice] += doubles
		if doubles > 0 && !c.fault.Loses {
			t.Errorf("%d double holds of a lock of the kind %s", doubles, kind)
		}
	}
}

// A worker is a process that uses locks of every kind, on connections of its own.
type worker struct {
	id        int
	ttl       time.Duration
	ways      map[string][2]taker
	registers map[string]*register
	add       func(kind string, e event, call, ret time.Time)
	ends      []func() error
	late      sync.WaitGroup // for holders that write after their lease
}

// A register is a key that a mutex of the same name protects.
type register struct {
	guard  *fence.Guard
	client *redoubt.Client
	prefix string
}

// newWorker returns a worker whose way to the locks is conn; server is apart from
// them.
func newWorker(id int, conn redoubt.Conn, server, prefix string, ttl time.Duration) (*worker, error) {
	w := &worker{id: id, ttl: ttl, ways: map[string][2]taker{}, registers: map[string]*register{}}
	rdb := redis.NewClient(&redis.Options{Addr: server, MaxRetries: -1})
	w.ends = append(w.ends, rdb.Close)
	other, err := goredis.Wrap(rdb)
	if err != nil {
		return nil, err
	}
	for name, conn := range map[string]redoubt.Conn{beside: conn, apart: other} {
		o := redoubt.Options{Prefix: prefix}
		if id%2 == 0 { // the others refuse calls while the server doesn't answer: on a slow machine they do little else
			o.DownAfter = -1
		}
		client, err := redoubt.New(conn, o)
		if err != nil {
			return nil, err
		}
		w.ends = append(w.ends, client.Close)
		guard, err := fence.New(client, fence.Options{})
		if err != nil {
			return nil, err
		}
		w.registers[name] = &register{guard, client, prefix}
	}
	for kind, contest := range contests {
		// Some renew their leases, some extend them by hand.
		w.ways[kind], err = contest.ways(w.registers[beside].client, lock.Options{TTL: ttl, NoRenew: id%2 == 0})
		if err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *worker) end() {
	for _, end := range slices.Backward(w.ends) {
		_ = end()
	}
}

// work uses all names of all kinds until ctx ends, and reads the registers.
func (w *worker) work(ctx context.Context, seed uint64, names map[string][]string) {
	var wg sync.WaitGroup
	for i, kind := range slices.Sorted(maps.Keys(names)) {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() {
			for ctx.Err() == nil {
				w.use(ctx, rng, kind, names[kind][rng.IntN(len(names[kind]))])
			}
		})
	}
	wg.Wait()
	w.late.Wait()
}

// pause waits for d, or until one of the two ends.
func pause(d time.Duration, done ...<-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-done[0]:
	case <-done[len(done)-1]:
	}
}

func upTo(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }

// use acquires, extends and releases once.
func (w *worker) use(ctx context.Context, rng *rand.Rand, kind, name string) {
	shared := rng.IntN(3) > 0
	call := time.Now()
	lease, other, err := w.acquire(ctx, rng, kind, name, shared)
	switch {
	case err != nil:
		w.add(kind, event{what: lost}, call, call)
		pause(upTo(rng, w.ttl/10), ctx.Done())
	case other != nil:
		w.add(kind, event{name: name, what: busy, fence: other.Token}, call, time.Now())
		pause(upTo(rng, w.ttl/10), ctx.Done())
	default:
		e := event{name: name, what: acquired, fence: lease.Token(), id: lease.ID(), shared: shared}
		for _, fence := range lease.Tokens() {
			e.fence = max(e.fence, fence)
		}
		if e.id == "" { // of several names
			e.id = fmt.Sprint(e.fence)
		}
		w.add(kind, e, call, time.Now())
		w.hold(ctx, rng, kind, lease, e)
	}
}

func (w *worker) acquire(ctx context.Context, rng *rand.Rand, kind, name string, shared bool) (*lock.Lease, *lock.Busy, error) {
	way := w.ways[kind][0]
	if shared {
		way = w.ways[kind][1]
	}
	patience := 2 * w.ttl
	if rng.IntN(2) == 0 {
		patience *= 4
	}
	ctx, cancel := context.WithTimeout(ctx, time.Millisecond+upTo(rng, patience))
	defer cancel()
	if rng.IntN(2) == 0 {
		return way.TryAcquire(ctx, name)
	}
	lease, err := way.Acquire(ctx, name)
	return lease, nil, err
}

// hold uses a lease and ends it.
func (w *worker) hold(ctx context.Context, rng *rand.Rand, kind string, lease *lock.Lease, e event) {
	abandons := w.id%2 == 0
	for rng.IntN(2) == 0 {
		pause(upTo(rng, w.ttl/4), lease.Done())
		call := time.Now()
		if lease.Extend(ctx, w.ttl) == nil {
			e.what = extended
			w.add(kind, e, call, time.Now())
		}
	}
	way := rng.IntN(10)
	w.write(ctx, kind, e)
	if way < 8 {
		pause(upTo(rng, w.ttl/4), lease.Done(), ctx.Done())
	} else { // stays until the lease is over, if nobody renews it
		pause(2*w.ttl, lease.Done())
	}
	call, ret := time.Now(), time.Time{}
	if way < 9 || !abandons {
		if lease.Release(ctx) == nil {
			ret = time.Now()
		}
	}
	if d := lease.Deadline(); d.Before(call) || way == 9 && abandons {
		call = d
	}
	e.what = ended
	w.add(kind, e, call, ret)
	if kind == "mutex" && rng.IntN(2) == 0 { // it doesn't know, or doesn't look
		while := upTo(rng, 6*w.ttl) // others write
		w.late.Go(func() {
			pause(while, ctx.Done())
			w.write(context.WithoutCancel(ctx), kind, e) // at the end of the round at the latest
		})
	}
}

// write writes the token of a mutex to its registers.
func (w *worker) write(ctx context.Context, kind string, e event) {
	if kind != "mutex" {
		return
	}
	for at, r := range w.registers {
		ctx, cancel := context.WithTimeout(ctx, w.ttl)
		defer cancel()
		call := time.Now()
		// Without flags: it is sent once.
		err := r.guard.Do(ctx, e.name, e.fence, redoubt.Cmd{
			Name: "SET", Keys: []string{r.prefix + ":{" + e.name + "}:register"}, Args: []string{strconv.FormatInt(e.fence, 10)},
		}).Err
		e, ret := event{name: e.name, fence: e.fence, what: wrote}, time.Now()
		switch {
		case errors.Is(err, fence.ErrStale):
			e.what = refused
		case errors.Is(err, redoubt.ErrUnknownOutcome):
			e.what, ret = tried, time.Time{}
		case err != nil:
			continue
		}
		w.add(at, e, call, ret)

		call = time.Now()
		token, err := r.client.Do(ctx, redoubt.Cmd{Name: "GET", Keys: []string{r.prefix + ":{" + e.name + "}:register"}, Flags: redoubt.ReadOnly}).Text()
		if n, perr := strconv.ParseInt(token, 10, 64); err == nil && perr == nil {
			w.add(at, event{name: e.name, fence: n, what: is}, call, time.Now())
		}
	}
}
