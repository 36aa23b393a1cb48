package redoubt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// gate is a Conn whose calls wait until the test lets them go.
type gate struct {
	mu        sync.Mutex
	calls     [][]Cmd // what Do and Pipeline got, in order
	arrived   chan struct{}
	let       chan struct{} // one value lets one call go; closed lets all
	deadlines []time.Time
}

func newGate() *gate {
	return &gate{arrived: make(chan struct{}, 10_000), let: make(chan struct{}, 10_000)}
}

func (g *gate) Do(ctx context.Context, c Cmd) Reply { return g.Pipeline(ctx, []Cmd{c})[0] }

func (g *gate) Pipeline(ctx context.Context, cs []Cmd) []Reply {
	d, _ := ctx.Deadline()
	g.mu.Lock()
	g.calls = append(g.calls, cs)
	g.deadlines = append(g.deadlines, d)
	g.mu.Unlock()
	g.arrived <- struct{}{}
	replies := make([]Reply, len(cs))
	select {
	case <-g.let:
		for i, c := range cs {
			replies[i].Val = c.Name
		}
	case <-ctx.Done():
		for i := range replies {
			replies[i].Err = ctx.Err()
		}
	}
	return replies
}

func (g *gate) sizes() (sizes []int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.calls {
		sizes = append(sizes, len(c))
	}
	return sizes
}

func newTestClient(t *testing.T, conn Conn) *Client {
	t.Helper()
	c, err := New(conn, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.single.max = minLanes // calls that the test holds up are no slow link
	return c
}

func (b *combiner) queued() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue)
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) { // the pace of a poll
		if time.Now().After(end) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

// Two callers go alone; the others leave together when one of them returns.
func TestCombinerMerges(t *testing.T) {
	g := newGate()
	c := newTestClient(t, g)
	var wg sync.WaitGroup
	for i := range minLanes + 100 {
		wg.Go(func() {
			name := fmt.Sprint("cmd", i)
			if got, err := c.Do(t.Context(), Cmd{Name: name}).Text(); got != name || err != nil {
				t.Errorf("%s got the reply %q (%v)", name, got, err)
			}
		})
		if i < minLanes {
			<-g.arrived
		}
	}
	waitFor(t, "100 calls are queued", func() bool { return c.single.queued() == 100 })
	g.let <- struct{}{}
	<-g.arrived
	if got := g.sizes(); fmt.Sprint(got) != "[1 1 100]" {
		t.Errorf("calls of %v commands, want 1, 1, 100", got)
	}
	close(g.let)
	wg.Wait()
}

func TestCombinerBoundsABatch(t *testing.T) {
	g := newGate()
	c := newTestClient(t, g)
	var wg sync.WaitGroup
	for i := range minLanes + maxBatch + 1 {
		wg.Go(func() { c.Do(t.Context(), Cmd{Name: "x"}) })
		if i < minLanes {
			<-g.arrived
		}
	}
	waitFor(t, "the others are queued", func() bool { return c.single.queued() == maxBatch+1 })
	close(g.let)
	wg.Wait()
	for _, n := range g.sizes() {
		if n > maxBatch {
			t.Errorf("a pipeline of %d commands", n)
		}
	}
}

func TestCombinerCallerLeaves(t *testing.T) {
	g := newGate()
	c := newTestClient(t, g)
	var wg sync.WaitGroup
	for range minLanes {
		wg.Go(func() { c.Do(context.Background(), Cmd{Name: "first"}) })
		<-g.arrived
	}
	// One that is still queued was never sent.
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan Reply, 1)
	go func() { left <- c.Do(ctx, Cmd{Name: "queued"}) }()
	waitFor(t, "it is queued", func() bool { return c.single.queued() == 1 })
	cancel()
	if err := (<-left).Err; !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("a call that was never sent gave %v", err)
	}

	// Ones in flight are of unknown outcome, unless they only read.
	ctx, cancel = context.WithCancel(t.Context())
	writes, reads := make(chan Reply, 1), make(chan Reply, 1)
	go func() { writes <- c.Do(ctx, Cmd{Name: "write"}) }()
	go func() { reads <- c.Do(ctx, Cmd{Name: "read", Flags: ReadOnly}) }()
	waitFor(t, "both are queued", func() bool { return c.single.queued() == 2 })
	g.let <- struct{}{}
	<-g.arrived
	cancel()
	if err := (<-writes).Err; !errors.Is(err, context.Canceled) || !errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("a write in flight gave %v", err)
	}
	if err := (<-reads).Err; !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("a read in flight gave %v", err)
	}
	for _, call := range g.calls {
		for _, cmd := range call {
			if cmd.Name == "queued" {
				t.Error("the call that left the queue was sent")
			}
		}
	}
	close(g.let)
	wg.Wait()
}

