package rdb

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// Functions appends the code of libraries in the format of FUNCTION DUMP to dst.
func Functions(dst []byte, libraries []string) []byte {
	from := len(dst)
	for _, code := range libraries {
		dst = appendString(append(dst, opFunction), []byte(code))
	}
	dst = binary.LittleEndian.AppendUint16(dst, Version)
	return binary.LittleEndian.AppendUint64(dst, checksumWith(dst[from:], nil))
}

// A Library is the code of FUNCTION LOAD, taken apart.
type Library struct {
	Engine, Name string
	Body         string // behind the first line, whose end stays, so that lines count
}

// ParseLibrary reads the first line of a library, "#!lua name=mylib". The errors have Redis' texts, without the code.
func ParseLibrary(code string) (l Library, err error) {
	if !strings.HasPrefix(code, "#!") {
		return l, errors.New("Missing library metadata") //nolint:staticcheck // Redis' text, as below
	}
	line, _, found := strings.Cut(code, "\n")
	words, quoted := resp.Words([]byte(line))
	if !found || !quoted || len(words) == 0 {
		return l, errors.New("Invalid library metadata") //nolint:staticcheck // as above
	}
	named := false
	for _, word := range words[1:] {
		part := string(word)
		switch {
		case len(part) < 5 || !strings.EqualFold(part[:5], "name="):
			return l, errors.New("Invalid metadata value given: " + part)
		case named:
			return l, errors.New("Invalid metadata value, name argument was given multiple times") //nolint:staticcheck // as above
		}
		l.Name, named = part[5:], true
	}
	if !named {
		return l, errors.New("Library name was not given")
	}
	l.Engine, l.Body = string(words[0][2:]), code[len(line):]
	return l, nil
}

// ErrNoFunctions says that a payload has something else than libraries.
var ErrNoFunctions = errors.New("rdb: given type is not a function")

// ParseFunctions reads the output of FUNCTION DUMP: the code of each library. It takes most bytes at most. The error
// matches [ErrChecksum], [ErrFormat], [ErrTooLarge] or [ErrNoFunctions].
func ParseFunctions(payload []byte, most int64) (libraries []string, err error) {
	n := len(payload) - footer
	if n < 0 || binary.LittleEndian.Uint16(payload[n:]) > VersionFieldTTL ||
		binary.LittleEndian.Uint64(payload[n+2:]) != checksumWith(payload[:n+2], nil) {
		return nil, ErrChecksum
	}
	r := reader{b: payload[:n], left: most}
	for len(r.b) > 0 {
		if r.byte() != opFunction {
			return nil, ErrNoFunctions
		}
		code := r.string()
		switch {
		case r.left < 0:
			return nil, ErrTooLarge
		case r.bad:
			return nil, ErrFormat
		}
		libraries = append(libraries, string(code))
	}
	return libraries, nil
}
