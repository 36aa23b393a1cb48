package rdb

import (
	"errors"
	"slices"
	"testing"
)

// FuzzFunctions wants the libraries of a payload to be the same as FUNCTION DUMP would write again, and to take no more
// than what is allowed.
func FuzzFunctions(f *testing.F) {
	f.Add([]byte("\xf5\x03lib\xf5\x01x"))
	f.Add([]byte("\xf5\xc3\x05\x0a\x00a\xe0\x00\x00"))
	f.Add([]byte("\x00\x01x"))
	f.Fuzz(func(t *testing.T, body []byte) {
		const most = 1 << 16
		libraries, err := ParseFunctions(stamp(slices.Clone(body), Version), most)
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrNoFunctions) {
				t.Fatal(err)
			}
			return
		}
		total := 0
		for _, code := range libraries {
			total += len(code)
		}
		again, err := ParseFunctions(Functions(nil, libraries), most)
		if total > most || err != nil || !slices.Equal(again, libraries) {
			t.Fatalf("%d bytes: %q, then %q, %v", total, libraries, again, err)
		}
	})
}

// FuzzLibrary wants the parts of a library to be where they were.
func FuzzLibrary(f *testing.F) {
	f.Add("#!lua name=mylib\nreturn 1")
	f.Add("#!lua name=\"my lib\"\n")
	f.Add("#!lua NAME=a name=b\nx")
	f.Fuzz(func(t *testing.T, code string) {
		l, err := ParseLibrary(code)
		if err == nil && (l.Body == "" || l.Body[0] != '\n' || code[len(code)-len(l.Body):] != l.Body) {
			t.Fatalf("%q became %+v", code, l)
		}
	})
}
