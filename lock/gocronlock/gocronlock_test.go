package gocronlock_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/lock/gocronlock"
)

var must = expect.Must

// each runs a test on every back end. Each call of client returns one with its own connections, like that
// of another process.
func each(t *testing.T, run func(t *testing.T, b redistest.Backend, client func() *redoubt.Client)) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		run(t, b, func() *redoubt.Client {
			return clienttest.New(t, clienttest.Wrap(t, clienttest.Dial(t, b.Addr)), b.Prefix)
		})
	})
}

// A process is a scheduler with a job that is due once a minute by a clock of its own.
type process struct {
	t     *testing.T
	clock *clockwork.FakeClock
	did   chan string // "runs", "ran", "is unlocked" or "is left out"
}

func start(t *testing.T, option gocron.SchedulerOption, did chan string, job func()) *process {
	t.Helper()
	p := &process{t, clockwork.NewFakeClock(), did}
	s, err := gocron.NewScheduler(option, gocron.WithClock(p.clock))
	must(t, err)
	t.Cleanup(func() { must(t, s.Shutdown()) })
	task := gocron.NewTask(func() {
		did <- "runs"
		job()
	})
	_, err = s.NewJob(gocron.DurationJob(time.Minute), task, gocron.WithName("job"), gocron.WithEventListeners(
		gocron.AfterJobRuns(func(uuid.UUID, string) { did <- "ran" }),
		gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) {
			if !errors.Is(err, lock.ErrBusy) {
				t.Errorf("Lock: %v", err)
			}
			did <- "is left out"
		}),
	))
	must(t, err)
	s.Start()
	return p
}

// tick lets the clock of the process reach the next run.
func (p *process) tick() {
	p.t.Helper()
	must(p.t, p.clock.BlockUntilContext(p.t.Context(), 1)) // until the run is scheduled
	p.clock.Advance(time.Minute)
}

func (p *process) wants(what string) {
	p.t.Helper()
	if got := <-p.did; got != what {
		p.t.Fatalf("the job %s, want it %s", got, what)
	}
}

// A watched Locker tells when it has unlocked a job.
type watched struct {
	*gocronlock.Locker

	did chan string
}

func (w *watched) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	held, err := w.Locker.Lock(ctx, key)
	if err != nil {
		return nil, err
	}
	return &watchedLock{held, w.did}, nil
}

type watchedLock struct {
	gocron.Lock

	did chan string
}

func (w *watchedLock) Unlock(ctx context.Context) error {
	err := w.Lock.Unlock(ctx)
	w.did <- "is unlocked"
	return err
}

// The clock of one process is late: the job has ended in the other one, or still runs there. Which one is
// late changes from tick to tick.
//
// Promise: A job that is due in several processes runs in one of them, if their clocks differ by less than
// Options.Hold.
func TestEachTickRunsOnce(t *testing.T) {
	each(t, func(t *testing.T, _ redistest.Backend, client func() *redoubt.Client) {
		const hold = time.Hour
		locks, err := lock.New(client(), lock.Options{})
		must(t, err)
		wait := make(chan struct{})
		var processes []*process
		for range 2 {
			locker, err := gocronlock.New(client(), gocronlock.Options{Hold: hold})
			must(t, err)
			did := make(chan string, 3)
			processes = append(processes, start(t, gocron.WithDistributedLocker(&watched{locker, did}), did, func() { <-wait }))
		}
		t.Cleanup(func() { close(wait) }) // if the test fails in the middle
		for tick := range 6 {
			early, late := processes[tick%2], processes[1-tick%2]
			early.tick()
			early.wants("runs")
			if short := tick < 3; short {
				wait <- struct{}{}
				early.wants("ran")
				early.wants("is unlocked")
				late.tick()
				late.wants("is left out")
			} else {
				late.tick()
				late.wants("is left out")
				wait <- struct{}{}
				early.wants("ran")
				early.wants("is unlocked")
			}
			info, err := locks.Info(t.Context(), "gocron:job")
			must(t, err)
			_, err = locks.ForceRelease(t.Context(), "gocron:job", info.Token) // as if Hold was over
			must(t, err)
		}
	})
}

// The lock of a short job is free after Hold, that of a long job with its end. The context of the job has
// ended each time.
func TestHold(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, _ redistest.Backend, client func() *redoubt.Client) {
		t.Parallel()
		const hold = 2 * time.Second
		locker := func() *gocronlock.Locker {
			l, err := gocronlock.New(client(), gocronlock.Options{Hold: hold})
			must(t, err)
			return l
		}
		a, b := locker(), locker()
		ended, cancel := context.WithCancel(t.Context())
		cancel()

		began := time.Now()
		held, err := a.Lock(t.Context(), "short")
		must(t, err)
		must(t, held.Unlock(ended))
		await.Until(t, 10*hold, "it is free", func() bool {
			_, err := b.Lock(t.Context(), "short")
			if err != nil && !errors.Is(err, lock.ErrBusy) {
				t.Fatal(err)
			}
			return err == nil
		})
		if after := time.Since(began); after < hold {
			t.Errorf("the lock of a short job was free after %v, want %v", after, hold)
		}

		began = time.Now()
		held, err = a.Lock(t.Context(), "long")
		must(t, err)
		await.Until(t, 10*hold, "the job is long", func() bool { return time.Since(began) > hold*5/4 })
		if _, err := b.Lock(t.Context(), "long"); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("Lock while a long job runs: %v", err)
		}
		must(t, held.Unlock(ended))
		_, err = b.Lock(t.Context(), "long")
		must(t, err)
	})
}

