package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/faults"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	"github.com/redoubt-go/redoubt/queue"
)

// Consumers are killed, and the server that they use, again and again, by kill -9.
// With appendfsync always nothing that a Put has returned for is lost, nothing comes
// before it is due, and in the end no key is left.
//
// By default it is a few hundred messages. QUEUE_FAULTS=full go test -run TestKills
// -timeout 30m -v ./queue is 100,000, over 200 consumers and 20 servers.
//
// Promise: Once a put has returned, its message is handed to a handler until one returns nil, the
// message is dead, or it is cancelled.
func TestKills(t *testing.T) {
	slow.Test(t, "it kills consumers at work")
	messages, killed, restarts, delay := 600, 6, 1, time.Second
	if os.Getenv("QUEUE_FAULTS") == "full" {
		messages, killed, restarts, delay = 100_000, 200, 20, 100*time.Second
	} else {
		t.Parallel()
	}
	const lease, batch = 2 * time.Second, 100
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	e := &env{testenv.New(t, redistest.Backend{Name: "redis", Addr: s.Addr(), Prefix: "kills", Server: s})}
	q := e.queue(t, queue.Options{Attempts: queue.Unlimited})
	l := newLedger()
	rng := rand.New(rand.NewPCG(1, 0))

	orders := workOrders{Invitation: faults.InvitationTo(faults.Redis, s.Addr()), Prefix: e.Prefix, Names: []string{"q"}, Lease: lease, TTL: 150 * time.Millisecond, Concurrency: 16}
	kills := make([]func(), 4) // of the consumers
	handling := make([]*atomic.Int64, len(kills))
	doom := func(i int) {
		open := new(atomic.Int64)
		handling[i] = open
		kills[i] = faults.Doom(t, orders, func(text string) error {
			n, err := readNote(strings.TrimPrefix(text, "q "))
			l.add(n)
			if n.what == began {
				open.Add(1)
			} else {
				open.Add(-1)
			}
			return err
		})
	}
	for i := range kills {
		doom(i)
	}

	// Half of the messages are for later. Each is put until that is known to have
	// worked.
	start := time.Now()
	var putting sync.WaitGroup
	putting.Go(func() {
		rng := rand.New(rand.NewPCG(2, 0))
		for from := 0; from < messages; from += batch {
			rs, ids := make([]queue.Request[string], batch), make([]string, batch)
			for i := range rs {
				ids[i] = fmt.Sprint(brief, ":", from+i)
				rs[i].ID = ids[i]
				if i%2 == 0 {
					rs[i].Delay = time.Millisecond + time.Duration(rng.Int64N(int64(delay)))
				}
				l.put(ids[i], rs[i].Delay)
			}
			for {
				if _, err := q.PutMany(t.Context(), "q", rs); err == nil {
					break
				}
				if t.Context().Err() != nil {
					return
				}
				pause(t.Context(), 10*time.Millisecond)
			}
			l.ack(ids...)
			pause(t.Context(), time.Until(start.Add(delay*time.Duration(from)/time.Duration(messages))))
		}
	})
	// The deaths are spread over the time in which messages come.
	for death := range killed {
		pause(t.Context(), time.Until(start.Add(2*delay*time.Duration(death)/time.Duration(killed))))
		i := rng.IntN(len(kills))
		await.Until(t, time.Minute, "the consumer has a message, or all are done", func() bool {
			return handling[i].Load() > 0 || len(l.undone()) == 0 && time.Since(start) > delay
		})
		kills[i]()
		doom(i)
		if death%(killed/restarts) == killed/restarts/2 {
			s.Kill()
			s.Restart()
		}
	}
	putting.Wait()
	await.Until(t, 5*time.Minute, "all are done", func() bool { return len(l.undone()) == 0 })
	await.Until(t, time.Minute, "no key is left", func() bool {
		keys, err := e.Redis.Keys(context.WithoutCancel(t.Context()), "*").Result()
		return err == nil && len(keys) == 0
	})
	for _, kill := range kills {
		kill()
	}
	l.checkTimes(t)
	if len(l.acked) != messages {
		t.Errorf("%d of %d messages were put", len(l.acked), messages)
	}
	if l.again() == 0 {
		t.Error("nobody had a message when it was killed: the test shows nothing")
	}
	t.Logf("%d messages, half of them delayed by up to %v; %d consumers and %d servers killed: %d lost, %d came again, %d of those had been done, 0 keys left, in %v",
		messages, delay, killed, restarts, len(l.undone()), l.again(), l.doubles(), time.Since(start).Round(time.Second))
}
