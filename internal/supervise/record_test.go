//go:build unix

package supervise

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

func TestRecords(t *testing.T) {
	var pipe bytes.Buffer
	want := []record{{recDeadline, 1 << 60}, {recSignal, 15}, {recExited, -1}}
	for _, r := range want {
		if err := writeRecord(&pipe, r.kind, r.value); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range want {
		if got, err := readRecord(&pipe); err != nil || got != w {
			t.Errorf("readRecord = %v, %v; want %v", got, err, w)
		}
	}
	if _, err := readRecord(&pipe); err != io.EOF { //nolint:errorlint // EOF itself is the promise
		t.Errorf("at the end: %v; want EOF", err)
	}
}

func FuzzReadRecord(f *testing.F) {
	f.Add([]byte("d\x00\x00\x00\x00\x00\x00\x00\x01"))
	f.Add([]byte("z\x00\x00\x00\x00\x00\x00\x00\x01"))
	f.Add([]byte("d\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		rec, err := readRecord(bytes.NewReader(in))
		if err != nil {
			if errors.Is(err, io.EOF) != (len(in) == 0) {
				t.Fatalf("%q: %v", in, err)
			}
			return
		}
		var out bytes.Buffer
		if err := writeRecord(&out, rec.kind, rec.value); err != nil || !bytes.Equal(out.Bytes(), in[:recordSize]) {
			t.Fatalf("%q became %q, %v", in, out.Bytes(), err)
		}
	})
}
