package scan

import "github.com/redoubt-go/redoubt"

// The commands below run a script each. What they take, and what comes back, the header of the
// script says.

// ElementsCmd is elements.lua: one page of the elements of a hash, a set or a sorted set, and which server process gave it.
func ElementsCmd(key string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: elementsScript, Keys: []string{key}, Args: args, Flags: redoubt.ReadOnly}
}
