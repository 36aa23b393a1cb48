package command

import (
	"fmt"
	"sync"
	"testing"
)

// TestTallyIsExact: goroutines that count the same names at the same time lose no event, and names with many
// events stay while names with one come and go.
func TestTallyIsExact(t *testing.T) {
	tally := newTally()
	const goroutines, events = 8, 50_000
	names := []string{"a", "b"}
	for _, name := range names { // known before the others come
		tally.add(name, 0)
		tally.add(name, 1)
	}
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for i := range events {
				tally.add(names[i%2], g%2)
				if i%10 == 0 {
					tally.add(fmt.Sprint("once ", g, " ", i), 0)
				}
			}
		})
	}
	all.Wait()
	found, sum := 0, [2]uint64{}
	tally.all(func(name string, n [2]uint64) {
		found++
		if name == names[0] || name == names[1] {
			sum[0], sum[1] = sum[0]+n[0], sum[1]+n[1]
		}
	})
	if want := uint64(goroutines/2*events + len(names)); sum != [2]uint64{want, want} {
		t.Errorf("counted %v; want %d of each kind", sum, want)
	}
	if found > tallySets*tallyWays || found < 100 {
		t.Errorf("%d names are kept", found)
	}
}

// TestTallyForgets: a name that is busy now is counted, though names that were busier once have all places and many
// names with one event come meanwhile.
func TestTallyForgets(t *testing.T) {
	tally := newTally()
	for i := range 2 * tallySets * tallyWays {
		old := fmt.Sprint("old ", i)
		for range 500 {
			tally.add(old, 0)
		}
	}
	const rounds, events = 1500, 20
	for round := range rounds { // a set gets about one new name for each twenty events of the busy name
		for range events {
			tally.add("busy", 1)
		}
		for i := range tallySets {
			tally.add(fmt.Sprint("new ", round, " ", i), 0)
		}
	}
	var busy uint64
	tally.all(func(name string, n [2]uint64) {
		if name == "busy" {
			busy = n[1]
		}
	})
	if busy < rounds*events/2 {
		t.Errorf("%d of %d events are counted", busy, rounds*events)
	}
}
