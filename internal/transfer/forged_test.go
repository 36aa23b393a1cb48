package transfer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/rdb"
)

// TestForgedFileWritesNothing: Move refuses a well-formed file with an invalid last value before it writes the
// first key.
func TestForgedFileWritesNothing(t *testing.T) {
	const version = "REDIS0012"
	times := func(n byte, rest string) string { return string(n) + rest }
	float := func(f float64) string { return string(binary.LittleEndian.AppendUint64(nil, math.Float64bits(f))) }
	latest := string(binary.LittleEndian.AppendUint64(nil, rdb.LatestExpire))
	many := ""
	for i := range 40 {
		many += fmt.Sprintf("\x02%02d", i)
	}
	intset := func(n ...int16) string {
		b := binary.LittleEndian.AppendUint32([]byte{2, 0, 0, 0}, uint32(len(n))) //nolint:gosec // a few
		for _, v := range n {
			b = binary.LittleEndian.AppendUint16(b, uint16(v)) //nolint:gosec // two's complement
		}
		return times(byte(len(b)), string(b))
	}
	listpack := func(entries ...string) string {
		body := ""
		for _, e := range entries {
			body += string([]byte{0x80 | byte(len(e))}) + e + string([]byte{byte(len(e) + 1)})
		}
		size := 7 + len(body)
		return times(byte(size), string([]byte{byte(size), 0, 0, 0, byte(len(entries)), 0})+body+"\xff")
	}
	for name, value := range map[string]string{
		"a member twice":                   "\x02" + "\x01s" + times(3, "\x01a\x01b\x01a"),
		"one of many members twice":        "\x02" + "\x01s" + times(41, many+"\x0207"),
		"a field twice":                    "\x04" + "\x01h" + times(2, "\x01f\x011\x01f\x012"),
		"a member of a sorted set twice":   "\x05" + "\x01z" + times(2, "\x01a"+float(1)+"\x01a"+float(2)),
		"a number twice":                   "\x0b" + "\x01i" + intset(1, 2, 2),
		"a member of a listpack twice":     "\x14" + "\x01s" + listpack("a", "b", "a"),
		"a field of a listpack twice":      "\x10" + "\x01h" + listpack("f", "1", "f", "2"),
		"a scored member twice":            "\x11" + "\x01z" + listpack("a", "1", "a", "2"),
		"a field without value":            "\x10" + "\x01h" + listpack("f", "1", "g"),
		"a score that is none":             "\x05" + "\x01z" + times(1, "\x01a"+float(math.NaN())),
		"a score that is no number":        "\x03" + "\x01z" + times(1, "\x01a\x03one"),
		"an old score that is none":        "\x03" + "\x01z" + times(1, "\x01a\xfd"),
		"no elements":                      "\x02" + "\x01s" + times(0, ""),
		"a field that expires too late":    "\x18" + "\x01h" + latest + times(1, "\x02\x01f\x01v"),
		"a listpack of another length":     "\x14" + "\x01s" + strings.Replace(listpack("a", "b"), "\x0d\x0d", "\x0d\x0e", 1),
		"an intset of other numbers":       "\x0b" + "\x01i" + strings.Replace(intset(1, 2), "\x02\x00\x00\x00\x02", "\x02\x00\x00\x00\x03", 1),
		"a key twice":                      "\x00" + "\x02k3" + "\x01v",
		"a deadline that is out of range":  "\xfc\xff\xff\xff\xff\xff\xff\xff\x7f\x00" + "\x01d" + "\x01v",
		"packed bytes that unpack to less": "\x00" + "\x01l" + "\xc3\x02\x09\x00x",
	} {
		t.Run(name, func(t *testing.T) {
			file := version + "\xfe\x00"
			for i := range 6 {
				file += fmt.Sprintf("\x00\x02k%d\x01v", i)
			}
			file += value + "\xff"
			file += "\x00\x00\x00\x00\x00\x00\x00\x00" // no checksum was computed
			path := filepath.Join(t.TempDir(), "forged.rdb")
			if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, replace := range []bool{false, true} {
				to := startEngine(t)
				result, err := Move(t.Context(), rdbFile(t, path), to.server(AnyDatabase), Options{Replace: replace})
				if _, ok := errors.AsType[*rdb.FileError](err); !ok || to.must("DBSIZE") != int64(0) || result.Keys != 0 {
					t.Errorf("%+v, %v", result, err)
				}
			}
		})
	}
}
