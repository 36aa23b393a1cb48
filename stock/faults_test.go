package stock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/test/faults"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	wire "github.com/redoubt-go/redoubt/internal/wire/stock"
	"github.com/redoubt-go/redoubt/stock"
)

// Several processes buy a few items while a fault strikes. Whatever order the
// answers came in, there is an order in which one stock could have given them.
// Then everything that is not sold comes back by itself, and nothing is left of
// the reservations. After a failover, which may have lost sales, only the keys
// themselves are checked: they fit together still.
//
// HISTORY=10m go test -run TestHistory -timeout 20h ./stock runs each fault for
// ten minutes on each deployment instead of one to four seconds.
//
// Promise: Available, reserved and sold units together are always the total that was set and
// added.
//
// Promise: A reservation ends once: committed, cancelled or expired.
//
// Promise: With appendonly and appendfsync always, acknowledged calls survive a killed server.
func TestHistory(t *testing.T) {
	faults.Each(t, func(t *testing.T, d *faults.Deployment, f faults.Fault) {
		d.Rounds(t, f, wanted(f), func(t *testing.T, round uint64, total map[string]int) {
			c := newCrew(t, d, f, round)
			c.run(rand.New(rand.NewPCG(round, 0)))
			for what, n := range c.history.counts {
				total[what] += n
			}
		})
	})
}

// A crew is processes that buy the same items for one round.
type crew struct {
	faults.Site

	t       *testing.T
	env     *env
	fault   faults.Fault
	names   []string
	workers []*worker
	dismiss []func() // end the workers that are processes of their own
	history *history
}

func newCrew(t *testing.T, d *faults.Deployment, f faults.Fault, round uint64) *crew {
	t.Helper()
	prefix := fmt.Sprint(d.Kind, strings.ReplaceAll(f.Name, " ", ""), round)
	e := &env{testenv.On(t, redistest.Backend{Prefix: prefix}, d.Direct())}
	e.Client = e.ClientOn(d.Conn(t, e.Redis, f))
	c := &crew{t: t, env: e, fault: f, history: &history{began: time.Now(), counts: map[string]int{}}}
	c.Site = faults.Site{Deployment: d, Prefix: prefix, Flushing: func(flush func()) {
		call := time.Now()
		flush()
		for _, name := range c.names {
			c.history.add(-1, event{name: name, what: flushed}, answer{}, call, time.Now())
			c.deliver(name)
		}
	}}
	for i := range 2 * int(1+f.Round(d)/time.Second) { // so many that an item's history is short
		name := fmt.Sprint("item", i)
		c.names, c.Tags = append(c.names, name), append(c.Tags, name)
		c.deliver(name)
	}
	for _, s := range wire.Scripts() {
		switch s.Name() {
		case "stock.reserve":
			c.Take = append(c.Take, s)
		case "stock.settle":
			c.Give = append(c.Give, s)
		}
	}
	shared := newIDs(c.names, 0, 2*maxIDs/3)
	for i := range 4 {
		if f.Stops && i < 2 {
			c.hire(i)
			continue
		}
		n := d.Network(t)
		c.Networks = append(c.Networks, n)
		conn := d.Conn(t, n.Client(), f)
		if f.Name == "FLUSHALL" {
			conn = once{conn}
		}
		w := &worker{items: e.itemsOn(e.ClientOn(conn)), ids: shared, ttl: d.TTL, step: f.Steps()}
		w.add = func(e event, a answer, call, ret time.Time) { c.history.add(i, e, a, call, ret) }
		c.workers = append(c.workers, w)
	}
	return c
}

// once is a Conn that sends nothing again. A FLUSHALL forgets what was done under
// which id, so that a copy of a call that was done before has an effect of its own:
// in a history each call would have to be as many as were sent.
type once struct{ redoubt.Conn }

func (c once) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	cmd.Flags = 0
	return c.Conn.Do(ctx, cmd)
}

func (c once) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	cmds = slices.Clone(cmds)
	for i := range cmds {
		cmds[i].Flags = 0
	}
	return c.Conn.Pipeline(ctx, cmds)
}

