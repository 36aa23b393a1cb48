package geo

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/geo"
)

// A Member is a name and a position.
type Member struct {
	Name  string // 1 to [MaxMember] bytes
	Point Point
}

// memberWeight is about what a member takes in a cell, in bytes, without its name.
const memberWeight = 100

const (
	// stepTime is how long a step may take from the moment when it was found out
	// where the member is until that changes. It is measured by the clock of the one
	// server that does both. Finding that out may take as long again.
	stepTime = 5 * time.Second
	// deadAfter is when an announcement will not be followed by the step any more:
	// later than stepTime by more than the clocks of two servers, or of a primary
	// and its successor, can differ.
	deadAfter = 30 * time.Second
	// keepLeft is for how long a cell knows who has left it: to tell readers, and to
	// refuse a mover who found out before that where the member is.
	keepLeft = 2 * stepTime
)

// Add sets the position of a member, whether it was in the index before or not. It reports whether the
// member is new. One round trip for a member that stays in its cell, five for a new member, eight for a
// member that changes cells. Only one of these changes what other clients see.
//
// After an error the member is at its old place or at its new one, and nowhere else. When ctx ended or the
// process died within a step, the next process that meets the member completes it.
func (x *Index) Add(ctx context.Context, member string, p Point) (isNew bool, err error) {
	added, err := x.AddMany(ctx, []Member{{member, p}})
	return added == 1, err
}

// AddMany adds several members as Add does; of a member that occurs twice, the last position counts. It
// returns how many are new. It takes as many round trips as Add for every 4,096 members. After an error
// some members may be at their new places.
func (x *Index) AddMany(ctx context.Context, members []Member) (added int, err error) {
	there, n, err := x.putAll(ctx, members, true)
	return n - there, err
}

// Move changes the position of a member that is in the index. It reports whether it is; if not, it does
// nothing.
func (x *Index) Move(ctx context.Context, member string, p Point) (moved bool, err error) {
	n, err := x.MoveMany(ctx, []Member{{member, p}})
	return n == 1, err
}

// MoveMany moves several members as Move does. It returns how many are in the index.
func (x *Index) MoveMany(ctx context.Context, members []Member) (moved int, err error) {
	there, _, err := x.putAll(ctx, members, false)
	return there, err
}

// putAll returns how many members were in the index, and how many are at their new places.
func (x *Index) putAll(ctx context.Context, members []Member, add bool) (there, placed int, err error) {
	last := make(map[string]int, len(members))
	for i, m := range members {
		err = errors.Join(err, wire.CheckMember(m.Name), m.Point.Validate())
		last[m.Name] = i
	}
	if err != nil {
		return 0, 0, err
	}
	var ps []*change
	for i, m := range members {
		if last[m.Name] == i {
			ps = append(ps, &change{member: m.Name, to: placeOf(m.Point)})
		}
	}
	for from := 0; from < len(ps) && err == nil; from += atOnce {
		now := ps[from:min(from+atOnce, len(ps))]
		err = x.put(ctx, now, add)
		for _, p := range now {
			if p.placed {
				placed++
			}
			if p.there {
				there++
			}
		}
	}
	return there, placed, err
}

// A change adds, moves or removes a member.
type change struct {
	member string
	to     place
	there  bool // it was in the index
	placed bool

	spot spot
	step step
}

func (p *change) address() address { return addressOf(p.to, p.member) }

func (x *Index) put(ctx context.Context, todo []*change, add bool) error {
	for {
		left, err := x.moveWithin(ctx, todo)
		if err != nil || len(left) == 0 {
			return err
		}
		if left, err = x.step(ctx, left, add); err != nil || len(left) == 0 {
			return err
		}
		// Others are moving them too, or have left them half-way.
		if err := pause(ctx); err != nil {
			return err
		}
		todo = left
	}
}

// moveWithin moves the members that stay in their cells, and returns the others.
func (x *Index) moveWithin(ctx context.Context, todo []*change) (left []*change, err error) {
	err = x.visit(ctx, all(len(todo)), visit{
		cmd: wire.PutCmd, parts: []string{statePart, pointsPart},
		where: func(i int) address { return todo[i].address() },
		args:  func(i int) []string { return []string{todo[i].member, decimal(todo[i].to.score)} },
		done: func(i int, r any) {
			if r == int64(1) {
				todo[i].there, todo[i].placed = true, true
			} else {
				left = append(left, todo[i])
			}
		},
	})
	return left, err
}

// step brings members from one cell to another, or into the index. It returns the members to try again.
func (x *Index) step(ctx context.Context, todo []*change, add bool) (again []*change, err error) {
	names := make([]string, len(todo))
	for i, p := range todo {
		names[i] = p.member
	}
	spots, err := x.locate(ctx, names)
	if err != nil {
		return nil, err
	}
	var inserts, moves []*change
	for i, p := range todo {
		p.spot = spots[i]
		switch {
		case p.spot.kind != memberPresent:
			if add {
				inserts = append(inserts, p)
			}
		case p.spot.cell != x.cells.at(p.address()):
			moves = append(moves, p)
		default:
			again = append(again, p) // it came just now
		}
	}
	for _, p := range inserts {
		p.step = newStep()
	}
	for _, p := range moves {
		p.step = newStep()
	}
	if err := x.announce(ctx, slices.Concat(moves, inserts)); err != nil {
		return nil, err
	}
	failed, err := x.insert(ctx, inserts)
	if err != nil {
		return nil, err
	}
	stayed, err := x.moveAway(ctx, moves)
	return append(append(again, failed...), stayed...), err
}

