package rdb

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// redisFile is a file of redis-server 7.0.15 with each form of a value, deadlines, a library, and two databases.
//
//go:embed testdata/redis-7.0.15.rdb
var redisFile []byte

// mutated changes b in one to three ways: bits, a cut, a piece that is removed, repeated or moved, an extreme length.
func mutated(r *rand.Rand, b []byte) (changed []byte, how string) {
	b = slices.Clone(b)
	for range 1 + r.IntN(3) {
		from := r.IntN(len(b) + 1)
		to := min(len(b), from+r.IntN(1<<r.IntN(9)))
		piece := slices.Clone(b[from:to])
		at := r.IntN(len(b) - len(piece) + 1)
		switch kind := r.IntN(7); {
		case kind < 2 && from < len(b):
			b[from] ^= 1 << r.IntN(8)
			how += fmt.Sprintf("a bit at %d; ", from)
		case kind == 2 && r.IntN(4) == 0:
			b = b[:from]
			how += fmt.Sprintf("cut at %d; ", from)
		case kind == 3:
			b = slices.Insert(slices.Delete(b, from, to), at, piece...)
			how += fmt.Sprintf("%d to %d moved to %d; ", from, to, at)
		case kind == 4:
			b = slices.Insert(b, at, piece...)
			how += fmt.Sprintf("%d to %d also at %d; ", from, to, at)
		case kind == 5:
			b = slices.Delete(b, from, to)
			how += fmt.Sprintf("without %d to %d; ", from, to)
		default:
			length := [][]byte{{0x80, 0x7f, 0xff, 0xff, 0xff}, {0x80, 0xff, 0xff, 0xff, 0xff}, {0x81, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {0x81, 0, 0, 0, 0, 0x40, 0, 0, 0}, {0xc3}, {0xff, 0xff, 0xff, 0x7f}, {0x7f, 0xff}, {0}}[r.IntN(8)]
			b = slices.Replace(b, from, min(len(b), from+len(length)), length...)
			how += fmt.Sprintf("%x at %d; ", length, from)
		}
	}
	return b, how
}

// TestFileMutated mutates a file of Redis. With its checksum it is refused, or gives the same data. Without one the
// reader neither panics nor takes memory out of proportion, and each value is refused, or can be written and
// read again.
func TestFileMutated(t *testing.T) {
	_, whole, err := readAll(redisFile)
	if !errors.Is(err, io.EOF) || len(whole) != 17 {
		t.Fatalf("%d keys, %v", len(whole), err)
	}
	r, steps := randtest.Rand(t), randtest.Watch(t)
	read, refused := 0, 0
	for range 3000 {
		b, how := mutated(r, redisFile)
		steps.Begin(func() string { return how })
		if _, all, err := readAll(b); !isFileError(err) && (!errors.Is(err, io.EOF) || !reflect.DeepEqual(all, whole)) {
			t.Fatalf("%s: %d keys, %v", how, len(all), err)
		}
		body := b[:max(0, len(b)-8)]
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, all, err := readAll(append(body, make([]byte, 8)...)) // which is no checksum
		var good []Entry
		for _, e := range all {
			switch err := Check(e.Payload); {
			case err == nil && Unsupported(e.Payload) == "" && version(e.Payload) <= VersionFieldTTL:
				good = append(good, e)
			case err != nil && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrTooLarge):
				t.Fatalf("%s: key %q: %v", how, e.Key, err)
			}
		}
		runtime.ReadMemStats(&after)
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 4<<20 {
			t.Fatalf("%s: %d bytes were taken for %d", how, taken, len(b))
		}
		if !errors.Is(err, io.EOF) {
			if refused++; !isFileError(err) {
				t.Fatalf("%s: %v", how, err)
			}
		}
		read += len(good)
		if _, again, err := readAll(write(t, VersionFieldTTL, good)); !errors.Is(err, io.EOF) || !reflect.DeepEqual(parsed(t, again), parsed(t, good)) {
			t.Fatalf("%s: %d keys became %d, %v", how, len(good), len(again), err)
		}
	}
	if refused < 750 || read < 7500 {
		t.Errorf("%d files were refused, %d keys were read", refused, read)
	}
}
