package lua

import "strings"

// Tokens. Single characters stand for themselves.
const (
	tkAnd = 257 + iota
	tkBreak
	tkDo
	tkElse
	tkElseif
	tkEnd
	tkFalse
	tkFor
	tkFunction
	tkIf
	tkIn
	tkLocal
	tkNil
	tkNot
	tkOr
	tkRepeat
	tkReturn
	tkThen
	tkTrue
	tkUntil
	tkWhile
	tkConcat
	tkDots
	tkEq
	tkGe
	tkLe
	tkNe
	tkNumber
	tkName
	tkString
	tkEOS
)

var tokenNames = []string{
	"and", "break", "do", "else", "elseif", "end", "false", "for", "function",
	"if", "in", "local", "nil", "not", "or", "repeat", "return", "then",
	"true", "until", "while", "..", "...", "==", ">=", "<=", "~=", "<number>",
	"<name>", "<string>", "<eof>",
}

var keywords = func() map[string]int {
	m := make(map[string]int, 21)
	for t := tkAnd; t <= tkWhile; t++ {
		m[tokenNames[t-tkAnd]] = t
	}
	return m
}()

type token struct {
	kind int
	s    string  // of names and strings
	n    float64 // of numbers
}

// A lexer cuts source text into tokens. Errors are panics of *syntaxError,
// recovered in compile.
type lexer struct {
	src      string
	pos      int
	line     int
	lastLine int // of the token last consumed
	tok      token
	ahead    token
	chunk    string            // as positions name it
	counted  int               // the work before this pos is counted
	size     int               // bytes that the code takes
	st       *state            // of the script that compiles; nil for Compile
	own      map[string]string // names, apart from src
	from, to int               // the text of the token being read, for messages
	escaped  []byte            // that text when escapes make it differ from the source
}

type syntaxError struct{ msg string }

// tick counts the source that was read. It is called at least for each token.
func (lx *lexer) tick() {
	if lx.pos-lx.counted > stretch {
		lx.tock()
	}
}

func (lx *lexer) tock() {
	if lx.st != nil {
		lx.st.work((lx.pos - lx.counted) / 4)
	}
	lx.counted = lx.pos
}

// keep counts n bytes that the code takes. use counts n bytes that only compiling takes.
func (lx *lexer) keep(n int) {
	lx.size += n
	lx.use(n)
}

func (lx *lexer) use(n int) {
	if lx.st != nil {
		lx.st.hold(n)
	}
}

// apart returns a copy of a name, which does not keep the source alive.
func (lx *lexer) apart(s string) string {
	if lx.st == nil {
		return s
	}
	name, ok := lx.own[s]
	if !ok {
		lx.keep(len(s))
		lx.use(indexSize)
		name = strings.Clone(s)
		lx.own[name] = name
	}
	return name
}

func (lx *lexer) next() {
	lx.lastLine = lx.line
	if lx.ahead.kind != 0 {
		lx.tok, lx.ahead = lx.ahead, token{}
		return
	}
	lx.tok = lx.scan()
}

func (lx *lexer) peek() int {
	lx.ahead = lx.scan()
	return lx.ahead.kind
}

const eoz = -1

func (lx *lexer) cur() int {
	if lx.pos < len(lx.src) {
		return int(lx.src[lx.pos])
	}
	return eoz
}

func tokenText(kind int) string {
	if kind < tkAnd {
		if kind < 32 || kind == 127 {
			return "char(" + formatNumber(float64(kind)) + ")"
		}
		return string([]byte{byte(kind)})
	}
	return tokenNames[kind-tkAnd]
}

// nearText is what an error says it is near.
func (lx *lexer) nearText(kind int) string {
	switch kind {
	case tkName, tkString, tkNumber:
		if lx.escaped != nil {
			return cString(string(lx.escaped))
		}
		return cString(lx.src[lx.from:lx.to])
	}
	return tokenText(kind)
}

