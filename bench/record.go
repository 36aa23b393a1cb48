package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/benchmarks"
)

// isBrief reports whether measurements are so short that they show only that a suite works.
func (c config) isBrief() bool { return c.duration < 100*time.Millisecond }

// amount returns how much data a measurement loads: n, or a hundredth of it in a brief run.
func (c config) amount(n int) int {
	if c.isBrief() {
		return n / 100
	}
	return n
}

// record keeps a measurement for docs/benchmarks.md. The first contender of a line is ours.
func (c config) record(r benchmarks.Record) {
	r.Suite = c.suite
	c.results.Records = append(c.results.Records, r)
}

// recordRounds keeps a line: the figures of each contender by round.
func (c config) recordRounds(title string, callers int, unit string, contenders []string, rounds [][]float64) {
	for i, name := range contenders {
		c.record(benchmarks.Record{Title: title, Callers: callers, Contender: name, Unit: unit, Rounds: rounds[i]})
	}
}

// recordOnce keeps a figure that has no rounds.
func (c config) recordOnce(title string, callers int, unit, contender string, f float64) {
	c.recordRounds(title, callers, unit, []string{contender}, [][]float64{{f}})
}

// figures returns a figure of each sample of each contender.
func figures[T any](samples [][]T, get func(T) float64) [][]float64 {
	all := make([][]float64, len(samples))
	for i, rounds := range samples {
		for _, s := range rounds {
			all[i] = append(all[i], get(s))
		}
	}
	return all
}

// namesOf returns the names of contenders.
func namesOf[T any](all []T, name func(T) string) []string {
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = name(c)
	}
	return names
}

// A comparison is a run of all suites that have peers.
type comparison struct {
	out  string   // the file of results
	only []string // the suites to measure; the file keeps the results of the others
	note string
}

// run measures, and writes the results after each suite, so that a run that breaks off can go on with its other
// suites. A suite that fails keeps its former results, and the others are measured all the same. Then it writes
// docs/benchmarks.md.
func (m comparison) run(ctx context.Context, cfg config) error {
	var todo []suite
	for _, s := range suites {
		if s.peers && (len(m.only) == 0 || slices.Contains(m.only, s.name)) {
			todo = append(todo, s)
		}
	}
	if len(m.only) > 0 && len(todo) != len(m.only) {
		return fmt.Errorf("-only %s: want names of suites with peers", strings.Join(m.only, ","))
	}
	cfg.results, cfg.raw, cfg.dir = &benchmarks.Results{}, log.New(io.Discard, "", 0), filepath.Dir(m.out)
	if len(m.only) > 0 {
		before, err := benchmarks.Read(m.out)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		*cfg.results = before
	}
	if len(cfg.results.Records) > 0 { // the page tells that its suites are not of one run
		cfg.results.Machine += fmt.Sprintf("; %s anew: ", strings.Join(m.only, ", "))
	}
	cfg.results.Machine += fmt.Sprintf("%s; %d rounds of %v", machine(ctx), cfg.rounds, cfg.duration)
	if cfg.rounds < 5 || cfg.duration < 500*time.Millisecond {
		cfg.results.Note = "a short run"
	}
	cfg.results.Versions = versions()
	if m.note != "" {
		cfg.results.Note = m.note
	}
	began := time.Now()
	var failed []error
	for i, s := range todo {
		cfg.suite, cfg.stage = s.name, fmt.Sprintf("suite %d of %d, %s: ", i+1, len(todo), s.name)
		before := slices.Clone(cfg.results.Records)
		cfg.results.Records = slices.DeleteFunc(cfg.results.Records, func(r benchmarks.Record) bool {
			return r.Suite == s.name || strings.HasPrefix(r.Suite, s.name+" ")
		})
		if err := s.run(ctx, cfg); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			cfg.progress("")
			cfg.printf("# %s failed: %v", s.name, err)
			failed = append(failed, fmt.Errorf("%s: %w", s.name, err))
			cfg.results.Records = before
		}
		if err := cfg.results.Write(m.out); err != nil {
			return err
		}
		cfg.printf("# %s done, %v since the start", s.name, time.Since(began).Round(time.Second))
	}
	return errors.Join(append(failed, benchmarks.Write("..", m.out))...)
}
