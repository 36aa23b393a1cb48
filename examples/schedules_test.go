package examples

import (
	"regexp"
	"testing"
)

// Three processes put and run the same schedule. No time of it runs twice.
func TestSchedules(t *testing.T) {
	p := start(t, "schedules")
	p.find(t, `(?s)runs tick@\d+: .*runs tick@\d+: .*runs tick@\d+: `)
	p.interrupt(t)
	ran := map[string]bool{}
	for _, m := range regexp.MustCompile(`runs (\S+): `).FindAllStringSubmatch(p.output(), -1) {
		if ran[m[1]] {
			t.Errorf("%s ran twice", m[1])
		}
		ran[m[1]] = true
	}
}
