package socket_test

import (
	"io"
	"slices"
	"testing"

	"github.com/redoubt-go/redoubt/internal/socket"
)

// TestReadyQueue: a client that has sent bytes is served. A requeued client is served once, behind the clients
// that have sent bytes meanwhile. A removed client is not served.
func TestReadyQueue(t *testing.T) {
	queue, err := socket.NewReadyQueue[string]()
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"a", "b", "c"}
	far := map[string]io.Writer{}
	for i, name := range names {
		near, other := pair(t)
		detached, err := socket.Detach(near.Conn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(detached.Release)
		if err := queue.Add(uint64(i+1), name, detached); err != nil {
			t.Fatal(err)
		}
		far[name] = other
	}
	send := func(name string) {
		t.Helper()
		if _, err := far[name].Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	// served returns the clients that are served until Next reports false.
	served := func() (got []string) {
		t.Helper()
		if err := queue.Wait(); err != nil {
			t.Fatal(err)
		}
		for client, ok := queue.Next(); ok; client, ok = queue.Next() {
			name := client.Client
			if client.Requeued {
				name += " again"
			}
			got = append(got, name)
		}
		return got
	}
	expect := func(want ...string) {
		t.Helper()
		if got := served(); !slices.Equal(got, want) {
			t.Errorf("served %q, want %q", got, want)
		}
	}
	send("a")
	expect("a")
	queue.Requeue(1)
	queue.Requeue(2)
	queue.Requeue(1) // has it already
	send("c")
	expect("c", "a again", "b again")
	if queue.Backlogged() {
		t.Error("a client is requeued, and nobody requeued it")
	}
	queue.Requeue(1)
	queue.Requeue(2)
	queue.Remove(1)
	expect("b again")
	send("b")
	expect("b")

	var all []string
	queue.Each(func(name string) { all = append(all, name) })
	slices.Sort(all)
	if !slices.Equal(all, []string{"b", "c"}) {
		t.Errorf("clients %q", all)
	}
	if err := queue.Close(); err != nil {
		t.Fatal(err)
	}
	if err := queue.Wait(); err == nil {
		t.Error("Wait goes on after Close")
	}
}
