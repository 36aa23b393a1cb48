package settings_test

import (
	"testing"

	"github.com/redoubt-go/redoubt/internal/settings"
)

func TestNearest(t *testing.T) {
	words := []string{"wait", "name", "backend", "listen"}
	for misspelled, want := range map[string]string{
		"wiat": "wait", "wit": "wait", "waitt": "wait", "wart": "wait", "backedn": "backend", "lsiten": "listen",
		"tiaw": "", "x": "", "": "",
	} {
		if got := settings.Nearest(misspelled, words); got != want {
			t.Errorf("%q: %q; want %q", misspelled, got, want)
		}
	}
}