// announce notes the members in their destination cells. A reader that finds such a note before the step
// is complete knows that it must ask where the member is.
func (x *Index) announce(ctx context.Context, ps []*change) error {
	return x.visit(ctx, all(len(ps)), visit{
		cmd: wire.AnnounceCmd, parts: []string{statePart, arrivingPart},
		head: func(c cell) []string {
			make := "0"
			if c == whole(c.zone()) {
				make = "1"
			}
			return []string{decimal(x.most), decimal(memberWeight), make}
		},
		where: func(i int) address { return ps[i].address() },
		args:  func(i int) []string { return []string{field(ps[i].step, ps[i].member), decimal(ps[i].to.score)} },
	})
}

// insert adds new members. A member is in the index once it has a home.
func (x *Index) insert(ctx context.Context, ps []*change) (again []*change, err error) {
	items, arrivals := make([]assignment, len(ps)), make([]arrival, len(ps))
	for i, p := range ps {
		items[i] = assignment{
			member: p.member, before: p.spot.home.step, home: home{p.step, x.cells.at(p.address())},
			until: p.spot.now + stepTime.Microseconds(),
		}
	}
	done, err := x.assign(ctx, items)
	if err != nil {
		return nil, err
	}
	for i, p := range ps {
		arrivals[i] = arrival{step: p.step, member: p.member, to: p.to, withdraw: !done[i]}
		if !done[i] {
			again = append(again, p)
			continue
		}
		p.placed = true
	}
	return again, x.arrive(ctx, arrivals)
}

// moveAway moves members to other cells. A member has moved once it has left its old cell.
func (x *Index) moveAway(ctx context.Context, ps []*change) (again []*change, err error) {
	departures := make([]departure, len(ps))
	for i, p := range ps {
		departures[i] = departure{p.spot.cell, record{
			step: p.step, before: p.spot.home.step, to: p.to, into: x.cells.at(p.address()), member: p.member,
		}}
	}
	left, err := x.leave(ctx, departures, ps)
	if err != nil {
		return nil, err
	}
	var gone []departure
	var withdrawn []arrival
	for i, p := range ps {
		if left[i] {
			p.there, p.placed = true, true
			gone = append(gone, departures[i])
			continue
		}
		again = append(again, p)
		withdrawn = append(withdrawn, arrival{step: p.step, member: p.member, to: p.to, withdraw: true})
	}
	return again, errors.Join(x.finish(ctx, gone), x.arrive(ctx, withdrawn))
}

// leave removes members from their cells, unless they have left meanwhile. One round trip.
func (x *Index) leave(ctx context.Context, items []departure, ps []*change) (left []bool, err error) {
	cmds := make([]redoubt.Cmd, len(items))
	for i, d := range items {
		cmds[i] = wire.LeaveCmd(x.keys(d.from, statePart, pointsPart, leavingPart, leftPart),
			d.member, d.text(), decimal(ps[i].spot.now+stepTime.Microseconds()), decimal(memberWeight), decimal(keepLeft.Microseconds()))
	}
	left = make([]bool, len(items))
	busy := make(map[cell]bool)
	for i, r := range x.send(ctx, cmds) {
		status, rest, err := x.status(ctx, r, items[i].from)
		if err != nil {
			return nil, err
		}
		left[i] = status == isDone && len(rest) == 1 && rest[0] == int64(1)
		busy[items[i].from] = status == isFrozen
	}
	return left, x.splitAll(ctx, busy)
}

// Remove takes members out of the index. It returns how many were in it. Five round trips per 4,096
// members. After an error some members may be removed; no member is half-way.
func (x *Index) Remove(ctx context.Context, members ...string) (removed int, err error) {
	known := make(map[string]bool, len(members))
	var todo []*change
	for _, m := range members {
		err = errors.Join(err, wire.CheckMember(m))
		if !known[m] {
			todo = append(todo, &change{member: m})
		}
		known[m] = true
	}
	if err != nil {
		return 0, err
	}
	for from := 0; from < len(todo) && err == nil; from += atOnce {
		now := todo[from:min(from+atOnce, len(todo))]
		err = x.remove(ctx, now)
		for _, p := range now {
			if p.placed {
				removed++
			}
		}
	}
	return removed, err
}

func (x *Index) remove(ctx context.Context, todo []*change) error {
	for len(todo) > 0 {
		names := make([]string, len(todo))
		for i, p := range todo {
			names[i] = p.member
		}
		spots, err := x.locate(ctx, names)
		if err != nil {
			return err
		}
		var going, again []*change
		var departures []departure
		var lost []assignment
		for i, p := range todo {
			switch p.spot = spots[i]; p.spot.kind {
			case memberPresent:
				going = append(going, p)
				departures = append(departures, departure{
					p.spot.cell, record{step: newStep(), before: p.spot.home.step, removed: true, member: p.member},
				})
			case memberLost:
				lost = append(lost, assignment{member: p.member, before: p.spot.home.step})
			}
		}
		left, err := x.leave(ctx, departures, going)
		if err != nil {
			return err
		}
		var gone []departure
		for i, p := range going {
			if left[i] {
				p.placed = true
				gone = append(gone, departures[i])
			} else {
				again = append(again, p)
			}
		}
		_, err = x.assign(ctx, lost)
		if err = errors.Join(err, x.finish(ctx, gone)); err != nil {
			return err
		}
		if todo = again; len(todo) > 0 {
			if err := pause(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
