package lua

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/slow"
	"github.com/redoubt-go/redoubt/internal/test/threadtime"
)

// functionsInFunctions is a program of functions inside one another, each with many variables
// of its own, and body in the innermost.
func functionsInFunctions(depth int, body string) string {
	var b strings.Builder
	for d := range depth {
		b.WriteString("local ")
		for i := range 150 {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "v%03d", i)
		}
		fmt.Fprintf(&b, ",w%03d\nlocal function f()\n", d)
	}
	return b.String() + body + strings.Repeat("\nend\n", depth)
}

// A long program takes time in proportion to its length, whatever it is made
// of. The first takes ten seconds when each break walks along all earlier ones;
// the bound is a hundred times what each of these should take.
func TestCompileIsLinear(t *testing.T) {
	const n = 100_000
	threadtime.Lock(t)
	most := 6 * time.Second
	if slow.Race {
		most *= 10
	}
	for _, tt := range []struct{ name, source string }{
		{"breaks", "while true do " + strings.Repeat("if a then break end ", n) + "end"},
		{"breaks of repeat", "repeat local x; local function f() return x end " + strings.Repeat("if a then break end ", n) + "until x"},
		{"elseif", "if a then " + strings.Repeat("elseif a then ", n) + "end"},
		{"and", "x = a" + strings.Repeat(" and a", n)},
		{"or", "x = a" + strings.Repeat(" or a", n)},
		{"comparisons", "x = a < b" + strings.Repeat(" and a < b or c", n)},
		{"not", "x = " + strings.Repeat("not ", 150) + "(a" + strings.Repeat(" and a", n) + ")"},
		{"empty bodies", strings.Repeat("if a then end ", n)},
		{"nested empty loops", strings.Repeat("while a do while a do end end ", n/2)},
		{"globals from the inside", functionsInFunctions(20, strings.Repeat("x999=y999 ", n))},
		{"a variable from far out", functionsInFunctions(20, strings.Repeat("w000=w001 ", n))},
		{"functions", strings.Repeat("local function f() return a end ", 180) + strings.Repeat("f=function() return f end ", n/3)},
		{"constants", "x = {" + strings.Repeat("'a','b',1,2,", n/4) + "}"},
		{"names", "x = {" + func() string {
			var b strings.Builder
			for i := range n / 4 {
				fmt.Fprintf(&b, "n%d=%d,", i, i)
			}
			return b.String()
		}() + "}"},
		{"calls", "f" + strings.Repeat("(a)", n)},
		{"fields", "x = a" + strings.Repeat(".b", n)},
		{"additions", "x = a" + strings.Repeat("+a", n)},
		{"brackets", strings.Repeat("--[====\n", n)},
		{"semicolons and blanks", strings.Repeat("local a; ", 100) + strings.Repeat("a=a; ", n)},
		{"a long string", "x = [==[" + strings.Repeat("]=", n) + "]==]"},
		{"a long numeral", "x = " + strings.Repeat("1", n)},
	} {
		began := threadtime.Now()
		_, err := Compile("t", tt.source)
		took := threadtime.Now() - began
		t.Logf("%-25s %8d bytes %8.1f ms %v", tt.name, len(tt.source), took.Seconds()*1000, err)
		if took > most {
			t.Errorf("%s: %d bytes took %v", tt.name, len(tt.source), took)
		}
	}
}
