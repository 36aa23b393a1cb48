package hll

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/hyll"
	"github.com/redoubt-go/redoubt/internal/randid"
)

var (
	// ErrFull is matched when a visit is not counted because unsent counts take [Options.MaxBytes]
	// already.
	ErrFull = errors.New("hll: the send buffer is full")

	// ErrExpired is matched when a visit is not counted because its period ended longer ago than
	// [Options.Keep].
	ErrExpired = errors.New("hll: the period has expired")
)

// Options configure [Visitors]. The zero value is ready to use.
type Options struct {
	// Period is the time for which visits are counted together. All programs that use the same
	// pages must have the same Period. Defaults to [Daily].
	Period Period
	// Location is the time zone in which a day begins at midnight. All programs that use the same
	// pages must have the same Location. Defaults to UTC.
	Location *time.Location
	// Keep is how long a period is kept after its end, in whole seconds, up to 100
	// years. Defaults to 90 days.
	Keep time.Duration
	// FlushEvery is the time between two flushes: from 10 ms to an hour. Visits that were counted
	// since the last flush are lost when the process dies. Defaults to a second.
	FlushEvery time.Duration
	// FlushBytes is how much memory counts may take before they are sent at once: up to MaxBytes.
	// Defaults to 32 MiB, or MaxBytes if that is less. 32 MiB is what 2,000 pages with thousands of
	// visitors each take, or some 150,000 pages with few.
	FlushBytes int
	// MaxBytes is how much memory counts may take while the server can't be reached: from 64 KiB to
	// 1 TiB. Beyond it visits are refused with [ErrFull]. Defaults to 64 MiB.
	MaxBytes int
	// OnError is called from one goroutine with the errors of background flushes. It must not
	// block. Counts that could not be sent are kept and sent again. Counts that the server refuses
	// for good are dropped: their page's key holds something else, and the error has the code
	// WRONGTYPE or INVALIDOBJ. Optional.
	OnError func(error)
}

const (
	defaultKeep       = 90 * day * time.Second
	defaultFlushEvery = time.Second
	defaultFlushBytes = 32 << 20
	defaultMaxBytes   = 64 << 20
	minMaxBytes       = 64 << 10
	maxKeep           = 100 * 365 * day * time.Second
)

// or returns v, or otherwise if v is zero.
func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

func (o Options) check() error {
	var errs []error
	if o.Period > Hourly {
		errs = append(errs, fmt.Errorf("hll: Period is %v; want Daily or Hourly", o.Period))
	}
	if o.Keep < time.Second || o.Keep > maxKeep || o.Keep%time.Second != 0 {
		errs = append(errs, fmt.Errorf("hll: Keep is %v; want whole seconds from 1s to %v", o.Keep, maxKeep))
	}
	if o.FlushEvery < 10*time.Millisecond || o.FlushEvery > time.Hour {
		errs = append(errs, fmt.Errorf("hll: FlushEvery is %v; want 10ms to 1h", o.FlushEvery))
	}
	if o.MaxBytes < minMaxBytes || int64(o.MaxBytes) > 1<<40 {
		errs = append(errs, fmt.Errorf("hll: MaxBytes is %d; want %d to %d", o.MaxBytes, minMaxBytes, int64(1)<<40))
	}
	if o.FlushBytes < 1 || o.FlushBytes > o.MaxBytes {
		errs = append(errs, fmt.Errorf("hll: FlushBytes is %d; want 1 to MaxBytes, %d", o.FlushBytes, o.MaxBytes))
	}
	return errors.Join(errs...)
}

// Visitors count who visits which page when: the number of different visitors, by HyperLogLog, and
// the number of views. They gather counts in this process and send them together. Make one and use
// it for all pages; [Visitors.Close] it in the end. All methods may be called by many goroutines at
// once.
type Visitors struct {
	client  *redoubt.Client
	opts    Options
	process string           // names this process in the views of a page
	now     func() time.Time // the clock

	turning sync.Mutex           // held while turn reads the clock
	current atomic.Pointer[span] // the current period
	seed    maphash.Seed
	stripes [64]stripe
	bytes   atomic.Int64 // the size of all tallies, pending ones included
	closed  atomic.Bool

	flush flusher
}

