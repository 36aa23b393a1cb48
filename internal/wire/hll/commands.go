package hll

import "github.com/redoubt-go/redoubt"

// Each command below runs a script. The header of the script documents its arguments and its reply.

// MergeCmd is merge.lua: add the counts of a process for a page in a period, once.
func MergeCmd(keys []string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: mergeScript, Keys: keys, Args: args, Flags: redoubt.Idempotent}
}

// UnionCmd is union.lua: read the union of sketches.
func UnionCmd(keys []string) redoubt.Cmd {
	return redoubt.Cmd{Script: unionScript, Keys: keys, Flags: redoubt.Idempotent}
}
