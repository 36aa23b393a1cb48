package acl_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestCategoriesAreRedis: a real server has the same categories, with the same commands in them. Only
// Redoubt's own commands, and commands of later releases, differ.
func TestCategoriesAreRedis(t *testing.T) {
	rdb := clienttest.Dial(t, redistest.Start(t).Addr())
	there, err := rdb.Do(t.Context(), "ACL", "CAT").StringSlice()
	if err != nil {
		t.Fatal(err)
	}
	known, err := rdb.Do(t.Context(), "COMMAND", "LIST").StringSlice()
	if err != nil {
		t.Fatal(err)
	}
	for _, category := range there {
		want, err := rdb.Do(t.Context(), "ACL", "CAT", category).StringSlice()
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(want)
		got := slices.DeleteFunc(acl.In(strings.ToUpper(category)), func(name string) bool { return !slices.Contains(known, name) })
		if !slices.Equal(got, want) {
			t.Errorf("%s has %v\non the server %v", category, got, want)
		}
	}
	if len(there) < 21 || len(known) < 300 {
		t.Errorf("the server has %d categories and %d commands", len(there), len(known))
	}
}

// TestRulesRefused: what is wrong and what is allowed; never what may be a password.
func TestRulesRefused(t *testing.T) {
	for _, c := range []struct{ rules, want string }{
		{"on hush", "rule 2 is unknown; want one of on, off, >password"},
		{"~* ~a", `rule 2 is "~a", and all keys are allowed before it; put resetkeys between`},
		{"&* &a", `rule 2 is "&a", and all channels are allowed before it; put resetchannels between`},
		{"+nosuch", `rule 1 is "+nosuch", and there is no such command`},
		{"+client|nosuch", `rule 1 is "+client|nosuch", and there is no such command`},
		{"-select|0", `rule 1 is "-select|0", and select has no subcommands; a first argument can only be allowed`},
		{"+select|", `rule 1 is "+select|"; want +command|argument`},
		{"-@nosuch", `rule 1 is "-@nosuch", and there is no such category; want one of all, admin, bitmap, blocking`},
		{"%X~a", `rule 1 is "%X~a"; want %R~pattern, %W~pattern or %RW~pattern`},
		{"%R", `rule 1 is "%R"; want %R~pattern`},
		{"#hush", "rule 1 has an invalid hash of a password; want 64 hexadecimal digits in lower case"},
		{"<hush", "rule 1 removes a password that the user doesn't have"},
		{"on (+get hush) (+nosuch)", "rule 2 is a selector whose rule 2 is unknown; want one of on"},
		{"(+get) (+get on)", "rule 2 is a selector whose rule 2 is unknown"},
		{"~a (~hush +get", "rule 2 begins a selector that has no end"},
		{"+nosuch hush", "rule 2 is unknown"}, // all are told
	} {
		_, err := acl.New("u", c.rules)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: %v\nwant %s", c.rules, err, c.want)
		}
	}
	if _, err := acl.New("a b", ""); err == nil {
		t.Error("a name may have blanks")
	}
}

// TestOwnCategories: Redoubt's own commands are in categories of their own, and in the categories of
// their flags.
func TestOwnCategories(t *testing.T) {
	for category, name := range map[string]string{"lock": "lock.acquire", "queue": "queue.put", "write": "lock.force", "read": "lock.info", "geo": "geoidx.add"} {
		if !slices.Contains(acl.In(category), name) {
			t.Errorf("%s is not in %s", name, category)
		}
	}
	if acl.In("nosuch") != nil || !slices.Contains(acl.Categories(), "scripting") {
		t.Error(acl.Categories())
	}
}

// TestRefusesWithoutAllocation: what is allowed costs no garbage.
func TestRefusesWithoutAllocation(t *testing.T) {
	u, c, args, keys := example(t)
	if n := testing.AllocsPerRun(100, func() {
		if d := u.Refuses(c.Of(args), args, keys); d.Reason != acl.None {
			t.Error(d.Message())
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func example(tb testing.TB) (u *acl.User, c *acl.Command, args [][]byte, keys []int) {
	tb.Helper()
	u, err := acl.New("u", "on >pw ~stock:* ~orders:* +@all -@dangerous")
	if err != nil {
		tb.Fatal(err)
	}
	return u, acl.Lookup("set"), [][]byte{[]byte("SET"), []byte("orders:42"), []byte("v")}, []int{1}
}

func BenchmarkRefuses(b *testing.B) {
	u, c, args, keys := example(b)
	b.ReportAllocs()
	for b.Loop() {
		if d := u.Refuses(c.Of(args), args, keys); d.Reason != acl.None {
			b.Fatal("refused")
		}
	}
}

// FuzzNew: no rules make it panic, and what it takes can be asked about.
func FuzzNew(f *testing.F) {
	f.Add("on >pw %R~a* ~b +@all -client|kill &c", "a")
	f.Add("(+get ~a) +select|0 ((", "a")
	f.Add("reset #00 !00 (x) %~ +| -@ ~", "")
	f.Fuzz(func(_ *testing.T, rules, key string) {
		u, err := acl.New("u", rules)
		if err != nil {
			_ = fmt.Sprint(err)
			return
		}
		_ = u.Refuses(acl.Lookup("set"), [][]byte{[]byte("set"), []byte(key), nil}, []int{1})
		_ = u.Refuses(acl.Lookup("psubscribe"), [][]byte{[]byte("psubscribe"), []byte(key)}, nil)
		_ = u.Admits([]byte(key))
	})
}
