package fence

import (
	"bytes"
	_ "embed"
	"runtime"
	"strings"
	"sync"
	"weak"

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

// around returns what precedes and follows a script in its guarded form.
func around() (before, after string) {
	before, after, _ = strings.Cut(wrapSource, "  -- the script\n")
	return before, after
}

// Guards reports whether a script, by its source, is the guarded form of another.
func Guards(source []byte) bool {
	before, _ := around()
	return bytes.HasPrefix(source, []byte(before))
}

// wrapped has the guarded form of each script that a Guard has run, for as long as the program has
// that script: weak.Pointer[redoubt.Script] → *redoubt.Script.
var wrapped sync.Map

// wrap returns s with the check of the token before it, as one script. It makes that once for each
// script.
func wrap(s *redoubt.Script) *redoubt.Script {
	key := weak.Make(s)
	if w, ok := wrapped.Load(key); ok {
		return w.(*redoubt.Script)
	}
	before, after := around()
	w, there := wrapped.LoadOrStore(key, redoubt.NewScript("fence("+s.Name()+")", before+s.Source()+"\n"+after))
	if !there {
		runtime.AddCleanup(s, func(key weak.Pointer[redoubt.Script]) { wrapped.Delete(key) }, key)
	}
	return w.(*redoubt.Script)
}
