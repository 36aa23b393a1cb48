package fence_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/wire/fence"
)

// A script that the program makes for one call is not kept for ever, and one that it
// keeps is wrapped once.
func TestGuardedScriptsGoWithTheirScripts(t *testing.T) {
	before := fence.Wrapped()
	keeps := redoubt.NewScript("keeps", "return 0")
	first, err := fence.DoCmd("k", 1, 0, redoubt.Cmd{Script: keeps})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		once := redoubt.NewScript("once", fmt.Sprint("return ", i))
		if _, err := fence.DoCmd("k", 1, 0, redoubt.Cmd{Script: once}); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, time.Minute, "all others are forgotten", func() bool {
		runtime.GC()
		return fence.Wrapped() <= before+1
	})
	again, err := fence.DoCmd("k", 1, 0, redoubt.Cmd{Script: keeps})
	if err != nil || again.Script != first.Script {
		t.Errorf("it is wrapped again (%v)", err)
	}
	runtime.KeepAlive(keeps)
}
