package lock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/clienttest"
	"github.com/redoubt-go/redoubt/lock"
)

// A delayed Conn keeps the calls of one script back until it is let go.
type delayed struct {
	redoubt.Conn
	redoubt.Subscriber

	script string
	kept   chan struct{} // gets a value for each that is kept back
	let    chan struct{} // closed to let them go
	letGo  func()
}

func (c *delayed) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	if cmd.Script != nil && cmd.Script.Name() == c.script {
		c.kept <- struct{}{}
		<-c.let
		ctx = context.WithoutCancel(ctx)
	}
	return c.Conn.Do(ctx, cmd)
}

// slowQuorum returns one whose last master delays script.
func (m *masters) slowQuorum(script string) (*lock.Quorum, *delayed) {
	m.t.Helper()
	s := &delayed{script: script, kept: make(chan struct{}, 10), let: make(chan struct{})}
	s.letGo = sync.OnceFunc(func() { close(s.let) })
	var conns []redoubt.Conn
	for i, rdb := range m.rdbs {
		conn, err := goredis.Wrap(rdb)
		must(m.t, err)
		if i < len(m.rdbs)-1 {
			conns = append(conns, conn)
			continue
		}
		s.Conn, s.Subscriber = conn, conn
		conns = append(conns, s)
	}
	q := newQuorum(m.t, conns, lock.Options{TTL: time.Hour, NoRenew: true})
	m.t.Cleanup(s.letGo) // before its client is closed
	return q, s
}

// What takes a master after the lease is over, as it was on its way for so long that
// the master has forgotten that it was voided, is given back: nobody would release
// it before its TTL.
func TestQuorumGivesBackWhatComesLate(t *testing.T) {
	for _, script := range []string{"lock.acquire", "lock.quorum_extend"} {
		t.Run(script, func(t *testing.T) {
			eachMasters(t, 3, func(t *testing.T, m *masters) {
				field := func(master int, name string) string {
					return m.rdbs[master].HGet(t.Context(), "rd:{lock}:lock", name).Val()
				}
				var late []*delayed
				var leases []*lock.Lease
				for range 2 { // the second makes the master forget the first
					q, s := m.slowQuorum(script)
					lease := try(t, q, "lock")
					late, leases = append(late, s), append(leases, lease)
					if script == "lock.quorum_extend" {
						must(t, lease.Extend(t.Context(), 2*time.Hour))
					}
					<-s.kept
					must(t, lease.Release(t.Context()))
					for i := range m.rdbs {
						eventually(t, "it is over", func() bool {
							return field(i, "last") == lease.ID() || field(i, "void") == lease.ID()
						})
					}
				}
				late[0].letGo()
				eventually(t, "it came, and is given back", func() bool {
					return field(2, "id") == leases[0].ID() && field(2, "until") == "0"
				})
				late[1].letGo()
			})
		})
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
	a, err := lock.NewQuorum(clients, lock.Options{})
	must(t, err)
	b, err := lock.NewQuorum(clients, lock.Options{})
	must(t, err)
	fewer, err := lock.NewQuorum(clients[:1], lock.Options{})
	must(t, err)
	must(t, a.Do(t.Context(), "lock", func(ctx context.Context) error {
		if lease, busy, err := fewer.TryAcquire(ctx, "lock"); lease != nil || busy == nil {
			t.Errorf("on one of the masters: %v, %v", lease, err)
		}
		within, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return b.Do(within, "lock", func(context.Context) error { return nil })
	}))
}
