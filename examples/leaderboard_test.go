package examples

import (
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// Equal points share a rank, each window has its own board, and a second run on the same server starts
// from nothing.
func TestLeaderboard(t *testing.T) {
	const monday = `today
   1. eve      95
   2. cai      80
   2. bob      80
   4. ann      50
  ann is number 4 with 50 points
yesterday
   1. dan     300
   2. ann     120
  ann is number 2 with 120 points
all time
   1. dan     310
   2. ann     170
   3. eve      95
   4. cai      80
  ann is number 2 with 170 points
week 48
   1. eve      95
   2. cai      80
   2. bob      80
   4. ann      50
  ann is number 4 with 50 points
`
	if out := run(t, "leaderboard", "-day", "2026-11-23"); out != monday {
		t.Errorf("printed\n%swant\n%s", out, monday)
	}
	url := redistest.Start(t).URL()
	for range 2 {
		if out := run(t, "leaderboard", "-day", "2026-11-23", "-url", url); out != monday {
			t.Errorf("on Redis it printed\n%swant\n%s", out, monday)
		}
	}
}
