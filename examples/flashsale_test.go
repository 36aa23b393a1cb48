package examples

import (
	"encoding/json"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/await"
)

// TestFlashSale sells 10 bottles to 400 buyers while a shop is stopped and another one is killed. Each sale
// takes 5 to 10 seconds, in which it mostly waits: the time to live of the lock has to end, and that of the
// reservations.
func TestFlashSale(t *testing.T) {
	for _, step := range []string{"nothing", "lock", "stock"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			out := run(t, "flashsale", "-step", step, "-buyers", "400", "-bottles", "10", "-processes", "3", "-concurrency", "50", "-page", "", "-json")
			var results []struct {
				Bottles, Sold, Left, Oversold, Twice int64
				Stopped                              bool
			}
			if err := json.Unmarshal([]byte(out), &results); err != nil || len(results) != 1 {
				t.Fatalf("%v: %s", err, out)
			}
			r := results[0]
			t.Logf("%+v", r)
			if step == "nothing" {
				// 50 buyers at a time read the number before 10 ms of work, and some before 1.5 s.
				if r.Oversold <= 0 {
					t.Errorf("oversold %d, want more than 0", r.Oversold)
				}
				return
			}
			if r.Oversold != 0 || r.Sold+r.Left != r.Bottles || r.Sold == 0 {
				t.Errorf("sold %d and %d left of %d, oversold %d", r.Sold, r.Left, r.Bottles, r.Oversold)
			}
			if step == "stock" && (r.Sold != r.Bottles || r.Twice != 0) {
				t.Errorf("sold %d of %d, %d of them to a buyer that had one; want all, and none", r.Sold, r.Bottles, r.Twice)
			}
			// Some shop comes to its slow payment: then it is stopped.
			if !r.Stopped && r.Sold == r.Bottles && runtime.GOOS != "windows" {
				t.Error("no shop was stopped")
			}
		})
	}
}

// The page is there, and its numbers move, while a sale runs. This sale would take half a minute.
func TestFlashSalePage(t *testing.T) {
	t.Parallel()
	p := start(t, "flashsale", "-step", "stock", "-buyers", "1000", "-bottles", "1000", "-processes", "2", "-concurrency", "2", "-work", "50ms")
	url := p.find(t, `live page: (http\S+)`)[1]
	get := func(path string) string {
		resp, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v, %v", path, resp.Status, err)
		}
		return string(text)
	}
	if page := get(""); !strings.Contains(page, "<title>Flash sale</title>") {
		t.Errorf("the page is %q", page)
	}
	await.Until(t, limit, "the page shows that bottles are sold", func() bool {
		var results []struct{ Sold int64 }
		return json.Unmarshal([]byte(get("results")), &results) == nil && len(results) == 1 && results[0].Sold > 0
	})
}
