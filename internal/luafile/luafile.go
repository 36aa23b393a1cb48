// Package luafile holds the scripts of a package. It makes them of Lua files and of the parts that
// several files share.
//
// A line "-- part: NAME" of a file stands for the file part_NAME.lua beside it. The part is inserted
// as text. A function in its place would cost the server its creation at each call.
package luafile

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/redoubt-go/redoubt"
)

// Scripts are the scripts of a package, for its package variables.
type Scripts struct {
	pkg   string
	files fs.FS
	all   []*redoubt.Script
}

// New returns the scripts of the package called pkg, which stand in files below lua/.
func New(pkg string, files fs.FS) *Scripts { return &Scripts{pkg: pkg, files: files} }

// Script adds the script called "pkg.name", which stands in the file lua/name.lua. It panics when
// a file is missing.
func (s *Scripts) Script(name string) *redoubt.Script {
	text, err := Text(s.files, "lua/"+name+".lua")
	if err != nil {
		panic(err)
	}
	return s.Add(name, text)
}

// Add adds the script called "pkg.name" with the given source.
func (s *Scripts) Add(name, source string) *redoubt.Script {
	script := redoubt.NewScript(s.pkg+"."+name, source)
	s.all = append(s.all, script)
	return script
}

// All returns all scripts in the order in which they were added.
func (s *Scripts) All() []*redoubt.Script { return slices.Clone(s.all) }

// Text returns the text of a file with its parts. Parts have no parts.
func Text(files fs.FS, file string) (string, error) {
	text, err := fs.ReadFile(files, file)
	if err != nil {
		return "", fmt.Errorf("luafile: %w", err)
	}
	var whole strings.Builder
	for line := range strings.Lines(string(text)) {
		blanks, name, is := strings.Cut(line, "-- part: ")
		if !is || strings.Trim(blanks, " ") != "" {
			whole.WriteString(line)
			continue
		}
		part, err := fs.ReadFile(files, path.Join(path.Dir(file), "part_"+strings.TrimSuffix(name, "\n")+".lua"))
		if err != nil {
			return "", fmt.Errorf("luafile: part of %s: %w", file, err)
		}
		whole.WriteString(blanks)
		whole.Write(part)
	}
	return whole.String(), nil
}
