package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/slow"
)

var record = flag.Bool("record", false, "keep what TestMatrix finds in testdata/found.json")

const foundFile = "testdata/found.json"

const (
	held    = "held"
	refused = "refused: " // and then the error
)

// atOnce is how long a cell that ends by a refusal may take, its preparations included, on a machine
// that does much else.
const atOnce = 20 * time.Second

// stays is for how long a test looks whether somebody goes on waiting. A wake-up takes some
// milliseconds.
const stays = 100 * time.Millisecond

// A way is a way in.
type way struct {
	name string
	// open returns what tests what is reached; nil if the way doesn't go there.
	open func(t *testing.T, on *reach) *door
}

// A door is a way to one thing that it reaches.
type door struct {
	promises []promise
}

// A promise is what one test of a door is about.
type promise struct {
	name string
	// hold ends the test where the promise is broken. It returns the error by which the
	// door refuses it at the first step.
	hold func(t *testing.T) (refusal error)
}

// ways are all ways in.
func ways() []way { return slices.Concat(libraries(), wires(), commandLines()) }

// outcomes has the outcome of each cell: by way, by back end, by promise.
type outcomes map[string]map[string]map[string]string

func (o outcomes) set(way, on, promise, outcome string) {
	if o[way] == nil {
		o[way] = map[string]map[string]string{}
	}
	if o[way][on] == nil {
		o[way][on] = map[string]string{}
	}
	o[way][on][promise] = outcome
}

// all goes over the cells in order.
func (o outcomes) all(do func(way, on, promise, outcome string)) {
	for _, w := range slices.Sorted(maps.Keys(o)) {
		for _, on := range slices.Sorted(maps.Keys(o[w])) {
			for _, p := range slices.Sorted(maps.Keys(o[w][on])) {
				do(w, on, p, o[w][on][p])
			}
		}
	}
}

func readFound(t *testing.T) outcomes {
	t.Helper()
	text, err := os.ReadFile(foundFile)
	var o outcomes
	if err := errors.Join(err, json.Unmarshal(text, &o)); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestMatrix runs all cells. It takes half a minute and mostly waits.
func TestMatrix(t *testing.T) {
	slow.Test(t, "it has hundreds of cells, on clusters and Sentinels too")
	found := outcomes{}
	var mu sync.Mutex
	reached := startAll(t)
	t.Run("cell", func(t *testing.T) {
		for _, w := range ways() {
			for _, on := range reached {
				d := w.open(t, on)
				if d == nil {
					continue
				}
				for _, p := range d.promises {
					t.Run(strings.Join([]string{w.name, on.name, p.name}, "/"), func(t *testing.T) {
						t.Parallel()
						began, outcome := time.Now(), held
						if err := p.hold(t); err != nil {
							outcome = refused + err.Error()
							if took := time.Since(began); took > atOnce {
								t.Errorf("refused after %v: %v", took, err)
							}
						}
						mu.Lock()
						defer mu.Unlock()
						found.set(w.name, on.name, p.name, outcome)
					})
				}
			}
		}
	})
	if t.Failed() {
		return
	}
	if *record {
		text, err := json.MarshalIndent(found, "", "\t")
		if err := errors.Join(err, os.WriteFile(foundFile, append(text, '\n'), 0o644)); err != nil { //nolint:gosec // it is for everybody
			t.Fatal(err)
		}
		return
	}
	recorded := readFound(t)
	found.all(func(way, on, promise, outcome string) {
		if want := recorded[way][on][promise]; outcome != want {
			t.Errorf("%s, %s, %s\n   is %s\nwas %q: if it is so on purpose, record it: see the package's documentation", way, on, promise, outcome, want)
		}
	})
	recorded.all(func(way, on, promise, _ string) {
		if found[way][on][promise] == "" {
			t.Errorf("%s, %s, %s: %s has this cell, and no test", way, on, promise, foundFile)
		}
	})
}

func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // its words about lost connections are of no use here
	os.Exit(m.Run())
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// binary is the path of redoubt.
var binary string
