package torture

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/hll"
)

const (
	// maxVisitors is how many different visitors a page has at most: a set of them fits in a word.
	maxVisitors = 64
	// maxVisits is how often a worker visits a page: a history has room for so many.
	maxVisits = 15
)

// visitedOn is the day of all visits, so that no midnight comes between.
var visitedOn = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// visit visits pages, and counts their visitors and views.
func (w *worker) visit(ctx context.Context, d door) {
	rng := w.random(visits)
	made := map[string]int{} // by page
	views := int64(0)
	if _, ok := d.(*library); ok { // The wire counts only visitors.
		views = 1
	}
	for ctx.Err() == nil {
		page := w.name(rng, visits)
		within, cancel := within(ctx)
		var err error
		if made[page] < maxVisits && rng.IntN(3) > 0 {
			made[page]++
			e := w.pen.begin(event{Primitive: visits, Name: page, What: visited, N: rng.Int64N(maxVisitors), M: views})
			if err = d.visit(within, page, visitor(e.N)); err != nil {
				made[page] = maxVisits // The fewer outcomes are unknown, the sooner a history is judged.
			}
			w.pen.end(e, err)
		} else {
			err = tally(within, w.pen, d, page)
		}
		cancel()
		if err == nil {
			w.worked(visits)
		} else {
			w.failed(ctx, visits, err)
		}
		w.pause(ctx, rng, 60*time.Millisecond)
	}
}

// tally counts the visitors of a page and, where the door can, its views. The two numbers are of different moments.
func tally(ctx context.Context, p *pen, d door, page string) error {
	call := now()
	visitors, views, err := d.visitors(ctx, page)
	if err != nil {
		return err
	}
	ret := now()
	p.note(event{Primitive: visits, Name: page, What: tallied, N: visitors, M: -1, Call: call, Return: ret})
	if views >= 0 {
		p.note(event{Primitive: visits, Name: page, What: tallied, N: -1, M: views, Call: call, Return: ret})
	}
	return nil
}

func visitor(n int64) string { return fmt.Sprint("visitor ", n) }

// visitorsKey is the HyperLogLog of a page, as package hll names it.
func visitorsKey(page string) string {
	return "rd:{" + page + "}:visitors:" + visitedOn.Format(time.DateOnly)
}

func (l *library) visit(ctx context.Context, page, visitor string) error {
	if err := l.pages.AddAt(page, visitor, visitedOn); err != nil {
		return err
	}
	return l.pages.Flush(ctx) // After an error the visit is kept and sent again.
}

func (l *library) visitors(ctx context.Context, page string) (visitors, views int64, err error) {
	c, err := l.pages.Count(ctx, page, visitedOn)
	return c.Visitors, c.Views, err
}

func (l *line) visit(ctx context.Context, page, visitor string) error {
	_, err := l.do(ctx, 0, "PFADD", visitorsKey(page), visitor)
	return err
}

func (l *line) visitors(ctx context.Context, page string) (visitors, views int64, err error) {
	visitors, err = l.number(ctx, "PFCOUNT", visitorsKey(page))
	return visitors, -1, err
}

// A page is the state of a page: the set of its visitors, and its views.
type page struct {
	seen  uint64
	views int64
}

// A page counts each view once. The number of visitors is an estimate, but the registers of the same visitors always
// give the same one, which a sketch in memory tells.
var pageModel = model(page{}, func(s page, e event) (bool, page) {
	if e.What == visited {
		return true, page{s.seen | 1<<e.N, s.views + e.M}
	}
	return (e.N < 0 || e.N == estimate(s.seen)) && (e.M < 0 || e.M == s.views), s
})

var estimates sync.Map // of sets of visitors

func estimate(seen uint64) int64 {
	if n, ok := estimates.Load(seen); ok {
		return n.(int64)
	}
	var s hll.Sketch
	for n := range int64(maxVisitors) {
		if seen>>n&1 == 1 {
			s.Add(visitor(n))
		}
	}
	n := s.Count()
	estimates.Store(seen, n)
	return n
}
