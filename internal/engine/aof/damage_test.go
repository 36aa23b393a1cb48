package aof_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/faultdisk"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// A copied is what a directory holds: the bytes of its files by name.
type copied map[string][]byte

func copyOf(disk *faultdisk.Disk) copied {
	c := copied{}
	names, _ := disk.List()
	for _, name := range names {
		c[name] = disk.Bytes(name)
	}
	return c
}

func (c copied) disk() *faultdisk.Disk {
	disk := faultdisk.New()
	for name, b := range c {
		disk.SetBytes(name, b)
	}
	return disk
}

func (c copied) equal(other copied) bool { return maps.EqualFunc(c, other, bytes.Equal) }

// A victim is a directory after its process ended, with the number of records
// that were known to be on disk, and copies of it from before.
type victim struct {
	copied
	synced int
	older  []copied
}

// victims returns directories of each kind that damage is done to.
func victims(t *testing.T) map[string]victim {
	all := map[string]victim{}
	for _, policy := range []aof.Policy{aof.EverySecond, aof.Always, aof.Never} {
		for _, end := range []string{"closed", "idle", "killed"} {
			for _, compacted := range []bool{false, true} {
				if end == "idle" && policy != aof.EverySecond {
					continue // only with EverySecond does idleness change anything
				}
				synctest.Test(t, func(t *testing.T) {
					var v victim
					disk, n := faultdisk.New(), 0
					opts := aof.Options{Fsync: policy, Fold: keepLast(1 << 30)}
					var l *aof.Log
					more := func() {
						for range 3 {
							appendAll(t, l, n, n+4)
							n += 4
							await.Advance(20 * time.Millisecond) // it is written
							v.older = append(v.older, copyOf(disk))
						}
					}
					l, _, _ = open(t, disk, opts)
					more()
					if err := l.Close(); err != nil {
						t.Fatal(err)
					}
					v.synced = n
					l, _, _ = open(t, disk, opts)
					v.older = append(v.older, copyOf(disk))
					more()
					if compacted {
						if err := l.Compact(t.Context()); err != nil {
							t.Fatal(err)
						}
						v.synced = n
						more()
					}
					switch end {
					case "closed":
						if err := l.Close(); err != nil {
							t.Fatal(err)
						}
						v.synced = n
					case "idle":
						await.Advance(2500 * time.Millisecond)
						v.synced = n
					case "killed":
						if policy == aof.Always {
							v.synced = n
						}
					}
					v.copied = copyOf(disk)
					all[fmt.Sprint(policy, " ", end, map[bool]string{true: " compacted"}[compacted])] = v
					l.Close() //nolint:errcheck // the copy is made
				})
			}
		}
	}
	return all
}

// damage changes c in one way, and says which.
func damage(r *rand.Rand, c copied, older []copied) string {
	names := slices.Sorted(maps.Keys(c))
	name := names[r.IntN(len(names))]
	other := names[r.IntN(len(names))]
	b := slices.Clone(c[name])
	c[name] = b
	switch r.IntN(12) {
	case 0:
		delete(c, name)
		return name + " is deleted"
	case 1:
		c[name] = nil
		return name + " is emptied"
	case 2, 3:
		n := r.IntN(len(b) + 1)
		c[name] = b[:n]
		return fmt.Sprintf("%s is cut at %d of %d", name, n, len(b))
	case 4, 5:
		text := name + " has other bits at"
		for range 1 + r.IntN(3) {
			at := r.IntN(max(1, len(b)))
			if at < len(b) {
				b[at] ^= 1 << r.IntN(8)
			}
			text += fmt.Sprint(" ", at)
		}
		return text
	case 6:
		c[name], c[other] = c[other], c[name]
		return name + " and " + other + " are exchanged"
	case 7:
		to := []string{other, "0000000001.log", "0000000002.log", "0000000003.log", "0000000004.log", "0000000009.log", "0000000001.base", "0000000009.base"}[r.IntN(8)]
		c[to] = b
		return name + " is there as " + to + " too"
	case 8:
		from, n, to := r.IntN(len(b)+1), 1+r.IntN(80), r.IntN(len(b)+1)
		piece := slices.Clone(b[from:min(len(b), from+n)])
		c[name] = slices.Insert(b, to, piece...)
		return fmt.Sprintf("%s has the %d bytes at %d also at %d", name, len(piece), from, to)
	case 9:
		from := r.IntN(len(b) + 1)
		to := min(len(b), from+1+r.IntN(80))
		c[name] = slices.Delete(b, from, to)
		return fmt.Sprintf("%s lacks %d to %d", name, from, to)
	case 10:
		at := r.IntN(len(b) + 1)
		length := []byte{0xff, 0xff, 0xff, byte(0x7f + r.IntN(2)*0x80)}
		c[name] = slices.Replace(b, at, min(len(b), at+4), length...)
		return fmt.Sprintf("%s has %x at %d", name, length, at)
	default:
		from := older[r.IntN(len(older))]
		if old, ok := from[name]; ok {
			c[name] = old
		} else {
			delete(c, name)
		}
		return fmt.Sprintf("%s is as it was before, of %d bytes", name, len(c[name]))
	}
}

