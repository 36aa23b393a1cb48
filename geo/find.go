package geo

import (
	"context"
	"errors"
	"fmt"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/geo"
)

// States of a member in a cell.
const (
	memberAbsent   = iota // it is not in the index
	memberPresent         // it is in the cell
	memberArriving        // it is announced to the cell, and counts as being there already
	memberLeaving         // it has left the cell, and may not have arrived at its destination
	memberLost            // the server has lost its cell
	memberLeft            // it has left the cell of its home, and its home has changed since
)

// A spot is where a member is.
type spot struct {
	kind   int
	home   home // as the index of members has it
	cell   cell
	place  place
	record record // if the member is leaving
	twice  bool   // another cell has the member too
	now    int64  // when the server answered, by its clock, in µs
}

// find returns where members are. Two round trips; more when a cell was split and this process does not
// know it yet.
func (x *Index) find(ctx context.Context, members []string) ([]spot, error) {
	spots := make([]spot, len(members))
	if err := x.homes(ctx, members, spots); err != nil {
		return nil, err
	}
	type question struct {
		i    int
		cell cell
	}
	var todo []question
	for i, s := range spots {
		if s.kind != memberAbsent {
			for _, c := range x.cells.within(s.home.cell) {
				todo = append(todo, question{i, c})
			}
		}
	}
	for len(todo) > 0 {
		var cmds []redoubt.Cmd
		var asked [][]question
		open := make(map[cell]int)
		for _, q := range todo {
			n, ok := open[q.cell]
			if !ok || len(asked[n]) == perScript {
				n = len(cmds)
				open[q.cell] = n
				cmds = append(cmds, wire.WhereCmd(x.keys(q.cell, statePart, pointsPart, arrivingPart, leavingPart, leftPart)))
				asked = append(asked, nil)
			}
			cmds[n].Args = append(cmds[n].Args, string(spots[q.i].home.step)+members[q.i])
			asked[n] = append(asked[n], q)
		}
		todo = nil
		for n, r := range x.send(ctx, cmds) {
			c := asked[n][0].cell
			status, rest, err := x.status(ctx, r, c)
			if err != nil {
				return nil, err
			}
			if status == isForgotten {
				return x.find(ctx, members)
			}
			if status == isSplit {
				for _, q := range asked[n] {
					for _, part := range x.cells.within(c) {
						todo = append(todo, question{q.i, part})
					}
				}
				continue
			}
			if len(rest) != 1+len(asked[n]) {
				return nil, fmt.Errorf("geo: where.lua answered about %d members, want %d", len(rest)-1, len(asked[n]))
			}
			for j, q := range asked[n] {
				if err := spots[q.i].addAnswer(c, rest[0], rest[1+j]); err != nil {
					return nil, err
				}
			}
		}
	}
	return spots, nil
}

