package geo

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/geo"
)

// splitTime is how long a split may take until another process takes it over. It takes
// some tens of milliseconds.
const splitTime = 2 * time.Second

// splitAll splits cells that are full, or waits while others do.
func (x *Index) splitAll(ctx context.Context, busy map[cell]bool) error {
	for c, is := range busy {
		if is {
			if err := x.split(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// split splits a full cell, or waits for some milliseconds while another process does.
//
// A frozen cell can be read but not changed. So several processes may fill its parts with the same
// members, and a part that is complete accepts nothing more. Once both are complete, the cell says that it
// is split, and nobody reads it any more.
func (x *Index) split(ctx context.Context, c cell) error {
	status, _, err := x.status(ctx, x.client.Do(ctx, wire.FreezeCmd(x.keys(c, statePart),
		decimal(x.most), string(newStep()), decimal(x.splitFor.Microseconds()))), c)
	switch {
	case err != nil:
		return err
	case status == isFrozen:
		return pause(ctx)
	case status != isDone: // it is split, or not full any more
		return nil
	}
	f, err := x.readFrozen(ctx, c)
	if err != nil || f == nil {
		return err
	}
	at, ok := f.middle()
	text := ""
	if ok {
		text = strconv.FormatUint(uint64(at), 16)
		if err := x.readHomes(ctx, f); err != nil {
			return err
		}
		left, right := c.parts(at)
		for _, part := range [2]cell{left, right} {
			if err := x.load(ctx, part, f); err != nil {
				return err
			}
		}
	}
	err = x.client.Do(ctx, wire.SplitCmd(x.keys(c, statePart, pointsPart, arrivingPart, leavingPart, leftPart), text)).Err
	if err != nil || !ok {
		return err
	}
	x.cells.learn(c, at)
	return x.rehome(ctx, c, at, f)
}

// A frozen is the contents of a cell that is being split.
type frozen struct {
	points   []point
	homes    []spot // of the points
	arriving []timedItem
	leaving  []timedItem
	left     []timedItem
}

type point struct {
	member string
	place  place
}

func (p point) address() address { return addressOf(p.place, p.member) }

type timedItem struct {
	at          address // where it belongs; unused for members that left
	age         int64   // µs
	field, rest string
}

// everything is a search that finds all members of a cell, at no cost in text.
var everything = []string{"FROMLONLAT", "0", "0", "BYRADIUS", "30000", "km", "WITHHASH"}

// search builds the call that reads a cell.
func (x *Index) search(c cell, within string, args []string) redoubt.Cmd {
	keys := x.keys(c, statePart, pointsPart, arrivingPart, leavingPart, leftPart)
	return wire.SearchCmd(keys, append([]string{within}, args...)...)
}

// readFrozen reads a cell. It returns nil when it has been split meanwhile.
func (x *Index) readFrozen(ctx context.Context, c cell) (*frozen, error) {
	status, rest, err := x.status(ctx, x.client.Do(ctx, x.search(c, decimal(keepLeft.Microseconds()), everything)), c)
	if err != nil || status != isDone {
		return nil, err
	}
	v, err := readView(rest, c.zone())
	if err != nil {
		return nil, err
	}
	f := &frozen{points: v.points}
	for _, a := range v.arriving {
		f.arriving = append(f.arriving, timedItem{addressOf(a.to, a.member), v.now - a.at, field(a.step, a.member), decimal(a.to.score)})
	}
	for _, l := range v.leaving {
		at := addressOf(place{c.zone(), l.from}, l.member)
		f.leaving = append(f.leaving, timedItem{at, v.now - l.at, l.member, decimal(l.from) + " " + l.text()})
	}
	for _, l := range v.left { // they are told of for longer, which does no harm
		f.left = append(f.left, timedItem{field: l.text()})
	}
	for _, s := range v.steps {
		f.left = append(f.left, timedItem{field: string(s)})
	}
	return f, nil
}

// middle returns where to split: near the middle, at the end of a geohash cell that is as large as
// possible.
func (f *frozen) middle() (address, bool) {
	all := make([]address, len(f.points))
	for i, p := range f.points {
		all[i] = p.address()
	}
	for _, a := range f.arriving {
		all = append(all, a.at)
	}
	slices.Sort(all)
	if len(all) == 0 || all[0] == all[len(all)-1] {
		return 0, false
	}
	// Any of these leaves a quarter on each side, unless many have one address.
	low, high := all[len(all)/4], all[len(all)*3/4]
	if low == high {
		low, high = all[0], all[len(all)/2]
	}
	if low == high {
		low, high = all[len(all)/2], all[len(all)-1]
	}
	// The common leading bits of both, then 1 and zeros.
	at := high
	for bit := 63; bit >= 0; bit-- {
		if (low^high)>>bit != 0 {
			at = high >> bit << bit
			break
		}
	}
	return at, true
}

// load fills a part, unless another process has.
func (x *Index) load(ctx context.Context, part cell, f *frozen) error {
	keys := x.keys(part, statePart, pointsPart, arrivingPart, leavingPart, leftPart)
	number, bytes := decimal(keepLeft.Milliseconds()), 0
	var cmds []redoubt.Cmd
	add := func(kind string, n int, args ...string) {
		if last := len(cmds) - 1; last >= 0 && cmds[last].Args[0] == kind && len(cmds[last].Args) < 2+n*perScript {
			cmds[last].Args = append(cmds[last].Args, args...)
			return
		}
		cmds = append(cmds, wire.LoadCmd(keys, append([]string{kind, number}, args...)...))
	}
	for _, p := range f.points {
		if a := p.address(); a >= part.first && a <= part.last {
			bytes += len(p.member) + memberWeight
			add("points", 2, decimal(p.place.score), p.member)
		}
	}
	for _, a := range f.arriving {
		if a.at >= part.first && a.at <= part.last {
			bytes += len(a.field) - 8 + memberWeight
			add("arriving", 3, decimal(a.age), a.field, a.rest)
		}
	}
	for _, l := range f.leaving {
		if l.at < part.first || l.at > part.last {
			continue
		}
		add("leaving", 3, decimal(l.age), l.field, l.rest)
	}
	for _, l := range f.left {
		add("left", 3, decimal(l.age), l.field, "")
	}
	for _, r := range x.send(ctx, cmds) {
		if r.Err != nil {
			return r.Err
		}
	}
	return x.ready(ctx, part, bytes)
}

// ready lets a part take members, unless it does already.
func (x *Index) ready(ctx context.Context, part cell, bytes int) error {
	keys := x.keys(part, statePart, pointsPart, arrivingPart, leavingPart, leftPart)
	return x.client.Do(ctx, wire.LoadCmd(keys, "ready", decimal(bytes))).Err
}

// readHomes reads the homes of the members of a frozen cell.
func (x *Index) readHomes(ctx context.Context, f *frozen) error {
	f.homes = make([]spot, len(f.points))
	for from := 0; from < len(f.points); from += atOnce {
		some := f.points[from:min(from+atOnce, len(f.points))]
		names := make([]string, len(some))
		for i, p := range some {
			names[i] = p.member
		}
		if err := x.homes(ctx, names, f.homes[from:from+len(some)]); err != nil {
			return err
		}
	}
	return nil
}

// rehome notes in the index of members which part each member is in, so that a process which looks for a
// member need not ask both parts. It is an optimization. It skips the members that have moved since the
// cell was frozen.
func (x *Index) rehome(ctx context.Context, c cell, at address, f *frozen) error {
	type to struct {
		key  string
		part cell
	}
	open := make(map[to]int)
	var cmds []redoubt.Cmd
	left, right := c.parts(at)
	for i, p := range f.points {
		if f.homes[i].home.cell != c {
			continue
		}
		t := to{x.shard(p.member), left}
		if p.address() >= at {
			t.part = right
		}
		n, ok := open[t]
		if !ok {
			n = len(cmds)
			open[t] = n
			cmds = append(cmds, wire.RehomeCmd(t.key, c.bytes(), t.part.bytes()))
		}
		cmds[n].Args = append(cmds[n].Args, p.member, string(f.homes[i].home.step))
	}
	var errs []error
	for from := 0; from < len(cmds); from += atOnce {
		for _, r := range x.send(ctx, cmds[from:min(from+atOnce, len(cmds))]) {
			errs = append(errs, r.Err)
		}
	}
	return errors.Join(errs...)
}
