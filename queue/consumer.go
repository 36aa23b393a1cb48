package queue

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/randid"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
)

// A consumer is one call of Run. One goroutine pumps: each call to the server settles
// all messages that have finished meanwhile and fills the free places, so that under
// load many messages share a round trip and none waits for others. It pumps when a
// handler has finished, when the waiter is woken, and at the time that the last reply
// named. A second goroutine waits for the wake-up marker (wait.go), a third extends
// leases (keep.go).
type consumer struct {
	client  *redoubt.Client
	opts    *Options
	name    string
	keys    wire.Keys
	id      string // 8 bytes; the name of a take is it and a number
	grace   time.Duration
	timeout time.Duration
	batch   int // how many messages one call of work gets
	work    func(ctx context.Context, jobs []*Job) []error

	finished chan struct{} // a handler has returned
	woken    chan struct{}
	arm      chan struct{}
	waiting  atomic.Bool
	handling sync.WaitGroup // goroutines of handlers

	mu   sync.Mutex // guards the rest
	free int        // how many calls of work may begin
	busy int        // calls of work that have not returned
	held map[string]*holding
	done []settled
	ends time.Time // when the grace period ends; zero until the consumer stops
}

// A holding is a message that a handler has.
type holding struct {
	end     context.CancelCauseFunc
	proven  time.Time // when the call was sent that last confirmed the lease
	lost    bool      // the server said that the lease is lost
	overdue bool      // the lease was nearly over, by this process's clock
}

// A settled message is one whose handler has returned.
type settled struct {
	job  *Job
	nack *wire.Nack // nil when it is done
}

func newConsumer(client *redoubt.Client, opts *Options, name string, grace, timeout time.Duration) (*consumer, error) {
	keys, err := wire.KeysOf(client, name)
	if err != nil {
		return nil, err
	}
	if grace == 0 {
		grace = DefaultGrace
	}
	if grace == NoGrace {
		grace = 0
	}
	if err := errors.Join(wire.CheckTime("grace", grace, 0), wire.CheckTime("timeout", timeout, 0)); err != nil {
		return nil, err
	}
	return &consumer{
		client: client, opts: opts, name: name, keys: keys, id: randid.Base64(6),
		grace: grace, timeout: timeout,
		finished: make(chan struct{}, 1), woken: make(chan struct{}, 1), arm: make(chan struct{}, 1),
		held: make(map[string]*holding),
	}, nil
}

// take returns the name of the n-th take.
func (c *consumer) take(n uint64) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n<<16)
	return c.id + base64.RawURLEncoding.EncodeToString(b[:6])
}

// settleTimeout is how long a stopping consumer tries to settle its last messages.
const settleTimeout = 10 * time.Second

func (c *consumer) run(ctx context.Context) error {
	helpers, stopHelpers := context.WithCancel(context.WithoutCancel(ctx))
	var helping sync.WaitGroup
	defer helping.Wait()
	defer stopHelpers()
	handlers, endHandlers := context.WithCancelCause(context.WithoutCancel(ctx))
	defer c.handling.Wait()
	defer endHandlers(ErrShutdown)
	taking, stopTaking := context.WithCancel(helpers)
	defer context.AfterFunc(ctx, stopTaking)()
	helping.Go(func() { c.wait(taking) })
	helping.Go(func() { c.keep(helpers) })
	helping.Go(func() { c.checkEviction(taking) })
	helping.Go(func() { c.endInTime(ctx, helpers, endHandlers) })

	timer := time.NewTimer(0)
	defer timer.Stop()
	stop, pauses := ctx.Done(), pauses{}
	for takes := uint64(1); ; takes++ {
		select {
		case <-timer.C:
		case <-c.finished:
		case <-c.woken:
		case <-stop:
		}
		stopping := ctx.Err() != nil
		if stopping {
			stop = nil
		}
		p := c.collect(stopping)
		p.Take = c.take(takes)
		for {
			next, err := c.pump(ctx, handlers, p)
			if err == nil {
				pauses.n = 0
				timer.Reset(next)
				break
			}
			c.serverError(ctx, err)
			_, refused := errors.AsType[redoubt.ServerError](err)
			// A server that loads its data refuses too, until the call's time is over.
			refused = refused && !errors.Is(err, context.DeadlineExceeded)
			if errors.Is(err, redoubt.ErrClosed) || refused && takes == 1 && p.tries == 1 {
				return err
			}
			if c.givesUp(p) {
				return fmt.Errorf("queue: the last messages are not settled and will be handled again: %w", err)
			}
			pauses.sleep(nil)
		}
		if p.N == wire.Leave {
			return nil
		}
		if stopping && c.idle() {
			c.kick() // pump once more, to leave
		}
	}
}

// endInTime ends the contexts of handlers when the grace period is over, which begins
// when ctx ends. It does not depend on the pump, which may hang.
func (c *consumer) endInTime(ctx, helpers context.Context, endHandlers context.CancelCauseFunc) {
	select {
	case <-ctx.Done():
	case <-helpers.Done():
		return
	}
	c.mu.Lock()
	c.ends = time.Now().Add(c.grace)
	c.mu.Unlock()
	grace := time.NewTimer(c.grace)
	defer grace.Stop()
	select {
	case <-grace.C:
		endHandlers(ErrShutdown)
	case <-helpers.Done():
	}
}

