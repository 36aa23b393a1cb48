package memcached

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/memcachedtest"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// extremes are the numbers at which a length, a time, flags or a delta overflow.
var extremes = strings.Fields(`0 -0 +0 1 -1 +1 00 007 60 2592000 2592001 65535 65536 1048576 1048577
	2147483646 2147483647 2147483648 2147483649 -2147483647 -2147483648 -2147483649 4294967294 4294967295 4294967296 4294967297 -4294967295
	4611686018427387903 4611686018427387904 9223372036854775806 9223372036854775807 9223372036854775808 -9223372036854775807 -9223372036854775808 -9223372036854775809
	18446744073709551614 18446744073709551615 18446744073709551616 18446744073709551617 -18446744073709551615 99999999999999999999 100000000000000000000000000000000000
	1e5 1.5 0x10 nan inf -inf -`)

// numbered are the requests that have numbers, with N for one of them, T for one that is the
// value's time to live, and K for a key that has the value 5.
var numbered = []string{
	"set K N 0 1\r\n7\r\n", "set K 0 T 1\r\n7\r\n", "set K 0 0 N\r\n7\r\n", "add K:new 0 0 N\r\n7\r\n", "append K 0 0 N\r\n7\r\n", "prepend K N N 1\r\n7\r\n", "replace K N T N\r\n7\r\n",
	"cas K 0 0 1 N\r\n7\r\n", "cas K N 0 1 1\r\n7\r\n", "cas K 0 0 N 1\r\n7\r\n", "set K 0 0 1 N\r\n7\r\n",
	"incr K N\r\n", "decr K N\r\n", "incr K:none N\r\n", "touch K T\r\n", "touch K:none T\r\n", "gat T K\r\n", "gats T K K\r\n",
	"set K 0 0 20\r\n18446744073709551615\r\nincr K N\r\n", "set K 0 0 20\r\n18446744073709551615\r\ndecr K N\r\n", "delete K N\r\n", "verbosity N\r\n", "flush_all N noreply\r\n",
}

// casUnique is what tells two servers apart.
var casUnique = regexp.MustCompile(`(VALUE \S+ \d+ \d+) \d+`)

// lastValue is the value that the last request of a conversation reads.
var lastValue = regexp.MustCompile(`VALUE \S+ \d+ \d+\r\n\S+\r\nEND\r\n$`)

// second returns the kind of the reply behind that to the first set.
func second(text string) string { return class(strings.TrimPrefix(text, "STORED\r\n")) }

// same reports whether a pool may answer got where memcached answers want: the same, or an error. The pool
// refuses a number that memcached truncates to 32 or 64 bits, as docs/memcached.md says. It then drops the
// value behind it, where memcached takes the value for a command. When too few bytes come, memcached drops
// its unsent answers.
func same(want, got string) bool {
	switch {
	case got == want:
		return true
	case want == "":
		return got == "STORED\r\n" || second(got) == "SERVER_ERROR"
	}
	return strings.HasSuffix(second(got), "_ERROR")
}

// TestExtremeNumbers: a pool answers what memcached answers, whatever the numbers in a request,
// and in time; each value is as long as it was said to be.
func TestExtremeNumbers(t *testing.T) {
	alone, w := memcachedtest.Start(t), newEnv(t, 1, nil)
	steps := randtest.Watch(t)
	for at, text := range numbered {
		for _, n := range extremes {
			key := fmt.Sprintf("k%d:%s", at, n)
			request := strings.NewReplacer("K", key, "N", n, "T", n).Replace(text)
			all := fmt.Sprintf("set %s 0 0 1\r\n5\r\n%sget %s\r\n", key, request, key)
			want, err := converseOnce(steps, alone.Addr(), all)
			got, gerr := converseOnce(steps, w.addr, all)
			if err != nil || gerr != nil {
				t.Errorf("to %q: %v, %v", request, err, gerr)
			}
			want, got = casUnique.ReplaceAllString(want, "$1"), casUnique.ReplaceAllString(got, "$1")
			if seconds, err := strconv.Atoi(n); err == nil && seconds > 0 && seconds < 60 && strings.Contains(text, "T") {
				// The value may expire before the get reads it.
				want, got = lastValue.ReplaceAllString(want, replyEnd), lastValue.ReplaceAllString(got, replyEnd)
			}
			if !same(want, got) || want != "" && len(n) < 10 && second(got) != second(want) {
				t.Errorf("to %q a pool answers %q, a server %q", request, got, want)
			}
			if strings.HasSuffix(second(got), "_ERROR") && strings.Count(got, "STORED") > 1 {
				t.Errorf("to %q a pool answers %q: what was refused was stored", request, got)
			}
		}
	}
	if s := w.Stats(); s.Servers[0].Losses != 0 || s.Servers[0].Timeouts != 0 {
		t.Errorf("the connection to the server was lost: %+v", s.Servers[0])
	}
}
