package redoubttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
)

// patience bounds every wait for an event that must happen.
const patience = 30 * time.Second

// promptly is how soon after the end of its context a call must have returned, by a
// pulse, which stands still while the machine does. It does within a millisecond or two;
// the rest is for busy machines, and still less than any client's time-out.
const promptly = time.Second

// Run runs the tests that every Conn must pass. open returns a Conn for one
// test; it may be shared or new, and is closed by t.Cleanup if it needs to be.
func Run(t *testing.T, open func(t *testing.T) redoubt.Conn) {
	t.Helper()
	for _, group := range []struct {
		name string
		run  func(*testing.T, func(*testing.T) redoubt.Conn)
	}{
		{"Values", testValues},
		{"Errors", testErrors},
		{"Pipelines", testPipelines},
		{"Scripts", testScripts},
		{"Contexts", testContexts},
		{"Blocking", testBlocking},
		{"Subscribe", testSubscribe},
		{"Concurrency", testConcurrency},
	} {
		t.Run(group.name, func(t *testing.T) { group.run(t, open) })
	}
}

// bounded returns a context that fails a test that hangs.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// keys makes names of keys that no other test uses.
type keys struct{ prefix string }

func newKeys() keys { return keys{fmt.Sprintf("redoubttest-%016x", rand.Uint64())} }

// together returns keys that share a hash slot.
func (k keys) together(part string) string { return "{" + k.prefix + "}" + part }

// apart returns keys of slots of their own.
func (k keys) apart(part any) string { return fmt.Sprintf("{%s-%v}", k.prefix, part) }

// script returns a script that no server knows.
func script(source string) *redoubt.Script {
	return redoubt.NewScript("redoubttest", fmt.Sprintf("-- %016x\n%s", rand.Uint64(), source))
}

// must fails the test when r is an error.
func must(t *testing.T, r redoubt.Reply) any {
	t.Helper()
	if r.Err != nil {
		t.Fatalf("error %v", r.Err)
	}
	return r.Val
}

// counter reads an integer that INCR counts, 0 when there is none.
func counter(t *testing.T, c redoubt.Conn, key string) int64 {
	t.Helper()
	r := c.Do(bounded(t), redoubt.Cmd{Name: "GET", Keys: []string{key}, Flags: redoubt.ReadOnly})
	if must(t, r) == nil {
		return 0
	}
	n, err := r.Int()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// primaries returns a Conn for each back end of c.
func primaries(t *testing.T, c redoubt.Conn) []redoubt.Conn {
	t.Helper()
	topology, ok := c.(redoubt.Topology)
	if !ok {
		return []redoubt.Conn{c}
	}
	conns, err := topology.Primaries(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	return conns
}

// flushScripts makes all servers forget all scripts.
func flushScripts(t *testing.T, c redoubt.Conn) {
	t.Helper()
	for _, p := range primaries(t, c) {
		must(t, p.Do(bounded(t), redoubt.Cmd{Name: "SCRIPT FLUSH", Flags: redoubt.Idempotent}))
	}
}

// eventually waits until ok holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	await.Until(t, patience, what, ok)
}
