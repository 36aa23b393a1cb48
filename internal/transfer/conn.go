package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// A Backend opens raw sessions to a server that speaks RESP. Package proxy has
// one for Redis; an engine is one.
type Backend interface {
	// Open connects. The connection speaks RESP2.
	Open(ctx context.Context) (net.Conn, error)
	// Name is how errors call the server.
	Name() string
}

// A conn sends commands in pipelines.
type conn struct {
	net  net.Conn
	name string // of the server, for errors
	out  []byte
	n    int // commands in out
	in   []byte
	scan resp.ReplyScanner
	db   int
}

func dial(ctx context.Context, b Backend) (*conn, error) {
	c, err := b.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{net: c, name: b.Name(), db: -1}, nil
}

func (c *conn) close() { _ = c.net.Close() } // everything that counts was answered

// add puts a command into the pipeline.
func add[T string | []byte](c *conn, args ...T) {
	c.out = resp.AppendCommand(c.out, args...)
	c.n++
}

// answerWithin is how long a server may say nothing to a pipeline.
const answerWithin = time.Minute

// flush sends the pipeline and gives the replies to each in order, error replies
// among them. All replies are given, also when each returns errors, of which the
// first is returned.
//
// When ctx ends it closes the connection.
func (c *conn) flush(ctx context.Context, each func(i int, reply any) error) error {
	stop := context.AfterFunc(ctx, c.close)
	defer stop()
	out, n := c.out, c.n
	c.out, c.n = c.out[:0], 0
	// The replies are taken while the commands leave: neither side has to keep
	// what the other has not taken.
	written := make(chan error, 1)
	go func() {
		_, err := c.net.Write(out)
		written <- err
	}()
	var failed error
	for i := range n {
		reply, err := c.reply()
		if err != nil {
			c.close()
			<-written //nolint:errcheck // the reason is the other error
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if err := each(i, reply); failed == nil {
			failed = err
		}
	}
	if err := <-written; err != nil { // although all is answered: can't be
		return fmt.Errorf("%s: %w", c.name, err)
	}
	if cap(c.out) > 16<<20 {
		c.out = nil
	}
	return failed
}

func (c *conn) reply() (any, error) {
	for {
		n, err := c.scan.Next(c.in)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			v, _, err := resp.Parse(c.in[:n])
			c.in = c.in[n:]
			return v, err
		}
		if err := c.read(); err != nil {
			return nil, err
		}
	}
}

// read takes more of what the server sent.
func (c *conn) read() error {
	if len(c.in) == cap(c.in) {
		grown := make([]byte, len(c.in), max(64<<10, 2*len(c.in)))
		copy(grown, c.in)
		c.in = grown
	}
	if err := c.net.SetReadDeadline(time.Now().Add(answerWithin)); err != nil {
		return err
	}
	n, err := c.net.Read(c.in[len(c.in):cap(c.in)])
	c.in = c.in[:len(c.in)+n]
	if n > 0 {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return errors.New("the connection was closed")
	}
	return err
}

// do sends one command and returns its reply, an error reply as an error.
func (c *conn) do(ctx context.Context, args ...string) (reply any, err error) {
	add(c, args...)
	err = c.flush(ctx, func(_ int, r any) error {
		if e, ok := r.(resp.Error); ok {
			return fmt.Errorf("%s: %s: %w", c.name, args[0], e)
		}
		reply = r
		return nil
	})
	return reply, err
}
