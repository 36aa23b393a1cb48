package cache

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/cache"
)

// entryPart ends the key of an entry, channelPart the channel of a cache.
const (
	entryPart   = "cache"
	channelPart = "evict"
)

// A Cache keeps the values of a source, by key, on a server that many processes share. Make one for
// each kind of value with [New], and Close it after use.
//
// [Cache.Get] and [Cache.Invalidate] are what most callers need. All methods may be called by many
// goroutines at once.
type Cache[K comparable, V any] struct {
	client  *redoubt.Client
	opts    Options[K, V]
	id      string // 16 hexadecimal digits that begin the messages of this Cache
	channel string // carries invalidations to local levels
	clock   *clock
	local   *local[K, V] // nil if Local is 0

	source, server breaker
	renewEvery     time.Duration
	slots          chan struct{} // holds one token for each running load
	counters       counters

	ctx      context.Context //nolint:containedctx // ends with the Cache; background work depends on it
	end      context.CancelFunc
	working  sync.WaitGroup
	stopOnce sync.Once

	mu struct {
		sync.Mutex

		closed     bool
		lookups    map[string]*lookup[K, V]
		refreshing map[string]bool
	}
}

// A Loader asks the source for a key. It returns found = false if the source does not have the key;
// the cache remembers that. It returns an error if it does not know; the cache does not remember
// that. ctx has the values of the first caller's. It ends after [Options.LoadTimeout] or when the
// Cache is closed, and not when a caller leaves.
type Loader[K comparable, V any] func(ctx context.Context, key K) (v V, found bool, err error)

// A place is a key and the names of its entry.
type place[K comparable] struct {
	key   K
	text  string // the text of the key
	name  string // the name for Client.Key
	entry string // the key on the server
	aside string // in a cache with tags, a second key; see keys
}

// keys returns the keys of the scripts that begin a load or set a value. With tags there are two
// keys, as in the script that notes a tag; the scripts use only the first. So a pool without
// hash_tag, which would refuse to note the tag, refuses before anything is loaded or stored.
func (p place[K]) keys() []string {
	if p.aside == "" {
		return []string{p.entry}
	}
	return []string{p.entry, p.aside}
}

// An answer is what the source returned for a key.
type answer[V any] struct {
	v     V
	found bool
}

const (
	// After serverFailures failures in a row the server counts as down. After serverRest one call
	// tries it again.
	serverFailures = 3
	serverRest     = 500 * time.Millisecond
)

// New returns a Cache on client. It sends nothing, unless [Options.Local] is set: then it
// subscribes in the background.
func New[K comparable, V any](client *redoubt.Client, opts Options[K, V]) (*Cache[K, V], error) {
	err := opts.setDefaults()
	if client == nil {
		err = errors.Join(errors.New("cache: client is nil"), err)
	}
	if err != nil {
		return nil, err
	}
	if opts.Local > 0 && !client.CanSubscribe() {
		return nil, fmt.Errorf("cache: Local is %d, which needs a client that can subscribe to invalidations: %w", opts.Local, redoubt.ErrNoSubscriber)
	}
	channel, err := client.Key(opts.Name, channelPart)
	if err != nil {
		return nil, err
	}
	c := &Cache[K, V]{
		client: client, opts: opts, id: hex.EncodeToString([]byte(wire.NewID())), channel: channel, clock: newClock(),
		renewEvery: opts.Lease / 3,
		slots:      make(chan struct{}, opts.MaxLoads),
		source:     breaker{limit: opts.Failures, rest: opts.Rest},
		server:     breaker{limit: serverFailures, rest: serverRest},
	}
	c.ctx, c.end = context.WithCancel(context.Background())
	c.mu.lookups = map[string]*lookup[K, V]{}
	c.mu.refreshing = map[string]bool{}
	if opts.Local > 0 {
		c.local = newLocal[K, V](opts.Local, c.clock, c.id)
		c.working.Go(c.listen)
		c.working.Go(func() { c.local.keepTime(c.ctx) })
	}
	return c, nil
}

// Close ends the running loads, which fail, waits for them, and ends the subscription. Later calls
// that need the server fail with redoubt.ErrClosed. It may be called more than once.
func (c *Cache[K, V]) Close() error {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.Unlock()
	c.end()
	c.working.Wait()
	c.stopOnce.Do(func() {
		if c.local != nil {
			c.local.entries.StopAllGoroutines()
		}
	})
	return nil
}

// Get returns the value for key. If the cache does not have it, Get calls load. found = false says
// that the source does not have the key. The error is that of load or of ctx, is about an invalid
// key, or matches redoubt.ErrRefused: see [Options].Tags. A server that can't be reached is not an
// error: then load is called, and [Options.OnEvent] too.
//
// Of any number of callers in any number of processes one loads, and the others get its value. An
// error goes only to the callers in the process of the load, and the next Get loads again. When ctx
// ends, Get returns, and the load continues for the others and for the cache.
//
// A hit of the local level costs no round trip. It allocates nothing if load is a variable and not
// a function literal at each call. All callers share the value: don't change what it points to. Any
// other hit is one round trip, one MGET. A load takes three round trips, and one more for tags.
func (c *Cache[K, V]) Get(ctx context.Context, key K, load Loader[K, V]) (v V, found bool, err error) {
	if c.local != nil {
		if e := c.local.get(key); e != nil {
			c.counters.local[e.stripe%localCounters].Add(1)
			return e.v, e.found, nil
		}
	}
	a, err := c.get(ctx, key, load)
	return a.v, a.found, err
}

