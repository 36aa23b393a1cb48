package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/engine"
)

// MSET uses its notes on a key for no other key, in the same command or the next one of the
// session.
func TestKeysInManyShards(t *testing.T) {
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	s := e.Session()
	defer s.Close()
	do := func(args ...string) string {
		words := make([][]byte, len(args))
		for i, a := range args {
			words[i] = []byte(a)
		}
		out, _ := s.Do(nil, words)
		return string(out)
	}
	const n = 600 // more than there are shards
	set, get := []string{"MSET"}, []string{"MGET"}
	var want strings.Builder
	fmt.Fprintf(&want, "*%d\r\n", n)
	for i := range n {
		key, value := fmt.Sprint("key", i), fmt.Sprintf("%04d", i)
		set, get = append(set, key, value), append(get, key)
		fmt.Fprintf(&want, "$4\r\n%s\r\n", value)
	}
	for range 2 { // new keys, then old ones
		if got := do(set...); got != "+OK\r\n" {
			t.Fatalf("MSET: %q", got)
		}
		if got := do(get...); got != want.String() {
			t.Fatalf("MGET: %q", got)
		}
	}
	if got := do(append([]string{"EXISTS"}, get[1:]...)...); got != fmt.Sprintf(":%d\r\n", n) {
		t.Fatalf("EXISTS: %q", got)
	}
	for i := range n {
		if got, want := do("GET", fmt.Sprint("key", i)), fmt.Sprintf("$4\r\n%04d\r\n", i); got != want {
			t.Fatalf("GET key%d: %q, want %q", i, got, want)
		}
	}
}
