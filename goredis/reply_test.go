package goredis

import (
	"math"
	"math/big"
	"reflect"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
)

func TestValue(t *testing.T) {
	huge, _ := new(big.Int).SetString("123456789012345678901234567890", 10)
	for _, step := range []struct{ in, want any }{
		{true, int64(1)},
		{false, int64(0)},
		{1.5, "1.5"},
		{huge, "123456789012345678901234567890"},
		{[]byte("x"), "x"},
		{map[any]any{"b": int64(2), "a": true, int64(3): nil}, []any{int64(3), nil, "a", int64(1), "b", int64(2)}},
		{[]any{[]any{true, map[any]any{}}, nil, redis.ErrNoScript}, []any{[]any{int64(1), []any{}}, nil, redoubt.ServerError(redis.ErrNoScript)}},
	} {
		if got := value(step.in); !reflect.DeepEqual(got, step.want) {
			t.Errorf("value(%#v) = %#v, want %#v", step.in, got, step.want)
		}
	}
}

// TestFormatFloat compares with what Redis 7.2 prints for ZSCORE in RESP2.
func TestFormatFloat(t *testing.T) {
	for want, f := range map[string]float64{
		"0": 0, "-0": math.Copysign(0, -1), "1": 1, "-1": -1, "1.5": 1.5, "0.1": 0.1,
		"3.14159": 3.14159, "100000": 1e5, "1234567890123": 1234567890123,
		"1e+20": 1e20, "1.5e+300": 1.5e300, "0.001": 0.001, "0.00001": 1e-5,
		"1e-7": 1e-7, "-2.5e-10": -2.5e-10, "17179869184": 1 << 34,
		"inf": math.Inf(1), "-inf": math.Inf(-1), "nan": math.NaN(),
	} {
		got := formatFloat(f)
		if got != want {
			t.Errorf("formatFloat(%v) = %s, want %s", f, got, want)
		}
		if back, err := strconv.ParseFloat(got, 64); err != nil || back != f && !math.IsNaN(f) {
			t.Errorf("%s reads back as %v, %v", got, back, err)
		}
	}
}
