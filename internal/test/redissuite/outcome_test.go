package main

import (
	"slices"
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
	known, err := readKnown("# unit, test, reason\n\nunit/x\tB\tno streams\nunit/x\tA, with (parentheses)\told\nunit/y\tC\telsewhere\n")
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
	if _, err := readKnown(knownText); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"unit/x\tB", "unit/x\tB\t", "unit/x B why"} {
		if _, err := readKnown(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