// cString cuts s at its first zero byte, as C's %s does.
func cString(s string) string {
	if before, _, ok := strings.Cut(s, "\x00"); ok {
		return before
	}
	return s
}

func (lx *lexer) fail(msg string, kind int) {
	m := lx.chunk + ":" + formatNumber(float64(lx.line)) + ": " + msg
	if kind != 0 {
		near := lx.nearText(kind)
		lx.use(3 * len(near))
		m += " near '" + near + "'"
	}
	panic(&syntaxError{m})
}

func (lx *lexer) syntax(msg string) { lx.fail(msg, lx.tok.kind) }

func (lx *lexer) newline() {
	c := lx.cur()
	lx.pos++
	if d := lx.cur(); (d == '\n' || d == '\r') && d != c {
		lx.pos++
	}
	lx.line++
}

func (lx *lexer) scan() token {
	lx.escaped = nil
	for {
		lx.tick()
		c := lx.cur()
		lx.from = lx.pos
		switch c {
		case eoz:
			return token{kind: tkEOS}
		case '\n', '\r':
			lx.newline()
			continue
		case '-':
			lx.pos++
			if lx.cur() != '-' {
				return token{kind: '-'}
			}
			lx.pos++
			lx.comment()
			continue
		case '[':
			if n := lx.longOpen(); n >= 0 {
				return token{kind: tkString, s: lx.long(n, true)}
			} else if n == -1 {
				lx.pos++
				return token{kind: '['}
			}
			lx.to = lx.pos
			lx.fail("invalid long string delimiter", tkString)
		case '=':
			return lx.orEqual('=', tkEq)
		case '<':
			return lx.orEqual('<', tkLe)
		case '>':
			return lx.orEqual('>', tkGe)
		case '~':
			return lx.orEqual('~', tkNe)
		case '"', '\'':
			return lx.quoted(byte(c))
		case '.':
			if strings.HasPrefix(lx.src[lx.pos:], "...") {
				lx.pos += 3
				return token{kind: tkDots}
			}
			if strings.HasPrefix(lx.src[lx.pos:], "..") {
				lx.pos += 2
				return token{kind: tkConcat}
			}
			if lx.pos+1 < len(lx.src) && isDigit(lx.src[lx.pos+1]) {
				return lx.numeral()
			}
			lx.pos++
			return token{kind: '.'}
		}
		b := byte(c)
		switch {
		case isSpace(b):
			lx.pos++
			continue
		case isDigit(b):
			return lx.numeral()
		case isAlpha(b) || b == '_':
			for lx.pos < len(lx.src) && (isAlnum(lx.src[lx.pos]) || lx.src[lx.pos] == '_') {
				lx.pos++
				lx.tick()
			}
			lx.to = lx.pos
			s := lx.src[lx.from:lx.pos]
			if k, ok := keywords[s]; ok {
				return token{kind: k}
			}
			return token{kind: tkName, s: s}
		}
		lx.pos++
		return token{kind: c}
	}
}

// orEqual reads first, or both when '=' follows it.
func (lx *lexer) orEqual(first, both int) token {
	lx.pos++
	if lx.cur() == '=' {
		lx.pos++
		return token{kind: both}
	}
	return token{kind: first}
}

func (lx *lexer) comment() {
	if lx.cur() == '[' {
		if n := lx.longOpen(); n >= 0 {
			lx.long(n, false)
			return
		}
	}
	for c := lx.cur(); c != '\n' && c != '\r' && c != eoz; c = lx.cur() {
		lx.pos++
		lx.tick()
	}
}

// longOpen looks for [==[ and moves past it when it is there, answering the
// number of equal signs. It answers -1 for a lone bracket, without moving, and
// -2 for [== without a second bracket.
func (lx *lexer) longOpen() int {
	i := lx.pos + 1
	for i < len(lx.src) && lx.src[i] == '=' {
		i++
	}
	n := i - lx.pos - 1
	if i < len(lx.src) && lx.src[i] == '[' {
		lx.pos = i + 1
		return n
	}
	if n == 0 {
		return -1
	}
	lx.pos = i
	return -2
}

