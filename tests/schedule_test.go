package tests

import (
	"testing"
	"time"

	cron "github.com/netresearch/go-cron"

	"github.com/redoubt-go/redoubt/queue"
)

// A schedule of the cron library works as a schedule of a queue. Its times are in its own
// location, also where a change to summer time skips one.
func TestCronSchedules(t *testing.T) {
	for _, c := range []struct {
		spec, from string
		want       []string
	}{
		{"0 9 * * MON-FRI", "2026-01-02T08:30:00Z", []string{"2026-01-05T08:00:00Z", "2026-01-06T08:00:00Z"}},
		{"0 3 * * *", "2026-03-28T12:00:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z"}},
	} {
		parsed, err := cron.ParseStandard("CRON_TZ=Europe/Berlin " + c.spec)
		if err != nil {
			t.Fatal(err)
		}
		var s queue.Schedule = parsed
		at, err := time.Parse(time.RFC3339, c.from)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			at = s.Next(at)
			if got := at.UTC().Format(time.RFC3339); got != want {
				t.Errorf("%s: %s, want %s", c.spec, got, want)
			}
		}
	}
}
