//go:build !quick

package ttlhash

import (
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/ttlhash"
)

// A write is never sent twice: another client may have written in between. A read, and a
// command with the same effect twice, may be.
func TestNothingIsWrittenTwice(t *testing.T) {
	var k wire.Keys
	for _, c := range []redoubt.Cmd{
		wire.SetCmd(k, wire.Mode{}, wire.InAnyCase, nil), wire.ExpireCmd(k, wire.Mode{}, Always, time.Second, true, nil), wire.DeleteCmd(k, wire.Mode{}, true, nil),
	} {
		if c.Flags.Resendable() {
			t.Errorf("%s may be sent twice", c.Script.Name())
		}
	}
	for _, c := range []redoubt.Cmd{wire.GetCmd(k, true, nil), wire.ScanCmd(k, "0", "*", 1), wire.SweepCmd(k, wire.Mode{}), wire.MigrateCmd(k, 0)} {
		if !c.Flags.Resendable() {
			t.Errorf("%s may not be sent twice", c.Script.Name())
		}
	}
}

// Whatever is in a hash or among the events gives a value or an error.
func FuzzStored(f *testing.F) {
	f.Add("", int64(0))
	f.Add("\x01\x99\x00\x00\x00\x00\x00\x01payload", int64(1_700_000_000_000_000))
	f.Add("\x06\x5f\x00\x00\x00\x00\x00\x01\x99\x00\x00\x00\x00\x00\x01fv", int64(0))
	f.Fuzz(func(t *testing.T, stored string, now int64) {
		if payload, ttl, ok, err := wire.Open(stored, now&(1<<53-1)); err == nil && (len(payload) != len(stored)-wire.HeaderBytes || ok != (ttl > 0)) {
			t.Errorf("%q: %q, %v %v", stored, payload, ttl, ok)
		}
		if e, id, err := readEvent(stored); err == nil && (len(e.Field)+len(e.Value) != len(stored)-15 || id < 0) {
			t.Errorf("%q: %+v %d", stored, e, id)
		}
	})
}
