// Package pages iterates over a listing that a server returns page by page.
package pages

import "iter"

// All iterates over the items of all pages. It asks for the first page with the cursor "", for each
// later page with the cursor that came with the page before, and ends after the page that comes with
// "0". An error ends the iteration: it is yielded with a zero item.
func All[T any](page func(cursor string) (items []T, next string, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for cursor := ""; cursor != "0"; {
			items, next, err := page(cursor)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			cursor = next
		}
	}
}
