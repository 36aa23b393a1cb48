package socket_test

import (
	"io"
	"slices"
	"testing"

	"github.com/redoubt-go/redoubt/internal/socket"
)

// TestTurns: a client that has sent bytes has a turn. A client that is to have another turn has it once,
// behind the clients that have sent bytes meanwhile. A forgotten client has none.
func TestTurns(t *testing.T) {
	turns, err := socket.NewTurns[string]()
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"a", "b", "c"}
	far := map[string]io.Writer{}
	for i, name := range names {
		near, other := pair(t)
		bare, err := socket.Detach(near.Conn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(bare.Release)
		if err := turns.Add(uint64(i+1), name, bare); err != nil {
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
	// served returns who has turns until nobody has one at present.
	served := func() (got []string) {
		t.Helper()
		if err := turns.Wait(); err != nil {
			t.Fatal(err)
		}
		for turn, ok := turns.Next(); ok; turn, ok = turns.Next() {
			name := turn.Client
			if turn.Again {
				name += " again"
			}
			got = append(got, name)
		}
		return got
	}
	expect := func(want ...string) {
		t.Helper()
		if got := served(); !slices.Equal(got, want) {
			t.Errorf("turns %q, want %q", got, want)
		}
	}
	send("a")
	expect("a")
	turns.Again(1)
	turns.Again(2)
	turns.Again(1) // has it already
	send("c")
	expect("c", "a again", "b again")
	if turns.Behind() {
		t.Error("somebody is behind, whom nobody has given another turn")
	}
	turns.Again(1)
	turns.Again(2)
	turns.Forget(1)
	expect("b again")
	send("b")
	expect("b")

	var all []string
	turns.Each(func(name string) { all = append(all, name) })
	slices.Sort(all)
	if !slices.Equal(all, []string{"b", "c"}) {
		t.Errorf("clients %q", all)
	}
	if err := turns.Close(); err != nil {
		t.Fatal(err)
	}
	if err := turns.Wait(); err == nil {
		t.Error("Wait goes on after Close")
	}
}
