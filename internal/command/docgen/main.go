// Docgen writes docs/commands.md from the table in package command.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/redoubt-go/redoubt/internal/command"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: docgen FILE")
		os.Exit(2)
	}
	file := os.Args[1]
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // documentation is for everybody
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
	if err := os.WriteFile(file, []byte(command.Markdown()), 0o644); err != nil { //nolint:gosec // as above
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}
