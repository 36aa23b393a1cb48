package command_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/engine"
	"github.com/redoubt-go/redoubt/internal/engine/native"
	"github.com/redoubt-go/redoubt/internal/test/await"
)

// engineEnv returns an Env on an engine of its own.
func engineEnv(t *testing.T) *command.Env {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{Natives: native.All()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return newEnv(t, e)
}

// TestCounts: each outcome of locks, semaphores and queues is counted once.
func TestCounts(t *testing.T) {
	env := engineEnv(t)
	for _, args := range []string{
		"LOCK.ACQUIRE l 60000 ID a", "LOCK.ACQUIRE l 60000 ID b", "LOCK.ACQUIRE l 60000 ID b BLOCK 1", "LOCK.EXTEND l a 60000",
		"LOCK.EXTEND l b 60000", "LOCK.RELEASE l b", "LOCK.RELEASE l a", "LOCK.ACQUIRE l 60000 ID c BLOCK 60000",
		"SEM.ACQUIRE s 1 60000 ID a", "SEM.ACQUIRE s 1 60000 ID b", "SEM.EXTEND s b 60000", "SEM.RELEASE s a",
		"QUEUE.PUT q one ID one", "QUEUE.PUT q two ID two", "QUEUE.PUT q three ID three",
	} {
		reply(t, env, strings.Fields(args)...)
	}
	if got, want := env.Counts().Locks, (command.LockCounts{Acquired: 2, Refused: 2, Released: 1, Lost: 2}); got != want {
		t.Errorf("locks: %+v; want %+v", got, want)
	}
	if got, want := env.Counts().Semaphores, (command.LockCounts{Acquired: 1, Refused: 1, Released: 1, Lost: 1}); got != want {
		t.Errorf("semaphores: %+v; want %+v", got, want)
	}

	// A waiter that a release wakes.
	holder := reply(t, env, "LOCK.ACQUIRE", "w", "60000", "ID", "a")
	if holder == nil {
		t.Fatal("the lock is not free")
	}
	woken := make(chan any)
	go func() { woken <- reply(t, env, "LOCK.ACQUIRE", "w", "60000", "ID", "b", "BLOCK", "60000") }()
	await.Soon(t, "it waits", func() bool { return strings.Contains(fmt.Sprint(reply(t, env, "LOCK.INFO", "w")), "waiters 1") })
	reply(t, env, "LOCK.RELEASE", "w", "a")
	if <-woken == nil {
		t.Fatal("the waiter got nothing")
	}
	c := env.Counts()
	if n := c.Locks.HandOver.Count(); n != 1 || c.Semaphores.HandOver.Count() != 0 {
		t.Errorf("%d leases were handed over; want 1", n)
	}

	receipt := func(more ...string) string {
		got := reply(t, env, append([]string{"QUEUE.TAKE", "q", "1", "60000"}, more...)...)
		return got.([]any)[0].([]any)[0].(string) //nolint:forcetypeassert // or the test fails
	}
	r := receipt()
	reply(t, env, "QUEUE.ACK", "q", r)
	reply(t, env, "QUEUE.ACK", "q", r) // no longer held
	reply(t, env, "QUEUE.NACK", "q", receipt("BLOCK", "1000"), "DELAY", "0")
	reply(t, env, "QUEUE.NACK", "q", receipt(), "SNOOZE")
	reply(t, env, "QUEUE.NACK", "q", receipt(), "DEAD")
	got := env.Counts().Queues["q"]
	if got.Lateness.Count() == 0 {
		t.Error("no lateness was measured")
	}
	got.Lateness = command.QueueCounts{}.Lateness
	retried := got.Retried
	got.Retried = 0
	if want := (command.QueueCounts{Put: 3, Taken: 4, Acked: 1, Failed: 1, Killed: 1, Returned: 1, Lost: 1}); got != want || retried > 2 {
		t.Errorf("the queue: %+v, %d retried; want %+v", got, retried, want)
	}

	// The number of names is bounded.
	for i := range 2 * command.MaxNames {
		reply(t, env, "QUEUE.PUT", fmt.Sprint("n", i), "x")
	}
	all := env.Counts().Queues
	if others := all[command.OtherNames].Put; len(all) != command.MaxNames+1 || others != command.MaxNames+1 {
		t.Errorf("%d queues, %d messages put to others", len(all), others)
	}
}