// A pipeline has the latest of its callers' deadlines, and none if one has none.
func TestCombinerDeadline(t *testing.T) {
	for _, all := range []bool{true, false} {
		g := newGate()
		c := newTestClient(t, g)
		var wg sync.WaitGroup
		for range minLanes {
			wg.Go(func() { c.Do(context.Background(), Cmd{Name: "first"}) })
			<-g.arrived
		}
		latest := time.Now().Add(time.Hour)
		for _, d := range []time.Time{latest.Add(-time.Minute), latest} {
			ctx, cancel := context.WithDeadline(t.Context(), d)
			defer cancel()
			wg.Go(func() { c.Do(ctx, Cmd{Name: "x"}) })
		}
		want, n := latest, 2
		if !all {
			want, n = time.Time{}, 3
			wg.Go(func() { c.Do(context.Background(), Cmd{Name: "x"}) })
		}
		waitFor(t, "they are queued", func() bool { return c.single.queued() == n })
		close(g.let)
		wg.Wait()
		if got := g.deadlines[len(g.deadlines)-1]; !got.Equal(want) {
			t.Errorf("the pipeline's deadline is %v, want %v", got, want)
		}
	}
}

// A pipeline that hangs, on a broken connection maybe, gives its lane away.
func TestCombinerStuckLane(t *testing.T) {
	g := newGate()
	c := newTestClient(t, g)
	var wg sync.WaitGroup
	start := func(n int) {
		for range n {
			wg.Go(func() { c.Do(context.Background(), Cmd{Name: "x"}) })
		}
	}
	for range minLanes {
		start(1)
		<-g.arrived
	}
	for i := range minLanes { // both lanes now carry pipelines, which hang
		start(1)
		waitFor(t, "it is queued", func() bool { return c.single.queued() == 1 })
		g.let <- struct{}{}
		<-g.arrived
		if got := len(g.sizes()); got != minLanes+i+1 {
			t.Fatalf("%d calls, want %d", got, minLanes+i+1)
		}
	}
	start(1)
	select {
	case <-g.arrived:
	case <-time.After(10 * time.Second):
		t.Error("a call waits behind pipelines that hang")
	}
	close(g.let)
	wg.Wait()
	waitFor(t, "no lane is in use", func() bool {
		c.single.mu.Lock()
		defer c.single.mu.Unlock()
		return c.single.busy == 0
	})
}

func TestLanesFollowTheRoundTrip(t *testing.T) {
	b := newCombiner(nil)
	for range 1000 {
		b.observe(40 * time.Microsecond)
	}
	if n := b.lanes(); n != minLanes {
		t.Errorf("%d lanes on loopback, want %d", n, minLanes)
	}
	for range 1000 {
		b.observe(2 * time.Millisecond)
	}
	if n := b.lanes(); n != maxLanes {
		t.Errorf("%d lanes at 2 ms, want %d", n, maxLanes)
	}
	b.observe(40 * time.Microsecond)
	if n := b.lanes(); n != minLanes {
		t.Errorf("%d lanes after one fast call, want %d", n, minLanes)
	}
}

func TestBlockingNeverShares(t *testing.T) {
	g := newGate()
	c := newTestClient(t, g)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { c.Do(t.Context(), Cmd{Name: "BLPOP", Flags: Blocking}) })
	}
	for range 10 {
		<-g.arrived
	}
	close(g.let)
	wg.Wait()
}