// A candidate is a scheduler whose job is always due, and runs where its Elector says so.
type candidate struct {
	*gocronlock.Elector

	ran, leftOut atomic.Int64
}

func (c *candidate) IsLeader(ctx context.Context) error {
	err := c.Elector.IsLeader(ctx)
	if errors.Is(err, lock.ErrBusy) {
		c.leftOut.Add(1)
	}
	return err
}

func stand(t *testing.T, client *redoubt.Client, label string) *candidate {
	t.Helper()
	elector, err := gocronlock.NewElector(client, gocronlock.ElectorOptions{Label: label})
	must(t, err)
	c := &candidate{Elector: elector}
	s, err := gocron.NewScheduler(gocron.WithDistributedElector(c))
	must(t, err)
	t.Cleanup(func() { must(t, s.Shutdown()) })
	_, err = s.NewJob(gocron.DurationJob(20*time.Millisecond), gocron.NewTask(func() { c.ran.Add(1) }))
	must(t, err)
	s.Start()
	return c
}

// Promise: A process leads until its lease ends; then the next process with a job that is due leads.
func TestElector(t *testing.T) {
	each(t, func(t *testing.T, _ redistest.Backend, client func() *redoubt.Client) {
		first := stand(t, client(), "first")
		await.Soon(t, "the first leads", func() bool { return first.ran.Load() > 0 })
		second := stand(t, client(), "second")
		await.Soon(t, "the second is left out", func() bool { return second.leftOut.Load() > 3 && first.ran.Load() > 3 })
		if n := second.ran.Load(); n > 0 {
			t.Errorf("the job of the second ran %d times while the first leads", n)
		}
		if err := second.IsLeader(t.Context()); err == nil || !strings.Contains(err.Error(), `"first"`) {
			t.Errorf("IsLeader in the other process: %v; want the label of the leader", err)
		}
		for range 2 {
			must(t, first.Close())
		}
		await.Soon(t, "the second leads", func() bool { return second.ran.Load() > 3 })
		if err := first.IsLeader(t.Context()); err == nil {
			t.Error("a closed elector leads")
		}
		must(t, second.Close())
	})
}

// Promise: While the server can't be reached, no job runs, except that a leader goes on until its lease
// ends.
func TestServerIsAway(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b redistest.Backend, _ func() *redoubt.Client) {
		t.Parallel()
		link := faultnet.New(t, b.Addr)
		client, err := redoubt.New(clienttest.Wrap(t, clienttest.Dial(t, link.Addr())), redoubt.Options{Prefix: b.Prefix, DownAfter: 500 * time.Millisecond})
		must(t, err)
		t.Cleanup(func() { _ = client.Close() })
		locker, err := gocronlock.New(client, gocronlock.Options{})
		must(t, err)
		elector, err := gocronlock.NewElector(client, gocronlock.ElectorOptions{TTL: 5 * time.Second})
		must(t, err)
		must(t, elector.IsLeader(t.Context()))
		link.Refuse()
		link.Cut()
		if _, err := locker.Lock(t.Context(), "job"); err == nil || errors.Is(err, lock.ErrBusy) {
			t.Errorf("Lock without a server: %v", err)
		}
		must(t, elector.IsLeader(t.Context()))
		await.Soon(t, "the lead ends", func() bool {
			err := elector.IsLeader(t.Context())
			return err != nil && !errors.Is(err, lock.ErrBusy)
		})
		must(t, elector.Close())
	})
}

func TestBadOptions(t *testing.T) {
	for _, hold := range []time.Duration{-1, 1, lock.MaxTTL + 1} {
		_, err := gocronlock.New(nil, gocronlock.Options{Hold: hold})
		for _, want := range []string{"hold", "client"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("New with a Hold of %v and without a client: %v", hold, err)
			}
		}
	}
	each(t, func(t *testing.T, _ redistest.Backend, client func() *redoubt.Client) {
		_, err := gocronlock.NewElector(client(), gocronlock.ElectorOptions{Name: "}", TTL: -1})
		if !errors.Is(err, redoubt.ErrInvalidName) || !strings.Contains(err.Error(), "ttl") {
			t.Errorf("NewElector with a bad name and a bad TTL: %v", err)
		}
	})
}
