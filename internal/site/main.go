// Site makes a static site of the repository's documents: `make docs`. The site needs no server and no other host:
// it also works from a directory on disk. The searches of its pages are by MiniSearch, in assets/minisearch.
//
// It is a module of its own, so that neither the library nor the binary requires goldmark.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: site REPOSITORY DIRECTORY")
		os.Exit(64)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// run writes the site of the repository in the directory repo to the directory out.
func run(repo, out string) error {
	files, err := build(os.DirFS(repo))
	if err != nil {
		return err
	}
	for name, content := range files {
		file := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return err
		}
	}
	out, err = filepath.Abs(out)
	fmt.Printf("%d files; open %s\n", len(files), filepath.Join(out, "index.html"))
	return err
}
