// Package native holds the scripts of the module's primitives as Go functions,
// which package engine runs in place of the Lua:
//
//	e, err := engine.Open(ctx, engine.Options{Natives: native.All()})
//
// A function is chosen by the digest of the script that it was written after,
// so a script of another version is run as Lua. It writes by the same commands,
// so that what is logged and told to watchers is the same; what it does not
// know, like an argument that is no integer or a key that another program wrote
// to, it leaves to the Lua before it writes anything. Tests hold each identical
// to its Lua over random calls.
//
// Only scripts that a profile shows to be hot have a function: a second text of
// a script is one more thing to keep right.
package native
