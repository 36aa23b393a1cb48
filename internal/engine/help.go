package engine

import "strings"

// help lists the subcommands of a command.
func (c *call) help() {
	top, _, _ := strings.Cut(c.cmd.Name, "|")
	subs := commands[top].subs
	c.array(len(subs) + 1)
	c.status(strings.ToUpper(top) + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
	for i := range subs {
		_, name, _ := strings.Cut(subs[i].Name, "|")
		c.status(strings.ToUpper(name))
	}
}

func cmdCommandHelp(c *call)  { c.help() }
func cmdConfigHelp(c *call)   { c.help() }
func cmdFunctionHelp(c *call) { c.help() }
func cmdMemoryHelp(c *call)   { c.help() }
func cmdObjectHelp(c *call)   { c.help() }
func cmdPubsubHelp(c *call)   { c.help() }
func cmdScriptHelp(c *call)   { c.help() }
