package server

import (
	"math/big"
	"strconv"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// scriptReply reads the reply of a script.
func scriptReply(raw []byte) redoubt.Reply {
	v, _, err := resp.Parse(raw)
	if err != nil {
		return redoubt.Reply{Err: err}
	}
	if e, ok := v.(resp.Error); ok {
		return redoubt.Reply{Err: redoubt.ServerError(e)}
	}
	return redoubt.Reply{Val: flat(v)}
}

// flat gives a value the shapes of RESP2, as redoubt.Reply has them.
func flat(v any) any {
	switch v := v.(type) {
	case resp.Error:
		return redoubt.ServerError(v)
	case bool:
		if v {
			return int64(1)
		}
		return int64(0)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case *big.Int:
		return v.String()
	case resp.Verbatim:
		return v.Text
	case []any:
		return flatten(v)
	case resp.Map:
		return flatten(v)
	case resp.Set:
		return flatten(v)
	case resp.Push:
		return flatten(v)
	}
	return v
}

func flatten(vs []any) []any {
	for i, v := range vs {
		switch v.(type) {
		case nil, int64, string:
		default:
			vs[i] = flat(v)
		}
	}
	return vs
}
