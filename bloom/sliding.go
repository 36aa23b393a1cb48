package bloom

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/bloom"
)

// slidingPart ends the key that describes a sliding filter.
const slidingPart = "sliding"

const (
	// DefaultPeriods is the number of periods of a [SlidingSpec] that has Periods 0.
	DefaultPeriods = 4
	// MaxPeriods is the largest number of periods.
	MaxPeriods = 64
	// MaxWindow is the longest window.
	MaxWindow = 10 * 365 * 24 * time.Hour
)

// A SlidingSpec says what a [SlidingFilter] is for.
type SlidingSpec struct {
	// Window is how long an item is remembered at least; at most it is a period longer. From a
	// second for each period to [MaxWindow].
	Window time.Duration
	// Periods is the number of parts of the window: 1 to [MaxPeriods]. With more periods the filter
	// takes less memory, because it keeps one part more than the window has, and needs more reads.
	// Defaults to [DefaultPeriods].
	Periods int
	// Capacity is how many different items come in a window: Periods to [MaxCapacity], about
	// evenly. If a period gets more than its part, the error rate rises.
	Capacity int64
	// ErrorRate is the error rate of an answer, as in [Spec]. Each period gets its part of it: with
	// many periods it must be larger than [MinErrorRate].
	ErrorRate float64
}

func (s SlidingSpec) String() string {
	return fmt.Sprintf("%d items in %v at %v, in %d periods", s.Capacity, s.Window, s.ErrorRate, s.Periods)
}

// period is how long a period is.
func (s SlidingSpec) period() time.Duration { return s.Window / time.Duration(s.Periods) }

// part returns the Spec of one period. An answer looks at one period more than the window has.
func (s SlidingSpec) part() Spec {
	n := float64(s.Periods)
	return Spec{Capacity: int64(math.Ceil(float64(s.Capacity) / n)), ErrorRate: 1 - math.Pow(1-s.ErrorRate, 1/(n+1))}
}

func (s SlidingSpec) check() error {
	var errs []error
	if s.Periods < 1 || s.Periods > MaxPeriods {
		return fmt.Errorf("bloom: %d periods; want 1 to %d", s.Periods, MaxPeriods)
	}
	if least := time.Duration(s.Periods) * time.Second; s.Window < least || s.Window > MaxWindow {
		errs = append(errs, fmt.Errorf("bloom: window is %v; want %v, a second for each period, to %v", s.Window, least, MaxWindow))
	}
	if s.Window%(time.Duration(s.Periods)*time.Microsecond) != 0 {
		errs = append(errs, fmt.Errorf("bloom: window is %v, which %d periods don't divide into whole microseconds", s.Window, s.Periods))
	}
	if s.Capacity < int64(s.Periods) || s.Capacity > MaxCapacity {
		errs = append(errs, fmt.Errorf("bloom: capacity is %d; want %d, one for each period, to %d", s.Capacity, s.Periods, int64(MaxCapacity)))
	}
	if least := MinErrorRate * float64(s.Periods+1); !(s.ErrorRate >= least && s.ErrorRate <= MaxErrorRate) {
		errs = append(errs, fmt.Errorf("bloom: error rate is %v; want %v to %v", s.ErrorRate, least, MaxErrorRate))
	}
	return errors.Join(errs...)
}

// text returns the form in which the server keeps the spec. id begins the names of the periods.
func (s SlidingSpec) text(id string, l layout) string {
	return fmt.Sprintf("%d %s %d %d %s %d %d %d", s.Capacity, rate(s.ErrorRate), s.Window.Microseconds(), s.Periods, id, l.blocks, l.shards, l.hashes)
}

func parseSliding(text string) (s SlidingSpec, id string, l layout, err error) {
	var µs int64
	n, err := fmt.Sscanf(text, "%d %g %d %d %s %d %d %d", &s.Capacity, &s.ErrorRate, &µs, &s.Periods, &id, &l.blocks, &l.shards, &l.hashes)
	s.Window = time.Duration(µs) * time.Microsecond
	if err != nil || n != 8 || strings.Count(text, " ") != 7 || s.check() != nil || l.blocks < 1 || l.shards < 1 ||
		l.blocks%int64(l.shards) != 0 || l.hashes < 1 || l.hashes > maxHashes {
		return s, "", l, fmt.Errorf("bloom: the sliding filter has the description %q on the server, which this program does not understand", text)
	}
	return s, id, l, nil
}

// SlidingOptions configure [SlidingFilters]. There is nothing to choose yet.
type SlidingOptions struct{}

// SlidingFilters are the sliding filters on a server, each with a name and a [SlidingSpec]. A
// sliding filter and a filter of [Filters] may have the same name. Make one and use it for every
// sliding filter. It keeps no state and need not be closed. All methods may be called by many
// goroutines at once.
type SlidingFilters struct {
	client *redoubt.Client
}

// NewSliding returns the SlidingFilters of client. It sends nothing.
func NewSliding(client *redoubt.Client, _ SlidingOptions) (*SlidingFilters, error) {
	if client == nil {
		return nil, errors.New("bloom: client is nil")
	}
	return &SlidingFilters{client: client}, nil
}

