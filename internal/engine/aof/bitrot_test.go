package aof_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/test/faultdisk"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// frameOf returns the offset of the frame, or of the header, that has the byte at of a base or a log.
func frameOf(b []byte, at int) (offset int) {
	const header = 32
	for offset < at {
		next := offset + header
		if offset > 0 {
			next += int(uint32(b[offset+8]) | uint32(b[offset+9])<<8 | uint32(b[offset+10])<<16 | uint32(b[offset+11])<<24)
		}
		if next > at {
			break
		}
		offset = next
	}
	return offset
}

// TestEveryBit flips each bit of each file, one after the other: of headers, frames, seals, and of
// the manifest. Opening names the file and the frame, and changes nothing. A repair keeps all that
// was written before that frame. Only a flipped bit in the mark of the manifest is no error: it loses
// nothing, opening reports it and writes the mark anew.
//
// Promise: One flipped bit anywhere is found, and the error names its file and its frame.
func TestEveryBit(t *testing.T) {
	slow.Test(t, "it opens a directory with each of its bits flipped")
	steps, repaired := randtest.Watch(t), map[string]bool{}
	disk := faultdisk.New()
	opts := aof.Options{Fsync: aof.Always, Fold: keepLast(1 << 30), ReserveBytes: 512}
	l, _, _ := open(t, disk, opts)
	appendAll(t, l, 0, 4)
	if err := l.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	appendAll(t, l, 4, 8)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	intact := copyOf(disk)
	for name, whole := range intact {
		if name == "reserve" {
			continue // its bytes are random, and it is made anew
		}
		for bit := range 8 * len(whole) {
			at := bit / 8
			steps.Begin(func() string { return fmt.Sprint(name, " at ", at) })
			c := maps.Clone(intact)
			b := slices.Clone(whole)
			b[at] ^= 1 << (bit % 8)
			c[name] = b
			disk := c.disk()
			checked, _ := aof.Check(disk)
			l, numbers, found, err := tryOpen(disk, opts)
			if err == nil { // the mark, which only says how much must be there
				l.Close() //nolint:errcheck // nothing was written
				for when, flaw := range map[string]*aof.CorruptError{"checked": checked.Flaw, "opened": found.Flaw} {
					if flaw == nil || flaw.File != name || flaw.Offset > int64(at) || int64(at) >= flaw.Offset+512 {
						t.Fatalf("bit %d of %s at %d: %s: %v", bit%8, name, at, when, flaw)
					}
				}
				again, err := aof.Check(disk)
				if !slices.Equal(numbers, upTo(8)) || err != nil || again.Flaw != nil {
					t.Fatalf("bit %d of %s at %d: found %v, and then %v, %v", bit%8, name, at, numbers, again.Flaw, err)
				}
				continue
			}
			corrupt, ok := errors.AsType[*aof.CorruptError](err)
			if !ok || corrupt.File != name || !copyOf(disk).equal(c) {
				t.Fatalf("bit %d of %s at %d: %v", bit%8, name, at, err)
			}
			if want := int64(frameOf(whole, at)); name != "manifest" && corrupt.Offset != want {
				t.Fatalf("bit %d of %s at %d: the error names offset %d, want %d", bit%8, name, at, corrupt.Offset, want)
			}
			if frame := fmt.Sprint(name, corrupt.Offset); !repaired[frame] { // the other bits of a frame are the same damage
				repaired[frame] = true
				repairs(t, disk, fmt.Sprintf("bit %d of %s at %d", bit%8, name, at))
			}
		}
	}
}
