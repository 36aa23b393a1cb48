package tests

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/netresearch/go-cron"

	"github.com/redoubt-go/redoubt/internal/calendar"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// Random expressions come when go-cron says. Two things differ and are left out: time zones where clocks are
// turned, and a step in a field for days, which go-cron takes for certain days.
func TestCronAgreesWithGoCron(t *testing.T) {
	r, steps := randtest.Rand(t), randtest.Watch(t)
	parser := cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom).WithMaxSearchYears(41)
	compared := 0
	for compared < 1000 {
		expr := strings.Join([]string{
			cronField(r, 0, 59, true), cronField(r, 0, 23, true), cronField(r, 1, 31, false), cronField(r, 1, 12, true), cronField(r, 0, 6, false),
		}, " ")
		steps.Begin(func() string { return expr })
		c, err := calendar.ParseCron(expr)
		if err != nil {
			if strings.Contains(err.Error(), "never comes") {
				continue
			}
			t.Fatal(err)
		}
		peer, err := parser.Parse(expr)
		if err != nil && strings.Contains(err.Error(), "step (") {
			continue // it takes no step that is longer than its range
		}
		if err != nil {
			t.Fatalf("%q: go-cron says %v", expr, err)
		}
		compared++
		at := time.Unix(1_790_000_000+r.Int64N(1e9), 0).UTC()
		for range 5 {
			got, want := c.Next(at, time.UTC), peer.Next(at)
			if !got.Equal(want) {
				t.Fatalf("%q comes after %v at %v; go-cron says %v", expr, at, got, want)
			}
			at = got
		}
	}
}

// cronField returns a random field with values from least to most.
func cronField(r *rand.Rand, least, most int, stars bool) string {
	if r.IntN(3) == 0 {
		if stars && r.IntN(2) == 0 {
			return fmt.Sprintf("*/%d", 1+r.IntN(most))
		}
		return "*"
	}
	var parts []string
	for range 1 + r.IntN(3) {
		low := least + r.IntN(most-least+1)
		part := fmt.Sprint(low)
		if r.IntN(2) == 0 {
			part = fmt.Sprintf("%d-%d", low, low+r.IntN(most-low+1))
		}
		if r.IntN(4) == 0 {
			part += fmt.Sprintf("/%d", 1+r.IntN(most))
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ",")
}
