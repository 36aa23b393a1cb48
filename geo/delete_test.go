package geo_test

import (
	"math/rand/v2"
	"testing"

	"github.com/redoubt-go/redoubt/geo"
)

// fewBytes fill a cell with some ten members.
const fewBytes = 1000

// addEach adds members one by one, so that full cells are split.
func addEach(t *testing.T, x *geo.Index, members []geo.Member) {
	t.Helper()
	for _, m := range members {
		_, err := x.Add(t.Context(), m.Name, m.Point)
		must(t, err)
	}
}

// Each handle has learned the cells of an index with many. The index is deleted, and in the last two runs
// another process makes it anew, with few cells or with other ones.
//
// Promise: After an index is deleted, every open handle of its name answers as for an index without
// members, or as for the new index of that name.
func TestHandlesOfADeletedIndex(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		for name, fresh := range map[string]int{"deleted": 0, "one cell": 1, "other cells": 60} {
			t.Run(name, func(t *testing.T) {
				ctx, rng := t.Context(), rand.New(rand.NewPCG(11, 12))
				around := func(int) geo.Point { return about(rng, palermo, 2) }
				addEach(t, e.index(name, fewBytes), numbered(60, around))
				stale := func() *geo.Index {
					x := e.index(name, fewBytes)
					_, err := x.Info(ctx)
					must(t, err)
					if x.Cells() < 6 {
						t.Fatalf("it knows %d cells", x.Cells())
					}
					return x
				}
				reader, finder, counter, adder, mover, remover := stale(), stale(), stale(), stale(), stale(), stale()
				ender, many := stale(), stale()
				deleted, err := e.on(e.Conn, fewBytes).Delete(ctx, name)
				must(t, err)
				if !deleted {
					t.Error("it was not there")
				}
				now := e.index(name, fewBytes)
				addEach(t, now, numbered(fresh, func(int) geo.Point { return about(rng, palermo, 0.5) }))
				want := fresh
				all := geo.Query{From: palermo, Radius: 500 * geo.Kilometre}
				holds := func(what string, x *geo.Index) {
					t.Helper()
					found, err := x.Near(ctx, all)
					must(t, err)
					info, err := x.Info(ctx)
					must(t, err)
					if len(found) != want || info.Members != int64(want) || fresh < 2 && info.Cells != 3 {
						t.Errorf("%s: %d found, %+v; want %d", what, len(found), info, want)
					}
				}
				holds("near", finder)
				info, err := counter.Info(ctx)
				must(t, err)
				if info.Members != int64(want) {
					t.Errorf("%+v, want %d", info, want)
				}
				p, ok, err := reader.Pos(ctx, "m0")
				must(t, err)
				if q, want, err := now.Pos(ctx, "m0"); err != nil || ok != want || p != q {
					t.Errorf("m0 is at %v, %v; want %v, %v, %v", p, ok, q, want, err)
				}
				moved, err := mover.Move(ctx, "m0", palermo)
				must(t, err)
				if moved != (fresh > 0) {
					t.Errorf("moved: %v", moved)
				}
				isNew, err := adder.Add(ctx, "new", palermo)
				must(t, err)
				if want++; !isNew {
					t.Error("it is not new")
				}
				holds("added", now)
				added, err := many.AddMany(ctx, numbered(fresh, func(int) geo.Point { return palermo }))
				must(t, err)
				if added != 0 {
					t.Errorf("%d added", added)
				}
				holds("moved", now)
				// A mover dies on the way into a cell that the next handle knows wrongly.
				_, err = now.Add(ctx, "traveller", geo.Point{Latitude: 89})
				must(t, err)
				dying := e.on(&mortal{Conn: e.Conn, rng: rng, lives: -1, after: "geo.leave"}, fewBytes)
				x, err := dying.Open(ctx, name)
				must(t, err)
				if _, err := x.Move(ctx, "traveller", palermo); err == nil {
					t.Error("it did not die")
				}
				if _, ok, err := ender.Pos(ctx, "traveller"); !ok || err != nil {
					t.Error(ok, err)
				}
				want++
				holds("ended", now)
				removed, err := remover.Remove(ctx, "new", "traveller")
				must(t, err)
				if want -= 2; removed != 2 {
					t.Errorf("%d removed", removed)
				}
				holds("removed", now)
				holds("by a stale handle", adder)
			})
		}
	})
}

// A process dies while it splits a cell: a part of the cell has keys, and no cell leads to it yet.
//
// Promise: After an index is deleted, every open handle of its name answers as for an index without
// members, or as for the new index of that name.
func TestDeleteOfAHalfSplitCell(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		ctx, rng := t.Context(), rand.New(rand.NewPCG(15, 16))
		members := numbered(20, func(int) geo.Point { return about(rng, palermo, 2) })
		for _, after := range []string{"geo.freeze", "geo.load"} {
			dying, err := e.on(&mortal{Conn: e.Conn, rng: rng, lives: -1, after: after}, fewBytes).Open(ctx, "x")
			must(t, err)
			for _, m := range members {
				if _, err = dying.Add(ctx, m.Name, m.Point); err != nil {
					break
				}
			}
			is(t, err, errDied)
			deleted, err := e.on(e.Conn, fewBytes).Delete(ctx, "x")
			must(t, err)
			if keys := e.keys(t); !deleted || len(keys) != 0 {
				t.Errorf("after %s: deleted is %v, left: %q", after, deleted, keys)
			}
		}
	})
}

// The server loses all keys of one cell, which was a part of another. Add brings members back.
func TestAddMakesALostCellAnew(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		ctx, rng := t.Context(), rand.New(rand.NewPCG(13, 14))
		members := numbered(60, func(int) geo.Point { return about(rng, palermo, 2) })
		x := e.index("x", fewBytes)
		addEach(t, x, members)
		m := members[7]
		must(t, e.Redis.Del(ctx, x.KeysOfCell(m.Name, m.Point)...).Err())
		for _, x := range []*geo.Index{x, e.index("x", fewBytes)} {
			if _, ok, err := x.Pos(ctx, m.Name); ok || err != nil {
				t.Error(ok, err)
			}
			found, err := x.Near(ctx, geo.Query{From: palermo, Radius: 500 * geo.Kilometre})
			must(t, err)
			if len(found) == 0 || len(found) >= len(members) {
				t.Errorf("%d found", len(found))
			}
		}
		_, err := x.AddMany(ctx, members)
		must(t, err)
		for _, x := range []*geo.Index{x, e.index("x", fewBytes)} {
			found, err := x.Near(ctx, geo.Query{From: palermo, Radius: 500 * geo.Kilometre})
			must(t, err)
			if len(found) != len(members) {
				t.Errorf("%d found again", len(found))
			}
		}
	})
}
