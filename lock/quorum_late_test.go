package lock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/lock"
)

// A delayed Conn keeps the calls of one script back until it is let go.
type delayed struct {
	redoubt.Conn

	script string
	kept   chan struct{} // gets a value for each that is kept back
	let    chan struct{} // closed to let them go
}

func (c *delayed) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	if cmd.Script != nil && cmd.Script.Name() == c.script {
		c.kept <- struct{}{}
		<-c.let
		ctx = context.WithoutCancel(ctx)
	}
	return c.Conn.Do(ctx, cmd)
}

// A call that acquires on a master after the lease is over is given back: nobody would
// release it before its TTL. The call was on its way for so long that the master has
// forgotten that it was voided.
//
// Promise: A cancelled attempt of a Quorum leaves nothing on the masters,
// callers that try at the same time all get their turn, and a waiter sends
// nothing while it waits for a holder.
func TestQuorumGivesBackWhatComesLate(t *testing.T) {
	for _, script := range []string{"lock.acquire", "lock.quorum_extend"} {
		t.Run(script, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { comesLate(t, script) }) })
	}
}

// comesLate runs in a bubble of testing/synctest. Half a second passes there once nothing
// is under way but the call that is kept back; the lock gives that call up after 3 s.
func comesLate(t *testing.T, script string) {
	_, conns, _ := clocks(t, 3)
	master := conns[2]
	late := &delayed{Conn: master, script: script, kept: make(chan struct{}, 10), let: make(chan struct{})}
	letGo := sync.OnceFunc(func() { close(late.let) })
	conns[2] = late
	q := newQuorum(t, conns, lock.Options{TTL: time.Hour, NoRenew: true})
	t.Cleanup(letGo) // before its clients are closed
	do := func(name string, args ...string) redoubt.Reply {
		return master.Do(t.Context(), redoubt.Cmd{Name: name, Keys: []string{"rd:{lock}:lock"}, Args: args})
	}

	lease := try(t, q, "lock")
	if script == "lock.quorum_extend" {
		must(t, lease.Extend(t.Context(), 2*time.Hour))
	}
	<-late.kept
	await.Advance(time.Second / 2)
	must(t, lease.Release(t.Context()))
	await.Advance(time.Second / 2)
	if r := do("HGET", "last"); r.Err != nil || r.Val != lease.ID() {
		t.Fatalf("after the release the master had %+v last", r)
	}
	must(t, do("DEL").Err) // later leases make the master forget it, and so does the expiry
	letGo()
	await.Advance(time.Second / 2)
	if id, until := do("HGET", "id"), do("HGET", "until"); id.Val != lease.ID() || until.Val != "0" {
		t.Errorf("of the late call the master has %+v until %+v; want %q, given back", id, until, lease.ID())
	}
}

// A muffled Conn loses the replies to one script.
type muffled struct {
	redoubt.Conn
	redoubt.Subscriber

	mu     sync.Mutex
	script string
}

func (c *muffled) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	r := c.Conn.Do(ctx, cmd)
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Err == nil && cmd.Script != nil && cmd.Script.Name() == c.script {
		return redoubt.Reply{Err: redoubt.UnknownOutcome(errors.New("the reply is lost"))}
	}
	return r
}

// A wait whose replies one master lost leaves its place in that master's queue.
//
// Promise: A cancelled attempt of a Quorum leaves nothing on the masters,
// callers that try at the same time all get their turn, and a waiter sends
// nothing while it waits for a holder.
func TestQuorumLeavesTheQueueAfterLostReplies(t *testing.T) {
	eachMasters(t, 3, func(t *testing.T, m *masters) {
		lease := try(t, m.quorum(false, lock.Options{TTL: time.Hour}), "lock")
		eventually(t, "all masters have it", func() bool { return m.holding(lease) == 3 })
		var conns []redoubt.Conn
		for i, rdb := range m.rdbs {
			conn := clienttest.Wrap(t, rdb)
			c := &muffled{Conn: conn, Subscriber: conn}
			if i == 2 {
				c.script = "lock.acquire"
			}
			conns = append(conns, c)
		}
		q := newQuorum(t, conns, lock.Options{TTL: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := q.Acquire(ctx, "lock")
			done <- err
		}()
		eventually(t, "it waits on all masters", func() bool { return m.queued() == 3 })
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Acquire returned %v", err)
		}
		eventually(t, "nobody is queued", func() bool { return m.queued() == 0 })
		must(t, lease.Release(t.Context()))
	})
}

// A Do within the Do of another Quorum on the same masters is in the same lease.
func TestQuorumsOnTheSameMastersEnterEachOther(t *testing.T) {
	_, conns, _ := clocks(t, 3)
	var clients []*redoubt.Client
	for _, conn := range conns {
		client := clienttest.New(t, conn, "")
		clients = append(clients, client)
	}
	a, err := lock.NewQuorum(clients, lock.QuorumOptions{})
	must(t, err)
	b, err := lock.NewQuorum(clients, lock.QuorumOptions{})
	must(t, err)
	fewer, err := lock.NewQuorum(clients[:1], lock.QuorumOptions{})
	must(t, err)
	first, err := lock.New(clients[0], lock.Options{})
	must(t, err)
	must(t, a.Do(t.Context(), "lock", func(ctx context.Context) error {
		eventually(t, "the first master has it, too", func() bool { // a majority is enough for Do
			info, err := first.Info(ctx, "lock")
			return err == nil && info.Count == 1
		})
		if lease, busy, err := fewer.TryAcquire(ctx, "lock"); lease != nil || busy == nil {
			t.Errorf("on one of the masters: %v, %v", lease, err)
		}
		within, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return b.Do(within, "lock", func(context.Context) error { return nil })
	}))
}
