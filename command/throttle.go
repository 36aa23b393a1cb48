package command

import "github.com/redoubt-go/redoubt"

var throttleCommands []*Command

func throttleScripts() []*redoubt.Script { return nil }
