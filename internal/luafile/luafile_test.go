package luafile_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/redoubt-go/redoubt"
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

func TestScripts(t *testing.T) {
	scripts := luafile.New("pkg", files)
	first, second := scripts.Script("of_two"), scripts.Add("made", "return 1")
	if text, _ := luafile.Text(files, "lua/of_two.lua"); first.Name() != "pkg.of_two" || first.Source() != text {
		t.Errorf("%s: %q", first.Name(), first.Source())
	}
	if second.Name() != "pkg.made" || second.Source() != "return 1" {
		t.Errorf("%s: %q", second.Name(), second.Source())
	}
	if all := scripts.All(); !slices.Equal(all, []*redoubt.Script{first, second}) {
		t.Errorf("all: %v; want both, in order", all)
	}
	defer func() {
		if recover() == nil {
			t.Error("a script without a file: want a panic")
		}
	}()
	scripts.Script("none")
}
