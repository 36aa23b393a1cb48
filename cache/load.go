package cache

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/cache"
)

// A batch asks the source for several keys. It returns an outcome for each.
type batch[K comparable, V any] func(ctx context.Context, keys []K) []outcome[V]

type outcome[V any] struct {
	answer[V]
	err error
}

// one makes a batch of a Loader.
func one[K comparable, V any](load Loader[K, V]) batch[K, V] {
	return func(ctx context.Context, keys []K) []outcome[V] {
		outs := make([]outcome[V], len(keys))
		for i, k := range keys {
			outs[i].v, outs[i].found, outs[i].err = load(ctx, k)
		}
		return outs
	}
}

// load calls the source for lookups that have the lease, or whose server can't be reached. It
// stores the results and settles the lookups.
func (c *Cache[K, V]) load(ctx context.Context, fs []*lookup[K, V], load batch[K, V]) {
	if len(fs) == 0 {
		return
	}
	stop := c.renew(ctx, fs)
	outs := c.ask(ctx, fs, load)
	stop()

	// Later callers ask the server and do not join.
	c.remove(fs...)
	stored := c.store(ctx, fs, outs)
	for i, f := range fs {
		f.all = stored[i] != void
		if outs[i].err == nil {
			f.answer = outs[i].answer
			c.settle(f, nil)
			continue
		}
		if a, ok := c.inNeed(ctx, f); ok {
			f.answer = a
			f.all = true
			c.settle(f, nil)
			continue
		}
		f.all = true
		c.settle(f, outs[i].err)
	}
}

// inNeed returns a stale answer for a lookup whose load failed.
func (c *Cache[K, V]) inNeed(ctx context.Context, f *lookup[K, V]) (a answer[V], ok bool) {
	if c.opts.StaleIfError == 0 || f.joined == 0 {
		return a, false
	}
	if s := f.state; s.usable > 0 && c.clock.now() < s.usable {
		c.emit(ctx, Event{Kind: Stale, Key: f.text})
		return s.answer, true
	}
	return c.oldLocal(ctx, f.place)
}

// oldLocal returns a stale answer of the local level.
func (c *Cache[K, V]) oldLocal(ctx context.Context, p place[K]) (a answer[V], ok bool) {
	if e := c.local.old(p.key); e != nil {
		c.emit(ctx, Event{Kind: Stale, Key: p.text})
		return e.answer, true
	}
	return a, false
}

// ask waits for a free slot and calls the loader. A loader fails if it panics, ends its goroutine,
// or does not return when its context ends.
func (c *Cache[K, V]) ask(ctx context.Context, fs []*lookup[K, V], load batch[K, V]) []outcome[V] {
	ctx, cancel := context.WithTimeout(ctx, c.opts.LoadTimeout)
	defer context.AfterFunc(c.ctx, cancel)()
	defer cancel()
	fail := func(err error) []outcome[V] {
		outs := make([]outcome[V], len(fs))
		for i := range outs {
			outs[i].err = err
		}
		return outs
	}
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return fail(c.ended(ErrOverloaded))
	}
	if !c.source.allow() {
		<-c.slots
		return fail(ErrSourceDown)
	}
	keys := make([]K, len(fs))
	for i, f := range fs {
		keys[i] = f.key
	}
	result := make(chan []outcome[V], 1)
	c.asks(fs)
	began := time.Now()
	c.working.Go(func() {
		defer func() { <-c.slots }()
		outs := fail(&PanicError{Value: errors.New("the loader ended its goroutine")})
		defer func() {
			if p := recover(); p != nil {
				outs = fail(&PanicError{Value: p, Stack: debug.Stack()})
			}
			result <- outs
		}()
		outs = load(ctx, keys)
	})
	var outs []outcome[V]
	select {
	case outs = <-result:
	case <-ctx.Done():
		select {
		case outs = <-result: // the loader returned when ctx ended
		default:
			outs = fail(c.ended(ctx.Err()))
		}
	}
	took := time.Since(began)
	var failed error
	for i, f := range fs {
		f.took = took
		if outs[i].err != nil {
			failed = outs[i].err
		}
	}
	c.source.done(failed == nil)
	c.emit(ctx, Event{Kind: Loaded, Key: fs[0].text, Took: took, Err: failed})
	return outs
}