// A stripe has a part of the pages, so that callers rarely wait for each other.
type stripe struct {
	mu     sync.Mutex
	period int64             // the latest period
	now    map[string]*tally // tallies of that period, by page
	other  map[place]*tally  // tallies of other periods
	_      [32]byte          // a cache line of its own
}

// find returns the tally of a place, or nil.
func (st *stripe) find(p place) *tally {
	if p.period == st.period {
		return st.now[p.page]
	}
	return st.other[p]
}

func (st *stripe) put(p place, t *tally) {
	if p.period == st.period {
		st.now[p.page] = t
	} else {
		st.other[p] = t
	}
}

// turn begins a period. AddAt may have counted in it already.
func (st *stripe) turn(period int64) {
	for page, t := range st.now {
		st.other[place{page, st.period}] = t
	}
	clear(st.now)
	st.period = period
	for p, t := range st.other {
		if p.period == period {
			st.now[p.page] = t
			delete(st.other, p)
		}
	}
}

// take removes and returns all tallies of the stripe.
func (st *stripe) take() map[place]*tally {
	all := st.other
	if len(all)+len(st.now) == 0 {
		return nil
	}
	st.other = map[place]*tally{}
	for page, t := range st.now {
		all[place{page, st.period}] = t
	}
	st.now = make(map[string]*tally, min(len(st.now), 1024))
	return all
}

// A place is a page in a period: visits are counted there.
type place struct {
	page   string
	period int64
}

// tallyBytes is what a tally takes in addition to its registers and the name of its page.
const tallyBytes = 160

func (p place) bytes(t *tally) int64 { return int64(tallyBytes + len(p.page) + t.size()) }

// New returns the Visitors of client and starts the goroutines that send counts. It sends nothing.
// The error joins all that is wrong with the options.
func New(client *redoubt.Client, opts Options) (*Visitors, error) {
	return newVisitors(client, opts, time.Now)
}

func newVisitors(client *redoubt.Client, opts Options, now func() time.Time) (*Visitors, error) {
	opts.Keep = or(opts.Keep, defaultKeep)
	opts.FlushEvery = or(opts.FlushEvery, defaultFlushEvery)
	opts.MaxBytes = or(opts.MaxBytes, defaultMaxBytes)
	opts.FlushBytes = or(opts.FlushBytes, min(defaultFlushBytes, opts.MaxBytes))
	opts.Location = or(opts.Location, time.UTC)
	err := opts.check()
	if client == nil {
		err = errors.Join(errors.New("hll: client is nil"), err)
	}
	if err != nil {
		return nil, err
	}
	v := &Visitors{client: client, opts: opts, process: randid.Hex(8), now: now, seed: maphash.MakeSeed()}
	for i := range v.stripes {
		v.stripes[i].now, v.stripes[i].other = map[string]*tally{}, map[place]*tally{}
	}
	v.turn()
	v.flush.start(v)
	return v, nil
}

// Add counts a visit of a page by a visitor, now, by the clock of this process. In the first
// milliseconds of a period it may count in the period before. It sends nothing: the visit is on the
// server after the next flush, at most [Options.FlushEvery] later. After an error the visit is not
// counted: the page is no valid name, unsent counts take too much memory (the error matches
// [ErrFull]), or the Visitors are closed (redoubt.ErrClosed).
func (v *Visitors) Add(page, visitor string) error {
	s := v.current.Load() // reading the clock would be most of the work
	if s == nil {
		return v.AddAt(page, visitor, v.now())
	}
	h := hyll.Hash([]byte(visitor))
	st := v.stripe(page)
	st.mu.Lock()
	defer st.mu.Unlock()
	if s.n > st.period {
		st.turn(s.n)
	}
	return v.add(st, place{page, s.n}, h)
}