// get is Get behind the local level.
func (c *Cache[K, V]) get(ctx context.Context, key K, load Loader[K, V]) (answer[V], error) {
	p, err := c.place(key)
	if err != nil {
		return answer[V]{}, err
	}
	for began := time.Now(); ; {
		if err := ctx.Err(); err != nil {
			return answer[V]{}, err
		}
		if c.ctx.Err() != nil {
			return answer[V]{}, redoubt.ErrClosed
		}
		epoch := c.local.epoch(p.text)
		e, err := c.read(ctx, p)
		if err != nil {
			if ctx.Err() != nil {
				return answer[V]{}, ctx.Err()
			}
			if a, ok := c.oldLocal(ctx, p); ok {
				return a, nil
			}
		}
		s := c.judge(ctx, p, e, epoch)
		if s.again {
			c.refresh(ctx, []place[K]{p}, []string{s.seen}, one(load))
		}
		if s.good {
			return s.answer, nil
		}
		if !c.may(ctx, p) {
			return answer[V]{}, nil
		}
		f, number, leads, err := c.join(p, s)
		if err != nil {
			return answer[V]{}, err
		}
		if leads {
			go c.lead(context.WithoutCancel(ctx), []*lookup[K, V]{f}, one(load))
		}
		if a, ok, err := c.await(ctx, f, number); ok || err != nil {
			if !leads && err == nil {
				c.emit(ctx, Event{Kind: Waited, Key: p.text, Took: time.Since(began)})
			}
			return a, err
		}
	}
}

// place returns the place of key.
func (c *Cache[K, V]) place(key K) (p place[K], err error) {
	p = place[K]{key: key, text: c.opts.Key(key)}
	if p.text == "" || len(p.text) > MaxKey {
		return p, fmt.Errorf("%w: its text has %d bytes; want 1 to %d", ErrInvalidKey, len(p.text), MaxKey)
	}
	if c.opts.CheckKey != nil {
		if err := c.opts.CheckKey(key); err != nil {
			return p, fmt.Errorf("%w: %w", ErrInvalidKey, err)
		}
	}
	p.name = c.opts.Name + ":" + p.text
	if p.entry, err = c.client.Key(p.name, entryPart); err != nil || c.opts.Tags == nil {
		return p, err
	}
	p.aside, err = c.client.Key(p.name, tagPart)
	return p, err
}

// may asks the filter whether the source can have a key.
func (c *Cache[K, V]) may(ctx context.Context, p place[K]) bool {
	if c.opts.Filter == nil {
		return true
	}
	may, err := c.opts.Filter.MayContain(ctx, p.text)
	if err != nil {
		c.emit(ctx, Event{Kind: ServerError, Err: err})
		return true
	}
	if !may {
		c.emit(ctx, Event{Kind: Refused, Key: p.text})
	}
	return may
}

// A state says what to do with an entry that was read.
type state[V any] struct {
	answer[V]

	good   bool   // return the answer
	again  bool   // load the key in the background
	seen   string // the id of the value to replace
	usable int64  // until when the answer may be served if the source fails
}

// judge decides about an entry that was read after epoch was.
func (c *Cache[K, V]) judge(ctx context.Context, p place[K], e entry, epoch uint64) (s state[V]) {
	if !e.has() {
		return s
	}
	s.seen = e.id
	v, found, err := c.decode(e)
	if err != nil {
		c.emit(ctx, Event{Kind: Dropped, Key: p.text, Err: err})
		return s
	}
	s.answer = answer[V]{v, found}
	now := c.clock.now()
	s.usable = e.fresh + micros(c.opts.StaleIfError)
	switch {
	case now < e.fresh:
		s.good = true
		early := float64(e.delta) * c.opts.Beta * rand.ExpFloat64() // which is -ln(rand)
		s.again = float64(now)+early >= float64(e.fresh)
		if found {
			c.emit(ctx, Event{Kind: Hit, Key: p.text})
		} else {
			c.emit(ctx, Event{Kind: Negative, Key: p.text})
		}
		c.keep(p, s.answer, epoch, time.Duration(e.fresh-now)*time.Microsecond, 0)
	case now < e.fresh+micros(c.opts.StaleFor):
		s.good, s.again = true, true
		c.emit(ctx, Event{Kind: Stale, Key: p.text})
	}
	return s
}

// keep puts a fresh answer into the local level. If the server can't be reached the answer may
// already have some age.
func (c *Cache[K, V]) keep(p place[K], a answer[V], epoch uint64, fresh, age time.Duration) {
	if c.local != nil {
		ttl := min(fresh, c.jitter(c.opts.LocalTTL)) - age
		c.local.put(p, a, epoch, ttl, c.opts.StaleIfError)
	}
}

// jitter shortens a TTL by a random part.
func (c *Cache[K, V]) jitter(ttl time.Duration) time.Duration {
	return max(ttl-time.Duration(rand.Float64()*c.opts.Jitter*float64(ttl)), time.Millisecond)
}

// emit counts an event and calls OnEvent.
func (c *Cache[K, V]) emit(ctx context.Context, e Event) {
	n := &c.counters
	switch e.Kind {
	case Hit:
		n.hits.Add(1)
	case Negative:
		n.negatives.Add(1)
	case Stale:
		n.stale.Add(1)
	case Refused:
		n.refused.Add(1)
	case Waited:
		n.waits.Add(1)
	case Loaded:
		n.loads.Add(1)
		if e.Err != nil {
			n.loadErrors.Add(1)
		}
	case Dropped:
		n.drops.Add(1)
	case ServerError:
		n.serverErrors.Add(1)
	}
	c.client.Report(ctx, redoubt.Event{Kind: redoubt.EventKind(e.Kind), Primitive: "cache", Name: c.opts.Name, ID: e.Key, Took: e.Took, Err: e.Err})
	if c.opts.OnEvent != nil {
		e.Cache = c.opts.Name
		c.opts.OnEvent(ctx, e)
	}
}
