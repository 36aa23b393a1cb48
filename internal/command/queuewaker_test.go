package command_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/engine"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
)

// inABubble runs a test on an embedded server whose time stands still while all wait.
func inABubble(t *testing.T, test func(t *testing.T, env *command.Env)) {
	synctest.Test(t, func(t *testing.T) {
		e, err := engine.Open(t.Context(), engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = e.Close() }()
		client, err := redoubt.New(e, redoubt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		env, err := command.NewEnv(client)
		if err != nil {
			t.Fatal(err)
		}
		test(t, env)
	})
}

// waits begins a QUEUE.TAKE of one message, and returns when it waits. The channel
// gives how long after that the message came.
func waits(t *testing.T, env *command.Env, lease string) <-chan time.Duration {
	t.Helper()
	came := make(chan time.Duration, 1)
	began := time.Now()
	go func() {
		v, err := answer(t.Context(), env, "QUEUE.TAKE", "q", "1", lease, "BLOCK", "0")
		if list, ok := v.([]any); !ok || len(list) != 1 || err != nil {
			t.Errorf("QUEUE.TAKE: %v, %v", v, err)
		}
		came <- time.Since(began)
	}()
	synctest.Wait()
	return came
}

// wantBetween checks when a message came.
func wantBetween(t *testing.T, what string, got, from, to time.Duration) {
	t.Helper()
	if got < from || got > to {
		t.Errorf("%s came after %v, want %v to %v", what, got, from, to)
	}
}

// A client that takes the due messages tells the waiters when the next message is due.
func TestWaitersWakeForEachDueMessage(t *testing.T) {
	inABubble(t, func(t *testing.T, env *command.Env) {
		first, second := waits(t, env, "60000"), waits(t, env, "60000")
		reply(t, env, "QUEUE.PUT", "q", "one", "DELAY", "1000")
		reply(t, env, "QUEUE.PUT", "q", "two", "DELAY", "2000")
		wantBetween(t, "the first", <-first, time.Second, 1100*time.Millisecond)
		wantBetween(t, "the second", <-second, 2*time.Second, 2100*time.Millisecond)
	})
}

// When a client dies with a message, another client gets the message once the lease has ended.
func TestWaitersWakeForAbandonedMessages(t *testing.T) {
	t.Run("by a client that was woken", func(t *testing.T) {
		inABubble(t, func(t *testing.T, env *command.Env) {
			dies, next := waits(t, env, "3000"), waits(t, env, "60000")
			reply(t, env, "QUEUE.PUT", "q", "x", "DELAY", "1000")
			wantBetween(t, "it", <-dies, time.Second, 1100*time.Millisecond)
			wantBetween(t, "it", <-next, 4*time.Second, 4100*time.Millisecond)
		})
	})
	for name, block := range map[string][]string{"by a client that did not have to wait": {"BLOCK", "0"}, "by a client without BLOCK": nil} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, env *command.Env) {
				next := waits(t, env, "60000")
				putUnheard(t, env)
				reply(t, env, append([]string{"QUEUE.TAKE", "q", "1", "3000"}, block...)...)
				wantBetween(t, "it", <-next, 3*time.Second, 3100*time.Millisecond)
			})
		})
	}
	// The waker here does not know that lease. It wakes one waiter each time the shortest lease of its waiters has
	// passed, no matter which waiter it woke before.
	t.Run("elsewhere", func(t *testing.T) {
		inABubble(t, func(t *testing.T, env *command.Env) {
			elsewhere, err := command.NewEnv(env.Client)
			if err != nil {
				t.Fatal(err)
			}
			first, second := waits(t, env, "60000"), waits(t, env, "2000")
			<-time.After(2500 * time.Millisecond)
			putUnheard(t, env)
			reply(t, elsewhere, "QUEUE.TAKE", "q", "1", "2000")
			var after time.Duration
			select {
			case after = <-first:
			case after = <-second:
			}
			wantBetween(t, "it", after, 4500*time.Millisecond, 4600*time.Millisecond)
			reply(t, env, "QUEUE.PUT", "q", "for the other")
			synctest.Wait()
		})
	})
}

// putUnheard puts a message and wakes no client that could take it.
func putUnheard(t *testing.T, env *command.Env) {
	t.Helper()
	reply(t, env, "QUEUE.PAUSE", "q")
	reply(t, env, "QUEUE.PUT", "q", "x")
	synctest.Wait() // the woken client has seen the pause
	keys, err := wire.KeysOf(env.Client, "q")
	if err != nil {
		t.Fatal(err)
	}
	// Unlike QUEUE.RESUME this wakes nobody.
	config := strings.TrimSuffix(keys.Wake(), "wake") + "config"
	if r := env.Client.Do(t.Context(), redoubt.Cmd{Name: "HDEL", Keys: []string{config}, Args: []string{"paused"}}); r.Err != nil || r.Val != int64(1) {
		t.Fatalf("HDEL: %v", r)
	}
}
