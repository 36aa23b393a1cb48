package aof_test

import (
	"testing"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/test/faultdisk"
)

// FuzzOpen opens any bytes as a log: it is refused, or read without a fault
// and the same again.
func FuzzOpen(f *testing.F) {
	disk := faultdisk.New()
	l, _, _ := open(f, disk, aof.Options{Fsync: aof.Always})
	appendAll(f, l, 0, 3)
	b := disk.Bytes("0000000001.log")
	f.Add(b)
	f.Add(b[:100])
	f.Fuzz(func(t *testing.T, b []byte) {
		disk := faultdisk.New()
		disk.SetBytes("0000000001.log", b)
		count := func(into *int) func(aof.Record) error {
			return func(aof.Record) error { *into++; return nil }
		}
		var first, second int
		l, _, err := aof.Open(disk, aof.Options{ReserveBytes: 64}, count(&first))
		if err != nil {
			return
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l, found, err := aof.Open(disk, aof.Options{ReserveBytes: 64}, count(&second))
		if err != nil || first != second || found.Torn != nil {
			t.Fatalf("first %d records, then %d, %v, %v", first, second, found.Torn, err)
		}
		l.Close() //nolint:errcheck // nothing was written
	})
}

// FuzzRecords reads any bytes as the payload of a frame whose checksum is
// right.
func FuzzRecords(f *testing.F) {
	f.Add([]byte{3, 0, 1, 0})
	f.Add([]byte{6, 0, 1, 1, 2, 'a', 'b'})
	f.Fuzz(func(t *testing.T, payload []byte) {
		if err := aof.EachRecord(payload, func(aof.Record) error { return nil }); err == nil && len(payload) == 1 {
			t.Errorf("%x is no record", payload)
		}
	})
}
