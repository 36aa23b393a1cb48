package scan

import (
	"context"
	"iter"
)

// An Iterator is one scan and knows its position. One goroutine at a time uses it. It has goroutines of
// its own, one per server, which run only while a loop runs.
//
// After a break or an error the next [Iterator.All] or [Iterator.Pages] continues the scan. In another
// process, [Query.From] resumes it with the Token.
type Iterator[T any] struct {
	walk walk
	read func(raw []string) ([]T, error)
	id   func(T) string
	seen *seen
}

// A walk yields pages until none is left.
type walk interface {
	// run calls each with one page after the other, and ends when each returns false. Then the next run
	// yields the rest of that page, as its mark says. A job that is not nil is done first to the rest of
	// each page, on several nodes at the same time.
	run(ctx context.Context, job job, each func(p *page) (took bool, err error)) error
	token() string
	progress() Progress
}

// A job does something to the items of a page, and returns one number for each, or two.
type job func(ctx context.Context, items []string) ([]int64, error)

// Progress is how far a scan is. The numbers are approximate: a server's count of keys is not exact, and
// items that are added or removed meanwhile count or not.
type Progress struct {
	// Scanned is the number of keys or elements that the servers have scanned, including the ones that
	// don't match.
	Scanned int64
	// Total is the number of keys or elements when the scan began; 0 before that.
	Total int64
}

// All yields one item after the other. The loop ends after the first error. After a break or a return the
// next loop begins with the same item again.
//
// Each page is a round trip. It is fetched while the loop works on the page before.
func (it *Iterator[T]) All(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		left := false
		err := it.walk.run(ctx, nil, func(p *page) (bool, error) {
			raw := p.mark.left()
			items, err := it.read(raw)
			if err != nil {
				return false, err
			}
			for _, item := range items {
				if it.seen.add(it.id(item)) {
					if !yield(item, nil) {
						it.seen.dropLast()
						left = true
						return false, nil
					}
					it.seen.keep()
				}
				p.mark.Given += len(raw) / len(items) // a field is two strings
			}
			return true, nil
		})
		if err != nil && !left {
			var none T
			yield(none, err)
		}
	}
}

// Pages is like All but yields pages, none of them empty, for work on many items at once. After a break
// the next loop yields the whole page again.
func (it *Iterator[T]) Pages(ctx context.Context) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		left := false
		err := it.walk.run(ctx, nil, func(p *page) (bool, error) {
			items, err := it.read(p.mark.left())
			if err != nil {
				return false, err
			}
			var fresh []T // the caller's to change
			for _, item := range items {
				if it.seen.add(it.id(item)) {
					fresh = append(fresh, item)
				}
			}
			if len(fresh) > 0 && !yield(fresh, nil) {
				it.seen.drop()
				left = true
				return false, nil
			}
			it.seen.keep()
			return true, nil
		})
		if err != nil && !left {
			yield(nil, err)
		}
	}
}

// Token is the position of the scan, as a text of letters, digits, '-', '_' and '.', some hundred bytes
// per server. It does not expire, and any process that reaches the servers can use it. Within a loop, and
// after a break, it is the position of the loop: a scan that resumes with it begins with the current item,
// or the current page, and leaves nothing out.
//
// A token outlives changes of the deployment. When the data at its position has changed, a scan that
// resumes repeats at most one page per server. It scans again every server that was restarted or replaced,
// and every slot that has moved.
func (it *Iterator[T]) Token() string { return it.walk.token() }

// Progress is how far the scan is.
func (it *Iterator[T]) Progress() Progress {
	p := it.walk.progress()
	p.Scanned = min(p.Scanned, p.Total)
	return p
}
