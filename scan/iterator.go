package scan

import (
	"context"
	"iter"
)

// An Iterator is one scan: it knows how far it is. It is used by one goroutine at a
// time, those of the servers' pages it has itself, and only while a loop runs.
//
// A loop that was left goes on with the next [Iterator.All] or [Iterator.Pages], also
// after an error; in another process, [Query.From] goes on with the Token.
type Iterator[T any] struct {
	walk walk
	read func(raw []string) ([]T, error)
	id   func(T) string
	seen *seen
}

// A walk gives pages until there are none left.
type walk interface {
	// run calls each with one page after the other, and ends when that returns false.
	// Then the next run gives what the page's mark says is left of it. A job that is not
	// nil is done before to what is left of each page, to pages of several nodes at the
	// same time.
	run(ctx context.Context, job job, each func(p *page) (took bool, err error)) error
	token() string
	progress() Progress
}

// A job does something to the items of a page, and returns one number for each, or two.
type job func(ctx context.Context, items []string) ([]int64, error)

// Progress is how far a scan is, about: what a server tells of its tables is not
// exact, and what is added and removed meanwhile counts or not.
type Progress struct {
	// Scanned is at how many keys or elements the servers have looked, those that
	// don't match included.
	Scanned int64
	// Total is how many there were when the scan began; 0 before that.
	Total int64
}

// All goes over what is wanted. The loop ends after the first error. What the loop was
// left at, by break or return, is given again by the next loop.
//
// Each page is a round trip, made while the loop works on the page before.
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

// Pages is All by pages, none of them empty, for what works on many at once. A page
// that the loop was left at is given again as a whole.
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

// Token is where the scan is, as a text of letters, digits, '-', '_' and '.', some
// hundred bytes for each server. It is good for as long as anybody likes, for any
// process that can reach the servers. Within a loop, and after one that was left, it is
// where the loop is: a scan that resumes there begins with the item that the loop has at
// that moment, or with the page, and nothing is left out.
//
// A token outlives changes. When what the servers have there has changed since, at most
// a page of each server is given again. What was at a server that was restarted or has
// been replaced, and slots that have moved, are gone over again.
func (it *Iterator[T]) Token() string { return it.walk.token() }

// Progress is how far the scan is.
func (it *Iterator[T]) Progress() Progress {
	p := it.walk.progress()
	p.Scanned = min(p.Scanned, p.Total)
	return p
}
