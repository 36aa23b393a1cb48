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

// helpLines is help with what each subcommand does, in the words of Redis.
func (c *call) helpLines(lines ...string) {
	top, _, _ := strings.Cut(c.cmd.Name, "|")
	c.array(len(lines) + 3)
	c.status(strings.ToUpper(top) + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
	for _, l := range lines {
		c.status(l)
	}
	c.status("HELP")
	c.status("    Prints this help.")
}

// unknownForm refuses a subcommand with too many arguments.
func (c *call) unknownForm() {
	top, _, _ := strings.Cut(c.cmd.Name, "|")
	c.err("ERR unknown subcommand or wrong number of arguments for '" + clip(c.args[1], 128) + "'. Try " + strings.ToUpper(top) + " HELP.")
}

func cmdCommandHelp(c *call) { c.help() }
func cmdConfigHelp(c *call)  { c.help() }
func cmdMemoryHelp(c *call)  { c.help() }
func cmdObjectHelp(c *call)  { c.help() }
func cmdPubsubHelp(c *call)  { c.help() }
func cmdScriptHelp(c *call)  { c.help() }
