package resp_test

import (
	"math"
	"math/big"
	"reflect"
	"testing"

	"github.com/redoubt-go/redoubt/internal/resp"
)

func TestAppend(t *testing.T) {
	for _, c := range []struct {
		name string
		f    func(dst []byte, p resp.Protocol) []byte
		two  string
		thr  string
	}{
		{"null", resp.AppendNull, "$-1\r\n", "_\r\n"},
		{"null array", resp.AppendNullArray, "*-1\r\n", "_\r\n"},
		{"map", func(d []byte, p resp.Protocol) []byte { return resp.AppendMap(d, p, 2) }, "*4\r\n", "%2\r\n"},
		{"set", func(d []byte, p resp.Protocol) []byte { return resp.AppendSet(d, p, 2) }, "*2\r\n", "~2\r\n"},
		{"push", func(d []byte, p resp.Protocol) []byte { return resp.AppendPush(d, p, 2) }, "*2\r\n", ">2\r\n"},
		{"true", func(d []byte, p resp.Protocol) []byte { return resp.AppendBool(d, p, true) }, ":1\r\n", "#t\r\n"},
		{"false", func(d []byte, p resp.Protocol) []byte { return resp.AppendBool(d, p, false) }, ":0\r\n", "#f\r\n"},
		{"double", func(d []byte, p resp.Protocol) []byte { return resp.AppendDouble(d, p, 0.1) }, "$3\r\n0.1\r\n", ",0.1\r\n"},
		{"inf", func(d []byte, p resp.Protocol) []byte { return resp.AppendDouble(d, p, math.Inf(-1)) }, "$4\r\n-inf\r\n", ",-inf\r\n"},
		{"verbatim", func(d []byte, p resp.Protocol) []byte { return resp.AppendVerbatim(d, p, "txt", "a\r\nb") }, "$4\r\na\r\nb\r\n", "=8\r\ntxt:a\r\nb\r\n"},
		{"big", func(d []byte, p resp.Protocol) []byte { return resp.AppendBig(d, p, big.NewInt(-7)) }, "$2\r\n-7\r\n", "(-7\r\n"},
		{"error", func(d []byte, _ resp.Protocol) []byte { return resp.AppendError(d, "ERR a\r\nb") }, "-ERR a  b\r\n", "-ERR a  b\r\n"},
		{"status", func(d []byte, _ resp.Protocol) []byte { return resp.AppendSimple(d, "OK") }, "+OK\r\n", "+OK\r\n"},
		{"int", func(d []byte, _ resp.Protocol) []byte { return resp.AppendInt(d, math.MinInt64) }, ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"},
	} {
		if got := string(c.f([]byte("x"), resp.RESP2)); got != "x"+c.two {
			t.Errorf("%s in RESP2: %q, want %q", c.name, got, c.two)
		}
		if got := string(c.f([]byte("x"), resp.RESP3)); got != "x"+c.thr {
			t.Errorf("%s in RESP3: %q, want %q", c.name, got, c.thr)
		}
	}
}

func TestParseInt(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, "1": 1, "-1": -1, "9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64} {
		if got, ok := resp.ParseInt([]byte(in)); !ok || got != want {
			t.Errorf("%q: %d %v", in, got, ok)
		}
	}
	for _, in := range []string{"", "-", "-0", "00", "+1", " 1", "1 ", "a", "9223372036854775808", "-9223372036854775809", "99999999999999999999", "184467440737095516160"} {
		if got, ok := resp.ParseInt([]byte(in)); ok {
			t.Errorf("%q: %d, want refusal", in, got)
		}
	}
}

// TestRoundTrip: Parse reads back what Append writes in RESP3.
func TestRoundTrip(t *testing.T) {
	b := resp.AppendArray(nil, 4)
	b = resp.AppendInt(b, -5)
	b = resp.AppendBulk(b, []byte("a\r\n\x00"))
	b = resp.AppendMap(b, resp.RESP3, 1)
	b = resp.AppendBulk(b, "k")
	b = resp.AppendDouble(b, resp.RESP3, 1e300)
	b = resp.AppendError(b, "ERR x")
	want := []any{int64(-5), "a\r\n\x00", resp.Map{"k", 1e300}, resp.Error("ERR x")}
	if got, n, err := resp.Parse(b); err != nil || n != len(b) || !reflect.DeepEqual(got, want) {
		t.Errorf("%#v %d %v, want %#v", got, n, err, want)
	}
}
