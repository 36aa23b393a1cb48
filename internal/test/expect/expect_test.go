package expect_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/expect"
)

// A failing is a test that may fail.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Helper()               {}
func (f *failing) Fatal(...any)          { f.failed = true }
func (f *failing) Fatalf(string, ...any) { f.failed = true }
func (f *failing) Errorf(string, ...any) { f.failed = true }

func TestChecksFail(t *testing.T) {
	cause, other := errors.New("no room"), errors.New("no time")
	wrapped := fmt.Errorf("put: %w", cause)
	for name, c := range map[string]struct {
		run   func(tb testing.TB)
		fails bool
	}{
		"Must, none":           {func(tb testing.TB) { expect.Must(tb, nil) }, false},
		"Must, one":            {func(tb testing.TB) { expect.Must(tb, cause) }, true},
		"Is, none":             {func(tb testing.TB) { expect.Is(tb, nil, nil) }, false},
		"Is, none wanted":      {func(tb testing.TB) { expect.Is(tb, cause, nil) }, true},
		"Is, one wanted":       {func(tb testing.TB) { expect.Is(tb, nil, cause) }, true},
		"Is, the cause":        {func(tb testing.TB) { expect.Is(tb, wrapped, cause) }, false},
		"Is, another":          {func(tb testing.TB) { expect.Is(tb, wrapped, other) }, true},
		"Says, none":           {func(tb testing.TB) { expect.Says(tb, nil, "") }, true},
		"Says, all":            {func(tb testing.TB) { expect.Says(tb, wrapped, "put", "room") }, false},
		"Says, one is missing": {func(tb testing.TB) { expect.Says(tb, wrapped, "put", "time") }, true},
	} {
		f := &failing{}
		if c.run(f); f.failed != c.fails {
			t.Errorf("%s: failed: %v", name, f.failed)
		}
	}
}
