package bloom

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/randid"
	wire "github.com/redoubt-go/redoubt/internal/wire/bloom"
)

// MirrorOptions configure a [Mirror]. The zero value is ready to use.
type MirrorOptions struct {
	// Every is the time between two fetches of newly added items. A fetch is a round trip to each
	// server. From 1 ms to an hour. Defaults to 1 s.
	Every time.Duration
	// MaxAge is the age of the last successful fetch beyond which the mirror answers "maybe" to
	// everything. At least Every. Defaults to ten times Every.
	MaxAge time.Duration
}

// A Mirror is a copy of a [Filter] in the memory of this process, for answers without a round trip.
// It finds every item whose Add, by any process, returned more than MaxAge ago. Its methods may be
// called by many goroutines at once. Close ends it.
type Mirror struct {
	filter *Filter
	opts   MirrorOptions
	now    atomic.Pointer[copied]
	fresh  atomic.Int64 // when the last fetch that succeeded began, in ns since began
	began  time.Time    // with a monotonic clock
	err    atomic.Pointer[error]
	end    context.CancelFunc
	ended  chan struct{}
}

// copied is a generation in memory.
type copied struct {
	id string
	bitmap

	lost []atomic.Bool // for each shard whether it is lost
	logs []readLog     // owned by the goroutine that fetches
}

// A readLog says how far the log of a shard was read.
type readLog struct {
	id   string
	from int64
}

// Mirror fetches the filter and keeps a copy of it up to date until the copy is closed. ctx is for
// the first fetch, which takes about a round trip for each megabyte.
//
// While a filter has mirrors, adding to it costs a little more: beside each shard a log of at most
// a megabyte has the new items. The log expires a minute after the last fetch.
func (f *Filter) Mirror(ctx context.Context, opts MirrorOptions) (*Mirror, error) {
	if opts.Every == 0 {
		opts.Every = time.Second
	}
	if opts.MaxAge == 0 {
		opts.MaxAge = 10 * opts.Every
	}
	var errs []error
	if opts.Every < time.Millisecond || opts.Every > time.Hour {
		errs = append(errs, fmt.Errorf("bloom: Every is %v; want 1ms to 1h", opts.Every))
	}
	if opts.MaxAge < opts.Every {
		errs = append(errs, fmt.Errorf("bloom: MaxAge is %v; want at least Every, which is %v", opts.MaxAge, opts.Every))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	m := &Mirror{filter: f, opts: opts, began: time.Now(), ended: make(chan struct{})}
	if err := m.fetch(ctx); err != nil {
		return nil, err
	}
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	m.end = end
	go m.follow(background)
	return m, nil
}

// Close ends the mirror and waits for its goroutine. Once MaxAge is over the mirror answers
// "maybe". Close may be called more than once.
func (m *Mirror) Close() error {
	m.end()
	<-m.ended
	return nil
}

// MayContain reports whether an item may have been added. False is certain, except for items that
// were added less than MaxAge ago: see [Mirror].
func (m *Mirror) MayContain(item string) bool {
	if m.Age() > m.opts.MaxAge {
		return true
	}
	c := m.now.Load()
	s := c.spot(item)
	return c.lost[s.shard].Load() || c.has(&s)
}

// Add adds an item to the filter, and to this mirror at once: see [Filter.Add].
func (m *Mirror) Add(ctx context.Context, item string) (isNew bool, err error) {
	isNew, err = m.filter.Add(ctx, item)
	c := m.now.Load()
	s := c.spot(item)
	c.set(&s) // after an error too, since it may be in
	return isNew, err
}

// Age returns the age of the copy: all items that were added before are in it.
func (m *Mirror) Age() time.Duration {
	return time.Since(m.began) - time.Duration(m.fresh.Load())
}

// Err returns the error of the last fetch, or nil when it succeeded.
func (m *Mirror) Err() error {
	if e := m.err.Load(); e != nil {
		return *e
	}
	return nil
}

func (m *Mirror) follow(ctx context.Context) {
	defer close(m.ended)
	tick := time.NewTicker(m.opts.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			err := m.fetch(ctx)
			m.err.Store(&err)
		}
	}
}