// TestDamage damages directories in thousands of ways, each in one file or two. All data that was
// known to be on disk is there, or opening fails with an error that names a file, and changes
// nothing.
//
// Promise: Damage of data that was on disk is an error, which names the place.
func TestDamage(t *testing.T) {
	r, steps := randtest.Rand(t), randtest.Watch(t)
	for name, v := range victims(t) {
		if _, numbers, _ := open(t, v.disk(), aof.Options{}); len(numbers) < v.synced {
			t.Fatalf("%s: %d records without damage, want %d", name, len(numbers), v.synced)
		}
		refused := 0
		for range 200 {
			c := maps.Clone(v.copied)
			how := damage(r, c, v.older)
			steps.Begin(func() string { return name + ": " + how })
			disk := c.disk()
			l, numbers, _, err := tryOpen(disk, aof.Options{})
			if err == nil {
				if len(numbers) < v.synced || !slices.Equal(numbers, upTo(len(numbers))) {
					t.Fatalf("%s: %s: found %v, %d were on disk", name, how, numbers, v.synced)
				}
				l.Close() //nolint:errcheck // nothing was written
				continue
			}
			refused++
			var corrupt *aof.CorruptError
			if !errors.Is(err, aof.ErrCorrupt) || !errors.As(err, &corrupt) || !strings.Contains(err.Error(), corrupt.File) || corrupt.File == "" {
				t.Fatalf("%s: %s: %v", name, how, err)
			}
			if !copyOf(disk).equal(c) {
				t.Fatalf("%s: %s: files were changed, and opening failed with %v", name, how, err)
			}
			repairs(t, disk, how)
		}
		if refused < 35 {
			t.Errorf("%s: %d of 200 were refused", name, refused)
		}
	}
}

