package redoubttest

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// FuzzReadCommand holds that whatever is read as a command is what was written,
// and that nothing panics.
func FuzzReadCommand(f *testing.F) {
	f.Add("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n")
	f.Add("*1\r\n$0\r\n\r\n*1\r\n")
	f.Add("*-1\r\n")
	f.Add("$1\r\n\n")
	f.Add("\n")
	f.Fuzz(func(t *testing.T, input string) {
		r := bufio.NewReader(strings.NewReader(input))
		args, err := readCommand(r)
		if err != nil {
			return
		}
		var wire strings.Builder
		fmt.Fprintf(&wire, "*%d\r\n", len(args))
		for _, a := range args {
			fmt.Fprintf(&wire, "$%d\r\n%s\r\n", len(a), a)
		}
		again, err := readCommand(bufio.NewReader(strings.NewReader(wire.String())))
		if err != nil || !slices.Equal(args, again) {
			t.Errorf("%q was read as %q, and that as %q, %v", input, args, again, err)
		}
	})
}
