package redoubt_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// proseExamples has, for each rule of .vale/Redoubt, sentences that the rule rejects and sentences
// that it accepts.
var proseExamples = map[string]struct{ rejects, accepts []string }{
	"Those": {
		rejects: []string{
			"The server answers those that wait.", "It keeps the replies and those of others.", "Only those who wait are woken.",
			"It deletes those whose TTL has ended.", "It asks those\nthat wait.",
		},
		accepts: []string{"The server answers waiting clients.", "It deletes the keys whose TTL ended.", "It sends those two keys."},
	},
	"Which": {
		rejects: []string{
			"It sends 3 keys, of which 2 are new.", "It asks, which then answers.",
			"The client for whom it waits is gone.", "The lock is held by who asked first.", "It is left for who comes next.",
		},
		accepts: []string{"The node that owns the slot is down.", "It sends 3 keys; 2 are new.", "The lock is held by whoever asked first.", "The node to which it belongs is down."},
	},
	"Passive": {
		rejects: []string{
			"It returns at once, as there is nothing to do.", "A lock is had by one client.",
			"It is looked whether the key exists.", "Every caller, be it a script or a command, waits.", "The key is asked for by the server.",
			"Servers that can expire fields, such as do hashes, are asked.", "It takes so many as come.",
		},
		accepts: []string{"It returns at once if nothing is left.", "It takes as many as there are.", "The value may be italic.", "Such as it is, it works."},
	},
	"Subject": {
		rejects: []string{
			"What is left is sent.", "It sends the rest. Who waits is woken.", "Whoever releases it wakes the next.", "Those are sent first.",
			"It has two ends: What comes first counts.",
		},
		accepts: []string{"What is a lease? It is a lock with a deadline.", "The rest is sent.", "It tells what is left.", "Whose lease it is, the token says."},
	},
}

// TestProseRules checks the rules that make prose applies. Vale needs a C compiler, so make builds it
// and names it; plain go test doesn't run it.
func TestProseRules(t *testing.T) {
	vale := os.Getenv("VALE")
	if vale == "" {
		t.Skip("VALE names no program: run make prose") // this machine has no Vale
	}
	rules, err := filepath.Glob(".vale/Redoubt/*.yml")
	if err != nil || len(rules) == 0 {
		t.Fatalf("no rules: %v", err)
	}
	for _, file := range rules {
		if rule := strings.TrimSuffix(filepath.Base(file), ".yml"); len(proseExamples[rule].rejects) == 0 || len(proseExamples[rule].accepts) == 0 {
			t.Errorf("rule %s has no sentences in proseExamples", rule)
		}
	}
	dir := t.TempDir()
	want := map[string]string{} // by file, the rule that Vale is to report
	add := func(ending, content, rule string) {
		file := filepath.Join(dir, strconv.Itoa(len(want))+ending)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		want[file] = rule
	}
	for rule, examples := range proseExamples {
		for i, text := range slices.Concat(examples.rejects, examples.accepts) {
			expected := rule
			if i >= len(examples.rejects) {
				expected = ""
			}
			line := strings.ReplaceAll(text, "\n", " ")
			add(".go", "// "+strings.ReplaceAll(text, "\n", "\n// ")+"\npackage x\n\nvar s = \""+line+"\"\n", expected)
			add(".lua", "-- "+strings.ReplaceAll(text, "\n", "\n-- ")+"\nreturn '"+line+"'\n", expected)
			add(".md", "# Title\n\n"+text+"\n\n```\n"+text+"\n```\n", expected)
		}
	}
	add(".md", "# What it promises\n", "")
	found := valeReports(t, vale, dir)
	for file, rule := range want {
		if got := strings.Join(found[file], " "); got != rule {
			text, _ := os.ReadFile(file)
			t.Errorf("Vale reports %q, want %q:\n%s", got, rule, text)
		}
	}
}

// valeReports returns the names of the rules that Vale reports, by file.
func valeReports(t *testing.T, vale, dir string) map[string][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), vale, "--config=.vale.ini", "--no-exit", "--output=JSON", dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, &stderr)
	}
	var alerts map[string][]struct{ Check string }
	if err := json.Unmarshal(out, &alerts); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	rules := map[string][]string{}
	for file, list := range alerts {
		for _, a := range list {
			rules[file] = append(rules[file], strings.TrimPrefix(a.Check, "Redoubt."))
		}
	}
	return rules
}
