package examples

import "testing"

// However many readers miss an entry at once, in both processes, the database gets one query. Readers of an
// entry that is no longer fresh don't wait for it.
func TestCache(t *testing.T) {
	out := run(t, "cache")
	for _, want := range []string{
		`the cache is empty: +readers 200, queries 1: tea costs 4\.50\n`,
		`the cache has it: +readers 200, queries 0: tea costs 4\.50\n`,
		`there is no product 9: +readers 200, queries 1: there is none\n`,
		`the price has changed: +readers 200, queries 1: tea costs 4\.95\n`,
		// Under load the entry may go stale while the readers ask, and is loaded again.
		`an offer: +readers 200, queries \d: coffee costs 6\.90\n`,
		`the offer is no longer fresh: +readers 200, queries \d: coffee costs 6\.90\n`,
		`process 1: \d+ hits, \d+ stale, \d+ waited for a load of another, \d+ loads\n`,
		`process 2: \d+ hits, \d+ stale, \d+ waited for a load of another, \d+ loads\n$`,
	} {
		matches(t, out, want)
	}
}
