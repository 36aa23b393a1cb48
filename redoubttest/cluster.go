package redoubttest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
)

// RunCluster runs the tests of a Conn to a cluster: it moves hash slots between
// two primaries while commands use them. open returns a Conn, which must be a
// [redoubt.Topology], for one test, to a cluster of at least two primaries that
// the tests may change: they leave some slots with another owner.
func RunCluster(t *testing.T, open func(t *testing.T) redoubt.Conn) {
	t.Helper()
	t.Run("Topology", func(t *testing.T) { testTopology(t, open) })
	t.Run("Moved", func(t *testing.T) { testMoved(t, open) })
	t.Run("Migrating", func(t *testing.T) { testMigrating(t, open) })
	t.Run("TryAgain", func(t *testing.T) { testTryAgain(t, open) })
	t.Run("MovedSubscription", func(t *testing.T) { testMovedSubscription(t, open) })
}

// A primary is one node of a cluster with slots.
type primary struct {
	conn       redoubt.Conn
	id         string
	host, port string
}

func (p *primary) do(t *testing.T, name string, args ...string) any {
	t.Helper()
	return must(t, p.conn.Do(bounded(t), redoubt.Cmd{Name: name, Args: args}))
}

// A move takes one slot from its owner to another primary, step by step.
type move struct {
	key      string // a key of the slot
	slot     string
	from, to *primary
	all      []*primary
}

// newMove chooses a slot at random.
func newMove(t *testing.T, c redoubt.Conn) *move {
	t.Helper()
	m := &move{key: fmt.Sprintf("{redoubttest-%016x}", rand.Uint64())}
	for _, conn := range primaries(t, c) {
		p := &primary{conn: conn}
		// id host:port@bus,hostname flags …
		for line := range strings.Lines(p.do(t, "CLUSTER NODES").(string)) {
			f := strings.Fields(line)
			if len(f) > 2 && strings.Contains(f[2], "myself") {
				p.id = f[0]
				addr, _, _ := strings.Cut(f[1], "@")
				p.host, p.port, _ = strings.Cut(addr, ":")
			}
		}
		m.all = append(m.all, p)
		r := conn.Do(bounded(t), redoubt.Cmd{Name: "EXISTS", Keys: []string{m.key}})
		switch {
		case r.Err == nil:
			m.from = p
		case redoubt.IsCode(r.Err, "MOVED"):
			m.to = p
		default:
			t.Fatal(r.Err)
		}
	}
	if m.from == nil || m.to == nil {
		t.Fatalf("need two primaries that own slots, have %d", len(m.all))
	}
	m.slot = fmt.Sprint(m.from.do(t, "CLUSTER KEYSLOT", m.key))
	return m
}

// begin opens the slot for migration.
func (m *move) begin(t *testing.T) {
	t.Helper()
	m.to.do(t, "CLUSTER SETSLOT", m.slot, "IMPORTING", m.from.id)
	m.from.do(t, "CLUSTER SETSLOT", m.slot, "MIGRATING", m.to.id)
}

// take moves keys.
func (m *move) take(t *testing.T, keys ...string) {
	t.Helper()
	m.from.do(t, "MIGRATE", append([]string{m.to.host, m.to.port, "", "0", "5000", "KEYS"}, keys...)...)
}

// end closes the migration: to owns the slot.
func (m *move) end(t *testing.T) {
	t.Helper()
	for _, p := range append([]*primary{m.to, m.from}, m.all...) {
		p.do(t, "CLUSTER SETSLOT", m.slot, "NODE", m.to.id)
	}
}

func (m *move) whole(t *testing.T, keys ...string) {
	t.Helper()
	m.begin(t)
	if len(keys) > 0 {
		m.take(t, keys...)
	}
	m.end(t)
}

func testTopology(t *testing.T, open func(*testing.T) redoubt.Conn) {
	c := open(t)
	topology, ok := c.(redoubt.Topology)
	if !ok {
		t.Fatal("the Conn is no Topology")
	}
	eventually(t, "the owners of keys are known", func() bool { return topology.Node("") != "" })
	nodes := make(map[string]bool)
	for i := range 100 {
		nodes[topology.Node(strconv.Itoa(i))] = true
	}
	if n := len(primaries(t, c)); n != len(nodes) || nodes[""] {
		t.Errorf("%d primaries, and keys on nodes %v", n, nodes)
	}
	if a, b := topology.Node("{tag}a"), topology.Node("b{tag}"); a != b {
		t.Errorf("keys of one tag are on %s and %s", a, b)
	}
	m := newMove(t, c)
	if got, want := topology.Node(m.key), m.from.host+":"+m.from.port; got != want {
		t.Errorf("Node is %s, want %s", got, want)
	}
	m.whole(t)
	must(t, c.Do(bounded(t), redoubt.Cmd{Name: "GET", Keys: []string{m.key}})) // meets MOVED
	eventually(t, "Node names the new owner", func() bool {
		return topology.Node(m.key) == m.to.host+":"+m.to.port
	})
}