// homes looks up where members are in the index of members.
func (x *Index) homes(ctx context.Context, members []string, spots []spot) error {
	var cmds []redoubt.Cmd
	var asked [][]int
	open := make(map[string]int)
	for i, m := range members {
		key := x.shard(m)
		n, ok := open[key]
		if !ok || len(asked[n]) == perScript {
			n = len(cmds)
			open[key] = n
			cmds = append(cmds, wire.MemberCmd(key))
			asked = append(asked, nil)
		}
		cmds[n].Args = append(cmds[n].Args, m)
		asked[n] = append(asked[n], i)
	}
	for n, r := range x.send(ctx, cmds) {
		a, err := r.Array()
		if err != nil {
			return err
		}
		if len(a) != 1+len(asked[n]) {
			return fmt.Errorf("geo: member.lua answered about %d members, want %d", len(a)-1, len(asked[n]))
		}
		for j, i := range asked[n] {
			spots[i].now, _ = a[0].(int64)
			if text, ok := a[1+j].(string); ok {
				spots[i].kind = memberLost
				if spots[i].home, err = parseHome(text); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// addAnswer adds what a cell knows of a member. Most important is that the member has left the place of its
// home. When several cells were one, the cell that has the member counts more than one that expects it,
// and that more than one that it has left. Two cells have the member when it moved from one to the other
// after the first was asked.
func (s *spot) addAnswer(c cell, now, answer any) error {
	a, ok := answer.([]any)
	if !ok || len(a) != 4 {
		return fmt.Errorf("geo: where.lua answered %v about a member", answer)
	}
	at, ok := now.(int64)
	if !ok {
		return errors.New("geo: where.lua answered without a time")
	}
	if s.ended() {
		return nil
	}
	if text, ok := a[2].(string); ok {
		l, err := parseLeft(text)
		if err != nil {
			return err
		}
		if l.before == s.home.step || s.kind == memberLost {
			s.kind, s.cell, s.record, s.now = memberLeaving, c, l.record, at
		}
	}
	if _, left := a[3].(string); left && !s.ended() {
		s.kind = memberLeft
	}
	if s.ended() {
		return nil
	}
	if score, ok := a[0].(string); ok {
		n, err := parseScore(score)
		s.twice = s.kind == memberPresent || s.kind == memberArriving
		s.kind, s.cell, s.place, s.now = memberPresent, c, place{c.zone(), n}, at
		return err
	}
	if text, ok := a[1].(string); ok {
		if s.twice = s.kind == memberPresent; s.twice {
			return nil
		}
		_, score, err := timed(text)
		if err != nil {
			return err
		}
		n, err := parseScore(score)
		s.kind, s.cell, s.place, s.now = memberArriving, c, place{c.zone(), n}, at
		return err
	}
	return nil
}

// ended reports whether the member is known to have left the place of its home.
func (s *spot) ended() bool {
	return s.kind == memberLeft || s.kind == memberLeaving && s.record.before == s.home.step
}

// field is the name of an announcement.
func field(s step, member string) string { return string(s) + member }

// An arrival adds an announced member to its cell, or withdraws the announcement.
type arrival struct {
	step     step
	member   string
	to       place
	withdraw bool
}

func (x *Index) arrive(ctx context.Context, items []arrival) error {
	return x.visit(ctx, all(len(items)), visit{
		cmd: wire.ArriveCmd, parts: []string{statePart, pointsPart, arrivingPart}, head: func(cell) []string { return []string{decimal(memberWeight)} },
		where: func(i int) address { return addressOf(items[i].to, items[i].member) },
		args: func(i int) []string {
			score := decimal(items[i].to.score)
			if items[i].withdraw {
				score = ""
			}
			return []string{field(items[i].step, items[i].member), score}
		},
	})
}

// A departure is a member that has left a cell.
type departure struct {
	from cell
	record
}

// finish completes the steps of members that have left their cells. Any process may do it, several at
// once, and repeatedly. Three round trips.
func (x *Index) finish(ctx context.Context, todo []departure) error {
	var arrivals []arrival
	for _, d := range todo {
		if !d.removed {
			arrivals = append(arrivals, arrival{step: d.step, member: d.member, to: d.to})
		}
	}
	if err := x.arrive(ctx, arrivals); err != nil {
		return err
	}
	assignments := make([]assignment, len(todo))
	for i, d := range todo {
		assignments[i] = assignment{member: d.member, before: d.before}
		if !d.removed {
			assignments[i].home = home{d.step, d.into}
		}
	}
	// A home that is neither the one before nor this one is a later one: where a step
	// brought a member, it leaves once, so no other step follows the one before.
	if _, err := x.assign(ctx, assignments); err != nil {
		return err
	}
	return x.closeAll(ctx, todo)
}

// closeAll notes that departures are complete.
func (x *Index) closeAll(ctx context.Context, items []departure) error {
	for len(items) > 0 {
		var cmds []redoubt.Cmd
		var sent [][]departure
		open := make(map[cell]int)
		for _, d := range items {
			n, ok := open[d.from]
			if !ok || len(sent[n]) == perScript {
				n = len(cmds)
				open[d.from] = n
				cmds = append(cmds, wire.CloseCmd(x.keys(d.from, statePart, leavingPart, leftPart), decimal(keepLeft.Microseconds())))
				sent = append(sent, nil)
			}
			cmds[n].Args = append(cmds[n].Args, d.member, d.text())
			sent[n] = append(sent[n], d)
		}
		items = nil
		busy := make(map[cell]bool)
		for n, r := range x.send(ctx, cmds) {
			c := sent[n][0].from
			status, _, err := x.status(ctx, r, c)
			if err != nil {
				return err
			}
			for _, d := range sent[n] {
				switch status {
				case isFrozen:
					busy[c] = true
					items = append(items, d)
				case isSplit: // both parts have its records
					for _, d.from = range x.cells.within(c) {
						items = append(items, d)
					}
				}
			}
		}
		if err := x.splitAll(ctx, busy); err != nil {
			return err
		}
	}
	return nil
}

// locate returns where members are, and completes the steps that other processes have begun with them. A
// member is then absent, present or lost. Two round trips.
func (x *Index) locate(ctx context.Context, members []string) ([]spot, error) {
	spots := make([]spot, len(members))
	doubted := make(map[int]step) // the homes with which they were in two cells
	for todo := all(len(members)); len(todo) > 0; {
		names := make([]string, len(todo))
		for j, i := range todo {
			names[j] = members[i]
		}
		began := x.now()
		found, err := x.find(ctx, names)
		if err != nil {
			return nil, err
		}
		if x.now().Sub(began) > stepTime {
			continue // the homes are too old: see keepLeft
		}
		var arrivals []arrival
		var departures []departure
		var again []int
		for j, i := range todo {
			s := found[j]
			spots[i] = s
			switch s.kind {
			case memberPresent:
				// With the same home all the while, the server has lost that it left one.
				if s.twice && doubted[i] != s.home.step {
					doubted[i] = s.home.step
					again = append(again, i)
				}
			case memberLeft:
				again = append(again, i)
			case memberArriving:
				arrivals = append(arrivals, arrival{step: s.home.step, member: names[j], to: s.place})
				again = append(again, i)
			case memberLeaving:
				departures = append(departures, departure{s.cell, s.record})
				again = append(again, i)
			}
		}
		if err := x.arrive(ctx, arrivals); err != nil {
			return nil, err
		}
		if err := x.finish(ctx, departures); err != nil {
			return nil, err
		}
		todo = again
	}
	return spots, nil
}

// An assignment is a change of a member's home.
type assignment struct {
	member string
	before step // since which it was where it was; empty: it was in no cell
	home   home
	until  int64 // of the server's clock, in µs; 0: any time
}

// assign changes the homes of members. It reports for each member whether its home is the new one, set now
// or before. One round trip.
func (x *Index) assign(ctx context.Context, items []assignment) ([]bool, error) {
	cmds := make([]redoubt.Cmd, len(items))
	for i, a := range items {
		cmds[i] = wire.AssignCmd(x.shard(a.member), a.member, string(a.before), a.home.text(), decimal(a.until))
	}
	done := make([]bool, len(items))
	for i, r := range x.send(ctx, cmds) {
		var status [1]int64
		if err := r.Ints(status[:]); err != nil {
			return nil, err
		}
		done[i] = status[0] == isDone
	}
	return done, nil
}
