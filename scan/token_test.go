package scan

import (
	"errors"
	"strings"
	"testing"
)

// TestTokenErrorsNameTheTokenOnce forges tokens whose parts make no sense.
func TestTokenErrorsNameTheTokenOnce(t *testing.T) {
	var keys keyWalk
	var members elementWalk
	for _, err := range []error{
		keys.resume(encodeToken(keyToken{Query: keys.text(), Covered: "x"})),
		keys.resume(encodeToken(keyToken{Query: keys.text(), Handed: map[string]string{"a": "x"}})),
		keys.resume(encodeToken(keyToken{Query: keys.text(), Parts: []partToken{{Cursor: "x"}}})),
		keys.resume(encodeToken(keyToken{Query: keys.text(), Parts: []partToken{{Mark: &mark{Given: -1}}}})),
		keys.resume(encodeToken(keyToken{Query: keys.text(), Parts: []partToken{{Own: "x"}}})),
		members.resume(encodeToken(elementToken{Query: members.query(), Cursor: "x"})),
		members.resume(encodeToken(elementToken{Query: members.query(), Mark: &mark{Given: -1}})),
	} {
		if !errors.Is(err, ErrInvalidToken) || strings.Count(err.Error(), "invalid token") != 1 {
			t.Errorf("%v: want ErrInvalidToken, once", err)
		}
	}
}
