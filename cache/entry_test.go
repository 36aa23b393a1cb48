package cache

import (
	"strings"
	"testing"
)

// FuzzEntry reads any bytes as the entry of a key: an answer of the source, a lease, or nothing.
func FuzzEntry(f *testing.F) {
	head := mark(kindValue, plain) + strings.Repeat("\x00\x00\x00\x00\x00\x00\x00\x01", 5) + "\x00\x00\x00\x03"
	f.Add(head + "abc")
	f.Add(head + "abcdef")
	f.Add(head + "ab")
	f.Add(mark(kindNone, plain) + head[3:])
	f.Add("")
	f.Fuzz(func(t *testing.T, raw string) {
		e := parseEntry(raw)
		if e.kind != kindNone && !e.has() {
			t.Errorf("%q has kind %q", raw, e.kind)
		}
		if e.kind == kindNone {
			return
		}
		if len(e.id) != 8 || len(e.owner) != 8 || !strings.HasPrefix(raw[headBytes:], e.payload) {
			t.Errorf("%q has id %q, owner %q and payload %q", raw, e.id, e.owner, e.payload)
		}
		// Waiters behind the payload don't change it.
		if again := parseEntry(raw + "waiter"); again != e {
			t.Errorf("%q with a waiter is another entry", raw)
		}
	})
}
