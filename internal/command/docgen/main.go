// Docgen writes docs/commands.md and the pages of its families from the table in package command.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/redoubt-go/redoubt/internal/command"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: docgen DIRECTORY")
		os.Exit(2)
	}
	for name, text := range command.Pages() {
		if err := write(filepath.Join(os.Args[1], name), text); err != nil {
			fmt.Fprintln(os.Stderr, "docgen:", err)
			os.Exit(1)
		}
	}
}

func write(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // documentation is for everybody
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644) //nolint:gosec // as above
}