// AddAt counts a visit at another time than now, such as a time that was read from a log. A time
// whose period is no longer kept gives an error that matches [ErrExpired].
func (v *Visitors) AddAt(page, visitor string, at time.Time) error {
	if err := checkTime(at); err != nil {
		return err
	}
	s := v.opts.Period.at(at, v.opts.Location)
	if until := time.Unix(v.until(s), 0); !v.now().Before(until) {
		return fmt.Errorf("%w: the one of %v was kept until %v", ErrExpired, at, until)
	}
	h := hyll.Hash([]byte(visitor))
	st := v.stripe(page)
	st.mu.Lock()
	defer st.mu.Unlock()
	return v.add(st, place{page, s.n}, h)
}

func (v *Visitors) stripe(page string) *stripe {
	return &v.stripes[maphash.String(v.seed, page)%uint64(len(v.stripes))]
}

// add counts a visit. st.mu is held.
func (v *Visitors) add(st *stripe, p place, h uint64) error {
	if v.closed.Load() {
		return redoubt.ErrClosed
	}
	t := st.find(p)
	if t == nil {
		var err error
		if t, err = v.open(st, p); err != nil {
			return err
		}
	}
	if more := t.growth(); more > 0 {
		if err := v.room(int64(more)); err != nil {
			return err
		}
		before := t.size()
		t.add(h)
		v.took(int64(t.size() - before))
	} else {
		t.add(h)
	}
	t.views++
	return nil
}

// turn reads the clock and notes the current period. It returns when to look again: at the end of
// the period, or in a second in case the clock is set.
func (v *Visitors) turn() time.Duration {
	v.turning.Lock() // an earlier reading must not be stored after a later one
	defer v.turning.Unlock()
	now := v.now()
	if checkTime(now) != nil {
		v.current.Store(nil)
		return time.Second
	}
	s := v.opts.Period.at(now, v.opts.Location)
	if old := v.current.Load(); old == nil || *old != s {
		v.current.Store(&s)
	}
	return min(max(time.Unix(s.end, 0).Sub(now), time.Millisecond), time.Second)
}

// until is when a period expires, in s since 1970.
func (v *Visitors) until(s span) int64 { return s.end + int64(v.opts.Keep/time.Second) }

// open begins a tally. st.mu is held.
func (v *Visitors) open(st *stripe, p place) (*tally, error) {
	if _, err := v.client.Key(p.page, ""); err != nil {
		return nil, err
	}
	t := newTally()
	if err := v.room(p.bytes(t)); err != nil {
		return nil, err
	}
	p.page = strings.Clone(p.page) // it may be part of a large string
	st.put(p, t)
	v.took(p.bytes(t))
	return t, nil
}

// room returns an error unless there is room for some bytes more.
func (v *Visitors) room(more int64) error {
	if now := v.bytes.Load(); now+more > int64(v.opts.MaxBytes) {
		return fmt.Errorf("%w: %d bytes; Options.MaxBytes is %d", ErrFull, now, v.opts.MaxBytes)
	}
	return nil
}

// took notes that counts take some bytes more.
func (v *Visitors) took(more int64) {
	if v.bytes.Add(more) >= int64(v.opts.FlushBytes) {
		v.flush.soon()
	}
}

// Flush sends all counts so far. It returns when they are on the server, or with the errors of the
// counts that are not there; these are kept and sent again. One round trip to each server for every
// 128 pages, or half a megabyte.
func (v *Visitors) Flush(ctx context.Context) error { return v.flush.run(ctx, v) }

// Close sends all counts, for at most 10 seconds, and ends the goroutines of the Visitors. Later
// visits are refused with redoubt.ErrClosed. The error says how many bytes of counts were not sent;
// they are lost when the process ends. A second Close tries again.
func (v *Visitors) Close() error {
	v.closed.Store(true) // an Add under way holds its stripe, and gather waits for that
	v.flush.stop()
	ctx, cancel := context.WithTimeout(context.Background(), flushFor)
	defer cancel()
	err := v.flush.run(ctx, v)
	if left := v.bytes.Load(); err != nil {
		err = fmt.Errorf("hll: %d bytes of counts are not sent: %w", left, err)
	}
	return err
}
