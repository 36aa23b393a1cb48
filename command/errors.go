package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/resp"
)

const (
	errSyntax  = "ERR syntax error"
	errInteger = "ERR value is not an integer or out of range"

	wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"
)

// appendError appends the error of a script as the error of its command.
func appendError(dst []byte, err error) []byte {
	if se, ok := errors.AsType[redoubt.ServerError](err); ok {
		return resp.AppendError(dst, cleanScriptError(string(se)))
	}
	return resp.AppendError(dst, "ERR "+strings.TrimPrefix(err.Error(), "ERR "))
}

// cleanScriptError takes off what the server adds to an error inside a script:
// Redis 7 appends " script: <digest>, on @user_script:12.", and before that
// prefixed "ERR Error running script (call to f_<digest>): @user_script:12: ".
func cleanScriptError(text string) string {
	if i := strings.Index(text, " script: "); i >= 0 && strings.Contains(text[i:], ", on @") {
		text = text[:i]
	}
	if strings.HasPrefix(text, "ERR Error running script") || strings.HasPrefix(text, "ERR Error compiling script") {
		if _, inner, ok := strings.Cut(text, "@user_script: "); ok { // 12: @user_script: 12: WRONGTYPE …
			text = inner
		}
		if i := strings.Index(text, "WRONGTYPE "); i >= 0 {
			return wrongType
		}
	}
	return text
}

// integer reads a 64-bit integer as Redis does.
func integer(b []byte) (int64, bool) { return resp.ParseInt(b) }

// milliseconds reads a number of milliseconds between least and most. The
// error is the text of an error reply.
func milliseconds(name string, b []byte, least, most int64) (int64, string) {
	n, ok := integer(b)
	if !ok {
		return 0, errInteger
	}
	if n < least || n > most {
		return 0, fmt.Sprintf("ERR redoubt: %s is %d; want %d to %d", name, n, least, most)
	}
	return n, ""
}
