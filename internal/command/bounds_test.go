package command_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/command"
)

// stated is how the documentation of an argument gives its bounds: "1 to 512 bytes" or "1 to 1000".
var stated = regexp.MustCompile(`(-?\d+) to (\d+)( bytes)?`)

// Each argument is taken at the bounds that its documentation gives, and refused one past them.
func TestOnePastEachBound(t *testing.T) {
	client, err := redoubt.New(deaf{}, redoubt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	env, err := command.NewEnv(client)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range command.All() {
		for i, a := range withAlternatives(c.Args) {
			b := stated.FindStringSubmatch(a.Summary)
			if b == nil {
				continue
			}
			call, at := callWith(c, i, a.Token)
			fault := func(value string) string {
				words := slices.Clone(call)
				words[at] = value
				var args [][]byte
				for _, w := range words {
					args = append(args, []byte(w))
				}
				return c.Plan(env, args).Err
			}
			least, _ := strconv.Atoi(b[1])
			most, _ := strconv.Atoi(b[2])
			text := strconv.Itoa
			if b[3] != "" {
				text = func(n int) string { return strings.Repeat("x", n) }
			}
			for _, n := range []int{least, most} {
				if got := fault(text(n)); got != "" && !bothMatter(got) {
					t.Errorf("%.60q with %s of %d (%s): %s", call, a.Name, n, a.Summary, got)
				}
			}
			for _, n := range []int{least - 1, most + 1} {
				if n < 0 && b[3] != "" {
					continue
				}
				if fault(text(n)) == "" {
					t.Errorf("%.60q with %s of %d (%s) is not refused", call, a.Name, n, a.Summary)
				}
			}
		}
	}
}

// bothMatter reports whether an error is about an argument beside another one: a filter of the largest capacity and the
// example's rate of error is too large, and a schedule that ends in 1970 has ended before it starts.
func bothMatter(fault string) bool {
	return strings.Contains(fault, "the filter would take more than") || strings.Contains(fault, "has no time until its end")
}

// withAlternatives returns args, and behind them the alternatives of each oneof.
func withAlternatives(args []command.Arg) []command.Arg {
	all := slices.Clone(args)
	for _, a := range args {
		if a.Type == "oneof" {
			all = append(all, a.Args...)
		}
	}
	return all
}

// word is a word of an example, in quotes if it has blanks.
var word = regexp.MustCompile(`"[^"]*"|\S+`)

// callWith returns a call of c, and where the i-th argument of it is, or the option with a token. The call is one of the
// examples, or the first of them with the option added.
func callWith(c *command.Command, i int, token string) (call []string, at int) {
	for _, e := range c.Examples {
		call = word.FindAllString(e.Call, -1)
		if token == "" {
			return call, i + 1
		}
		if at := slices.Index(call, token); at > 0 {
			return call, at + 1
		}
	}
	call = word.FindAllString(c.Examples[0].Call, -1)
	first := slices.IndexFunc(c.Args, func(a command.Arg) bool { return a.Token != "" || len(a.Args) > 0 || a.Use != command.Required })
	return slices.Insert(call, first+1, token, ""), first + 2
}
