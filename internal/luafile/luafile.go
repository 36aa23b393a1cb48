// Package luafile makes scripts of Lua files, and of the parts that several of
// them share.
//
// A line "-- part: NAME" of a file stands for the file part_NAME.lua beside it:
// text, not a function, which would cost the server what it costs to make one at
// each call.
package luafile

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/redoubt-go/redoubt"
)

// Script returns the script called "package.name", of the file lua/name.lua. It is
// for package variables: it panics when a file is not there.
func Script(files fs.FS, name string) *redoubt.Script {
	_, file, _ := strings.Cut(name, ".")
	text, err := Text(files, "lua/"+file+".lua")
	if err != nil {
		panic(err)
	}
	return redoubt.NewScript(name, text)
}

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
