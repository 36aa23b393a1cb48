package attack

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// patience is how long an attacker waits for a reply.
const patience = 30 * time.Second

// A wire is a connection that can send anything.
type wire struct {
	net.Conn
	in *bufio.Reader
	on *round
}

// dial connects an attacker. It returns nil when the server takes no connection,
// which is no fault: it may be at its limit, or told to end.
func (r *round) dial() *wire {
	c, err := r.connect(5 * time.Second)
	if err != nil {
		return nil
	}
	w := &wire{Conn: c, in: bufio.NewReaderSize(c, 4096), on: r}
	w.waits(patience)
	return w
}

// waits bounds what follows on the connection.
func (w *wire) waits(d time.Duration) { _ = w.SetDeadline(time.Now().Add(d)) } // It fails only if closed.

// raw sends bytes.
func (w *wire) raw(b []byte) error {
	w.on.sending(b)
	_, err := w.Write(b)
	return err
}

// do sends a command and returns its reply: a string, resp.Error, int64, nil or
// []any.
func (w *wire) do(args ...string) (any, error) {
	if err := w.raw(resp.AppendCommand(nil, args...)); err != nil {
		return nil, err
	}
	return w.reply()
}

// A caller sends commands, on a new connection whenever the last one broke.
type caller struct {
	on *round
	w  *wire
}

func (r *round) caller() *caller { return &caller{on: r} }

// do sends a command and returns its reply, or an error, also when the server takes
// no connection. It waits for at most a time.
func (c *caller) do(d time.Duration, args ...string) (any, error) {
	if c.w == nil {
		if c.w = c.on.dial(); c.w == nil {
			return nil, net.ErrClosed
		}
	}
	c.w.waits(d)
	v, err := c.w.do(args...)
	if err != nil {
		c.close()
	}
	return v, err
}

func (c *caller) close() {
	if c.w != nil {
		_ = c.w.Close()
		c.w = nil
	}
}

// discard reads and forgets until the connection ends or a time is over.
func (w *wire) discard(d time.Duration) int64 {
	w.waits(d)
	n, _ := io.Copy(io.Discard, w.in) // Any end will do.
	return n
}

// reply reads one reply of RESP2.
func (w *wire) reply() (any, error) { return readReply(w.in) }

var errNoReply = errors.New("this is not what was to come")

func readReply(in *bufio.Reader) (any, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, fmt.Errorf("%w: %q", errNoReply, line)
	}
	kind, text := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return text, nil
	case '-':
		return resp.Error(text), nil
	case ':', '$', '*':
	default:
		return nil, fmt.Errorf("%w: %q", errNoReply, line)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %q", errNoReply, line)
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		b := make([]byte, n+2)
		if _, err := io.ReadFull(in, b); err != nil {
			return nil, err
		}
		return string(b[:n]), nil
	}
	list := []any{}
	for range n {
		v, err := readReply(in)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}