func TestKey(t *testing.T) {
	c, err := New(newGate(), Options{Prefix: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	if k, err := c.Key("orders:42", "lock"); k != "shop:{orders:42}:lock" || err != nil {
		t.Errorf("Key gave %q, %v", k, err)
	}
	for _, bad := range []string{"", "}", "}x", strings.Repeat("x", MaxName+1)} {
		if k, err := c.Key(bad, "lock"); !errors.Is(err, ErrInvalidName) || k != "" {
			t.Errorf("Key(%.10q) gave %q, %v", bad, k, err)
		}
	}
	for _, good := range []string{"x", "a}b", "{", "\x00", strings.Repeat("x", MaxName)} {
		if _, err := c.Key(good, "lock"); err != nil {
			t.Errorf("Key(%.10q): %v", good, err)
		}
	}
}

func TestNewRejects(t *testing.T) {
	_, err := New(nil, Options{Prefix: "a{b"})
	for _, want := range []string{"conn is nil", "brace"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New gave %v, want one about %q too", err, want)
		}
	}
}

func TestClose(t *testing.T) {
	g := newGate()
	close(g.let)
	c := newTestClient(t, g)
	for range 2 {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := c.Do(t.Context(), Cmd{Name: "PING"}).Err; !errors.Is(err, ErrClosed) {
		t.Errorf("Do on a closed client: %v", err)
	}
	for _, r := range c.Pipeline(t.Context(), make([]Cmd, 2)) {
		if !errors.Is(r.Err, ErrClosed) {
			t.Errorf("Pipeline on a closed client: %v", r.Err)
		}
	}
	if _, err := c.Waiter(t.Context(), "n", "k"); !errors.Is(err, ErrClosed) {
		t.Errorf("Waiter on a closed client: %v", err)
	}
}

func TestReply(t *testing.T) {
	var three [3]int64
	if err := (Reply{Val: []any{int64(1), "22", int64(-3)}}).Ints(three[:]); err != nil || three != [3]int64{1, 22, -3} {
		t.Errorf("Ints gave %v, %v", three, err)
	}
	for _, bad := range []Reply{
		{Val: []any{int64(1), int64(2)}},
		{Val: []any{int64(1), int64(2), nil}},
		{Val: "1 2 3"},
		{},
		{Err: ServerError("ERR no")},
	} {
		if err := bad.Ints(three[:]); err == nil {
			t.Errorf("Ints of %+v gave no error", bad)
		}
	}
	if !(Reply{}).IsNil() || (Reply{Err: ErrClosed}).IsNil() || (Reply{Val: ""}).IsNil() {
		t.Error("IsNil")
	}
	if s, err := (Reply{Val: int64(5)}).Text(); s != "5" || err != nil {
		t.Errorf("Text gave %q, %v", s, err)
	}
	if _, err := (Reply{}).Text(); err == nil {
		t.Error("Text of null gave no error")
	}
	err := fmt.Errorf("wrapped: %w", ServerError("WRONGTYPE Operation against a key"))
	if !IsCode(err, "WRONGTYPE") || IsCode(err, "ERR") {
		t.Error("IsCode")
	}
}

// published is a gate whose subscriptions the test speaks through.
type published struct {
	*gate
	mu   sync.Mutex
	subs map[string]func(string, bool)
	fail error
}

func (p *published) Subscribe(_ context.Context, channel string, _ bool, on func(string, bool)) (func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail != nil {
		return nil, p.fail
	}
	if p.subs[channel] != nil {
		return nil, errors.New("subscribed twice")
	}
	p.subs[channel] = on
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.subs, channel)
	}, nil
}

func (p *published) send(payload string, lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, on := range p.subs {
		on(payload, lost)
	}
}

func woken(w *Waiter) bool {
	select {
	case <-w.C:
		return true
	default:
		return false
	}
}

func TestWaiter(t *testing.T) {
	p := &published{gate: newGate(), subs: make(map[string]func(string, bool))}
	c := newTestClient(t, p)

	p.fail = errors.New("no connection")
	if _, err := c.Waiter(t.Context(), "n", "k"); !errors.Is(err, p.fail) {
		t.Errorf("Waiter with no connection: %v", err)
	}
	p.fail = nil
	first, err := c.Waiter(t.Context(), "n", "k")
	if err != nil {
		t.Fatal(err)
	}
	second, _ := c.Waiter(t.Context(), "n", "k")
	other, _ := c.Waiter(t.Context(), "m", "other")
	if len(p.subs) != 1 || first.Channel != other.Channel || first.Verb != "PUBLISH" {
		t.Errorf("%d subscriptions, channels %q and %q", len(p.subs), first.Channel, other.Channel)
	}

	p.send("k", false)
	if woken(second) || !woken(first) || woken(other) {
		t.Error("one message must wake the oldest waiter of its key, and only that")
	}
	p.send("k", false)
	p.send("k", false)
	if !woken(first) || !woken(second) {
		t.Error("the second message before the first was received is for the second waiter")
	}
	p.send("", true)
	if !woken(first) || !woken(second) || !woken(other) {
		t.Error("after a lost connection everybody must look")
	}
	p.send("k", false)
	first.Close()
	if !woken(second) {
		t.Error("a wake-up that a closed waiter did not receive is for the next")
	}
	second.Close()
	other.Close()
	if len(p.subs) != 1 {
		t.Error("the inbox closed with its last waiter")
	}
	if err := c.Close(); err != nil || len(p.subs) != 0 {
		t.Errorf("after Close (%v) there are %d subscriptions", err, len(p.subs))
	}
}

func TestServerMajor(t *testing.T) {
	for info, want := range map[string]int{
		"# Server\r\nredis_version:7.0.15\r\nredis_mode:cluster\r\n": 7,
		"redis_version:6.2.6\r\n":                                    6, "redis_version:x": 0, "": 0,
	} {
		if got := serverMajor(info); got != want {
			t.Errorf("serverMajor(%q) = %d, want %d", info, got, want)
		}
	}
}
