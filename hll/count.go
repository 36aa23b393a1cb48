package hll

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/hyll"
	wire "github.com/redoubt-go/redoubt/internal/wire/hll"
)

const (
	// MaxPeriods is how many periods, times pages, a call may name.
	MaxPeriods = 100_000

	// atOnce is how many sketches a server merges in one command, which takes it about a
	// millisecond.
	atOnce = 64
)

// A Count says how many visitors and views there were.
type Count struct {
	// Visitors is an estimate of how many different visitors there were: of a hundred estimates 68
	// are within 0.81 %, and 99 within 2.1 %.
	Visitors int64
	// Views is the exact number of visits.
	Views int64
}

// Count returns the count of a page in the period of a time. It has only visits that were flushed,
// here and in other processes. One round trip.
func (v *Visitors) Count(ctx context.Context, page string, at time.Time) (Count, error) {
	return v.Between(ctx, at, at, page)
}

// Last returns the count of some pages in the last n periods, the current one included: with 7 and
// [Daily] since midnight six days ago. See [Visitors.Between].
func (v *Visitors) Last(ctx context.Context, n int, pages ...string) (Count, error) {
	now := v.now()
	if n < 1 || n > MaxPeriods {
		return Count{}, fmt.Errorf("hll: Last names %d periods; want 1 to %d", n, MaxPeriods)
	}
	to := v.opts.Period.at(now, v.opts.Location)
	return v.count(ctx, to.n-int64(n)+1, to.n, pages)
}

// Between returns the count of all pages together in the periods from the one of a time to the one
// of another, both included. A visitor of several pages, or on several days, is one visitor. One
// round trip to each server for every 512 periods and pages.
//
// The server merges the periods of a page and returns at most 12 KiB for it. This process merges
// the pages, which are in different slots.
func (v *Visitors) Between(ctx context.Context, from, to time.Time, pages ...string) (Count, error) {
	first, last, err := v.spans(from, to)
	if err != nil {
		return Count{}, err
	}
	return v.count(ctx, first, last, pages)
}

func (v *Visitors) spans(from, to time.Time) (first, last int64, err error) {
	if err := errors.Join(checkTime(from), checkTime(to)); err != nil {
		return 0, 0, err
	}
	if from.After(to) {
		return 0, 0, fmt.Errorf("hll: the time from %v to %v is empty; want the earlier time first", from, to)
	}
	return v.opts.Period.at(from, v.opts.Location).n, v.opts.Period.at(to, v.opts.Location).n, nil
}

func (v *Visitors) check(pages []string, periods int64) error {
	var errs []error
	for _, p := range pages {
		_, err := v.client.Key(p, "")
		errs = append(errs, err)
	}
	if len(pages) == 0 {
		errs = append(errs, errors.New("hll: no pages are named; want at least one"))
	}
	if periods*int64(max(len(pages), 1)) > MaxPeriods {
		errs = append(errs, fmt.Errorf("hll: %d periods times %d pages; want at most %d", periods, len(pages), MaxPeriods))
	}
	return errors.Join(errs...)
}

func (v *Visitors) count(ctx context.Context, first, last int64, pages []string) (c Count, err error) {
	if err := v.check(pages, last-first+1); err != nil {
		return c, err
	}
	pages = slices.Compact(slices.Sorted(slices.Values(pages)))
	var sketches, views []redoubt.Cmd
	var of []string // the page of each sketch
	for _, page := range pages {
		var visitors []string
		for n := first; n <= last; n++ {
			k := v.keys(place{page, n})
			visitors = append(visitors, k.visitors)
			views = append(views, viewsOf(k))
		}
		for some := range slices.Chunk(visitors, atOnce) {
			of = append(of, page)
			if len(some) == 1 {
				sketches = append(sketches, redoubt.Cmd{Name: "GET", Keys: some, Flags: redoubt.ReadOnly})
				continue
			}
			keys := append([]string{v.key(page, "work")}, some...)
			sketches = append(sketches, wire.UnionCmd(keys))
		}
	}
	// Where a single command is enough, the server counts.
	if len(sketches) == 1 {
		keys := sketches[0].Keys
		sketches[0] = redoubt.Cmd{Name: "PFCOUNT", Keys: keys[max(0, len(keys)-int(last-first+1)):], Flags: redoubt.Idempotent}
	}
	replies := v.pipeline(ctx, append(sketches, views...))
	for _, r := range replies[len(sketches):] {
		n, err := parseViews(r)
		if err != nil {
			return Count{}, err
		}
		c.Views += n
	}
	if len(sketches) == 1 {
		c.Visitors, err = replies[0].Int()
		return c, err
	}
	var s Sketch
	for i, r := range replies[:len(sketches)] {
		if sketches[i].Script != nil && r.Err == nil {
			a, err := r.Array()
			if err != nil || len(a) != 1 {
				return Count{}, errors.Join(err, errors.New("hll: the reply of union.lua is not a sketch"))
			}
			r = redoubt.Reply{Val: a[0]}
		}
		if err := s.merge(r); err != nil {
			if sketches[i].Script == nil && errors.Is(err, redoubt.ErrWrongType) {
				return Count{}, fmt.Errorf("hll: key %q: %w", sketches[i].Keys[0], err)
			}
			return Count{}, fmt.Errorf("hll: page %q: %w", of[i], err)
		}
	}
	c.Visitors = s.Count()
	return c, nil
}

