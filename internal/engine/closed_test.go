package engine

import (
	"runtime"
	"testing"
	"weak"

	"github.com/redoubt-go/redoubt/internal/test/await"
)

// The timer that looks for slow scripts kept a closed engine, with all its data, in memory until it fired.
func TestClosedEngineIsCollected(t *testing.T) {
	closed := func() weak.Pointer[Engine] {
		e, err := Open(t.Context(), Options{Clock: newFakeClock()})
		if err != nil {
			t.Fatal(err)
		}
		s := e.Session()
		run(s, "CONFIG SET lua-time-limit 3600000")
		run(s, "EVAL return(1) 0")
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		return weak.Make(e)
	}()
	await.Soon(t, "the engine is collected", func() bool {
		runtime.GC()
		return closed.Value() == nil
	})
}