// long reads the rest of a long string or comment with n equal signs.
func (lx *lexer) long(n int, keep bool) string {
	var b strings.Builder
	if c := lx.cur(); c == '\n' || c == '\r' {
		lx.newline()
	}
	for {
		lx.tick()
		c := lx.cur()
		switch c {
		case eoz:
			if keep {
				lx.fail("unfinished long string", tkEOS)
			}
			lx.fail("unfinished long comment", tkEOS)
		case ']':
			i := lx.pos + 1
			for i < len(lx.src) && lx.src[i] == '=' {
				i++
			}
			if i-lx.pos-1 == n && i < len(lx.src) && lx.src[i] == ']' {
				lx.pos = i + 1
				lx.to = lx.pos
				return b.String()
			}
		case '\n', '\r':
			lx.newline()
			if keep {
				b.WriteByte('\n')
			}
			continue
		}
		if keep {
			b.WriteByte(byte(c))
		}
		lx.pos++
	}
}

// quoted reads a string in quotes; escaped keeps what messages show of it:
// the opening quote and the text decoded so far.
func (lx *lexer) quoted(q byte) token {
	buf := []byte{q}
	lx.pos++
	for {
		lx.tick()
		c := lx.cur()
		switch {
		case c == int(q):
			lx.pos++
			lx.escaped = append(buf, q)
			return token{kind: tkString, s: string(buf[1:])}
		case c == eoz:
			lx.fail("unfinished string", tkEOS)
		case c == '\n' || c == '\r':
			lx.escaped = buf
			lx.fail("unfinished string", tkString)
		case c != '\\':
			buf = append(buf, byte(c))
			lx.pos++
			continue
		}
		lx.pos++
		switch c = lx.cur(); c {
		case 'a':
			buf = append(buf, '\a')
		case 'b':
			buf = append(buf, '\b')
		case 'f':
			buf = append(buf, '\f')
		case 'n':
			buf = append(buf, '\n')
		case 'r':
			buf = append(buf, '\r')
		case 't':
			buf = append(buf, '\t')
		case 'v':
			buf = append(buf, '\v')
		case '\n', '\r':
			buf = append(buf, '\n')
			lx.newline()
			continue
		case eoz:
			continue
		default:
			if !isDigit(byte(c)) {
				buf = append(buf, byte(c))
				break
			}
			n := 0
			for i := 0; i < 3 && lx.cur() != eoz && isDigit(byte(lx.cur())); i++ {
				n = n*10 + lx.cur() - '0'
				lx.pos++
			}
			if n > 255 {
				lx.escaped = buf
				lx.fail("escape sequence too large", tkString)
			}
			buf = append(buf, byte(n))
			continue
		}
		lx.pos++
	}
}

func (lx *lexer) numeral() token {
	for lx.pos < len(lx.src) && (isDigit(lx.src[lx.pos]) || lx.src[lx.pos] == '.') {
		lx.pos++
	}
	if c := lx.cur(); c == 'e' || c == 'E' {
		lx.pos++
		if c = lx.cur(); c == '+' || c == '-' {
			lx.pos++
		}
	}
	for lx.pos < len(lx.src) && (isAlnum(lx.src[lx.pos]) || lx.src[lx.pos] == '_') {
		lx.pos++
	}
	lx.to = lx.pos
	text := lx.src[lx.from:lx.pos]
	var n float64
	var ok bool
	if lx.st != nil && len(text) > stretch {
		n, ok = lx.st.parseLong(text)
	} else {
		n, ok = parseNumber(text)
	}
	if !ok {
		lx.fail("malformed number", tkNumber)
	}
	return token{kind: tkNumber, n: n}
}