// givesUp reports whether a stopping consumer has tried a pump for long enough, counted
// from the end of the grace period or from the first try, whichever is later.
func (c *consumer) givesUp(p *collected) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ends.IsZero() {
		return false
	}
	from := c.ends
	if p.first.After(from) {
		from = p.first
	}
	return time.Since(from) >= settleTimeout
}

// A collected pump remembers the jobs of its receipts.
type collected struct {
	wire.Pump
	jobs   []*Job    // in the order of the receipts
	tries  int       // failed tries; after one the server may have run the pump
	first  time.Time // when it was sent first
	proven time.Time // when the call was sent that took its messages
}

// settleBytes bounds the bytes of messages that one call settles, because the server
// reads or frees all of them. A single message may have more.
const settleBytes = 2 << 20

// fit returns how many finished messages one call may settle. The caller holds mu.
func (c *consumer) fit() int {
	bytes := 0
	for i, s := range c.done {
		bytes += wire.SizeOf(s.job.Payload, s.job.Group, s.job.Headers, s.job.After)
		if i == wire.MaxSettle || i > 0 && bytes > settleBytes {
			return i
		}
	}
	return len(c.done)
}

// collect takes as many finished messages as one call may settle.
func (c *consumer) collect(stopping bool) *collected {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &collected{Pump: wire.Pump{Consumer: c.id, Lease: c.opts.Lease, N: min(c.free*c.batch, wire.MaxSettle)}}
	n := c.fit()
	var kept, failed []*Job
	for _, s := range c.done[:n] {
		switch {
		case s.nack != nil:
			p.Nacks = append(p.Nacks, *s.nack)
			failed = append(failed, s.job)
		case c.opts.Keep > 0:
			p.Results = append(p.Results, wire.Result{Receipt: s.job.receipt, Value: string(s.job.result), Keep: c.opts.Keep})
			kept = append(kept, s.job)
		default:
			p.Acks = append(p.Acks, s.job.receipt)
			p.jobs = append(p.jobs, s.job)
		}
	}
	p.jobs = append(append(p.jobs, kept...), failed...)
	rest := copy(c.done, c.done[n:])
	clear(c.done[rest:])
	c.done = c.done[:rest]
	if stopping {
		if p.N = 0; c.busy == 0 && rest == 0 {
			p.N = wire.Leave
		}
	}
	if rest > 0 {
		c.kick()
	}
	return p
}

func (c *consumer) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.busy == 0
}

func (c *consumer) kick() {
	select {
	case c.finished <- struct{}{}:
	default:
	}
}

// pump makes one call and starts handlers for the messages that it takes; if ctx has
// ended it hands them back. It returns the time until the next pump is needed.
func (c *consumer) pump(ctx, handlers context.Context, p *collected) (next time.Duration, err error) {
	got, err := c.exchange(ctx, p)
	if err != nil {
		return 0, err
	}
	stopping := ctx.Err() != nil
	if stopping {
		c.handBack(got.Taken)
	} else {
		c.start(handlers, &got, p.proven)
	}
	c.mu.Lock()
	free := c.free
	c.mu.Unlock()
	if free > 0 && !stopping && !c.waiting.Swap(true) {
		c.arm <- struct{}{}
	}
	if got.Next < 0 {
		return MaxTime, nil
	}
	return got.Next, nil
}

const (
	// pumpTimeout bounds one call, which is then repeated.
	pumpTimeout = 10 * time.Second
	// lastTimeout bounds the rest of a call once the consumer stops.
	lastTimeout = settleTimeout / 4
)

// exchange makes one call, which may go on for a short time after ctx has ended. The
// first try is short, to leave time for others within the lease of the messages that it
// may have taken; each further try lasts longer, for a slow server.
func (c *consumer) exchange(ctx context.Context, p *collected) (wire.Pumped, error) {
	sent := time.Now()
	if p.first.IsZero() {
		p.first = sent
	}
	stopped := ctx
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(pumpTimeout, c.opts.Lease/3<<min(p.tries, 10)))
	defer cancel()
	defer context.AfterFunc(stopped, func() { time.AfterFunc(lastTimeout, cancel) })()
	got, err := wire.ReadPump(c.client.Do(ctx, wire.PumpCmd(c.keys, p.Pump)))
	if err != nil {
		p.tries++
		return got, err
	}
	if p.proven = sent; got.Again {
		p.proven = p.first // a repeated take does not renew the lease
	}
	if p.tries == 0 { // after a failed try a refusal may only mean that the try had settled it
		for _, i := range got.Refused {
			c.opts.OnEvent(ctx, Event{Kind: Lost, Queue: c.name, Job: p.jobs[i], Err: ErrLeaseLost})
		}
	}
	c.killUnreadable(ctx, &got)
	return got, nil
}