// counts runs INCR in every way on one key and checks that each ran once.
func counts(t *testing.T, c redoubt.Conn, key, other string) {
	t.Helper()
	s := script("return redis.call('INCR', KEYS[1])")
	before := counter(t, c, key)
	incr := redoubt.Cmd{Name: "INCR", Keys: []string{key}}
	run := redoubt.Cmd{Script: s, Keys: []string{key}}
	elsewhere := redoubt.Cmd{Name: "INCR", Keys: []string{other}}
	var got []any
	got = append(got, must(t, c.Do(bounded(t), incr)), must(t, c.Do(bounded(t), run)))
	for i, r := range c.Pipeline(bounded(t), []redoubt.Cmd{incr, elsewhere, run, elsewhere, incr}) {
		v := must(t, r)
		if i%2 == 0 {
			got = append(got, v)
		}
	}
	seen := make(map[any]bool)
	for _, v := range got {
		seen[v] = true
	}
	for i := range int64(5) {
		if !seen[before+i+1] {
			t.Errorf("counted %v from %d: a command was lost or ran twice", got, before)
			break
		}
	}
	if after := counter(t, c, key); after != before+5 {
		t.Errorf("counted to %d, want %d", after, before+5)
	}
}

func testMoved(t *testing.T, open func(*testing.T) redoubt.Conn) {
	c := open(t)
	m, k := newMove(t, c), newKeys()
	counts(t, c, m.key, k.apart(1))
	m.whole(t, m.key)
	counts(t, c, m.key, k.apart(1)) // what the client knows is wrong now
	counts(t, c, m.key, k.apart(1))
}

func testMigrating(t *testing.T, open func(*testing.T) redoubt.Conn) {
	c := open(t)
	m, k := newMove(t, c), newKeys()
	counts(t, c, m.key, k.apart(1))
	m.begin(t)
	counts(t, c, m.key, k.apart(1)) // still at its old place
	m.take(t, m.key)
	counts(t, c, m.key, k.apart(1)) // ASK
	counts(t, c, m.key+"new", k.apart(1))
	m.end(t)
	counts(t, c, m.key, k.apart(1)) // MOVED
	counts(t, c, m.key+"new", k.apart(1))
}

// testTryAgain runs a script on two keys after one of them has moved.
func testTryAgain(t *testing.T, open func(*testing.T) redoubt.Conn) {
	c := open(t)
	m := newMove(t, c)
	a, b := m.key+"a", m.key+"b"
	both := redoubt.Cmd{
		Script: script("return redis.call('INCR', KEYS[1]) + redis.call('INCR', KEYS[2])"),
		Keys:   []string{a, b},
	}
	if got := must(t, c.Do(bounded(t), both)); got != any(int64(2)) {
		t.Fatalf("got %#v, want 2", got)
	}
	m.begin(t)
	m.take(t, a)
	got := make(chan redoubt.Reply, 2)
	ctx := bounded(t)
	go func() { got <- c.Do(ctx, both) }()
	go func() { got <- c.Pipeline(ctx, []redoubt.Cmd{both, both})[1] }()
	select {
	case r := <-got:
		t.Fatalf("got %#v while the keys were apart", r)
	case <-time.After(100 * time.Millisecond):
	}
	m.take(t, b)
	m.end(t)
	for range 2 {
		must(t, <-got)
	}
	if got := must(t, c.Do(bounded(t), both)); got != any(int64(10)) {
		t.Errorf("got %#v, want 10", got)
	}
}

// testMovedSubscription holds that a sharded subscription follows its slot.
func testMovedSubscription(t *testing.T, open func(*testing.T) redoubt.Conn) {
	c := open(t)
	m, k := newMove(t, c), newKeys()
	events, _ := listen(t, c, m.key, true)
	other, _ := listen(t, c, k.apart("other"), true)
	publish(t, c, m.key, true, "before")
	if e := next(t, events); e.payload != "before" {
		t.Errorf("got %+v", e)
	}
	m.whole(t)
	for !next(t, events).lost {
	}
	publish(t, c, m.key, true, "after")
	e := next(t, events)
	for e.lost { // once more, so that it may have been published in between
		publish(t, c, m.key, true, "after")
		e = next(t, events)
	}
	if e.payload != "after" {
		t.Errorf("got %+v", e)
	}
	publish(t, c, k.apart("other"), true, "still here")
	e = next(t, other)
	for e.lost { // it shared the connection that has ended: once more
		publish(t, c, k.apart("other"), true, "still here")
		e = next(t, other)
	}
	if e.payload != "still here" {
		t.Errorf("the other channel got %+v", e)
	}
}
