// Package native has Go functions in place of the primitives' hottest scripts. The engine runs them
// faster than Lua:
//
//	e, err := engine.Open(ctx, engine.Options{Natives: native.All()})
//
// The engine finds a function by the digest of the script that it stands for, so a script of another
// version runs as Lua. A function writes by the same commands as its script, so the log and the watchers
// get the same. Before it writes anything, it leaves unusual input to the Lua: an argument that is no
// integer, or a key that another program wrote. It also leaves the less common cases: a caller who waits,
// a holder who died, many items in one call. Tests compare each function with its script over random
// calls.
//
// Each function duplicates a script and must be kept in step with it. So only the scripts of a primitive's main
// use have one: what `bench -suite calls` measures. A caller runs such a script in its own goroutine.
package native
