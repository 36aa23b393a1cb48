package faults

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// Patience is how much longer than it should a history may go on until it shows
// something: on a machine that is busy, few leases outlive what befalls them.
const Patience = 2 * time.Minute

// Rounds runs one round of a history after another, each as a subtest, so that what
// it started goes home with it. It ends after length, or what HISTORY says instead,
// but goes on for up to [Patience] until all that is wanted has happened: run counts
// in total what has.
func Rounds(t *testing.T, length time.Duration, wanted []string, run func(t *testing.T, round uint64, total map[string]int)) {
	t.Helper()
	if s := os.Getenv("HISTORY"); s != "" {
		var err error
		length, err = time.ParseDuration(s)
		must(t, err)
	}
	total := map[string]int{}
	for round, began := uint64(0), time.Now(); !t.Failed(); round++ {
		if took := time.Since(began); took > length && len(missing(total, wanted)) == 0 || took > length+Patience {
			break
		}
		t.Run(fmt.Sprint("round ", round), func(t *testing.T) { run(t, round, total) })
	}
	t.Log(total)
	for _, what := range missing(total, wanted) {
		t.Errorf("there was no %q: the test shows nothing", what)
	}
}

func missing(total map[string]int, wanted []string) (what []string) {
	for _, w := range wanted {
		if total[w] == 0 {
			what = append(what, w)
		}
	}
	return what
}

// Rounds is [Rounds] of a history in which f strikes d. When eight rounds have not shown all that
// is wanted, everything takes more time from then on: on a slow machine calls came too late.
func (d *Deployment) Rounds(t *testing.T, f Fault, wanted []string, run func(t *testing.T, round uint64, total map[string]int)) {
	t.Helper()
	d.TTL = usualTTL
	Rounds(t, f.Round(d), wanted, func(t *testing.T, round uint64, total map[string]int) {
		if round%8 == 7 && len(missing(total, wanted)) > 0 && d.TTL < 8*usualTTL {
			d.TTL += usualTTL
		}
		run(t, round, total)
	})
}
