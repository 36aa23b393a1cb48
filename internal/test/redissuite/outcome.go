package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

//go:embed known.txt
var knownText string

// readKnown reads the tests that are known to fail: unit, name and reason,
// separated by tabs. The reasons are for the reader; none may be missing. A unit
// with "loop:" or "serve:" before it fails in one of the two ways only.
func readKnown(text string, through bool) (map[string]bool, error) { //nolint:revive // the parameter says which way
	known := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(line, "\t")
		if len(parts) != 3 || slices.Contains(parts, "") {
			return nil, fmt.Errorf("known.txt: %q is not unit, test and reason, separated by tabs", line)
		}
		unit := parts[0]
		if way, of, ok := strings.Cut(unit, ":"); ok {
			if (way == "serve") != through {
				continue
			}
			unit = of
		}
		known[unit+"\t"+parts[1]] = true
	}
	return known, nil
}

// An outcome is what one unit's output tells.
type outcome struct {
	passed, failed []string
	ignored        int    // tests that the harness left out, by tag or by block
	exception      string // what ended the unit before its end
}

var (
	colour    = regexp.MustCompile("\x1b\\[[0-9;]*m")
	result    = regexp.MustCompile(`(?m)^\[(ok|err|ignore|skip)\]: (.*)$`)
	inFile    = regexp.MustCompile(` in tests/\S+\.tcl$`)
	duration  = regexp.MustCompile(` \(\d+ ms\)$`)
	exception = regexp.MustCompile(`(?m)^\[exception\]: .*$`)
)

// parse reads the output of the harness, which names a failed test again at
// its end, behind three stars.
func parse(out []byte) (o outcome) {
	text := colour.ReplaceAllString(string(out), "")
	for _, m := range result.FindAllStringSubmatch(text, -1) {
		switch m[1] {
		case "ok":
			o.passed = append(o.passed, duration.ReplaceAllString(m[2], ""))
		case "err":
			o.failed = append(o.failed, inFile.ReplaceAllString(m[2], ""))
		default:
			o.ignored++
		}
	}
	o.exception = exception.FindString(text)
	return o
}

// unknown counts the failed tests that nothing explains.
func (o *outcome) unknown(unit string, known map[string]bool) (n int) {
	for _, name := range o.failed {
		if !known[unit+"\t"+name] {
			n++
		}
	}
	return n
}

// faults returns what is not as known says.
func (o *outcome) faults(unit string, known map[string]bool) (faults []string) {
	for _, name := range o.failed {
		if !known[unit+"\t"+name] {
			faults = append(faults, unit+": failed: "+name)
		}
	}
	for _, name := range o.passed {
		if known[unit+"\t"+name] && !slices.Contains(o.failed, name) {
			faults = append(faults, unit+": passed, take it out of known.txt: "+name)
		}
	}
	if o.exception != "" {
		faults = append(faults, unit+": "+o.exception)
	}
	return faults
}
