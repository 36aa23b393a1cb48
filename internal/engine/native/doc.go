// Package native has Go functions in place of the primitives' hottest scripts. The engine runs them
// faster than Lua:
//
//	e, err := engine.Open(ctx, engine.Options{Natives: native.All()})
//
// The engine finds a function by the digest of the script that it stands for, so a script of another
// version runs as Lua. A function writes by the same commands as its script, so the log and the watchers
// get the same. Before it writes anything, it leaves unusual input to the Lua: an argument that is no
// integer, or a key that another program wrote. Tests compare each function with its script over random
// calls.
//
// Each function duplicates a script and must be kept in step with it. So only scripts that a profile
// shows to be hot have one.
package native
