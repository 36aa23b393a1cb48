package proxy

import (
	"strconv"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// AppendEvalSHA appends the command that runs a script by its digest.
func AppendEvalSHA(dst []byte, c *redoubt.Cmd) []byte {
	return appendEval(dst, "EVALSHA", c.Script.Digest(), c)
}

// AppendEval appends the command that runs a script by its source.
func AppendEval(dst []byte, c *redoubt.Cmd) []byte {
	return appendEval(dst, "EVAL", c.Script.Source(), c)
}

func appendEval(dst []byte, verb, script string, c *redoubt.Cmd) []byte {
	dst = resp.AppendArray(dst, 3+len(c.Keys)+len(c.Args))
	dst = resp.AppendBulk(dst, verb)
	dst = resp.AppendBulk(dst, script)
	var digits [20]byte
	dst = resp.AppendBulk(dst, strconv.AppendInt(digits[:0], int64(len(c.Keys)), 10))
	for _, k := range c.Keys {
		dst = resp.AppendBulk(dst, k)
	}
	for _, a := range c.Args {
		dst = resp.AppendBulk(dst, a)
	}
	return dst
}
