package rdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// everything is one entry of each kind, over two databases.
func everything() (all []Entry) {
	for i, v := range []*Value{
		{Str: []byte("x")}, {Str: []byte("-12")}, {Str: []byte(strings.Repeat("z", 3<<20))},
		{Kind: List, Elements: bytesOf("a", "", "300")},
		{Kind: Set, Elements: bytesOf("1", "b")},
		{Kind: Zset, Elements: bytesOf("a", "b"), Scores: []float64{math.Inf(-1), 0.1}},
		{Kind: Hash, Elements: bytesOf("a", "b"), Values: bytesOf("1", "2")},
		{Kind: Hash, Elements: bytesOf("a", "b"), Values: bytesOf("1", "2"), Expires: []int64{1 << 41, 0}},
	} {
		e := Entry{DB: i / 4 * 3, Key: []byte{'k', byte('0' + i)}, Payload: Payload(nil, v)}
		if i%2 == 1 {
			e.Key, e.Deadline = []byte("123"+string(e.Key[1:])), int64(1<<41+i)
		}
		all = append(all, e)
	}
	return all
}

func write(t testing.TB, version int, all []Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewFileWriter(&b, version, time.Unix(1<<31, 0))
	for i := 0; err == nil && i < len(all); i++ {
		err = w.Write(all[i])
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func readAll(b []byte) (f *FileReader, all []Entry, err error) {
	f, err = NewFileReader(bytes.NewReader(b))
	for err == nil {
		var e Entry
		if e, err = f.Next(); err == nil {
			all = append(all, e)
		}
	}
	return f, all, err
}

func parsed(t testing.TB, all []Entry) (values []*Value) {
	t.Helper()
	for _, e := range all {
		v, err := Parse(e.Payload)
		if err != nil {
			t.Fatalf("key %q: %v", e.Key, err)
		}
		values = append(values, v)
	}
	return values
}

func TestFileRoundTrip(t *testing.T) {
	want := everything()
	f, got, err := readAll(write(t, VersionFieldTTL, want))
	if !errors.Is(err, io.EOF) || f.Version() != VersionFieldTTL || len(got) != len(want) {
		t.Fatalf("%d keys of version %d, %v", len(got), f.Version(), err)
	}
	for i := range want {
		if want[i].DB != got[i].DB || string(want[i].Key) != string(got[i].Key) || want[i].Deadline != got[i].Deadline {
			t.Errorf("%q became %q", want[i].Key, got[i].Key)
		}
	}
	if !reflect.DeepEqual(parsed(t, want), parsed(t, got)) {
		t.Error("the values differ")
	}
}

// A file that was cut, or in which a byte was changed, is never taken for a
// whole one.
func TestFileDamage(t *testing.T) {
	all := everything()
	good := write(t, VersionFieldTTL, append(all[:2:2], all[3:]...))
	for n := range good {
		if _, _, err := readAll(good[:n]); !isFileError(err) {
			t.Fatalf("cut to %d of %d bytes: %v", n, len(good), err)
		}
		bad := bytes.Clone(good)
		bad[n] ^= 4
		f, _, err := readAll(bad)
		// Changing a digit of the version is no damage until the checksum.
		if !isFileError(err) {
			t.Fatalf("byte %d changed: %v (version %d)", n, err, f.Version())
		}
	}
	if _, all, err := readAll(append(bytes.Clone(good[:len(good)-8]), make([]byte, 8)...)); !errors.Is(err, io.EOF) || len(all) == 0 {
		t.Errorf("without a checksum: %d keys, %v", len(all), err)
	}
}

func isFileError(err error) bool {
	var fe *FileError
	return errors.As(err, &fe) && fe.Offset >= 0 && fe.Reason != ""
}

// streamNode is a node of a stream with one entry, whose ID is the node's: a is b.
const streamNode = "\x1d\x1d\x00\x00\x00\x0a\x00" + "\x01\x01\x00\x01\x01\x01\x81a\x02\x00\x01" + "\x02\x01\x00\x01\x00\x01\x81b\x02\x04\x01\xff"

// Records that are skipped, and values that Parse can't read, are read to their end.
func TestFileSkips(t *testing.T) {
	const key = "\x01s"
	id, ms := strings.Repeat("i", 16), strings.Repeat("m", 8)
	group := func(more, active string) string {
		return "\x01" + "\x01g" + "\x01\x02" + more + "\x01" + id + ms + "\x05" + "\x01" + "\x01c" + ms + active + "\x01" + id
	}
	body := "\xfa\x01a\x01b" + "\xfe\x02" + "\xfb\x03\x01" + "\xf4\x01\x02\x03" + "\xf5\x03lib" +
		"\xf7\x81\x00\x00\x00\x00\x00\x00\x00\x07\x02\x01" + "\x02\x05\x05\x01x\x00" + // beside the keys, from a module
		"\xf8\x05\xf9\x07" + "\x00\x01k\x01v" + // idle, frequency
		"\xfd\x10\x00\x00\x00" + "\x00\x02k2\xc3\x05\x0a\x00a\xe0\x00\x00" + // seconds, LZF
		"\x07" + key + "\x81\x00\x00\x00\x00\x00\x00\x00\x07" + "\x01\x05\x02\x06\x03\x00\x00\x00\x00\x04" + ms + "\x05\x01t\x00" +
		"\x0f" + key + "\x01\x10\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03" + streamNode + "\x01\x02\x03" + group("", "") +
		"\x13" + key + "\x00" + "\x00\x02\x03\x04\x05\x06\x07\x08" + group("\x09", "") +
		"\x15" + key + "\x00" + "\x00\x02\x03\x04\x05\x06\x07\x08" + group("\x09", ms) + "\xff"
	file := []byte("REDIS0011" + body)
	file = binary.LittleEndian.AppendUint64(file, checksum(file))
	f, all, err := readAll(file)
	if !errors.Is(err, io.EOF) || len(all) != 6 || len(f.Libraries()) != 1 || f.Libraries()[0] != "lib" || f.Offset() != int64(len(file)) {
		t.Fatalf("%d keys, libraries %q, %v", len(all), f.Libraries(), err)
	}
	for i, want := range []string{"", "", "value of a module", "", "", ""} {
		if got := Unsupported(all[i].Payload); got != want || all[i].DB != 2 {
			t.Errorf("key %d in database %d is %q, want %q", i, all[i].DB, got, want)
		}
		if err := Check(all[i].Payload); err != nil {
			t.Errorf("key %d: %v", i, err)
		}
	}
	if v := parsed(t, all[1:2])[0]; all[1].Deadline != 16000 || string(v.Str) != "aaaaaaaaaa" {
		t.Errorf("%d, %q", all[1].Deadline, v.Str)
	}
}

func TestFileRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "ends too early",
		"hello, world":                  "doesn't begin with REDIS",
		"REDISxxxx":                     "no version",
		"VALKEx080":                     "no version",
		"REDIS0012\x1a\x01k":            "type 26 is unknown",
		"REDIS0012\x16\x01k\x01\x01a":   "type 22 is unknown", // Redis 7.4's release candidates, or not of Valkey
		"REDIS0010\xfe\xc0":             "a length is broken",
		"REDIS0010\x00\xc4":             "a string is broken",
		"REDIS0010\x00\xc3\x01\x01\xff": "a key is broken",
		"REDIS0010\xfc" + "\xff\xff\xff\xff\xff\xff\xff\xff":               "out of range",
		"REDIS0010\x00\x81\x7f\xff\xff\xff\xff\xff\xff\xff":                "ends too early", // and takes no memory for it
		"VALKEY080\x16\x01k\x01\x01a\x01b\x00\x00\x00\x00\x00\x00\x00\x00": "value is broken",
	} {
		if _, _, err := readAll([]byte(text)); !isFileError(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	failing := errors.New("the disk is gone")
	if _, err := NewFileReader(io.MultiReader(strings.NewReader("RED"), failingReader{failing})); !errors.Is(err, failing) {
		t.Errorf("%v", err)
	}
}

// Before version 5 there was no checksum.
func TestFileWithoutChecksum(t *testing.T) {
	f, all, err := readAll([]byte("REDIS0004\xfe\x00\x0d\x01h\x10\x10\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x01a\x03\xf3\xff\xff"))
	if !errors.Is(err, io.EOF) || f.Version() != 4 {
		t.Fatalf("%d keys, %v", len(all), err)
	}
	if v := parsed(t, all)[0]; v.Kind != Hash || string(v.Values[0]) != "2" {
		t.Errorf("%+v", v)
	}
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

func TestValkeyHash(t *testing.T) {
	const at = "\x00\x00\x00\x00\x00\x02\x00\x00" // 1<<41
	fields := "\x02\x01a\x01b" + at + "\x01c\x01d" + "\xff\xff\xff\xff\xff\xff\xff\xff"
	want := []*Value{{Kind: Hash, Elements: bytesOf("a", "c"), Values: bytesOf("b", "d"), Expires: []int64{1 << 41, 0}}}
	file := []byte("VALKEY080\x16\x01k" + fields + "\xff")
	file = binary.LittleEndian.AppendUint64(file, checksum(file))
	f, all, err := readAll(file)
	if !errors.Is(err, io.EOF) || f.Version() != 80 || !reflect.DeepEqual(parsed(t, all), want) {
		t.Errorf("%+v, %v", all, err)
	}
	payload, err := Fit(stamp([]byte("\x16"+fields), 80), VersionFieldTTL)
	if err != nil || Unsupported(stamp([]byte("\x16"+fields), 80)) != "" || !reflect.DeepEqual(parsed(t, []Entry{{Payload: payload}}), want) {
		t.Errorf("%q, %v", payload, err)
	}
}

func TestFit(t *testing.T) {
	listpack := func(t byte, version int) []byte {
		return stamp(append([]byte{t}, "\x0c\x0c\x00\x00\x00\x02\x00\x81a\x02\x01\x01\xff"...), version)
	}
	ttl := Payload(nil, &Value{Kind: Hash, Elements: bytesOf("a"), Values: bytesOf("b"), Expires: []int64{9}})
	for _, c := range []struct {
		name    string
		payload []byte
		most    int
		version int // 0: ErrNewer
		kind    byte
	}{
		{"as it is", listpack(typeHashListpack, 10), 10, 10, typeHashListpack},
		{"stamped anew", listpack(typeHashListpack, 12), 10, 10, typeHashListpack},
		{"written anew", listpack(typeHashListpack, 10), 9, 9, typeHash},
		{"a set of 7.2", listpack(typeSetListpack, 11), 10, 9, typeSet},
		{"of Valkey 9", listpack(typeSetListpack, 80), 10, 9, typeSet},
		{"of a newer Redis", listpack(typeSetListpack, 14), 11, 11, typeSetListpack},
		{"fields' deadlines", ttl, 12, 12, typeHashTTL},
		{"fields' deadlines to 7.2", ttl, 11, 0, 0},
		{"a stream", stamp([]byte("\x13\x00\x00\x02\x03\x00\x00\x00\x00\x00\x00"), 11), 10, 10, typeStreamListpacks2},
		{"a newer stream", stamp([]byte("\x15\x00\x00\x02\x03\x00\x00\x00\x00\x00\x00"), 11), 10, 10, typeStreamListpacks2},
		{"a newer stream to 6.2", stamp([]byte("\x15\x00\x00\x02\x03\x00\x00\x00\x00\x00\x00"), 11), 9, 9, typeStreamListpacks},
		{"unknown", stamp([]byte("\x1a..."), 14), 12, 0, 0},
	} {
		got, err := Fit(c.payload, c.most)
		switch {
		case c.version == 0:
			if !errors.Is(err, ErrNewer) {
				t.Errorf("%s: %q, %v", c.name, got, err)
			}
		case err != nil || version(got) != c.version || got[0] != c.kind || Check(got) != nil:
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
	if _, err := Fit(append([]byte{typeSet}, listpack(typeSetListpack, 11)[1:]...), 10); !errors.Is(err, ErrChecksum) {
		t.Error(err)
	}
	old := write(t, 9, everything()[:7])
	if f, all, err := readAll(old); !errors.Is(err, io.EOF) || f.Version() != 9 || len(all) != 7 {
		t.Errorf("%d keys, %v", len(all), err)
	}
	w, err := NewFileWriter(io.Discard, Version, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(Entry{Key: []byte("k"), Payload: ttl}); !errors.Is(err, ErrNewer) {
		t.Error(err)
	}
	for _, v := range []int{8, 13} {
		if _, err := NewFileWriter(io.Discard, v, time.Time{}); err == nil {
			t.Errorf("version %d was taken", v)
		}
	}
}

// No file makes the reader panic or take memory on the word of a length, and
// what it gives can be written and read again.
func FuzzFile(f *testing.F) {
	all := everything()
	f.Add(write(f, Version, append(all[:2:2], all[3:7]...))[9:], false)
	f.Add([]byte("\x16\x01k\x01\x01a\x01b\xff\xff\xff\xff\xff\xff\xff\xff\xff"), true)
	f.Add([]byte("\x0f\x01k\x01\x01n\x01l\x01\x02\x03\x00\xff"), false)
	f.Add([]byte("\xf7\x07\x02\x01\x02\x05\x05\x01x\x00\x07\x01k\x07\x00\xfe\x03\xff"), false)
	f.Fuzz(func(t *testing.T, body []byte, valkey bool) {
		head := "REDIS0012"
		if valkey {
			head = "VALKEY080"
		}
		file := append([]byte(head), body...)
		_, all, err := readAll(append(file, make([]byte, 8)...)) // no checksum to stand in the way
		if !errors.Is(err, io.EOF) {
			if !isFileError(err) {
				t.Fatal(err)
			}
			return
		}
		var good []Entry
		for _, e := range all {
			if err := Check(e.Payload); err == nil {
				good = append(good, e)
			} else if !errors.Is(err, ErrFormat) {
				t.Fatalf("%q: %v", e.Payload, err)
			}
		}
		_, again, err := readAll(write(t, VersionFieldTTL, good))
		if !errors.Is(err, io.EOF) || len(again) != len(good) {
			t.Fatalf("%d keys became %d: %v", len(good), len(again), err)
		}
		for i := range good {
			if !reflect.DeepEqual(good[i], again[i]) && version(good[i].Payload) <= VersionFieldTTL {
				t.Fatalf("%+v became %+v", good[i], again[i])
			}
		}
	})
}