// A SlidingFilter forgets items when their window is over. It has one Bloom filter for each period
// and deletes the oldest as a whole; the server's clock decides. Open it once and keep it. It need
// not be closed. All methods may be called by many goroutines at once.
type SlidingFilter struct {
	keys

	spec SlidingSpec
	part layout // the layout of a period, used to make the filter
	now  atomic.Pointer[slide]
	mu   sync.Mutex // held while a goroutine reads the slide anew
}

// A slide is what this process knows of a sliding filter.
type slide struct {
	id string
	layout

	made map[int64]bool // the periods whose keys were made
	// At the time at of this process, the server's clock showed at most clock, in µs.
	clock int64
	at    time.Time
}

// us returns the latest time that the server's clock can show now, in µs.
func (s *slide) us() int64 { return s.clock + time.Since(s.at).Microseconds() }

func (s *slide) generation(period int64) string { return s.id + "." + decimal(period) }

// Open returns the sliding filter called name and makes it unless it exists. If it was made with
// another spec, the error matches [ErrMismatch]. The zero spec opens an existing filter only; if
// there is none, the error matches [ErrNotFound]. The server deletes the filter when nothing was
// added for a window. One round trip.
func (fs *SlidingFilters) Open(ctx context.Context, name string, spec SlidingSpec) (*SlidingFilter, error) {
	if spec != (SlidingSpec{}) && spec.Periods == 0 {
		spec.Periods = DefaultPeriods
	}
	k, err := keysOf(fs.client, name)
	if spec != (SlidingSpec{}) {
		err = errors.Join(err, spec.check())
	}
	if err != nil {
		return nil, err
	}
	k.filter, _ = fs.client.Key(name, slidingPart)
	f := &SlidingFilter{keys: k, spec: spec}
	if spec != (SlidingSpec{}) {
		f.part = layoutFor(spec.part()) // this takes longer than a round trip, so it is done once
	}
	if _, err := f.refresh(ctx, nil, nil); err != nil {
		return nil, err
	}
	return f, nil
}

// refresh reads the slide anew, unless the known one is not old any more. made is a period whose
// keys were made, or nil.
func (f *SlidingFilter) refresh(ctx context.Context, old *slide, made *int64) (*slide, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.now.Load(); old != nil && s != old && made == nil {
		return s, nil
	}
	text, period, oldest, ttl := "", "", "0", time.Duration(0)
	if f.spec != (SlidingSpec{}) {
		text = f.spec.text(newID(), f.part)
		ttl = f.keep()
	}
	if made != nil {
		period, oldest = decimal(*made), decimal(*made-int64(f.spec.Periods)-1)
	}
	at := time.Now()
	a, err := f.client.Do(ctx, wire.SlideCmd(f.filter, text, period, oldest, ttl)).Array()
	if err != nil {
		return nil, err
	}
	if len(a) != 3 {
		return nil, fmt.Errorf("bloom: reply of slide.lua has %d elements, want 3", len(a))
	}
	there, ok := a[1].(string)
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrNotFound, f.name)
	}
	spec, id, l, err := parseSliding(there)
	if err != nil {
		return nil, err
	}
	if f.spec == (SlidingSpec{}) {
		f.spec, f.part = spec, l
	}
	if spec != f.spec {
		return nil, fmt.Errorf("%w: it is for %v, not for %v", ErrMismatch, spec, f.spec)
	}
	s := &slide{id: id, layout: l, made: make(map[int64]bool), at: at}
	s.clock, _ = a[0].(int64)
	periods, _ := a[2].([]any)
	for _, p := range periods {
		if n, ok := p.(int64); ok {
			s.made[n] = true
		}
	}
	f.now.Store(s)
	return s, nil
}

// Spec returns what the filter is for.
func (f *SlidingFilter) Spec() SlidingSpec { return f.spec }

// keep is the TTL of the keys of a period.
func (f *SlidingFilter) keep() time.Duration { return f.spec.Window + 3*f.spec.period() }

// slop is how far the clocks of servers may be apart, in µs.
func (f *SlidingFilter) slop() int64 { return min(time.Second, f.spec.period()/2).Microseconds() }

// syncEvery is how often the server's clock is read.
const syncEvery = time.Minute

// known returns a slide that is not older than syncEvery.
func (f *SlidingFilter) known(ctx context.Context) (*slide, error) {
	s := f.now.Load()
	if time.Since(s.at) < syncEvery {
		return s, nil
	}
	return f.refresh(ctx, s, nil)
}

