package hll

import "github.com/redoubt-go/redoubt"

// The commands below run a script each. What they take, and what comes back, the header of the
// script says.

// MergeCmd is merge.lua: add what a process has counted of a page in a period, once.
func MergeCmd(keys []string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: mergeScript, Keys: keys, Args: args, Flags: redoubt.Idempotent}
}

// UnionCmd is union.lua: read the union of sketches.
func UnionCmd(keys []string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: unionScript, Keys: keys, Args: args, Flags: redoubt.Idempotent}
}
