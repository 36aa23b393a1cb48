package pages_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/redoubt-go/redoubt/internal/pages"
)

func TestAllIteratesOverEveryPage(t *testing.T) {
	broken := errors.New("broken")
	type page struct {
		items []int
		next  string
		err   error
	}
	for name, c := range map[string]struct {
		pages   map[string]page
		stop    int // after this many items, 0 for never
		items   []int
		cursors []string
		err     error
	}{
		"three pages, one of them empty": {
			pages: map[string]page{"": {[]int{1, 2}, "7", nil}, "7": {nil, "9", nil}, "9": {[]int{3}, "0", nil}},
			items: []int{1, 2, 3}, cursors: []string{"", "7", "9"},
		},
		"no item": {pages: map[string]page{"": {nil, "0", nil}}, cursors: []string{""}},
		"an error on the second page": {
			pages: map[string]page{"": {[]int{1}, "7", nil}, "7": {[]int{2}, "9", broken}},
			items: []int{1}, cursors: []string{"", "7"}, err: broken,
		},
		"a loop that stops": {
			pages: map[string]page{"": {[]int{1, 2}, "7", nil}},
			stop:  1, items: []int{1}, cursors: []string{""},
		},
	} {
		var items []int
		var cursors []string
		var last error
		for item, err := range pages.All(func(cursor string) ([]int, string, error) {
			cursors = append(cursors, cursor)
			p := c.pages[cursor]
			return p.items, p.next, p.err
		}) {
			if last = err; err != nil {
				continue // the iteration must end by itself
			}
			if items = append(items, item); len(items) == c.stop {
				break
			}
		}
		if !slices.Equal(items, c.items) || !slices.Equal(cursors, c.cursors) || !errors.Is(last, c.err) {
			t.Errorf("%s: items %v of the cursors %q, error %v; want %v, %q, %v", name, items, cursors, last, c.items, c.cursors, c.err)
		}
	}
}
