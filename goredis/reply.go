package goredis

import (
	"cmp"
	"math/big"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
)

// value turns what go-redis read into the shapes of RESP2 that redoubt.Reply
// promises. Arrays are changed in place.
func value(v any) any {
	switch v := v.(type) {
	case nil, int64, string:
		return v
	case []any:
		for i, e := range v {
			switch e.(type) {
			case nil, int64, string: // most elements: spare the call and the store
			default:
				v[i] = value(e)
			}
		}
		return v
	case bool:
		if v {
			return int64(1)
		}
		return int64(0)
	case float64:
		return formatFloat(v)
	case *big.Int:
		return v.String()
	case map[any]any:
		return flatten(v)
	case redis.Error:
		return redoubt.ServerError(v.Error())
	case []byte:
		return string(v)
	}
	return v
}

// flatten lays a map out as field, value, field, value, as RESP2 does. go-redis
// has lost the server's order by now, so the fields are sorted.
func flatten(m map[any]any) []any {
	type pair struct {
		order      string
		key, value any
	}
	pairs := make([]pair, 0, len(m))
	for k, v := range m {
		k = value(k)
		p := pair{key: k, value: value(v)}
		switch k := k.(type) {
		case string:
			p.order = k
		case int64:
			p.order = strconv.FormatInt(k, 10)
		}
		pairs = append(pairs, p)
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.order, b.order) })
	flat := make([]any, 0, 2*len(pairs))
	for _, p := range pairs {
		flat = append(flat, p.key, p.value)
	}
	return flat
}

// formatFloat writes a double as Redis 7.2 does in RESP2: the fewest digits
// that read back as the same number, with an exponent only where the number
// would be long without (fpconv_dtoa).
func formatFloat(f float64) string {
	s := strconv.FormatFloat(f, 'e', -1, 64) // d.ddde±xx, ±Inf or NaN
	switch s {
	case "+Inf":
		return "inf"
	case "-Inf":
		return "-inf"
	case "NaN":
		return "nan"
	}
	mantissa, exponent := cutExponent(s)
	digits := len(mantissa)
	for _, c := range mantissa {
		if c == '.' || c == '-' {
			digits--
		}
	}
	k := exponent - digits + 1 // the number is its digits times 10^k
	switch {
	case k >= 0 && exponent < digits+7, k < 0 && (k > -7 || exponent > -4 && exponent < 4):
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	sign := "+"
	if exponent < 0 {
		sign, exponent = "-", -exponent
	}
	return mantissa + "e" + sign + strconv.Itoa(exponent)
}

func cutExponent(s string) (mantissa string, exponent int) {
	for i := range len(s) {
		if s[i] == 'e' {
			exponent, _ = strconv.Atoi(s[i+1:]) // FormatFloat wrote it
			return s[:i], exponent
		}
	}
	return s, 0
}
