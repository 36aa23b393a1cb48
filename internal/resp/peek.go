package resp

// Peek returns two arguments of the command at the beginning of buf, those behind its name, and the length of the
// command. It doesn't check the command: what it returns may only make something faster. An argument that isn't there
// is nil. The length is 0 if the command is incomplete, inline, or has an argument of a thousand bytes or more.
func Peek(buf []byte) (first, second []byte, n int) {
	args, at := peekNumber(buf, 0, '*')
	for i := range args {
		size, from := peekNumber(buf, at, '$')
		if at = from + size + 2; from == 0 || at > len(buf) {
			return nil, nil, 0
		}
		switch i {
		case 1:
			first = buf[from : from+size]
		case 2:
			second = buf[from : from+size]
		}
	}
	return first, second, at
}

// peekNumber reads a mark, one to three digits, and CRLF. It returns the offset behind them, or 0.
func peekNumber(buf []byte, at int, mark byte) (n, end int) {
	if at >= len(buf) || buf[at] != mark {
		return 0, 0
	}
	i := at + 1
	for i < len(buf) && i <= at+3 && buf[i]-'0' <= 9 {
		n = n*10 + int(buf[i]-'0')
		i++
	}
	if i == at+1 || i+1 >= len(buf) || buf[i] != '\r' {
		return 0, 0
	}
	return n, i + 2
}
