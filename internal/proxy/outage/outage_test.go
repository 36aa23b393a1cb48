package outage_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/outage"
)

// TestAttemptFromBefore: an attempt to connect that began before the server was back is no new loss,
// however late it fails.
func TestAttemptFromBefore(t *testing.T) {
	var told []outage.Kind
	w := outage.NewWatch("redis-1", func(c outage.Change) { told = append(told, c.Kind) })
	refused := errors.New("refused")
	w.Failed(time.Now(), refused)
	began := time.Now().Add(-time.Millisecond) // on another connection
	w.Answered()
	w.Failed(began, refused)
	w.Answered()
	if want := []outage.Kind{outage.Lost, outage.Back}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
	w.Failed(time.Now(), refused)
	if want := []outage.Kind{outage.Lost, outage.Back, outage.Lost}; !slices.Equal(told, want) {
		t.Errorf("after another failure: told %v, want %v", told, want)
	}
}