// ended is the error of a load whose context ended.
func (c *Cache[K, V]) ended(err error) error {
	if c.ctx.Err() != nil {
		return redoubt.ErrClosed
	}
	return fmt.Errorf("%w: the load took longer than %v", err, c.opts.LoadTimeout)
}

// renew renews the leases of lookups until stop is called.
func (c *Cache[K, V]) renew(ctx context.Context, fs []*lookup[K, V]) (stop func()) {
	var cmds []redoubt.Cmd
	for _, f := range fs {
		if f.owner != "" {
			cmds = append(cmds, wire.RenewCmd(f.entry, f.owner, c.opts.Lease))
		}
	}
	if len(cmds) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	c.working.Go(func() {
		defer close(ended)
		ticker := time.NewTicker(c.renewEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				_ = c.send(ctx, cmds) // after a failure the lease may end; then the value is not stored
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		<-ended
	}
}

// An ending says whether the lease of a lookup existed at its end.
type ending int8

const (
	void    ending = iota // it did not: the key was invalidated, or the lease ran out
	valid                 // it did
	unknown               // the server can't be reached
)

// store stores the loaded values, or releases the leases.
func (c *Cache[K, V]) store(ctx context.Context, fs []*lookup[K, V], outs []outcome[V]) []ending {
	endings := make([]ending, len(fs))
	cmds := make([]redoubt.Cmd, len(fs))
	ttls := make([]time.Duration, len(fs)) // 0: not stored
	for i, f := range fs {
		if outs[i].err != nil {
			continue
		}
		var err error
		var w wire.Written
		w, ttls[i], err = c.write(f.key, outs[i].answer)
		switch {
		case err != nil:
			ttls[i] = 0
			c.emit(ctx, Event{Kind: Dropped, Key: f.text, Err: err})
		case ttls[i] > 0:
			cmds[i] = wire.StoreCmd(f.entry, f.owner, w, f.took)
		}
	}
	c.giveUp(ctx, fs)
	invalidated := c.tag(ctx, fs, outs, ttls)
	var send []redoubt.Cmd
	var at []int
	for i, f := range fs {
		if f.owner == "" {
			endings[i] = unknown
			if ttls[i] > 0 {
				c.keep(f.place, outs[i].answer, f.epoch, ttls[i], f.took)
			}
			continue
		}
		if ttls[i] == 0 || invalidated[i] {
			cmds[i] = wire.ReleaseCmd(f.entry, f.owner)
		}
		send, at = append(send, cmds[i]), append(at, i)
	}
	for j, r := range c.send(ctx, send) {
		i := at[j]
		f := fs[i]
		held, err := wire.ReadHeld(r)
		switch {
		case err != nil:
			endings[i] = unknown
		case held && !invalidated[i]:
			endings[i] = valid
			if ttls[i] > 0 {
				c.keep(f.place, outs[i].answer, f.epoch, ttls[i], 0)
			}
		case outs[i].err == nil:
			c.emit(ctx, Event{Kind: Dropped, Key: f.text})
		}
	}
	return endings
}

// giveUp releases, in the background, leases that may have been granted without a reply. Otherwise
// no process could load until they end.
func (c *Cache[K, V]) giveUp(ctx context.Context, fs []*lookup[K, V]) {
	var cmds []redoubt.Cmd
	for _, f := range fs {
		if f.lost != "" {
			cmds = append(cmds, wire.ReleaseCmd(f.entry, f.lost))
		}
	}
	if len(cmds) > 0 {
		c.working.Go(func() { c.send(ctx, cmds) })
	}
}

// write encodes an answer. The TTL is 0 for an answer that is not stored.
func (c *Cache[K, V]) write(key K, a answer[V]) (w wire.Written, ttl time.Duration, err error) {
	if !a.found {
		if c.opts.NoNegative {
			return w, 0, nil
		}
		w.Mark, ttl = mark(kindNegative, plain), c.opts.NegativeTTL
	} else {
		ttl = c.opts.TTL
		if c.opts.Lifetime != nil {
			ttl = c.opts.Lifetime(key, a.v)
			if err := checkTTL("Lifetime", ttl); err != nil {
				return w, 0, err
			}
		}
		payload, encoding, err := c.encode(a.v)
		if err != nil {
			return w, 0, err
		}
		w.Mark, w.Payload = mark(kindValue, encoding), payload
	}
	ttl = c.jitter(ttl)
	w.Fresh, w.Keep = ttl, ttl+max(c.opts.StaleFor, c.opts.StaleIfError)
	return w, ttl, nil
}