// killUnreadable makes unreadable messages dead.
func (c *consumer) killUnreadable(ctx context.Context, got *wire.Pumped) {
	if len(got.Unreadable) == 0 {
		return
	}
	for i, f := range got.KillUnreadable() {
		job := c.newJob(got.Now, &got.Unreadable[i])
		c.mu.Lock()
		c.done = append(c.done, settled{job, &f})
		c.mu.Unlock()
		c.opts.OnEvent(ctx, Event{Kind: Died, Queue: c.name, Job: job, Err: wire.ErrEnvelope})
	}
	c.kick()
}

// handBack returns messages that were taken while the consumer stopped.
func (c *consumer) handBack(taken []wire.Taken) {
	if len(taken) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range taken {
		t := &taken[i]
		c.done = append(c.done, settled{c.newJob(time.Time{}, t), &wire.Nack{Receipt: t.Receipt, Kind: wire.HandBack}})
	}
	c.kick()
}

// start calls the handler for the taken messages.
func (c *consumer) start(ctx context.Context, got *wire.Pumped, sent time.Time) {
	for taken := got.Taken; len(taken) > 0; {
		n := min(c.batch, len(taken))
		jobs := make([]*Job, n)
		for i := range jobs {
			jobs[i] = c.newJob(got.Now, &taken[i])
		}
		taken = taken[n:]
		handler, end := c.hold(ctx, jobs, sent)
		c.handling.Go(func() { c.call(handler, end, jobs) })
	}
}

// hold registers the messages of a handler and returns its context.
func (c *consumer) hold(ctx context.Context, jobs []*Job, sent time.Time) (context.Context, context.CancelCauseFunc) {
	ctx, end := context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free--
	c.busy++
	for _, job := range jobs {
		c.held[job.receipt] = &holding{end: end, proven: sent}
	}
	return ctx, end
}

// call runs the handler.
func (c *consumer) call(ctx context.Context, end context.CancelCauseFunc, jobs []*Job) {
	for _, job := range jobs {
		c.opts.OnEvent(ctx, Event{Kind: Started, Queue: c.name, Job: job})
	}
	// Deferred, because the handler may end its goroutine; errGoexit is its result then.
	errs, began := slices.Repeat([]error{errGoexit}, len(jobs)), time.Now()
	defer func() { c.settle(ctx, end, jobs, errs, time.Since(began)) }()
	errs = c.limited(ctx, jobs)
}

var errGoexit = errors.New("queue: the handler called runtime.Goexit")

// settle records the outcome of messages whose handler has returned.
func (c *consumer) settle(ctx context.Context, end context.CancelCauseFunc, jobs []*Job, errs []error, took time.Duration) {
	cause := context.Cause(ctx)
	end(nil)

	ends := make([]settled, len(jobs))
	events := make([]Event, len(jobs))
	for i, job := range jobs {
		ends[i].job = job
		events[i] = Event{Kind: Completed, Queue: c.name, Job: job, Err: errs[i], Took: took}
		if errs[i] != nil {
			f, kind, err := safeOutcome(job, errs[i], c.goesBack(cause, job), c.opts.Backoff)
			ends[i].nack, events[i].Kind, events[i].Delay, events[i].Err = &f, kind, f.Delay, err
		}
	}
	c.mu.Lock()
	for i, job := range jobs {
		if c.held[job.receipt].lost {
			events[i].Kind, events[i].Delay = Lost, 0
		} else {
			c.done = append(c.done, ends[i])
		}
		delete(c.held, job.receipt)
	}
	c.free++
	c.busy--
	c.mu.Unlock()
	c.kick()
	for _, e := range events {
		c.opts.OnEvent(ctx, e)
	}
}

// goesBack reports whether a failed message is handed back without counting a failure,
// given the cause of its handler's context: the consumer stops, or another message of
// the batch was lost.
func (c *consumer) goesBack(cause error, job *Job) bool {
	if !errors.Is(cause, ErrLeaseLost) {
		return errors.Is(cause, ErrShutdown)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.held[job.receipt]
	return !h.lost && !h.overdue
}

func (c *consumer) limited(ctx context.Context, jobs []*Job) []error {
	if c.timeout == 0 {
		return c.work(ctx, jobs)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return c.work(ctx, jobs)
}

func (c *consumer) serverError(ctx context.Context, err error) {
	c.opts.OnEvent(ctx, Event{Kind: ServerError, Queue: c.name, Err: err})
}

// checkEviction reports a server that may evict keys. It retries until the server answers.
func (c *consumer) checkEviction(ctx context.Context) {
	for p := (pauses{}); ctx.Err() == nil; p.sleep(ctx.Done()) {
		call, cancel := context.WithTimeout(ctx, pumpTimeout)
		err := checkEviction(call, c.client, c.keys)
		cancel()
		if errors.Is(err, ErrEviction) {
			c.serverError(ctx, err)
		}
		if err == nil || errors.Is(err, ErrEviction) {
			return
		}
	}
}
