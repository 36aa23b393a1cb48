package luafile_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/redoubt-go/redoubt/internal/luafile"
)

var files = fstest.MapFS{
	"lua/whole.lua":    {Data: []byte("return 'not a -- part: one'\n")},
	"lua/of_two.lua":   {Data: []byte("-- part: one\nif x then\n  -- part: two\nend -- part: one\n")},
	"lua/last.lua":     {Data: []byte("local x\n-- part: one")},
	"lua/lost.lua":     {Data: []byte("-- part: three\n")},
	"lua/part_one.lua": {Data: []byte("local x = 1\n")},
	"lua/part_two.lua": {Data: []byte("-- two\nx = 2\n")},
}

func TestText(t *testing.T) {
	for file, want := range map[string]string{
		"whole":  "return 'not a -- part: one'\n",
		"of_two": "local x = 1\nif x then\n  -- two\nx = 2\nend -- part: one\n",
		"last":   "local x\nlocal x = 1\n",
	} {
		got, err := luafile.Text(files, "lua/"+file+".lua")
		if got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", file, got, err, want)
		}
	}
	for file, want := range map[string]string{"lua/lost.lua": "part_three.lua", "lua/none.lua": "none.lua"} {
		if _, err := luafile.Text(files, file); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want it to tell of %s", file, err, want)
		}
	}
}

func TestScript(t *testing.T) {
	s := luafile.Script(files, "pkg.of_two")
	if text, _ := luafile.Text(files, "lua/of_two.lua"); s.Name() != "pkg.of_two" || s.Source() != text {
		t.Errorf("%s: %q", s.Name(), s.Source())
	}
	defer func() {
		if recover() == nil {
			t.Error("a script of no file: want a panic")
		}
	}()
	luafile.Script(files, "pkg.none")
}
