//go:build !quick

package redoubt_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// found are all names that a listing finds, and in how many pages.
func found(t *testing.T, c *redoubt.Client, part, match string) (names []string, pages int) {
	t.Helper()
	seen := map[string]bool{}
	for cursor := ""; cursor != "0"; pages++ {
		page, next, err := c.NamesPage(t.Context(), part, "hash", match, cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range page {
			seen[name] = true
		}
		cursor = next
	}
	return slices.Sorted(maps.Keys(seen)), pages
}

// fill makes keys that a listing of locks finds, and others that it doesn't.
func fill(t *testing.T, c *redoubt.Client, n int) (names []string) {
	t.Helper()
	var cmds []redoubt.Cmd
	hash := func(name, part string) {
		key, err := c.Key(name, part)
		if err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, redoubt.Cmd{Name: "HSET", Keys: []string{key}, Args: []string{"f", "v"}})
	}
	for i := range n {
		name := fmt.Sprint("orders:", i)
		names = append(names, name)
		hash(name, "lock")
		hash(name, "sem")
	}
	for _, name := range []string{"a}b", "x}:lock", "\x00\xff\r\n", "*", `[a]\`, "users:1"} {
		names = append(names, name)
		hash(name, "lock")
	}
	other, err := c.Key("text", "lock")
	if err != nil {
		t.Fatal(err)
	}
	cmds = append(cmds, redoubt.Cmd{Name: "SET", Keys: []string{other}, Args: []string{"v"}},
		redoubt.Cmd{Name: "HSET", Keys: []string{"other:{orders:1}:lock"}, Args: []string{"f", "v"}})
	for _, r := range c.Pipeline(t.Context(), cmds) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	slices.Sort(names)
	return names
}

func checkNames(t *testing.T, conn redoubt.Conn, prefix string) {
	t.Helper()
	c, err := redoubt.New(conn, redoubt.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	want := fill(t, c, 3000)
	all, pages := found(t, c, "lock", "")
	if !slices.Equal(all, want) {
		t.Errorf("%d names, want %d", len(all), len(want))
	}
	if pages < 3 {
		t.Errorf("%d keys in %d pages", 2*3000, pages)
	}
	seen := map[string]bool{}
	for name, err := range c.Names(t.Context(), "lock", "hash", "") {
		if err != nil {
			t.Fatal(err)
		}
		seen[name] = true
	}
	if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, want) {
		t.Errorf("Names finds %d names, want %d", len(got), len(want))
	}
	for match, want := range map[string][]string{
		"orders:7":       {"orders:7"},
		"orders:7?":      {"orders:70", "orders:71", "orders:72", "orders:73", "orders:74", "orders:75", "orders:76", "orders:77", "orders:78", "orders:79"},
		"orders:12[0-1]": {"orders:120", "orders:121"},
		"u[^a-r]ers*":    {"users:1"},
		`\*`:             {"*"},
		`\[a\]\\`:        {`[a]\`},
		"x}*":            {"x}:lock"},
		"none":           nil,
		"order":          nil, // the whole name
	} {
		if got, _ := found(t, c, "lock", match); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", match, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		conn, err := goredis.Open(t.Context(), b.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		checkNames(t, conn, b.Prefix+"[*]") // which is no pattern
		checkPrimaries(t, conn, 1)
	})
}

func TestNamesOnACluster(t *testing.T) {
	conn, err := goredis.Open(t.Context(), redistest.StartCluster(t, 3, 0).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	checkNames(t, conn, "rd")
	checkPrimaries(t, conn, 3)
}

// checkPrimaries wants a Conn for each primary: together they have all keys.
func checkPrimaries(t *testing.T, conn redoubt.Conn, want int) {
	t.Helper()
	c, err := redoubt.New(conn, redoubt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	conns, err := c.Primaries(t.Context())
	if err != nil || len(conns) != want {
		t.Fatalf("%d primaries, %v; want %d", len(conns), err, want)
	}
	_ = c.Close()
	if _, err := c.Primaries(t.Context()); !errors.Is(err, redoubt.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestNamesRefuses(t *testing.T) {
	c, err := redoubt.New(answers{}, redoubt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range []string{`a\`, "[", "[a", "[^", "[a-]", `[\]`, "[^]x[", "a[]["} {
		if _, _, err := c.NamesPage(t.Context(), "lock", "hash", match, ""); !errors.Is(err, redoubt.ErrInvalidPattern) {
			t.Errorf("pattern %s: %v", match, err)
		}
	}
	if err := redoubt.CheckPattern("[a"); !errors.Is(err, redoubt.ErrInvalidPattern) {
		t.Errorf("CheckPattern: %v", err)
	}
	for _, match := range []string{"]", "[]", "[]]", `\[`, "[^-]", "[a-]]", "[[]", `[\]]`, "a-"} {
		if _, _, err := c.NamesPage(t.Context(), "lock", "hash", match, ""); err != nil {
			t.Errorf("pattern %s: %v", match, err)
		}
	}
	for _, cursor := range []string{"x", "-1", "1@", "@1", "1@x", "1@-1", "0 0"} {
		if _, _, err := c.NamesPage(t.Context(), "lock", "hash", "", cursor); !errors.Is(err, redoubt.ErrInvalidCursor) || !strings.Contains(err.Error(), cursor) {
			t.Errorf("cursor %s: %v", cursor, err)
		}
	}
	if names, next, err := c.NamesPage(t.Context(), "lock", "hash", "", "5@9"); err != nil || len(names) != 0 || next != "0" {
		t.Errorf("a primary that is no more: %q %q %v", names, next, err)
	}
	var faults []error
	for name, err := range c.Names(t.Context(), "lock", "hash", "[") {
		if faults = append(faults, err); name != "" || !errors.Is(err, redoubt.ErrInvalidPattern) {
			t.Errorf("Names of a pattern without an end: %q, %v", name, err)
		}
	}
	if len(faults) != 1 {
		t.Errorf("Names of a pattern without an end yields %v; want one error", faults)
	}
	_ = c.Close()
	if _, _, err := c.NamesPage(t.Context(), "lock", "hash", "", ""); !errors.Is(err, redoubt.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// answers answers every SCAN with an empty last page.
type answers struct{ redoubt.Conn }

func (answers) Do(context.Context, redoubt.Cmd) redoubt.Reply {
	return redoubt.Reply{Val: []any{"0", []any{}}}
}
