package redoubt

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/redoubt-go/redoubt/internal/pages"
)

// scanCount is how many keys a server scans for one page. That takes a fraction of a millisecond, in which
// the server does nothing else.
const scanCount = 1000

// Names iterates over the names that have a key with the given part and of the given Redis type: see
// [Client.Key]. match is a pattern as of Redis' KEYS for the name; an empty one matches all names. A
// loop over Names ends with the first error.
//
// Names scans all keys of the server, of a cluster one primary after the other, with the guarantees of
// SCAN. A name that exists all the time is found, a name that is created or removed meanwhile may be,
// and a name may be found twice. Each round trip scans about 1,000 keys, so other clients are not
// held up; on a cluster it costs one more to each primary. When the primaries of a cluster change
// meanwhile, names may be missed.
func (c *Client) Names(ctx context.Context, part, typ, match string) iter.Seq2[string, error] {
	return pages.All(func(cursor string) ([]string, string, error) {
		return c.NamesPage(ctx, part, typ, match, cursor)
	})
}

// NamesPage returns one page of [Client.Names], which may be empty, and the cursor of the next page.
// The first page has the cursor "0" or ""; next is "0" after the last page. It is for servers that
// hand the cursor to their own clients. A cursor is valid for the same Redis servers only; the error
// of another text matches [ErrInvalidCursor].
func (c *Client) NamesPage(ctx context.Context, part, typ, match, cursor string) (names []string, next string, err error) {
	pattern, err := c.pattern(match, part)
	if err != nil {
		return nil, "", err
	}
	at, node, err := parseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	conns, err := c.Primaries(ctx)
	if err != nil {
		return nil, "", err
	}
	if node >= len(conns) {
		return nil, "0", nil
	}
	page, err := conns[node].Do(ctx, Cmd{
		Name:  "SCAN",
		Args:  []string{strconv.FormatUint(at, 10), "MATCH", pattern, "COUNT", strconv.Itoa(scanCount), "TYPE", typ},
		Flags: ReadOnly,
	}).Array()
	if err != nil {
		return nil, "", err
	}
	if len(page) != 2 {
		return nil, "", fmt.Errorf("redoubt: reply of SCAN has %d elements, want 2", len(page))
	}
	if next, err = (Reply{Val: page[0]}).Text(); err != nil {
		return nil, "", err
	}
	keys, err := Reply{Val: page[1]}.Array()
	if err != nil {
		return nil, "", err
	}
	for _, key := range keys {
		text, _ := Reply{Val: key}.Text()
		name, ok := strings.CutPrefix(text, c.prefix+":{")
		if name, found := strings.CutSuffix(name, "}:"+part); ok && found {
			names = append(names, name)
		}
	}
	if next == "0" {
		node++
	}
	if node > 0 && node < len(conns) {
		next += "@" + strconv.Itoa(node)
	}
	return names, next, nil
}

// parseCursor reads a cursor of SCAN. The number of the primary follows it unless it is the first one.
func parseCursor(cursor string) (at uint64, node int, err error) {
	if cursor == "" {
		return 0, 0, nil
	}
	scan, rest, many := strings.Cut(cursor, "@")
	at, err = strconv.ParseUint(scan, 10, 64)
	if many && err == nil {
		node, err = strconv.Atoi(rest)
	}
	if err != nil || node < 0 {
		return 0, 0, fmt.Errorf("%w: %q; want 0, or what the page before gave", ErrInvalidCursor, cursor)
	}
	return at, node, nil
}

// pattern returns the pattern of the keys of the names that match.
func (c *Client) pattern(match, part string) (string, error) {
	if match == "" {
		match = "*"
	}
	if err := CheckPattern(match); err != nil {
		return "", err
	}
	prefix := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(c.prefix)
	return prefix + ":{" + match + "}:" + part, nil
}

// CheckPattern returns an error that matches [ErrInvalidPattern] for a pattern, as of Redis' KEYS, whose
// last class or escape is unfinished. A server would read such a pattern differently.
func CheckPattern(pattern string) error {
	if fault := unfinished(pattern); fault != "" {
		return fmt.Errorf("%w: %q %s", ErrInvalidPattern, pattern, fault)
	}
	return nil
}

// unfinished names the unfinished part of a pattern, which would swallow the text behind it. It reads a
// pattern as Redis does.
func unfinished(pattern string) (fault string) {
	class := false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			if i++; i == len(pattern) {
				return "ends in a \\ that escapes nothing"
			}
		case !class && c == '[':
			class = true
			if strings.HasPrefix(pattern[i+1:], "^") {
				i++
			}
		case class && c == ']':
			class = false
		case class && strings.HasPrefix(pattern[i+1:], "-"):
			i += 2 // a range, whatever ends it
		}
	}
	if class {
		return "has a [ without a ]"
	}
	return ""
}
