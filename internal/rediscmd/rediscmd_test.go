//go:build !quick

package rediscmd_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/rediscmd"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// everyCommand returns the commands and subcommands of the table.
func everyCommand() (each []*rediscmd.Command) {
	for _, c := range rediscmd.All() {
		each = append(append(each, c), c.Subs...)
	}
	return each
}

// laterCommands returns the table's commands that Redis 7.0 doesn't have.
func laterCommands() (names []string) {
	_, later, _ := strings.Cut(rediscmd.Table, "# Of later releases.\n")
	for line := range strings.Lines(later) {
		names = append(names, strings.Fields(line)[0])
	}
	return names
}

// TestTableIsRedis: a real server has the same commands, and says the same of each.
func TestTableIsRedis(t *testing.T) {
	rdb := clienttest.Dial(t, redistest.Start(t).Addr())
	reply, err := rdb.Do(t.Context(), "COMMAND").Slice()
	if err != nil {
		t.Fatal(err)
	}
	there := make(map[string]bool)
	var compare func(list []any)
	compare = func(list []any) {
		for _, e := range list {
			e := e.([]any)
			name := e[0].(string)
			there[name] = true
			c := rediscmd.Lookup(strings.ToUpper(name))
			if c == nil {
				t.Errorf("%s is missing", name)
				continue
			}
			flags, categories, keys := e[2].([]any), e[6].([]any), e[8].([]any)
			got := fmt.Sprintln(c.Name, c.Arity, c.Flags.Names(), c.First, c.Last, c.Step, c.Categories.Names())
			want := strings.ReplaceAll(fmt.Sprintln(name, e[1], flags, e[3], e[4], e[5], categories), "@", "")
			if got != want {
				t.Errorf("the table has  %sthe server has %s", got, want)
			}
			if got, want := accessOf(c), accessTold(keys); got != want {
				t.Errorf("%s: by the table its keys are %s, by the server %s", name, got, want)
			}
			compare(e[9].([]any))
		}
	}
	compare(reply)
	later := laterCommands()
	for _, c := range everyCommand() {
		if !there[c.Name] && !slices.Contains(later, c.Name) {
			t.Errorf("the server doesn't have %s", c.Name)
		}
	}
	if len(there) < 300 || len(later) == 0 {
		t.Errorf("%d commands, %d of later releases", len(there), len(later))
	}
}

func accessOf(c *rediscmd.Command) string {
	first, others, keyed := c.AccessOfTable()
	if !keyed {
		return "none"
	}
	return fmt.Sprint(first, others)
}

// accessTold returns what accessOf does, from the key specifications of COMMAND.
func accessTold(specs []any) string {
	var all []rediscmd.Access
	for _, s := range specs {
		flags := fmt.Sprint(s.(map[any]any)["flags"])
		if strings.Contains(flags, "not_key") {
			continue
		}
		var a rediscmd.Access
		if strings.Contains(flags, "access") {
			a |= rediscmd.Reads
		}
		if strings.Contains(flags, "insert") || strings.Contains(flags, "update") || strings.Contains(flags, "delete") {
			a |= rediscmd.Writes
		}
		all = append(all, a)
	}
	if len(all) == 0 {
		return "none"
	}
	return fmt.Sprint(all[0], all[len(all)-1])
}

// keyWords are what random commands have as arguments.
var keyWords = append(strings.Fields("a b c d 0 1 2 3 4 -1 STORE storedist BY GET LIMIT STREAMS GROUP COUNT BLOCK KEYS AUTH AUTH2 COPY REPLACE"), "")

// randomArgs returns a command as it may be, with a right number of arguments.
func randomArgs(rng *rand.Rand, c *rediscmd.Command) (args [][]byte) {
	for part := range strings.SplitSeq(c.Name, "|") {
		args = append(args, []byte(part))
	}
	if strings.HasPrefix(c.Name, "xread") {
		return append(args, split(randomStreams(rng, c.Name == "xreadgroup"))...)
	}
	n := c.Arity
	if n < 0 {
		n = -n + rng.IntN(6)
	}
	for len(args) < max(n, 2) { // COMMAND GETKEYS wants two
		args = append(args, []byte(keyWords[rng.IntN(len(keyWords))]))
	}
	return args
}

// randomStreams returns arguments of XREAD that are no error: in one that is, Redis finds keys, but
// refuses it later.
func randomStreams(rng *rand.Rand, group bool) string { //nolint:revive // one command or the other
	line := ""
	if group {
		line = "GROUP STREAMS COUNT "
	}
	for _, option := range []string{"COUNT 2 ", "block 0 "} {
		if rng.IntN(2) == 0 {
			line += option
		}
	}
	n := 1 + rng.IntN(3)
	return line + "Streams" + strings.Repeat(" "+keyWords[rng.IntN(len(keyWords)-1)], n) + strings.Repeat(" 0", n)
}

