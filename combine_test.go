package redoubt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Two callers go alone. When one of them returns, the others leave together: half
// of all that are queued and under way, so that the lanes stay even.
func TestCombinerMerges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
		if got := g.sizes(); fmt.Sprint(got) != "[1 1 51]" {
			t.Errorf("calls of %v commands, want 1, 1, 51", got)
		} else {
			g.let <- struct{}{} // the other of the two, or the 51
			<-g.arrived
			if got := g.sizes(); fmt.Sprint(got) != "[1 1 51 49]" {
				t.Errorf("calls of %v commands, want 1, 1, 51, 49", got)
			}
		}
		close(g.let)
		wg.Wait()
	})
}

func TestCombinerBoundsABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	})
}

func TestCombinerCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	})
}

// A pipeline has the latest of its callers' deadlines, and none if one has none.
func TestCombinerDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, all := range []bool{true, false} {
			g := newGate()
			c := newTestClient(t, g)
			c.single.max = 1
			var wg sync.WaitGroup
			wg.Go(func() { c.Do(context.Background(), Cmd{Name: "first"}) })
			<-g.arrived
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
	})
}

// A pipeline that hangs, on a broken connection maybe, gives its lane away.
func TestCombinerStuckLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	})
}

// Commands that callers sent alone and that hang keep nobody else.
func TestCombinerStuckCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		c := newTestClient(t, g)
		var wg sync.WaitGroup
		for range 3 * minLanes {
			wg.Go(func() { c.Do(context.Background(), Cmd{Name: "x"}) })
			select {
			case <-g.arrived:
			case <-time.After(10 * time.Second):
				t.Error("a call waits behind calls that hang")
			}
		}
		close(g.let)
		wg.Wait()
	})
}

// Whose ctx has ended takes no tokens.
func TestEndedContextIsNotSent(t *testing.T) {
	g := newGate()
	c := newTestClient(t, g)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Do(ctx, Cmd{Name: "x"}).Err; !errors.Is(err, context.Canceled) || len(g.sizes()) != 0 {
		t.Errorf("error %v, %d calls sent", err, len(g.sizes()))
	}
}

// A stepper answers all but the last command of a pipeline at once.
type stepper struct{ *gate }

func (s stepper) PipelineEach(_ context.Context, cs []Cmd, each func(i int, r Reply)) {
	for i := range cs[1:] {
		each(i, Reply{Val: "early"})
	}
	s.arrived <- struct{}{}
	<-s.let
	each(len(cs)-1, Reply{Val: "late"})
}

// Callers that share a pipeline don't wait for each other's replies.
func TestRepliesAreHandedOutAsTheyCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		c := newTestClient(t, stepper{g})
		c.single.max = 1
		var wg sync.WaitGroup
		wg.Go(func() { c.Do(context.Background(), Cmd{Name: "x"}) })
		<-g.arrived
		early := make(chan Reply, 3)
		for range 3 {
			wg.Go(func() { early <- c.Do(context.Background(), Cmd{Name: "x"}) })
		}
		waitFor(t, "they are queued", func() bool { return c.single.queued() == 3 })
		g.let <- struct{}{} // the lane is free, and takes all three
		for range 2 {
			select {
			case r := <-early:
				if r.Val != any("early") {
					t.Errorf("got %v", r)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("a reply that came is kept back")
			}
		}
		close(g.let)
		wg.Wait()
	})
}

func TestLanesFollowTheRoundTrip(t *testing.T) {
	b := newCombiner(newHealth(new(Client), nil, ""))
	for range 1000 {
		b.observe(40 * time.Microsecond)
	}
	if n := b.width(); n != minLanes {
		t.Errorf("%d lanes on loopback, want %d", n, minLanes)
	}
	for range 1000 {
		b.observe(2 * time.Millisecond)
	}
	if n := b.width(); n != maxLanes {
		t.Errorf("%d lanes at 2 ms, want %d", n, maxLanes)
	}
	b.observe(40 * time.Microsecond)
	if n := b.width(); n != minLanes {
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

// A Client that is used in a bubble of testing/synctest works outside of it too.
func TestCombinerInABubble(t *testing.T) {
	crowd := func() {
		g := newGate()
		c, err := New(g, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if r := c.Do(context.Background(), Cmd{Name: "PING", Keys: []string{"k"}}); r.Err != nil {
					t.Error(r.Err)
				}
			})
		}
		<-g.arrived // some wait in line meanwhile
		close(g.let)
		wg.Wait()
		_ = c.Close()
	}
	for range 20 {
		synctest.Test(t, func(*testing.T) { crowd() })
		crowd()
	}
}