// TestWhatIsLostIsNamed holds what is said of damages of each kind.
func TestWhatIsLostIsNamed(t *testing.T) {
	all := victims(t)
	v := all["everysec idle compacted"]
	const base, log = "0000000001.base", "0000000002.log"
	size := len(v.copied[log])
	for _, c := range []struct {
		damage func(copied)
		want   string
	}{
		{func(c copied) { delete(c, log) }, fmt.Sprintf("aof: corrupt file %s at offset 0: the file is missing; %d bytes from there on were on disk", log, size)},
		{func(c copied) { c[log] = nil }, fmt.Sprintf("aof: corrupt file %s at offset 0: the file ends here; %d bytes from there on were on disk", log, size)},
		{func(c copied) { c[log] = c[log][:size-7] }, fmt.Sprintf("aof: corrupt file %s at offset %d: the file ends here; 7 bytes from there on were on disk", log, size-7)},
		{func(c copied) { c[log][32+20] ^= 1 }, fmt.Sprintf("aof: corrupt file %s at offset 32: the frame is not in its place; %d bytes from there on were on disk", log, size-32)},
		{func(c copied) { c[log] = all["always closed compacted"].copied[log] }, fmt.Sprintf("aof: corrupt file %s at offset 0: it is another file of that name; %d bytes from there on were on disk", log, size)},
		{func(c copied) { delete(c, base) }, fmt.Sprintf("aof: corrupt file %s at offset 0: the file is missing; %d bytes from there on were on disk", base, len(v.copied[base]))},
		{func(c copied) { c[base][5] ^= 1 }, fmt.Sprintf("aof: corrupt file %s at offset 0: the file does not begin with redoubtL; %d bytes from there on were on disk", base, len(v.copied[base]))},
		{func(c copied) { c["0000000009.log"] = c[log] }, fmt.Sprintf("aof: corrupt file 0000000009.log at offset 0: it holds data, and the manifest does not name it; %d bytes from there on were on disk", size)},
		{func(c copied) { delete(c, "manifest") }, "aof: corrupt file manifest at offset 0: the file is missing"},
		{func(c copied) { c["manifest"][30] ^= 1 }, "aof: corrupt file manifest at offset 0: it is not as it was written"},
		{func(c copied) { c["manifest"] = c["manifest"][:100] }, "aof: corrupt file manifest at offset 0: it is not as it was written"},
		{func(c copied) { c["manifest"] = c[log] }, `aof: corrupt file manifest at offset 0: the file does not begin with "redoubt manifest 1\n"`},
	} {
		damaged := copied{}
		for name, b := range v.copied {
			damaged[name] = slices.Clone(b)
		}
		c.damage(damaged)
		if _, _, _, err := tryOpen(damaged.disk(), aof.Options{}); err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

// repairs repairs a directory that is refused, and wants what can be read to be
// there and everything else kept aside. It returns what was reported.
func repairs(t *testing.T, disk *faultdisk.Disk, how string) aof.Report {
	t.Helper()
	before := copyOf(disk)
	checked, err := aof.Check(disk)
	if err != nil || checked.Damage == nil || !copyOf(disk).equal(before) {
		t.Fatalf("%s: checked: %+v, %v", how, checked, err)
	}
	repaired, err := aof.Repair(disk)
	if err != nil || !reflect.DeepEqual(repaired, checked) {
		t.Fatalf("%s: repaired: %+v, %v; checked: %+v", how, repaired, err, checked)
	}
	for name, b := range before {
		if strings.HasSuffix(name, ".log") && !bytes.Equal(disk.Bytes(name+".damaged"), b) {
			t.Fatalf("%s: %s was not kept", how, name)
		}
	}
	l, numbers, found := open(t, disk, aof.Options{Fold: keepLast(1 << 30)})
	if !slices.Equal(numbers, upTo(int(repaired.Records))) || found.Torn != nil {
		t.Fatalf("%s: found %v, %v after a repair that kept %d", how, numbers, found.Torn, repaired.Records)
	}
	appendAll(t, l, len(numbers), len(numbers)+2)
	if err := errors.Join(l.Compact(t.Context()), l.Close()); err != nil {
		t.Fatalf("%s: after the repair: %v", how, err)
	}
	if whole, err := aof.Repair(disk); err != nil || whole.Damage != nil || whole.Records != repaired.Records+2 {
		t.Fatalf("%s: once more: %+v, %v", how, whole, err)
	}
	return repaired
}

// Promise: A repair keeps every record before the damage, and reports the loss.
func TestRepair(t *testing.T) {
	v := victims(t)["everysec idle compacted"]
	const base, log = "0000000001.base", "0000000002.log"
	size := int64(len(v.copied[base]) + len(v.copied[log]))
	for _, c := range []struct {
		how           string
		damage        func(copied)
		records, lost int64
		file          string
		behind        []string
	}{
		{"last log deleted", func(c copied) { delete(c, log) }, 24, int64(len(v.copied[log])), log, nil},
		{"first frame of the last log", func(c copied) { c[log][60] ^= 1 }, 24, int64(len(v.copied[log])) - 32, log, nil},
		{"base deleted", func(c copied) { delete(c, base) }, 0, size, base, []string{log}},
		{"base damaged", func(c copied) { c[base][60] ^= 1 }, 0, size - 32, base, []string{log}},
		{"manifest deleted", func(c copied) { delete(c, "manifest") }, int64(v.synced), 0, "manifest", nil},
		{"manifest damaged", func(c copied) { c["manifest"] = c["manifest"][:9] }, int64(v.synced), 0, "manifest", nil},
		{"manifest of before", func(c copied) { c["manifest"] = v.older[0]["manifest"] }, int64(v.synced), 0, "0000000001.log", nil}, // a compaction has removed that
	} {
		damaged := copied{}
		for name, b := range v.copied {
			damaged[name] = slices.Clone(b)
		}
		c.damage(damaged)
		r := repairs(t, damaged.disk(), c.how)
		if r.Records != c.records || r.Lost != c.lost || r.Damage.File != c.file || !slices.Equal(r.Behind, c.behind) {
			t.Errorf("%s: %+v", c.how, r)
		}
	}
}
