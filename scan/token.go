package scan

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// A token is JSON in base64url, between the name of its form and a checksum. It passes through a shell
// unquoted, and the checksum detects a token that was cut off.
const tokenForm = "scan1"

func encodeToken(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // of strings and numbers
	}
	body := base64.RawURLEncoding.EncodeToString(text)
	return tokenForm + "." + body + "." + checksum(body)
}

func checksum(body string) string {
	return strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(body))), 36)
}

func decodeToken(token string, v any) error {
	form, rest, _ := strings.Cut(strings.TrimSpace(token), ".")
	body, sum, ok := strings.Cut(rest, ".")
	switch {
	case form != tokenForm || !ok:
		return fmt.Errorf("%w: want a text that begins with %s. and has a second dot", ErrInvalidToken, tokenForm)
	case sum != checksum(body):
		return fmt.Errorf("%w: it is cut off or altered", ErrInvalidToken)
	}
	text, err := base64.RawURLEncoding.DecodeString(body)
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidToken, err)
	}
	return nil
}

// A token contains its query as it is, so that checkQuery detects another one.
func checkQuery(got, want string) error {
	if got != want {
		return fmt.Errorf("%w: it is of another query, %s, and this one is %s", ErrInvalidToken, got, want)
	}
	return nil
}

// elementToken is the position of an elementWalk.
type elementToken struct {
	Query   string `json:"q"` // command, key, pattern
	Process string `json:"r,omitempty"`
	Cursor  string `json:"c,omitempty"`
	Mark    *mark  `json:"m,omitempty"`
	Ended   bool   `json:"e,omitempty"`
	Scanned int64  `json:"n,omitempty"`
	Total   int64  `json:"t,omitempty"`
}

func (w *elementWalk) query() string { return fmt.Sprintf("%s %+q %+q", w.command, w.key, w.match) }

func (w *elementWalk) token() string {
	return encodeToken(elementToken{w.query(), w.process, w.cursor, w.mark.forToken(), w.ended, w.looked, w.total})
}

func (w *elementWalk) resume(token string) error {
	var t elementToken
	if err := decodeToken(token, &t); err != nil {
		return err
	}
	if err := checkQuery(t.Query, w.query()); err != nil {
		return err
	}
	if err := errors.Join(checkCursor(t.Cursor), t.Mark.check()); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidToken, err)
	}
	w.process, w.cursor, w.mark, w.ended, w.looked, w.total = t.Process, t.Cursor, t.Mark, t.Ended, t.Scanned, t.Total
	return nil
}

func checkCursor(cursor string) error {
	if _, err := strconv.ParseUint(cursor, 10, 64); err != nil && cursor != "" {
		return fmt.Errorf("cursor %q", cursor)
	}
	return nil
}