// deliver puts units of an item on sale.
func (c *crew) deliver(name string) {
	c.t.Helper()
	call := time.Now()
	_, err := c.env.items().Add(c.t.Context(), name, historyUnits)
	must(c.t, err)
	c.history.add(-1, event{name: name, what: added, n: historyUnits}, answer{known: true}, call, time.Now())
}

// run lets all work while the fault strikes, and checks what came of it.
func (c *crew) run(rng *rand.Rand) {
	ctx, cancel := context.WithTimeout(c.t.Context(), c.fault.Round(c.Deployment))
	defer cancel()
	var wg sync.WaitGroup
	for _, w := range c.workers {
		rng := rand.New(rand.NewPCG(rng.Uint64(), 0))
		wg.Go(func() { w.work(ctx, rng, c.names) })
	}
	c.fault.Strike(ctx, c.t, &c.Site, rng)
	wg.Wait()
	for _, dismiss := range c.dismiss {
		dismiss()
	}
	if c.fault.Name != "failover" {
		c.history.check(c.t)
	}
	for _, name := range c.names {
		if c.fault.Steps() >= 0 { // else it takes that much longer
			eventually(c.t, "what was not sold is back", func() bool {
				i, err := c.env.items().Info(c.t.Context(), name)
				return err == nil && i.Reservations == 0 && i.Available+i.Sold == i.Total
			})
		}
		c.env.audit(c.t, name)
	}
}

// A worker is a process that buys, on connections of its own.
type worker struct {
	items *stock.Inventory
	ids   *ids
	ttl   time.Duration // of reservations
	step  time.Duration // of the server's clock, at most twice
	add   func(e event, a answer, call, ret time.Time)
}

// ids are the ids of reservations: a range for the processes that share them.
type ids struct {
	first, limit int
	used         map[string]*atomic.Int64 // by item
}

func newIDs(names []string, first, limit int) *ids {
	s := &ids{first: first, limit: limit, used: map[string]*atomic.Int64{}}
	for _, name := range names {
		s.used[name] = new(atomic.Int64)
	}
	return s
}

// next is one that nobody has used.
func (s *ids) next(name string) (id int, ok bool) {
	n := int(s.used[name].Add(1)) - 1
	return s.first + n, n < s.limit
}

// last is one of the last, whoever's it is.
func (s *ids) last(rng *rand.Rand, name string) int {
	return s.first + max(0, int(min(s.used[name].Load(), int64(s.limit)))-1-rng.IntN(4))
}

// orders are the orders to a worker in a process of its own.
type orders struct {
	ID                 int
	Invitation, Prefix string
	Names              []string
	TTL                time.Duration
}

const lineFormat = "%q %q %d %d %t %d %d %d %d %d\n"

// hire starts a worker as a process of its own. It works from now on until the
// round is over.
func (c *crew) hire(id int) {
	c.t.Helper()
	p, dismiss := faults.Hire(c.t, orders{id, c.Invitation(), c.Prefix, c.names, c.TTL}, func(text string) error {
		var e event
		var a answer
		var call, ret int64
		if _, err := fmt.Sscanf(text, lineFormat, &e.name, &e.what, &e.id, &e.n, &a.known, &a.status, &a.available, &a.sold, &call, &ret); err != nil {
			return fmt.Errorf("%q: %w", text, err)
		}
		returned := time.Time{}
		if ret != 0 {
			returned = time.Unix(0, ret)
		}
		c.history.add(id, e, a, time.Unix(0, call), returned)
		return nil
	})
	c.Processes, c.dismiss = append(c.Processes, p), append(c.dismiss, dismiss)
}

// work works until it is dismissed, and tells what it does.
func (o orders) work(ctx context.Context) error {
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
	items, err := stock.New(client, stock.Options{})
	if err != nil {
		return err
	}
	const each = maxIDs / 6
	w := &worker{items: items, ids: newIDs(o.Names, 2*maxIDs/3+o.ID*each, each), ttl: o.TTL}
	w.add = func(e event, a answer, call, ret time.Time) {
		returned := int64(0)
		if !ret.IsZero() {
			returned = ret.UnixNano()
		}
		fmt.Printf(lineFormat, e.name, e.what, e.id, e.n, a.known, a.status, a.available, a.sold, call.UnixNano(), returned)
	}
	w.work(ctx, rand.New(rand.NewPCG(uint64(os.Getpid()), 0)), o.Names)
	return nil
}
