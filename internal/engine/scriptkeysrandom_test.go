package engine

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// A scripter writes random scripts that hand redis.call, KEYS and keys about.
type scripter struct {
	*rand.Rand
	b     strings.Builder
	depth int
}

func (g *scripter) of(words ...string) string { return words[g.IntN(len(words))] }

func (g *scripter) name() string { return g.of("a", "b", "c", "d") }

func (g *scripter) expr(depth int) string {
	if depth == 0 || g.IntN(3) == 0 {
		return g.of("KEYS", "KEYS[1]", "KEYS[2]", "ARGV[1]", "ARGV", "redis", "redis.call", "'other'", "1", "nil", "unpack",
			g.name(), g.name(), g.name(), g.name()+"[1]", g.name()+".call", "...")
	}
	x := func() string { return g.expr(depth - 1) }
	switch g.IntN(9) {
	case 0:
		return x() + " or " + x()
	case 1:
		return x() + " and " + x()
	case 2:
		return "{" + x() + ", call = " + x() + "}"
	case 3:
		return "(" + x() + ")[" + x() + "]"
	case 4:
		return "unpack(" + g.of("KEYS", x()) + ")"
	case 5:
		return "(function(a, ...) " + g.of("", "a[1] = 'other' ", "b = a ") + "return " + x() + " end)(" + x() + ")"
	case 6:
		return "(" + x() + ")(" + g.of("'GET'", x()) + ", " + x() + ")"
	case 7:
		return "select(1, " + x() + ")"
	}
	return "redis.call('GET', " + g.of("KEYS[1]", x()) + ")"
}

func (g *scripter) block() {
	g.depth++
	for range 1 + g.IntN(4) {
		g.stat()
	}
	g.depth--
}

func (g *scripter) stat() {
	w := func(format string, args ...any) { fmt.Fprintf(&g.b, format, args...) }
	kind := g.IntN(12)
	if g.depth > 2 {
		kind %= 6
	}
	switch kind {
	case 0:
		w("%s = %s\n", g.name(), g.expr(2))
	case 1:
		w("local %s = %s\n", g.name(), g.expr(2))
	case 2:
		w("%s[1] = %s\n", g.of("KEYS", g.name(), g.name()), g.expr(1))
	case 3:
		w("redis.%s('SET', %s, 1)\n", g.of("call", "pcall"), g.of("KEYS[1]", g.name(), g.expr(2)))
	case 4:
		w("%s('GET', %s)\n", g.name(), g.expr(1))
	case 5:
		w("local %s, %s, %s = %s(%s)\n", g.name(), g.name(), g.name(), g.of("ipairs", "pairs", "unpack"), g.of("KEYS", g.name()))
	case 6:
		w("if %s then\n", g.expr(1))
		g.block()
		if g.IntN(2) == 0 {
			w("else\n")
			g.block()
		}
		w("end\n")
	case 7:
		w("for %s, %s in %s(%s) do\n", g.name(), g.name(), g.of("ipairs", "pairs"), g.of("KEYS", "KEYS", g.expr(1)))
		g.block()
		w("end\n")
	case 8:
		w("for i = 1, 2 do\n")
		g.block()
		w("end\n")
	case 9:
		w("local function %s(%s)\n", g.name(), g.name())
		g.block()
		w("end\n")
	case 10:
		w("pcall(function()\n")
		g.block()
		w("end)\n")
	case 11:
		w("do\n")
		g.block()
		w("end\n")
	}
}

// TestRandomScriptsKeepToTheirKeys runs random scripts that the engine takes to keep to their keys,
// and checks that none uses another one.
//
// Promise: A script never uses a key whose shard it does not hold.
func TestRandomScriptsKeepToTheirKeys(t *testing.T) {
	r, steps := randtest.Rand(t), randtest.Watch(t)
	var faults bytes.Buffer
	e := open(t, Options{ScriptSteps: 20_000, Logger: slog.New(slog.NewTextHandler(&faults, nil))})
	s := e.Session()
	n := 15_000
	if testing.Short() {
		n = 5_000
	}
	trusted, ran := 0, 0
	for range n {
		g := &scripter{Rand: r}
		g.b.WriteString("local a, b, c, d\n")
		for range 1 + g.IntN(6) {
			// A failure must not keep the rest from running.
			if g.IntN(2) == 0 {
				g.b.WriteString("pcall(function(...)\n")
				g.stat()
				g.b.WriteString("end)\n")
			} else {
				g.stat()
			}
		}
		g.b.WriteString("return redis.call('GET', KEYS[1])") // whatever that is now
		src := g.b.String()
		steps.Begin(func() string { return src })
		sc, err := s.load([]byte(src))
		if err != nil || !sc.keysOnly {
			continue
		}
		trusted++
		// Errors are caught in there, so what is asked is whether the engine
		// refused something, not what the script says.
		if got := runScript(s, "EVAL", src, "2", "{k}1", "{k}2", "other"); !strings.HasPrefix(got, "-") {
			ran++
		}
		if faults.Len() > 0 {
			t.Fatalf("%s\n%s", faults.String(), src)
		}
	}
	t.Logf("%d of %d scripts are taken to keep to their keys, %d of them ran to their end", trusted, n, ran)
	if trusted < n/50 || ran < n/200 {
		t.Errorf("%d scripts are taken to keep to their keys, %d ran to their end: this tests nothing", trusted, ran)
	}
}
