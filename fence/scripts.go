package fence

import (
	_ "embed"
	"strings"
	"sync"

	"github.com/redoubt-go/redoubt"
)

//go:embed lua/guard.lua
var guardSource string

//go:embed lua/wrap.lua
var wrapSource string

var guardScript = redoubt.NewScript("fence.guard", guardSource)

// Scripts returns the scripts of this package, for servers that load them
// ahead of use.
func Scripts() []*redoubt.Script { return []*redoubt.Script{guardScript} }

// wrapped has the guarded form of each script that was run through a Guard:
// *redoubt.Script → *redoubt.Script.
var wrapped sync.Map

// wrap returns s as one script with the check of the token before it. It is made
// once for each script, of which a program has few.
func wrap(s *redoubt.Script) *redoubt.Script {
	if w, ok := wrapped.Load(s); ok {
		return w.(*redoubt.Script)
	}
	const place = "  -- the script\n"
	before, after, _ := strings.Cut(wrapSource, place)
	w, _ := wrapped.LoadOrStore(s, redoubt.NewScript("fence("+s.Name()+")", before+s.Source()+"\n"+after))
	return w.(*redoubt.Script)
}
