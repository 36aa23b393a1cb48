// Package command is the table of the commands that a Redoubt server adds to the commands of the server
// behind it.
//
// Each command is declared once, as a [Command]. Package server dispatches by the table and checks the
// arity. The replies to COMMAND, COMMAND INFO and COMMAND DOCS are made from it, and docs/commands.md
// with the pages below docs/commands.
//
// A command's Plan reads its arguments and returns one of three things: an error; a rewrite, which runs one
// script in the command's place in the pipeline and translates its reply; or a wait, which runs on the
// client's session and may block.
package command

//go:generate go run ./docgen ../../docs