// MayContain reports whether item may have been added within the window. False is certain. True may
// be a false positive, or mean that the item was added up to a period before the window, or that a
// key is lost. With an error it returns true. One round trip.
func (f *SlidingFilter) MayContain(ctx context.Context, item string) (bool, error) {
	for range 4 {
		s, err := f.known(ctx)
		if err != nil {
			return true, err
		}
		period := f.spec.period().Microseconds()
		now := s.us()
		oldest, newest := (now-2*f.slop()-f.spec.Window.Microseconds())/period, (now+f.slop())/period
		var cmds []redoubt.Cmd
		at := s.spot(item)
		asks := false // another process may have made a period that is not known here
		for p := newest; p >= oldest; p-- {
			switch {
			case s.made[p]:
				cmds = append(cmds, f.block(s, &at, p))
			case p >= s.clock/period-1: // others may have made it since
				asks = true
				cmds = append(cmds, redoubt.Cmd{Name: "HGET", Keys: []string{f.filter}, Args: []string{decimal(p)}, Flags: redoubt.ReadOnly})
			}
		}
		may, changed := false, false
		for i, r := range f.send(ctx, cmds) {
			if cmds[i].Name == "HGET" {
				changed = changed || r.Err == nil && !r.IsNil()
				if r.Err != nil {
					return true, r.Err
				}
				continue
			}
			block, err := r.Text()
			if err != nil {
				return true, err
			}
			may = may || len(block) != blockBytes || at.in(block)
		}
		if may || !asks || !changed {
			return may, nil
		}
		if _, err := f.refresh(ctx, s, nil); err != nil {
			return true, err
		}
	}
	return true, nil
}

func (f *SlidingFilter) block(s *slide, at *spot, period int64) redoubt.Cmd {
	from := at.block * blockBytes
	return redoubt.Cmd{
		Name: "GETRANGE", Keys: []string{f.shard(s.generation(period), at.shard)},
		Args: []string{decimal(from), decimal(from + blockBytes - 1)}, Flags: redoubt.ReadOnly,
	}
}

// Add adds an item at the current time. It reports whether the item is new, which means that it was
// not added within the window. False may be a false positive, or mean that a key is lost. One round
// trip; the first Add in a period takes two more and one for each key. Add is sent once: see
// [Filter.Add].
func (f *SlidingFilter) Add(ctx context.Context, item string) (isNew bool, err error) {
	for range 8 {
		s, err := f.known(ctx)
		if err != nil {
			return false, err
		}
		length := f.spec.period().Microseconds()
		period := s.us() / length
		if !s.made[period] {
			if err := f.begin(ctx, s, period); err != nil {
				return false, err
			}
			continue
		}
		at := s.spot(item)
		g := s.generation(period)
		cmds := []redoubt.Cmd{wire.AddCmd(f.shard(g, at.shard), f.log(g, at.shard),
			wire.Shard{Len: s.shardLen(), From: period * length, Until: (period + 1) * length, Hashes: s.hashes}, at.positions())}
		for p := period - 1; p >= period-int64(f.spec.Periods); p-- {
			if s.made[p] {
				cmds = append(cmds, f.block(s, &at, p))
			}
		}
		replies := f.send(ctx, cmds)
		b := batch{places: [][]int{{0}}, status: make([]int, 1), isNew: make([]bool, 1)}
		if err := b.read(replies[:1]); err != nil {
			return false, err
		}
		if b.status[0] == untimed {
			// The estimate of the server's clock was wrong: read the clock.
			if _, err := f.refresh(ctx, s, nil); err != nil {
				return false, err
			}
			continue
		}
		if b.status[0] == lost {
			fresh, err := f.refresh(ctx, s, nil)
			if err != nil {
				return false, err
			}
			if fresh.id != s.id {
				continue // the filter was deleted and made anew
			}
		}
		isNew = b.isNew[0]
		for _, r := range replies[1:] {
			block, err := r.Text()
			if err != nil {
				return false, err
			}
			isNew = isNew && len(block) == blockBytes && !at.in(block)
		}
		return isNew, nil
	}
	return false, fmt.Errorf("bloom: the clocks of the servers of %q are more than %v apart", f.name, f.spec.period())
}

// begin makes the keys of a period, unless another process has made them.
func (f *SlidingFilter) begin(ctx context.Context, s *slide, period int64) error {
	s, err := f.refresh(ctx, s, nil)
	if err != nil || s.made[period] {
		return err
	}
	g := generation{id: s.generation(period), layout: s.layout}
	if err := f.make(ctx, g, s.clock+makeTime.Microseconds(), f.keep()); err != nil {
		return err
	}
	_, err = f.refresh(ctx, s, &period)
	return err
}

// Delete deletes the sliding filter called name. It reports whether the filter existed. A few round
// trips.
func (fs *SlidingFilters) Delete(ctx context.Context, name string) (deleted bool, err error) {
	f, err := fs.Open(ctx, name, SlidingSpec{})
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s := f.now.Load()
	for p := range s.made {
		if err := f.drop(ctx, generation{id: s.generation(p), layout: s.layout}); err != nil {
			return false, err
		}
	}
	n, err := fs.client.Do(ctx, redoubt.Cmd{Name: "UNLINK", Keys: []string{f.filter}, Flags: redoubt.Idempotent}).Int()
	return n > 0, err
}

// List iterates over the names of sliding filters that match: see [Filters.List].
func (fs *SlidingFilters) List(ctx context.Context, match string) iter.Seq2[string, error] {
	return fs.client.Names(ctx, slidingPart, "hash", match)
}
