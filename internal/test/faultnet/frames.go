package faultnet

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/redoubt-go/redoubt/internal/resp"
)

var (
	// setUp are the commands that clients send by themselves.
	setUp = []string{"AUTH", "CLIENT", "HELLO", "PING", "READONLY", "SELECT"}
	// unpaired are the commands after which answers can't be counted.
	unpaired = []string{"MONITOR", "PSUBSCRIBE", "PSYNC", "SSUBSCRIBE", "SUBSCRIBE", "SYNC"}
)

// frames count the requests and the answers of one connection, so that the
// answer to a request can be told from others. Requests are looked at when
// they arrive, before they are passed on, so that the answer to one can't
// arrive before it was looked at.
type frames struct {
	target atomic.Int64 // the number of the request whose answer is swallowed; 0: none
	copied atomic.Int64 // the number of a request that the proxy has sent again; 0: none
	opaque atomic.Bool  // the connection's messages can't be told apart

	// Of the goroutine that reads requests.
	commands resp.CommandScanner
	rest     []byte // of a request that is incomplete
	sent     int64

	// Of the goroutine that reads answers.
	replies  resp.ReplyScanner
	tail     []byte // of an answer that is incomplete
	passed   int    // bytes of tail that are already passed on
	answered int64
}

// request looks at bytes from the client, and returns those to pass on. swallows and repeats are asked
// about each command's words.
func (f *frames) request(data []byte, swallows, repeats func(args [][]byte) bool) []byte {
	if f.opaque.Load() {
		return data
	}
	f.rest = append(f.rest, data...)
	for len(f.rest) > 0 {
		n, err := f.commands.Next(f.rest)
		if err != nil {
			f.opaque.Store(true)
			return data
		}
		if n == 0 {
			return data
		}
		if args := f.commands.Args(); len(args) > 0 {
			name := strings.ToUpper(string(args[0]))
			if slices.Contains(unpaired, name) {
				f.opaque.Store(true)
				return data
			}
			f.sent++
			if f.target.Load() == 0 && swallows(args) {
				f.target.Store(f.sent)
			} else if f.copied.Load() == 0 && repeats(args) {
				f.sent++
				f.copied.Store(f.sent)
				behind := len(data) - (len(f.rest) - n) // The command ends within data.
				data = slices.Concat(data[:behind], f.rest[:n], data[behind:])
			}
		}
		f.rest = f.rest[n:]
	}
	return data
}

// answer reads bytes from the server and returns the bytes to pass on, and errSwallowed once
// the answer to swallow has come behind them. It never writes to returned bytes again.
func (f *frames) answer(data []byte) ([]byte, error) {
	target := f.target.Load()
	if target == 0 && f.opaque.Load() {
		return data, nil
	}
	buf, at := append(f.tail, data...), 0
	for at < len(buf) {
		n, err := f.replies.Next(buf[at:])
		if err != nil { // not RESP: everything passes from now on
			f.opaque.Store(true)
			f.target.Store(0)
			return buf[f.passed:], nil //nolint:nilerr // the connection goes on
		}
		if n == 0 {
			break
		}
		if buf[at] != '>' { // a push answers nothing
			f.answered++
		}
		if f.answered == target && target != 0 {
			return buf[min(f.passed, at):at], errSwallowed
		}
		if f.answered == f.copied.Load() && buf[at] != '>' { // the second answer
			f.copied.Store(0)
			buf = slices.Concat(buf[:at], buf[at+n:])
			continue
		}
		at += n
	}
	upto := len(buf)
	if next := f.answered + 1; (next == target || next == f.copied.Load()) && at < upto && buf[at] != '>' {
		upto = at // the beginning of the answer to swallow, or of the second one
	}
	pass := buf[f.passed:upto]
	f.tail, f.passed = buf[at:], upto-at
	return pass, nil
}
