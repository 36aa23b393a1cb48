package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
)

// TestStuck is the test that the others run testwatch on.
func TestStuck(*testing.T) {
	if os.Getenv("TESTWATCH") == "stuck" {
		<-time.After(time.Hour)
	}
}

func TestLimit(t *testing.T) {
	t.Setenv("TESTWATCH", "stuck")
	var out bytes.Buffer
	code, err := run([]string{os.Args[0], "-test.v", "-test.run", "^TestStuck$"}, 100*time.Millisecond, &out)
	if code == 0 || err != nil {
		t.Errorf("the exit code is %d and the error %v, want a code and no error", code, err)
	}
	for _, want := range []string{"TestStuck has run for", "testwatch.TestStuck(", "chan receive"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %q:\n%s", want, out.String())
		}
	}
}

func TestWithinLimit(t *testing.T) {
	var out bytes.Buffer
	code, err := run([]string{os.Args[0], "-test.v", "-test.run", "^TestStuck$"}, time.Minute, &out)
	if code != 0 || err != nil || !strings.Contains(out.String(), "--- PASS: TestStuck") {
		t.Errorf("the exit code is %d, the error %v, the output:\n%s", code, err, out.String())
	}
}

func TestNoSuchBinary(t *testing.T) {
	if code, err := run([]string{"/nowhere/x.test"}, time.Minute, &bytes.Buffer{}); code == 0 || err == nil {
		t.Errorf("the exit code is %d and the error %v, want both", code, err)
	}
}

// A parallel test waits for its turn without using up its limit.
func TestPauseDoesNotCount(t *testing.T) {
	w := &watch{out: &bytes.Buffer{}, running: map[string]time.Time{}, spent: map[string]time.Duration{}}
	start := time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	w.note("\x16=== RUN   TestA", at(0))
	w.note("\x16=== PAUSE TestA", at(5))
	if over := w.over(at(100), 10*time.Second); over != "" {
		t.Errorf("a paused test counts: %s", over)
	}
	w.note("its own words\x16=== CONT  TestA", at(100))
	if over := w.over(at(104), 10*time.Second); over != "" {
		t.Errorf("the pause counts: %s", over)
	}
	if over := w.over(at(106), 10*time.Second); !strings.Contains(over, "TestA has run for 11 s") {
		t.Errorf("over returns %q, want that TestA has run for 11 s", over)
	}
	w.note("\x16--- PASS: TestA (11.00s)", at(106))
	if over := w.over(at(200), 10*time.Second); over != "" {
		t.Errorf("a test that has ended counts: %s", over)
	}
}
