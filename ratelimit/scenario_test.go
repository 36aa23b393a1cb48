package ratelimit_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/ratelimit"
)

// Each file of testdata/scenarios is a story, on a clock of its own:
//
//	limit 3/1s burst=6      3 tokens a second, 6 at once, from here on
//	allow NAME [N] -> …     AllowN, N defaults to 1, and what it must answer
//	peek NAME -> …          Info
//	reset NAME              Reset
//	advance DURATION        set the server's clock, back too
//
// Promise: Tokens that were taken stay taken when a limit changes.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	must(t, err)
	if len(files) < 6 {
		t.Fatalf("only %d scenarios", len(files))
	}
	eachFrozen(t, func(t *testing.T, e *env) {
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { playScenario(t, e, file) })
		}
	})
}

func playScenario(t *testing.T, e *env, file string) {
	text, err := os.ReadFile(file)
	must(t, err)
	var l *ratelimit.Limiter
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line, _, _ = strings.Cut(line, "#")
		call, want, _ := strings.Cut(line, "->")
		word := strings.Fields(call)
		if len(word) == 0 {
			continue
		}
		got, err := "", error(nil)
		switch name := t.Name() + word[1]; word[0] {
		case "limit":
			l = e.limiter(t, parseLimit(t, word[1:]))
		case "advance":
			var d time.Duration
			d, err = time.ParseDuration(word[1])
			e.Clock.Advance(d)
		case "allow":
			tokens := 1
			if len(word) > 2 {
				tokens, err = strconv.Atoi(word[2])
				must(t, err)
			}
			var d ratelimit.Decision
			d, err = l.AllowN(t.Context(), name, tokens)
			got = show(d)
		case "peek":
			var d ratelimit.Decision
			d, err = l.AllowN(t.Context(), name, 0)
			got = show(d)
		case "reset":
			err = l.Reset(t.Context(), name)
		default:
			t.Fatalf("%s:%d: what is %q?", file, n, word[0])
		}
		must(t, err)
		if want = strings.TrimSpace(want); got != want {
			t.Errorf("%s:%d: %s\n got %s\nwant %s", file, n, strings.TrimSpace(call), got, want)
		}
	}
}

// parseLimit reads "3/1s burst=6".
func parseLimit(t *testing.T, word []string) ratelimit.Limit {
	t.Helper()
	var l ratelimit.Limit
	rate, period, _ := strings.Cut(word[0], "/")
	if _, err := fmt.Sscanf(word[1], "burst=%d", &l.Burst); err != nil {
		t.Fatal(err)
	}
	var err error
	l.Rate, err = strconv.Atoi(rate)
	must(t, err)
	l.Period, err = time.ParseDuration(period)
	must(t, err)
	return l
}
