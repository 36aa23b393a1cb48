package scan

import "github.com/redoubt-go/redoubt"

// Each command below runs a script. The header of the script documents its arguments and its reply.

// ElementsCmd is elements.lua: one page of the elements of a hash, a set or a sorted set, and which server process gave it.
func ElementsCmd(key string, args ...string) redoubt.Cmd {
	return redoubt.Cmd{Script: elementsScript, Keys: []string{key}, Args: args, Flags: redoubt.ReadOnly}
}