// TestKeysAreRedis: a real server finds the same keys in random commands, and says the same of them.
func TestKeysAreRedis(t *testing.T) {
	rdb := clienttest.Dial(t, redistest.Start(t).Addr())
	rng := randtest.Rand(t)
	later, found := laterCommands(), make(map[string]bool)
	for _, c := range everyCommand() {
		if slices.Contains(later, c.Name) || len(c.Subs) > 0 || c.Arity == 1 {
			continue
		}
		var tried [][][]byte
		pipe := rdb.Pipeline()
		for range 100 {
			args := randomArgs(rng, c)
			tried = append(tried, args)
			pipe.Do(t.Context(), getKeys(args)...)
		}
		replies, _ := pipe.Exec(t.Context())
		for i, args := range tried {
			told, err := replies[i].(*redis.Cmd).Slice()
			var want []string
			for _, k := range told {
				want = append(want, k.([]any)[0].(string))
			}
			at, ok := rediscmd.Find(args[0]).Keys(nil, args)
			var got []string
			for _, i := range at {
				got = append(got, string(args[i]))
			}
			switch {
			case err != nil && !strings.Contains(err.Error(), "has no key arguments") && !strings.Contains(err.Error(), "Invalid arguments"):
				t.Fatal(err)
			case (err == nil || !strings.Contains(err.Error(), "has no key arguments")) != c.Keyed():
				t.Fatalf("%s: it may have keys: %t; the server: %v", c.Name, c.Keyed(), err)
			case len(want) > 0 && ok && slices.Equal(got, want):
				found[c.Name] = true
				first, others := c.KeyFlags(args)
				for i, k := range told {
					flags := first.Names()
					if i > 0 {
						flags = others.Names()
					}
					if got, want := fmt.Sprint(flags), fmt.Sprint(k.([]any)[1]); got != want {
						t.Errorf("%q: %q has the flags %s, want %s", args, want, got, want)
					}
				}
			case len(want) > 0 && !repeated(args) || len(want) == 0 && ok && len(got) > 0 && !refused(c, args):
				t.Errorf("%q: got %q, %t; want %q, %v", args, got, ok, want, err)
			}
		}
	}
	for _, c := range everyCommand() {
		if accessOf(c) != "none" && !found[c.Name] && !slices.Contains(later, c.Name) {
			t.Errorf("no keys of %s were found", c.Name)
		}
	}
}

func getKeys(args [][]byte) []any {
	all := []any{"COMMAND", "GETKEYSANDFLAGS"}
	for _, a := range args {
		all = append(all, a)
	}
	return all
}

// repeated reports whether a GEORADIUS names several destinations. Redis finds the first of each
// kind, and writes the last.
func repeated(args [][]byte) bool {
	n := 0
	for _, a := range args {
		if bytes.EqualFold(a, []byte("STORE")) || bytes.EqualFold(a, []byte("STOREDIST")) {
			n++
		}
	}
	return n > 1 && strings.HasPrefix(string(args[0]), "georadius")
}

// refused reports whether Redis finds no keys in a command that it refuses later, or runs all the
// same.
func refused(c *rediscmd.Command, args [][]byte) bool {
	switch c.Name {
	case "zdiffstore", "zinterstore", "zunionstore":
		return string(args[2]) == "0"
	case "pfmerge":
		return len(args) == 2
	case "migrate":
		return string(args[len(args)-1]) == "KEYS"
	}
	return false
}

// TestUnknownSubcommand: one that a later release may have is taken to have its keys where its
// siblings have theirs.
func TestUnknownSubcommand(t *testing.T) {
	for line, want := range map[string]string{"XINFO NEW k x": "[2] true", "CLIENT NEW k": "[] true", "OBJECT HELP": "[] true", "XGROUP CREATE k g $": "[2] true"} {
		args := split(line)
		at, ok := rediscmd.Find(args[0]).Keys(nil, args)
		if got := fmt.Sprint(at, ok); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

// TestAccess: what SET and BITFIELD do with their key depends on their arguments.
func TestAccess(t *testing.T) {
	const r, w = rediscmd.Reads, rediscmd.Writes
	for line, want := range map[string]rediscmd.Access{
		"SET k v": w, "SET k v EX 10 get": r | w, "BITFIELD k GET u8 0": r, "BITFIELD k GET u8 0 OVERFLOW SAT": r,
		"BITFIELD k GET u8 0 SET u8 0 1": r | w, "LPOP k": r | w, "EXISTS k": 0,
	} {
		args := split(line)
		if got, _ := rediscmd.Find(args[0]).Access(args); got != want {
			t.Errorf("%s: %d, want %d", line, got, want)
		}
	}
}

func split(line string) (args [][]byte) {
	for w := range strings.FieldsSeq(line) {
		args = append(args, []byte(w))
	}
	return args
}

// TestNothingIsAllocated: finding a command and its keys costs no garbage.
func TestNothingIsAllocated(t *testing.T) {
	at := make([]int, 0, 8)
	for _, line := range []string{"Get k", "mset a 1 b 2", "EVAL x 2 a b", "client KILL x", "SORT k STORE d", "nosuch k"} {
		args := split(line)
		if n := testing.AllocsPerRun(100, func() {
			if c := rediscmd.Find(args[0]); c != nil {
				_ = c.Of(args)
				_, _ = c.Keys(at, args)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", line, n)
		}
	}
}

// TestFaultsOfTheTable: the table can't say what nothing understands.
func TestFaultsOfTheTable(t *testing.T) {
	for line, want := range map[string]string{
		"get two string r@1 fast":       "two",
		"get 2 strings r@1 fast":        "strings is unknown",
		"get 2 string r@1 quick":        "quick is unknown",
		"get 2 string r@nowhere fast":   "nowhere",
		"get 2 string reads@1 fast":     "reads is unknown",
		"nosuch|get 2 string r@1 fast":  "nosuch",
		"get 2 string r@1":              "columns",
		"get 2 string r@1,channel fast": "channel",
	} {
		func() {
			defer func() {
				if v := fmt.Sprint(recover()); !strings.Contains(v, want) || !strings.Contains(v, line) {
					t.Errorf("%s: %s; want %s", line, v, want)
				}
			}()
			rediscmd.Parse(line)
		}()
	}
}

func BenchmarkFind(b *testing.B) {
	names := [][]byte{[]byte("GET"), []byte("set"), []byte("HGETALL"), []byte("ZRANGEBYSCORE")}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if rediscmd.Find(names[i&3]) == nil {
			b.Fatal("not found")
		}
	}
}
