package rdb

import (
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

// 123456789 has the checksum that Redis' own test of it names.
func TestChecksum(t *testing.T) {
	if got := checksum([]byte("123456789")); got != 0xe9c6d914c4b8d9ca {
		t.Errorf("%x", got)
	}
}

func bytesOf(all ...string) (out [][]byte) {
	for _, s := range all {
		out = append(out, []byte(s))
	}
	return out
}

func TestRoundTrip(t *testing.T) {
	for _, v := range []*Value{
		{Str: []byte("x")}, {Str: []byte("-12")}, {Str: []byte("70000")}, {Str: []byte("0001")}, {Str: []byte(strings.Repeat("z", 1<<15))},
		{Kind: List, Elements: bytesOf("a", "", "300", strings.Repeat("q", 100))},
		{Kind: Set, Elements: bytesOf("1", "b")},
		{Kind: Zset, Elements: bytesOf("a", "b"), Scores: []float64{math.Inf(-1), 0.1}},
		{Kind: Hash, Elements: bytesOf("a", "b"), Values: bytesOf("1", "2")},
		{Kind: Hash, Elements: bytesOf("a", "b", "c"), Values: bytesOf("1", "2", "3"), Expires: []int64{1 << 41, 0, 1<<41 + 5}},
	} {
		got, err := Parse(Payload([]byte("before")[:0], v))
		if err != nil || !reflect.DeepEqual(got, v) {
			t.Errorf("%.100v became %.100v, %v", v, got, err)
		}
	}
}

// seal gives a value its footer.
func seal(t byte, body string) []byte {
	b := append([]byte{t}, body...)
	b = binary.LittleEndian.AppendUint16(b, Version)
	return binary.LittleEndian.AppendUint64(b, checksum(b))
}

// Encodings of Redis before 7.0, written by hand: no such server is here to ask.
func TestOldForms(t *testing.T) {
	ziplist := func(n byte, entries string) string {
		size := 10 + len(entries) + 1
		return string([]byte{byte(size), byte(size), 0, 0, 0, 0, 0, 0, 0, n, 0}) + entries + "\xff"
	}
	entries := "\x00\x01a" + "\x03\xf3" + "\x02\xfe\x80" + "\x03\xc0\x00\x01" + "\x04\xd0\xff\xff\xff\xff" + "\x06\xf0\x00\x00\x80"
	want := bytesOf("a", "2", "-128", "256", "-1", "-8388608")
	for _, c := range []struct {
		name    string
		payload []byte
		want    *Value
	}{
		{"ziplist", seal(typeListZiplist, ziplist(6, entries)), &Value{Kind: List, Elements: want}},
		{"quicklist", seal(typeListQuicklist, "\x01"+ziplist(6, entries)), &Value{Kind: List, Elements: want}},
		{"hash", seal(typeHashZiplist, ziplist(2, "\x00\x01a\x03\xf3")), &Value{Kind: Hash, Elements: bytesOf("a"), Values: bytesOf("2")}},
		{"zset", seal(typeZsetZiplist, ziplist(2, "\x00\x01a\x03\xf3")), &Value{Kind: Zset, Elements: bytesOf("a"), Scores: []float64{2}}},
		{"zset of text", seal(typeZset, "\x02\x01a\x031.5\x01b\xff"), &Value{Kind: Zset, Elements: bytesOf("a", "b"), Scores: []float64{1.5, math.Inf(-1)}}},
	} {
		if got, err := Parse(c.payload); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	good := Payload(nil, &Value{Str: []byte("value")})
	newer := append([]byte(nil), good[:len(good)-footer]...)
	newer = binary.LittleEndian.AppendUint16(newer, VersionFieldTTL+1)
	newer = binary.LittleEndian.AppendUint64(newer, checksum(newer))
	for name, b := range map[string][]byte{"nothing": nil, "short": good[2:], "newer": newer} {
		if _, err := Parse(b); !errors.Is(err, ErrChecksum) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, b := range map[string][]byte{
		"unknown type": seal(15, "\x00"), "empty list": seal(typeList, "\x00"), "more than is there": seal(typeList, "\x05\x01a"),
		"rest": seal(typeString, "\x01ab"), "huge count": seal(typeSet, "\x81\xff\xff\xff\xff\xff\xff\xff\xff"), "huge string": seal(typeString, "\x81\xff\xff\xff\xff\xff\xff\xff\xff"),
		"packed bomb": seal(typeString, "\xc3\x01\x80\x7f\xff\xff\xff\x00"), "not a number": seal(typeZset2, "\x01\x01a\x01\x00\x00\x00\x00\x00\xf8\x7f"),
		"half a pair": seal(typeHashListpack, "\x09\x09\x00\x00\x00\x01\x00\x01\x01\xff"), "intset": seal(typeSetIntset, "\x0a\x03\x00\x00\x00\x01\x00\x00\x00\x01\x00"),
	} {
		if v, err := Parse(b); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
}

// Nothing that Parse takes makes it panic, and what it gives can be written and
// read again.
func FuzzParse(f *testing.F) {
	f.Add(byte(typeHashListpack), "\x0b\x0b\x00\x00\x00\x02\x00\x01\x01\x02\x01\xff")
	f.Add(byte(typeString), "\xc3\x05\x0a\x00a\xe0\x00\x00")
	f.Add(byte(typeListQuicklist2), "\x01\x02\x09\x09\x00\x00\x00\x01\x00\x81a\x02\xff")
	f.Add(byte(typeListQuicklist), "\x01\x0e\x0e\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x01a\xff")
	f.Add(byte(typeSetIntset), "\x0a\x02\x00\x00\x00\x01\x00\x00\x00\x01\x00")
	f.Add(byte(typeHashTTL), "\x01\x00\x00\x00\x00\x00\x00\x00\x01\x01\x01a\x01b")
	groups := "\x01\x01g\x01\x02\x03" + pendingEntries(2)
	f.Add(byte(typeStreamListpacks2), "\x01\x10"+strings.Repeat("\x00", 7)+"\x02"+strings.Repeat("\x00", 7)+"\x03"+streamNode+"\x01\x02\x03\x02\x03\x00\x00\x01"+groups)
	for _, b := range bombs(64 << 10) {
		f.Add(b[0], string(b[1:len(b)-footer]))
	}
	f.Fuzz(func(t *testing.T, kind byte, body string) {
		v, err := ParseAtMost(seal(kind, body), 1<<20, nil)
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrTooLarge) {
				t.Fatal(err)
			}
			return
		}
		again, err := Parse(Payload(nil, v))
		if err != nil {
			t.Fatalf("%+v: %v", v, err)
		}
		if v.Stream != nil && !again.Stream.Alike(v.Stream) {
			t.Fatalf("%+v became %+v", v.Stream, again.Stream)
		}
		if len(again.Elements) != len(v.Elements) || string(again.Str) != string(v.Str) {
			t.Fatalf("%+v became %+v", v, again)
		}
	})
}
