package main

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const output = "\x1b[1;37;49mTesting unit/x\x1b[0m\n" +
	"[\x1b[0;32;49mok\x1b[0m]: A, with (parentheses) (12 ms)\n" +
	"[\x1b[0;31;49merr\x1b[0m]: B in tests/unit/x.tcl\nExpected '1' to be '2'\n" +
	"[\x1b[0;31;49merr\x1b[0m]: C in tests/unit/x.tcl\n" +
	"[\x1b[0;36;49mignore\x1b[0m]: D: Tag: needs:debug denied\n" +
	"\n                   The End\n\n!!! WARNING The following tests failed:\n\n" +
	"*** [\x1b[0;31;49merr\x1b[0m]: B in tests/unit/x.tcl\n"

func TestOutcome(t *testing.T) {
	known, err := readKnown("# unit, test, reason\n\nunit/x\tB\tno streams\nunit/x\tA, with (parentheses)\told\nunit/y\tC\telsewhere\nserve:unit/x\tD\tby the server\nloop:unit/x\tE\tby the engine\n", false)
	if err != nil {
		t.Fatal(err)
	}
	o := parse([]byte(output))
	if !slices.Equal(o.passed, []string{"A, with (parentheses)"}) || !slices.Equal(o.failed, []string{"B", "C"}) || o.ignored != 1 || o.exception != "" {
		t.Errorf("parsed %+v", o)
	}
	if n := o.unknown("unit/x", known); n != 1 {
		t.Errorf("%d unexplained, want 1: C", n)
	}
	want := []string{"unit/x: failed: C", "unit/x: passed, take it out of known.txt: A, with (parentheses)"}
	if got := o.faults("unit/x", known); !slices.Equal(got, want) {
		t.Errorf("faults %q, want %q", got, want)
	}
	o = parse([]byte(output + "[\x1b[0;31;49mexception\x1b[0m]: Executing test client: I/O error.\n"))
	if got := o.faults("unit/x", known); !slices.Contains(got, "unit/x: [exception]: Executing test client: I/O error.") {
		t.Errorf("the exception is not among %q", got)
	}
}

func TestKnownHasReasons(t *testing.T) {
	if _, err := readKnown(knownText, true); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"unit/x\tB", "unit/x\tB\t", "unit/x B why"} {
		if _, err := readKnown(text, false); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// TestDocumentAddsUp: the rows of the first table in docs/engine.md add up to its last one, and so do the lists of tests that
// are left out.
func TestDocumentAddsUp(t *testing.T) {
	row := regexp.MustCompile(`(?m)^\| (unit/\S+|all|合计) \| (\d+) \| (\d+) \| (\d+) \|$`)
	list := regexp.MustCompile(`(?m)^\*\*(\d+)(?::| 个：)`)
	for _, page := range []string{"../../../docs/engine.md", "../../../docs/zh-CN/engine.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		number := func(s string) int {
			n, err := strconv.Atoi(s)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		var sum, all [3]int // passed, failed, left out
		for _, m := range row.FindAllStringSubmatch(string(text), -1) {
			for i := range sum {
				if all[i] = number(m[2+i]); strings.HasPrefix(m[1], "unit/") {
					sum[i] += all[i]
				}
			}
			if !strings.HasPrefix(m[1], "unit/") {
				break // behind it is the table of the way through the server
			}
		}
		listed := 0
		for _, m := range list.FindAllStringSubmatch(string(text), -1) {
			listed += number(m[1])
		}
		if sum != all || listed != all[2] || listed == 0 {
			t.Errorf("%s: the rows add up to %v, the lists to %d; want %v", page, sum, listed, all)
		}
	}
}