// fetch brings the copy up to date.
func (m *Mirror) fetch(ctx context.Context) error {
	began := time.Since(m.began)
	for {
		s := m.filter.now.Load()
		c := m.now.Load()
		if c == nil || c.id != s.current.id {
			g := s.current
			c = &copied{id: g.id, bitmap: newBitmap(g.layout), lost: make([]atomic.Bool, g.shards), logs: make([]readLog, g.shards)}
		}
		lost, err := m.update(ctx, c)
		if err != nil {
			return err
		}
		if lost {
			fresh, err := m.filter.refresh(ctx, s)
			if err == nil && fresh.current.id != c.id {
				continue // it was rebuilt
			}
			if err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
		}
		m.now.Store(c)
		m.fresh.Store(int64(began))
		return nil
	}
}

// logTTL is how long logs are kept, at least, after the last fetch of a mirror.
const logTTL = time.Minute

// update brings c up to date.
func (m *Mirror) update(ctx context.Context, c *copied) (lost bool, err error) {
	ttl := max(logTTL, 2*m.opts.Every)
	cmds := make([]redoubt.Cmd, c.shards)
	for i := range cmds {
		cmds[i] = wire.LogCmd(m.filter.shard(c.id, i), m.filter.log(c.id, i), randid.Bytes(16), c.shardLen(), c.logs[i].id, c.logs[i].from, ttl)
	}
	for i, r := range m.filter.client.Pipeline(ctx, cmds) {
		a, err := r.Array()
		if err != nil {
			return false, err
		}
		if len(a) != 3 {
			return false, fmt.Errorf("bloom: reply of log.lua has %d elements, want 3", len(a))
		}
		id, _ := a[1].(string)
		news, _ := a[2].(string)
		if a[0] == int64(0) {
			c.lost[i].Store(true)
			c.logs[i] = readLog{}
			lost = true
			continue
		}
		at := readLog{id: id, from: c.logs[i].from}
		if id != c.logs[i].id {
			at.from = 16
			// The log is a new one. The shard has all items that the log does not have.
			if err := m.load(ctx, c, i); err != nil {
				return false, err
			}
		}
		for item := range len(news) / (4 * c.hashes) {
			c.setLogged(i, news[item*4*c.hashes:])
		}
		at.from += int64(len(news))
		c.logs[i] = at
		c.lost[i].Store(false)
	}
	return lost, nil
}

// setLogged sets the bits of an item in the form in which add.lua logs it.
func (c *copied) setLogged(shard int, positions string) {
	s := spot{shard: shard, n: c.hashes}
	for i := range s.n {
		bit := int64(binary.LittleEndian.Uint32([]byte(positions[4*i : 4*i+4])))
		s.block, s.bits[i] = bit/blockBits, uint16(bit%blockBits)
	}
	c.set(&s)
}

const (
	// piece is how many bytes of a shard a command reads, so that no other command waits long
	// behind it. A pipeline has pieces of them.
	piece  = 128 << 10
	pieces = 8
)

// load reads a whole shard.
func (m *Mirror) load(ctx context.Context, c *copied, shard int) error {
	for from := int64(0); from < c.shardLen(); {
		var cmds []redoubt.Cmd
		first := from
		for ; from < c.shardLen() && len(cmds) < pieces; from += piece {
			cmds = append(cmds, redoubt.Cmd{
				Name: "GETRANGE", Keys: []string{m.filter.shard(c.id, shard)},
				Args: []string{decimal(from), decimal(min(from+piece, c.shardLen()) - 1)}, Flags: redoubt.ReadOnly,
			})
		}
		for i, r := range m.filter.client.Pipeline(ctx, cmds) {
			text, err := r.Text()
			if err != nil {
				return err
			}
			c.merge(shard, first+int64(i)*piece, text)
		}
	}
	return nil
}
