// Package command is the table of the extension commands: what a Redoubt
// server understands beyond the commands of the server behind it.
//
// Each command is declared once, as a [Command]. From the table come the
// dispatch and the arity checks of package server, the answers to COMMAND,
// COMMAND INFO and COMMAND DOCS, and docs/commands.md.
//
// A command's Plan looks at its arguments and says what is to be done, in one
// of three ways: an error at once; a rewrite, which runs one script in the
// command's place in the pipeline and translates its reply; or a wait, which
// holds the client until something happens.
package command

//go:generate go run ./docgen ../../docs/commands.md