// pipeline runs commands in parts, so that the replies of a part take a few megabytes at most.
func (v *Visitors) pipeline(ctx context.Context, cmds []redoubt.Cmd) (replies []redoubt.Reply) {
	for some := range slices.Chunk(cmds, 512) {
		replies = append(replies, v.client.Pipeline(ctx, some)...)
	}
	return replies
}

func viewsOf(k pageKeys) redoubt.Cmd {
	return redoubt.Cmd{Name: "HGET", Keys: []string{k.views}, Args: []string{"n"}, Flags: redoubt.ReadOnly}
}

func parseViews(r redoubt.Reply) (int64, error) {
	if r.IsNil() {
		return 0, nil
	}
	return r.Int()
}

// A Point is the count of one period.
type Point struct {
	// Start is when the period begins.
	Start time.Time
	Count
}

// Series returns the count of a page in each period from the one of a time to the one of another,
// both included: the points of a graph. One round trip for every 256 periods.
func (v *Visitors) Series(ctx context.Context, page string, from, to time.Time) ([]Point, error) {
	first, last, err := v.spans(from, to)
	if err == nil {
		err = v.check([]string{page}, last-first+1)
	}
	if err != nil {
		return nil, err
	}
	var cmds []redoubt.Cmd
	var points []Point
	for n := first; n <= last; n++ {
		k := v.keys(place{page, n})
		cmds = append(cmds, redoubt.Cmd{Name: "PFCOUNT", Keys: []string{k.visitors}, Flags: redoubt.Idempotent}, viewsOf(k))
		points = append(points, Point{Start: time.Unix(v.opts.Period.nth(n, v.opts.Location).start, 0).In(v.opts.Location)})
	}
	replies := v.pipeline(ctx, cmds)
	for i := range points {
		if points[i].Visitors, err = replies[2*i].Int(); err != nil {
			return nil, err
		}
		if points[i].Views, err = parseViews(replies[2*i+1]); err != nil {
			return nil, err
		}
	}
	return points, nil
}

// A Sketch is a HyperLogLog in memory, of 16 KiB. The zero value is empty and ready to use. Only
// one goroutine may use it at a time.
type Sketch struct {
	registers [hyll.Registers]byte
}

// Add adds an item. An item counts once, however often it is added.
func (s *Sketch) Add(item string) {
	register, count := hyll.Position([]byte(item))
	s.registers[register] = max(s.registers[register], count)
}

// Merge adds all items of another Sketch.
func (s *Sketch) Merge(other *Sketch) {
	for i, v := range other.registers {
		s.registers[i] = max(s.registers[i], v)
	}
}

// Count returns an estimate of how many different items were added: see [Count].
func (s *Sketch) Count() int64 { return int64(hyll.EstimateOf(&s.registers)) }

// MarshalBinary returns the sketch in the encoding of Redis: as the value of a key it works with
// PFADD, PFCOUNT and PFMERGE.
func (s *Sketch) MarshalBinary() ([]byte, error) { return hyll.Encode(&s.registers), nil }

// UnmarshalBinary replaces the sketch by the value of a HyperLogLog key, or by the result of
// MarshalBinary.
func (s *Sketch) UnmarshalBinary(data []byte) error {
	var registers [hyll.Registers]byte
	if !hyll.Is(data) || !hyll.Max(&registers, data) {
		return fmt.Errorf("hll: %d bytes are not a HyperLogLog of Redis", len(data))
	}
	s.registers = registers
	return nil
}

// merge adds the items of a key, given its value.
func (s *Sketch) merge(r redoubt.Reply) error {
	if r.IsNil() {
		return nil
	}
	text, err := r.Text()
	if err != nil {
		return err
	}
	if data := []byte(text); !hyll.Is(data) || !hyll.Max(&s.registers, data) {
		return fmt.Errorf("%w: it holds %d bytes that are not a HyperLogLog", redoubt.ErrWrongType, len(data))
	}
	return nil
}

// CountKeys is PFCOUNT for keys in any slots: it returns how many different items the HyperLogLogs
// have together. The keys are used unchanged, without the client's prefix. A key that holds something
// else gives an error that matches redoubt.ErrWrongType. One round trip to each server for every 64
// keys, which returns at most 12 KiB for each.
func (v *Visitors) CountKeys(ctx context.Context, keys ...string) (int64, error) {
	if len(keys) == 0 {
		return 0, errors.New("hll: no keys are named; want at least one")
	}
	var s Sketch
	for some := range slices.Chunk(keys, atOnce) {
		cmds := make([]redoubt.Cmd, len(some))
		for i, k := range some {
			cmds[i] = redoubt.Cmd{Name: "GET", Keys: []string{k}, Flags: redoubt.ReadOnly}
		}
		for i, r := range v.client.Pipeline(ctx, cmds) {
			if err := s.merge(r); err != nil {
				if errors.Is(err, redoubt.ErrWrongType) {
					err = fmt.Errorf("hll: key %q: %w", some[i], err)
				}
				return 0, err
			}
		}
	}
	return s.Count(), nil
}
